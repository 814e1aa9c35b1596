/** Uses a v1 directory through fs-safe alone: enqueues, claims, acknowledges, prints what it finished. */
import process from "node:process";
import { configureFsSafeNative } from "@openclaw/fs-safe/config";
import * as fsSafe from "@openclaw/fs-safe/store";

configureFsSafeNative({ mode: "off" });
const [queueDir, total] = [process.argv[2]!, Number(process.argv[3])];
const paths = (id: string) => fsSafe.resolveJsonDurableQueueEntryPaths(queueDir, id);
for (let i = 0; i < total; i++) {
  const { jsonPath } = paths(`theirs-${i}`);
  const entry = { from: "theirs", i, id: `theirs-${i}` };
  try {
    await fsSafe.writeJsonDurableQueueEntry({ filePath: jsonPath, entry, tempPrefix: "theirs" });
  } catch (error) {
    // It was published, and taken and finished by the other side before fs-safe looked at it again.
    const { code, cause } = error as { code?: string; cause?: { code?: string } };
    if (
      code !== "ENOENT" && cause?.code !== "ENOENT" && code !== "path-mismatch" &&
      code !== "hardlink"
    ) throw error;
  }
  const id = `${i % 2 === 0 ? "theirs" : "ours"}-${i}`;
  const loaded = await fsSafe.loadJsonDurableQueueEntry({ paths: paths(id), tempPrefix: "theirs" });
  if (loaded === null) continue;
  try {
    await fsSafe.ackJsonDurableQueueEntry(paths(id));
    console.log(id);
  } catch (error) {
    // The other side was faster with this one, and a newer one is pending.
    if ((error as { code?: string }).code !== "path-mismatch") throw error;
  }
}
