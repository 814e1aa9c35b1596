/** One commit to submit, an origin in memory, and a state directory: what tests of submissions share. */
import { openQueue, readSnapshot } from "../../src/landing/snapshot.ts";
import type { SubmitPlace } from "../../src/landing/submit-request.ts";
import { createSubmissions } from "../../src/landing/submissions.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { tempDir } from "../helpers/git.ts";
import { createFakeOrigin, fakeCommit } from "./fake-origin.ts";

export const place: SubmitPlace = {
  repository: tempDir(),
  remote: "origin",
  url: "fake://origin",
  namespace: "refs/weave",
  branch: "main",
};

export async function setting() {
  const state = tempDir();
  const fake = createFakeOrigin();
  const base = fakeCommit(fake, [], "base");
  fake.refs.set("refs/heads/main", base);
  const candidate = fakeCommit(fake, [base], "work");
  const submissions = await createSubmissions(state);
  const { queue } = await openQueue(fake.as("me"), { namespace: "refs/weave", branch: "main" });
  const request = { candidate, verifyCmd: null, verifyTimeout: 1.5, title: null, drops: [] };
  const options = {
    clock: systemClock,
    me: "me",
    objects: fake.reader(),
    submissions,
    again: false,
  };
  const tickets = async () => (await readSnapshot(queue)).queue?.message.ticket ?? -1;
  return { state, fake, candidate, submissions, queue, request, options, tickets };
}
