/** What the commands of the landing queue share: the queue that the settings name, and this run's part. */
import { join } from "node:path";
import { AgentqError } from "../src/errors.ts";
import type { GitConfig } from "../src/git/config.ts";
import { redactUrl } from "../src/git/remote.ts";
import type { Repository } from "../src/git/repository.ts";
import type { Oid, Origin } from "../src/git/types.ts";
import type { DutyOptions } from "../src/landing/duty.ts";
import { type EntryCache, openEntryCache } from "../src/landing/entry-cache.ts";
import { participantId } from "../src/landing/participant.ts";
import { openQueue, type Queue, type Snapshot } from "../src/landing/snapshot.ts";
import { directoryId, mountView } from "../src/platform/mount.ts";
import type { SubmitPlace } from "../src/landing/submit-request.ts";
import { openSubmissions, type Submissions } from "../src/landing/submissions.ts";
import type { Workshop } from "../src/landing/workshop.ts";
import { expectMuchWork } from "../src/platform/jit.ts";
import { systemClock } from "../src/platform/clock.ts";
import { hash } from "../src/platform/hash.ts";
import type { Context } from "./context.ts";
import type { Flags } from "./spec.ts";

export interface LandingSession {
  readonly origin: Origin;
  readonly queue: Queue;
  readonly snapshot: Snapshot;
}

/** The remote as it may be printed and stored: a url loses its credentials. */
export function printableRemote(context: Context): string {
  return redactUrl(context.remote);
}

/** What fetches from, and pushes to, where the queue is: a remote that is fetched from elsewhere (`pushurl`) doesn't. */
export function remoteForHints(
  context: Context,
  config: GitConfig | null = context.repositoryOrNull()?.config ?? null,
): string {
  const pushed = config?.get(`remote.${context.remote}.pushurl`);
  return pushed ? redactUrl(pushed) : printableRemote(context);
}

/** The branch that the clone believes to be the remote's HEAD: right, it saves a round trip. */
export function guessedBranch(context: Context): string | null {
  if (context.branch !== null) return context.branch;
  try {
    const target = context.repositoryOrNull()?.refs.read(`refs/remotes/${context.remote}/HEAD`)
      ?.target;
    const prefix = `refs/remotes/${context.remote}/`;
    return target?.startsWith(prefix) ? target.slice(prefix.length) : null;
  } catch {
    // A remote whose name is no part of a ref name: a url.
    return null;
  }
}

/** Opens the origin and reads the queue once, all of it from the origin or what `kept` doesn't have. */
export async function openSession(
  context: Context,
  kept?: (origin: Origin) => EntryCache,
): Promise<LandingSession> {
  const origin = await context.origin();
  const { queue, snapshot } = await openQueue(origin, {
    namespace: context.namespace,
    branch: context.branch,
    guess: guessedBranch(context),
    remote: remoteForHints(context),
    ...(kept && { kept: kept(origin) }),
    signal: context.signal,
  });
  return { origin, queue, snapshot };
}

/** The entries of an origin's chains that earlier runs of this machine have read; none where there is no state. */
export function keptEntries(context: Context, origin: Origin): EntryCache {
  const name = hash("sha256", origin.url).slice(0, 16);
  let directory: string;
  try {
    directory = context.stateDirectory;
  } catch {
    return { get: () => undefined, put: () => {}, save: () => {} };
  }
  return openEntryCache(join(directory, "entries", name));
}

/** This run's clone, as submissions name it: looked at once, and only where something is recorded or compared. */
export function cloneHere(
  context: Context,
): Pick<SubmitPlace, "repository" | "clone" | "view"> {
  const repository = context.repositoryOrNull()?.commonDir ?? "";
  let clone: { id: string | undefined } | undefined;
  let view: { id: string | undefined } | undefined;
  return {
    repository,
    get clone() {
      return (clone ??= { id: directoryId(repository) }).id;
    },
    get view() {
      return (view ??= { id: mountView(repository) }).id;
    },
  };
}

/** Where a submission of this run to a queue belongs. */
export function placeOfQueue(
  context: Context,
  { origin, names, isDefault }: Pick<Queue, "origin" | "names" | "isDefault">,
): SubmitPlace {
  return placeOf(context, origin.url, names.branchName, isDefault);
}

/** The same where the queue wasn't read; `branch` as it is known, and whether it is the origin's HEAD. */
export function placeOf(
  context: Context,
  url: string,
  branch: string | null,
  isDefault = context.branch === null,
): SubmitPlace {
  const here = cloneHere(context);
  return {
    repository: here.repository,
    get clone() {
      return here.clone;
    },
    get view() {
      return here.view;
    },
    remote: printableRemote(context),
    url,
    namespace: context.namespace,
    branch,
    isDefault,
  };
}

/** This machine's submissions; null, with a word on stderr, where they can't be read. */
export async function submissionsOrNull(
  context: Context,
  onUnreadable: (what: string) => void = () => {},
): Promise<Submissions | null> {
  try {
    return await openSubmissions(context.stateDirectory);
  } catch (error) {
    const reason = error instanceof AgentqError ? error.message : String(error);
    const what = `this machine's own submissions can't be read: ${reason}`;
    context.progress.warn(what);
    onUnreadable(what);
    return null;
  }
}

/** Says which records of this machine can't be used: they are passed over, and nothing else waits for them. */
export function warnOfDamaged(context: Context, submissions: Submissions | null): string[] {
  const warnings = [...submissions?.damaged() ?? []];
  for (const warning of warnings) context.progress.warn(warning);
  return warnings;
}

/** How this run lands, from the flags that all landing commands share. */
export function dutyOf(
  context: Context,
  flags: Flags,
  session: LandingSession,
  me = participantId(),
): DutyOptions {
  let opened: Promise<Workshop> | undefined;
  return {
    clock: systemClock,
    me,
    ttl: Number(flags["lease-ttl"]) * 1000,
    poll: Number(flags.poll) * 1000,
    attempts: Number(flags.attempts ?? 3),
    workshop: () => opened ??= openWorkshop(context, flags, session),
    signal: context.signal,
    onProgress: (text) => context.progress.update(text),
  };
}

async function openWorkshop(
  context: Context,
  flags: Flags,
  session: LandingSession,
): Promise<Workshop> {
  expectMuchWork();
  const { createCloneWorkshop } = await import("../src/landing/clone-workshop.ts");
  const decoder = new TextDecoder();
  return createCloneWorkshop(session.origin, await workingRepository(context, session.origin), {
    noTicketCommands: flags["no-ticket-commands"] === true,
    onOutput: (chunk) => context.progress.stream(decoder.decode(chunk, { stream: true })),
    onNote: (text) => context.progress.line(text),
  });
}

/** The clone, or a repository of our own for this origin where the clone can't serve. */
export async function workingRepository(
  context: Context,
  origin: Origin,
  clone = context.repositoryOrNull(),
): Promise<Repository> {
  const { landingRepository } = await import("../src/landing/landing-repository.ts");
  const name = hash("sha256", origin.url).slice(0, 16);
  return landingRepository(
    clone,
    join(context.stateDirectory, "clones", `${name}.git`),
  );
}

/** Whether `commit` reaches `ancestor`; history that isn't here is fetched. `clone`: null for none that can serve. */
export async function reaches(
  context: Context,
  origin: Origin,
  commit: Oid,
  ancestor: Oid,
  clone?: Repository | null,
): Promise<boolean> {
  const [{ createWorkingObjects }, { isAncestor }] = await Promise.all([
    import("../src/landing/working-objects.ts"),
    import("../src/git/history.ts"),
  ]);
  const repository = await workingRepository(context, origin, clone);
  const objects = createWorkingObjects(origin, repository.objects);
  await objects.ensure([commit], context.signal);
  return isAncestor(objects, ancestor, commit);
}

/** A ticket number as an argument. @throws `usage` */
export function ticketNumber(text: string | undefined): number {
  if (text === undefined || !/^\d{1,15}$/.test(text)) {
    throw new AgentqError("usage", `${JSON.stringify(text ?? "")} is not a ticket number`);
  }
  return Number(text);
}
