/** What is asked for, of whom, and whether a record on this machine is the same. */
import { existsSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { parseRemoteUrl } from "../git/remote.ts";
import { holdsCommit } from "../git/repository.ts";
import type { Oid } from "../git/types.ts";
import { withoutLinks } from "../platform/directory.ts";
import { mountView } from "../platform/mount.ts";
import type { Json } from "../store/types.ts";
import { MAX_COMMAND_BYTES, MAX_LIST_BYTES, MAX_TITLE_BYTES } from "./messages.ts";
import { submissionId } from "./participant.ts";
import type { SubmissionRecord } from "./submissions.ts";

/** What a person asks for. */
export interface SubmitRequest {
  readonly candidate: Oid;
  readonly verifyCmd: string | null;
  /** Seconds; whole seconds are written, rounded up, as other clients read no fractions. */
  readonly verifyTimeout: number;
  readonly title: string | null;
  readonly drops: readonly string[];
  /** Begin the branch where the origin doesn't have it. */
  readonly createBranch?: boolean;
}

/** Where it is submitted from and to. */
export type SubmitPlace = Pick<
  SubmissionRecord,
  "repository" | "clone" | "view" | "remote" | "url" | "namespace" | "branch" | "isDefault"
>;

/** @throws `usage` for what no ticket can hold */
export function checkRequest(request: SubmitRequest): void {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  const refuse = (what: string) => {
    throw new AgentqError("usage", what);
  };
  if (bytes(request.verifyCmd ?? "") > MAX_COMMAND_BYTES) {
    refuse(`the verify command is longer than ${MAX_COMMAND_BYTES} bytes`);
  }
  if (bytes(request.title ?? "") > MAX_TITLE_BYTES) {
    refuse(`the title is longer than ${MAX_TITLE_BYTES} bytes`);
  }
  if (bytes(request.drops.join("\n")) > MAX_LIST_BYTES) {
    refuse(`the dropped paths take more than ${MAX_LIST_BYTES} bytes; use globs`);
  }
}

/** A new record of an intent. */
export function newRecord(
  request: SubmitRequest,
  place: SubmitPlace,
  options: { submitter: string; now: number; since?: Oid | null; by?: Json },
): SubmissionRecord {
  const { repository, clone, view, remote, url, namespace, branch, isDefault } = place;
  return {
    v: 1,
    submission: submissionId(),
    repository,
    ...(clone !== undefined && { clone }),
    ...(view !== undefined && { view }),
    remote,
    url,
    namespace,
    branch,
    ...(isDefault && branch !== null && { isDefault }),
    candidate: request.candidate,
    submitter: options.submitter,
    submittedAt: Math.floor(options.now),
    verifyCmd: request.verifyCmd,
    verifyTimeout: Math.ceil(request.verifyTimeout),
    title: request.title,
    drops: [...request.drops],
    ...(request.createBranch && { createBranch: true }),
    ...(options.since === undefined ? { kept: true } : { since: options.since }),
    ...(options.by !== undefined && { by: options.by }),
    ticket: null,
  };
}

/** True when a record belongs to this clone and queue. */
export function isSame(record: SubmissionRecord, place: SubmitPlace): boolean {
  return isFromHere(record, place) && isForQueue(record, place);
}

/**
 * True when a record was made in this clone, or in one that is gone or has made room for another, which lacks the
 * commit: this may be that one, moved. Of another container's clone nobody here can tell that it is gone: this one is
 * it where it is the same directory.
 */
export function isFromHere(
  record: Pick<SubmissionRecord, "repository" | "clone" | "view" | "candidate">,
  place: Pick<SubmitPlace, "repository" | "clone">,
): boolean {
  if (isOwn(record, place)) return true;
  return isInView(record) && !holdsCommit(record.repository, record.candidate);
}

/** True when a record was made in this very clone. */
export function isOwn(
  record: Pick<SubmissionRecord, "repository" | "clone" | "view">,
  place: Pick<SubmitPlace, "repository" | "clone">,
): boolean {
  if (record.clone !== undefined && record.clone === place.clone) return true;
  return record.repository === place.repository && isInView(record);
}

/** Whether a record's path leads here to where it led when it was made; true where nobody can tell. */
export function isInView(
  { repository, view }: Pick<SubmissionRecord, "repository" | "view">,
): boolean {
  return view === undefined || view === (mountView(repository) ?? view);
}

/** True when a record is for this queue. */
export function isForQueue(
  record: Pick<
    SubmissionRecord,
    "url" | "namespace" | "branch" | "isDefault" | "repository" | "clone" | "view"
  >,
  place: Pick<SubmitPlace, "url" | "namespace" | "branch" | "isDefault" | "repository" | "clone">,
): boolean {
  if (!isSameOrigin(record.url, place.url) || record.namespace !== place.namespace) return false;
  if (!isUrlKnown(record, place)) return false;
  if (record.branch === place.branch) return true;
  // For the origin's HEAD, which wasn't known when the one was kept, or isn't now: no other branch is meant.
  return place.isDefault === true &&
    (record.branch === null || (place.branch === null && record.isDefault === true));
}

/**
 * Whether a record's url leads from here to where it led when it was made: a path, or this host's own address, leads
 * somewhere else in another container. There only the very clone that it was made in may be told by.
 */
export function isUrlKnown(
  record: Pick<SubmissionRecord, "repository" | "clone" | "view" | "url">,
  place: Pick<SubmitPlace, "repository" | "clone">,
): boolean {
  return !isOfThisHost(record.url) || isOwn(record, place) || isInView(record);
}

function isOfThisHost(url: string): boolean {
  try {
    const location = parseRemoteUrl(url, "/");
    if (location.kind === "file") return true;
    const host = location.kind === "ssh" ? location.host : location.url.hostname;
    return /^(?:localhost|127\.[\d.]+|\[?::1\]?)$/i.test(host);
  } catch {
    return true;
  }
}

/**
 * One directory has many names: a path, a link to it, `file://`. Of other urls each is an origin of its own, but for what
 * no web server tells apart: a slash at the end, the host's case, the usual port.
 */
export function isSameOrigin(a: string, b: string): boolean {
  if (a === b) return true;
  const place = placeOfUrl(a);
  return place !== null && place === placeOfUrl(b);
}

/** The directory that a url names, without links, or the url as a web server takes it; null for what is neither. */
function placeOfUrl(url: string): string | null {
  try {
    const location = parseRemoteUrl(url, "/");
    if (location.kind === "http") {
      const { protocol, host, pathname, search } = location.url;
      return `${protocol}//${host}${pathname.replace(/\/+$/, "")}${search}`;
    }
    if (location.kind !== "file") return null;
    // `repository` is `repository.git` where only that is there.
    const { path } = location;
    return withoutLinks(!existsSync(path) && existsSync(`${path}.git`) ? `${path}.git` : path);
  } catch {
    return null;
  }
}
