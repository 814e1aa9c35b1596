/** Submissions that stay on this machine for now. */
import { asAsked, asksOtherwise } from "./resume.ts";
import type { SubmitOptions, Submitted } from "./submit.ts";
import { isSame, newRecord, type SubmitPlace, type SubmitRequest } from "./submit-request.ts";
import { isUnderWay } from "./submissions.ts";

/**
 * Keeps the intent on this machine, to be delivered when the origin can be reached. A
 * commit that waits here already isn't kept twice: it is kept as it is asked for last.
 */
export async function keep(
  request: SubmitRequest,
  place: SubmitPlace,
  options: Pick<SubmitOptions, "clock" | "me" | "submissions"> & { readonly again?: boolean },
): Promise<Pick<Submitted, "record" | "fresh">> {
  const { submissions, me, clock } = options;
  if (!options.again) {
    const all = await submissions.list({ candidate: request.candidate });
    const queued = all.find((record) =>
      record.ticket !== null && record.candidate === request.candidate && isSame(record, place)
    );
    if (queued) return { record: queued, fresh: false };
  }
  const waiting = await submissions.list({ candidate: request.candidate, undelivered: true });
  for (const record of waiting) {
    if (!isSame(record, place) || record.candidate !== request.candidate || isUnderWay(record)) {
      continue;
    }
    // It keeps its id: should an attempt have got through unseen, there is no second ticket.
    const now = await submissions.exclusively(record, async (recorded, learn) => {
      if (recorded.ticket !== null) return null;
      if (recorded.kept && !asksOtherwise(recorded, request)) return recorded;
      const changed = { ...asAsked(recorded, request, { clock, me }), kept: true };
      await learn.change(changed);
      return changed;
    });
    if (now) return { record: now, fresh: false };
  }
  const record = newRecord(request, place, { submitter: me, now: clock.wall() });
  await submissions.record(record);
  return { record, fresh: true };
}
