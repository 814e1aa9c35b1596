/** Submissions that stay on this machine for now. */
import { patientWithOthers } from "./others-delivery.ts";
import { asAsked, asksOtherwise, withdraw } from "./resume.ts";
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
  // What is asked for last counts where records turn out to be one submission, whatever the clock says by then.
  const at = Math.max(clock.wall(), ...waiting.map(({ submittedAt }) => submittedAt + 1));
  const same = waiting.filter(mine);
  for (const record of same) {
    const now = await keepAgain(request, record, options, waiting.length > 1 ? at : undefined);
    if (now === null) continue;
    // Kept before it was known that they are the same. One that may have been pushed stays, as the queue knows of it.
    for (const other of same) {
      if (other !== record && now.ticket === null) await withdraw(null, other, options);
    }
    return { record: now, fresh: false };
  }
  const record = newRecord(request, place, { submitter: me, now: at });
  await submissions.record(record);
  return { record, fresh: true };
}

/**
 * Keeps what is recorded already as it is asked for now; null where there is nothing left to keep. It keeps its id:
 * should an attempt have got through unseen, there is no second ticket. One that another process is delivering is
 * waited for: beside it a second record would be a second ticket. `at`: when it counts as asked for. @throws `submission-busy`
 */
async function keepAgain(
  request: SubmitRequest,
  record: SubmissionRecord,
  options: KeepOptions,
  at?: number,
): Promise<SubmissionRecord | null> {
  const { submissions, me, clock, again } = options;
  const { candidate, submission } = record;
  for (const pause = patientWithOthers(options);;) {
    const now = isUnderWay(record)
      ? null
      : await submissions.exclusively(record, async (recorded, learn) => {
        if (recorded.ticket !== null) return recorded;
        if (recorded.kept && at === undefined && !asksOtherwise(recorded, request)) return recorded;
        const asked = asAsked(recorded, request, { clock, me });
        const changed = {
          ...asked,
          ...(at !== undefined && { submittedAt: Math.floor(at) }),
          kept: true,
        };
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
