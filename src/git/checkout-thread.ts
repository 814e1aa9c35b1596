/** Entry of the thread that shares a large checkout; see checkout-share.ts. Embedded by compile.sh. */
import { parentPort } from "node:worker_threads";
import { expectMuchWork } from "../platform/jit.ts";
import { doShare, type ShareTask } from "./checkout-share.ts";

parentPort!.once("message", (task: ShareTask) => {
  expectMuchWork();
  parentPort!.postMessage(doShare(task));
});
