/**
 * What git's fsck can say of an object, and how grave git takes it to be (fsck.h).
 *
 * A receiver is strict: to it a `warn` is an error unless a setting names the message. An `info` is only
 * told, and nobody reads it here.
 */
export const SEVERITIES = {
  nulInHeader: "fatal",
  unterminatedHeader: "fatal",
  badDate: "error",
  badDateOverflow: "error",
  badEmail: "error",
  badGpgsig: "error",
  badHeaderContinuation: "error",
  badName: "error",
  badObjectSha1: "error",
  badParentSha1: "error",
  badTimezone: "error",
  badTree: "error",
  badTreeSha1: "error",
  badType: "error",
  duplicateEntries: "error",
  gitattributesBlob: "error",
  gitattributesLarge: "error",
  gitattributesLineLength: "error",
  gitattributesMissing: "error",
  gitmodulesBlob: "error",
  gitmodulesLarge: "error",
  gitmodulesMissing: "error",
  gitmodulesName: "error",
  gitmodulesPath: "error",
  gitmodulesSymlink: "error",
  gitmodulesUpdate: "error",
  gitmodulesUrl: "error",
  missingAuthor: "error",
  missingCommitter: "error",
  missingEmail: "error",
  missingNameBeforeEmail: "error",
  missingObject: "error",
  missingSpaceBeforeDate: "error",
  missingSpaceBeforeEmail: "error",
  missingTag: "error",
  missingTagEntry: "error",
  missingTree: "error",
  missingType: "error",
  missingTypeEntry: "error",
  multipleAuthors: "error",
  treeNotSorted: "error",
  unknownType: "error",
  zeroPaddedDate: "error",
  emptyName: "warn",
  fullPathname: "warn",
  hasDot: "warn",
  hasDotdot: "warn",
  hasDotgit: "warn",
  largePathname: "warn",
  nullSha1: "warn",
  nulInCommit: "warn",
  zeroPaddedFilemode: "warn",
  badFilemode: "info",
  badTagName: "info",
  gitattributesSymlink: "info",
  gitignoreSymlink: "info",
  gitmodulesParse: "info",
  mailmapSymlink: "info",
  missingTaggerEntry: "info",
  extraHeaderEntry: "ignore",
} as const;

export type MessageId = keyof typeof SEVERITIES;

/** Ends a check: the object is refused. `what` says why and ends in the message's id, for the settings. */
export class Fault extends Error {
  override readonly name = "Fault";
}

/** Tells of a fault. @throws {@link Fault} when it counts; returns when it is to be passed over */
export type Report = (id: MessageId, what: string) => void;
