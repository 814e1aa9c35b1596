/** Commits and annotated tags as git's fsck sees them. Content is a byte string. */
import type { MessageId, Report } from "./messages.ts";
import { isRefName } from "../ref-name.ts";

const OID_LINE = /^[0-9a-fA-F]{40}\n/;
/** Later than that a clock of 64 bits can't show. */
const LAST_SECOND = 2n ** 63n - 1n;

/** @throws `Fault` by way of `report` */
export function checkCommit(content: string, report: Report): void {
  checkHeaderEnd(content, report);
  if (!content.startsWith("tree ")) {
    return report("missingTree", "no tree line where it belongs");
  }
  if (!OID_LINE.test(content.slice(5, 46))) return report("badTreeSha1", "a malformed tree line");
  let at = 46;
  while (content.startsWith("parent ", at)) {
    if (!OID_LINE.test(content.slice(at + 7, at + 48))) {
      return report("badParentSha1", "a malformed parent line");
    }
    at += 48;
  }
  let authors = 0;
  while (content.startsWith("author ", at)) {
    authors++;
    at = checkIdentity(content, at + 7, report);
  }
  if (authors < 1) report("missingAuthor", "no author line where it belongs");
  else if (authors > 1) report("multipleAuthors", "several author lines");
  if (!content.startsWith("committer ", at)) {
    return report("missingCommitter", "no committer line where it belongs");
  }
  checkIdentity(content, at + 10, report);
  if (content.includes("\0")) report("nulInCommit", "a NUL in its text");
}

/** @throws `Fault` by way of `report` */
export function checkTag(content: string, report: Report): void {
  checkHeaderEnd(content, report);
  if (!content.startsWith("object ")) {
    return report("missingObject", "no object line where it belongs");
  }
  if (!OID_LINE.test(content.slice(7, 48))) {
    return report("badObjectSha1", "a malformed object line");
  }
  let at = 48;
  /** The rest of the line behind `word`, or null when that was told of. */
  const line = (word: string, noLine: MessageId, noEnd: MessageId): string | null => {
    if (!content.startsWith(`${word} `, at)) {
      report(noLine, `no ${word} line where it belongs`);
      return null;
    }
    const start = at + word.length + 1;
    const end = content.indexOf("\n", start);
    if (end < 0) report(noEnd, `nothing behind its ${word} line`);
    at = end + 1;
    return end < 0 ? null : content.slice(start, end);
  };
  const type = line("type", "missingTypeEntry", "missingType");
  if (type === null) return;
  if (!/^(?:blob|tree|commit|tag)$/.test(type)) report("badType", "an unknown type");
  const name = line("tag", "missingTagEntry", "missingTag");
  if (name === null) return;
  if (!isRefName(`refs/tags/${name}`)) report("badTagName", "a name that no tag can have");
  const tagger = at + 7;
  if (content.startsWith("tagger ", at)) at = content.indexOf("\n", tagger) + 1 || content.length;
  else report("missingTaggerEntry", "no tagger line where it belongs");
  const hasTagger = at >= tagger;
  if (/^gpgsig(?:-sha256)? /.test(content.slice(at, at + 14))) {
    do {
      const end = content.indexOf("\n", at);
      at = end < 0 ? content.length : end + 1;
    } while (content[at] === " ");
  }
  // Over these git forgets what was wrong with the tagger, and so it is here: the verdict is git's.
  if (at < content.length && content[at] !== "\n") {
    report("extraHeaderEntry", "more headers than a tag has");
  } else if (hasTagger) checkIdentity(content, tagger, report);
}

function checkHeaderEnd(content: string, report: Report): void {
  const blank = content.indexOf("\n\n");
  const nul = content.indexOf("\0");
  if (nul >= 0 && (blank < 0 || nul < blank)) report("nulInHeader", "a NUL in its headers");
  else if (blank < 0 && !content.endsWith("\n")) {
    report("unterminatedHeader", "headers that don't end");
  }
}

/** Checks `Name <mail> seconds zone` and returns where the next line starts. */
function checkIdentity(content: string, start: number, report: Report): number {
  const newline = content.indexOf("\n", start);
  const end = newline < 0 ? content.length : newline;
  const fault = identityFault(content.slice(start, end));
  if (fault) report(fault[0], `an author, committer or tagger with ${fault[1]}`);
  return end + 1;
}

function identityFault(line: string): [MessageId, string] | null {
  if (line.startsWith("<")) return ["missingNameBeforeEmail", "no name"];
  const open = line.search(/[<>]/);
  if (open < 0) return ["missingEmail", "no mail address"];
  if (line[open] === ">") return ["badName", "a malformed name"];
  if (line[open - 1] !== " ") {
    return ["missingSpaceBeforeEmail", "no space before the mail address"];
  }
  const close = open + 1 + line.slice(open + 1).search(/[<>]/);
  if (close === open || line[close] !== ">") return ["badEmail", "a malformed mail address"];
  if (line[close + 1] !== " ") return ["missingSpaceBeforeDate", "no space before the date"];
  const date = line.slice(close + 2).replace(/^[ \t]+/, "");
  const digits = /^[0-9]*/.exec(date)![0];
  if (digits === "") return ["badDate", "a malformed date"];
  if (date.startsWith("0") && date[1] !== " ") {
    return ["zeroPaddedDate", "a date that begins with 0"];
  }
  if (digits.length > 20 || BigInt(digits) > LAST_SECOND) {
    return ["badDateOverflow", "a date beyond all clocks"];
  }
  if (date[digits.length] !== " ") return ["badDate", "a malformed date"];
  const zone = date.slice(digits.length + 1);
  return /^[+-][0-9]{4}$/.test(zone) ? null : ["badTimezone", "a malformed time zone"];
}
