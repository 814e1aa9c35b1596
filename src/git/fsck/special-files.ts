/** What git's fsck looks for in `.gitmodules` and `.gitattributes`. */
import { isAgentqError } from "../../errors.ts";
import { readConfig } from "../config-file.ts";
import { asBuffer } from "../oid.ts";
import type { Report } from "./messages.ts";
import { isSubmoduleName, isSubmoduleUrl } from "./submodule-url.ts";

/** As of git's attr.h: longer lines and larger files are not read. */
const ATTRIBUTES_LINE = 2048;
const ATTRIBUTES_SIZE = 100 * 1024 * 1024;

/** @throws `Fault` by way of `report` */
export function checkGitmodules(content: Uint8Array, report: Report): void {
  try {
    readConfig(asBuffer(content).toString("utf8"), ".gitmodules", ({ key, value }) => {
      const match = /^submodule\.(.*)\.([^.]*)$/s.exec(key);
      if (!match) return;
      if (!isSubmoduleName(upToNul(match[1]!))) {
        report("gitmodulesName", "a submodule's name that leads elsewhere");
      }
      if (value === null) return;
      const text = upToNul(value);
      if (match[2] === "url" && !isSubmoduleUrl(text)) {
        report("gitmodulesUrl", "a submodule's url that git doesn't allow");
      }
      if (match[2] === "path" && text.startsWith("-")) {
        report("gitmodulesPath", "a submodule's path that looks like an option");
      }
      if (match[2] === "update" && text.startsWith("!")) {
        report("gitmodulesUpdate", "a submodule that is updated by a command");
      }
    });
  } catch (error) {
    if (!isAgentqError(error, "config-invalid")) throw error;
    report("gitmodulesParse", "a syntax that git can't read");
  }
}

/** @throws `Fault` by way of `report` */
export function checkGitattributes(content: Uint8Array, report: Report): void {
  if (content.length > ATTRIBUTES_SIZE) {
    return report("gitattributesLarge", "more attributes than git reads");
  }
  const data = asBuffer(content);
  const nul = data.indexOf(0);
  const end = nul < 0 ? data.length : nul;
  for (let at = 0; at < end;) {
    const newline = data.indexOf(10, at);
    const stop = newline < 0 || newline > end ? end : newline;
    if (stop - at >= ATTRIBUTES_LINE) {
      return report("gitattributesLineLength", "a line of attributes that git doesn't read");
    }
    at = stop + 1;
  }
}

const upToNul = (text: string) => text.split("\0", 1)[0]!;
