/** Submissions that stay on this machine for now. */
import { patientWithOthers } from "./others-delivery.ts";
import { asAsked, asksOtherwise } from "./resume.ts";
import type { SubmitOptions, Submitted } from "./submit.ts";
import { isSame, newRecord, type SubmitPlace, type SubmitRequest } from "./submit-request.ts";
import { isUnderWay, type SubmissionRecord } from "./submissions.ts";

type KeepOptions =
  & Pick<SubmitOptions, "clock" | "me" | "submissions" | "signal" | "onNote">
  & { readonly again?: boolean };

/**
 * Keeps the intent on this machine, to be delivered when the origin can be reached. A
 * commit that waits here already isn't kept twice: it is kept as it is asked for last.
 */
export async function keep(
  request: SubmitRequest,
  place: SubmitPlace,
  options: KeepOptions,
): Promise<Pick<Submitted, "record" | "fresh">> {
  const { submissions, me, clock } = options;
  const mine = (record: SubmissionRecord) =>
    record.candidate === request.candidate && isSame(record, place);
  if (!options.again) {
    const all = await submissions.list({ candidate: request.candidate });
    const queued = all.find((record) => record.ticket !== null && mine(record));
    if (queued) return { record: queued, fresh: false };
  }
  const waiting = await submissions.list({ candidate: request.candidate, undelivered: true });
  for (const record of waiting) {
    if (!mine(record)) continue;
    const now = await keepAgain(request, record, options);
    if (now) return { record: now, fresh: false };
  }
  const record = newRecord(request, place, { submitter: me, now: clock.wall() });
  await submissions.record(record);
  return { record, fresh: true };
}

/**
 * Keeps what is recorded already as it is asked for now; null where there is nothing left to keep. It keeps its id:
 * should an attempt have got through unseen, there is no second ticket. One that another process is delivering is
 * waited for: beside it a second record would be a second ticket. @throws `submission-busy`
 */
async function keepAgain(
  request: SubmitRequest,
  record: SubmissionRecord,
  options: KeepOptions,
): Promise<SubmissionRecord | null> {
  const { submissions, me, clock, again } = options;
  const { candidate, submission } = record;
  for (const pause = patientWithOthers(options);;) {
    const now = isUnderWay(record)
      ? null
      : await submissions.exclusively(record, async (recorded, learn) => {
        if (recorded.ticket !== null) return recorded;
        if (recorded.kept && !asksOtherwise(recorded, request)) return recorded;
        const changed = { ...asAsked(recorded, request, { clock, me }), kept: true };
        await learn.change(changed);
        return changed;
      });
    if (now) return now.ticket !== null && again ? null : now;
    const left = (await submissions.list({ candidate })).find((one) =>
      one.submission === submission
    );
    if (left === undefined) return null;
    if (left.ticket !== null) return again ? null : left;
    record = left;
    await pause(record);
  }
}
