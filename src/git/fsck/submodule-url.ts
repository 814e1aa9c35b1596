/** Which urls and names of submodules git lets nobody have (submodule-config.c, urlmatch.c). */

/** False for a name that leads out of the directory where submodules are kept. */
export function isSubmoduleName(name: string): boolean {
  return name !== "" && !name.split(/[/\\]/).includes("..");
}

/** False for a url that a program which git starts could take for an option, a header or another host. */
export function isSubmoduleUrl(url: string): boolean {
  if (url.startsWith("-")) return false;
  if (/^\.\.?[/\\]/.test(url) || url.startsWith("git://")) {
    if (decode(url).includes("\n")) return false;
    return !(/^(?:\.\.?[/\\])*?\.\.[/\\]/.test(url) && /^[:/]/.test(url.replace(DOTS, "")));
  }
  const curl = /^(?:https?|ftps?)::/.test(url)
    ? url.slice(url.indexOf("::") + 2)
    : /^(?:https?|ftps?):\/\//.test(url)
    ? url
    : null;
  return curl === null || (isNormalUrl(curl) && !decode(curl).includes("\n"));
}

const DOTS = /^(?:\.\.?\/)*/;

/** Git leaves `%00` and what is no escape as they stand, and never looks in front of the colon. */
function decode(url: string): string {
  const colon = Math.max(url.indexOf(":"), 0);
  return url.slice(0, colon) + url.slice(colon).replace(
    /%([0-9a-fA-F]{2})/g,
    (all, hex) => hex === "00" ? all : String.fromCharCode(parseInt(hex, 16)),
  );
}

/** True when git's url_normalize takes it. */
function isNormalUrl(url: string): boolean {
  const match = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?#]*)([^?#]*)(.*)$/s.exec(url);
  if (!match) return false;
  const [, scheme, authority, path, rest] = match as unknown as string[];
  const at = authority!.indexOf("@");
  if (at >= 0 && !areEscapes(authority!.slice(0, at))) return false;
  return isHostAndPort(authority!.slice(at + 1), scheme!.toLowerCase() === "file") &&
    areEscapes(path!) && areEscapes(rest!) && staysInside(path!);
}

function isHostAndPort(text: string, file: boolean): boolean {
  const colon = /:[^:\]]*$/.exec(text)?.index ?? text.length;
  const host = text.slice(0, colon);
  const port = text.slice(colon + 1);
  if (host === "" && (!file || port !== "")) return false;
  if (!/^[A-Za-z0-9._[:\]-]*$/.test(host)) return false;
  const digits = port.replace(/^0+/, "");
  if (digits === "") return !/^0/.test(port);
  return /^[0-9]{1,5}$/.test(digits) && Number(digits) <= 65535;
}

const areEscapes = (text: string) => !/%(?![0-9a-fA-F]{2})/.test(text);

/** Whether no `..` of the path, once its escapes are read, leads above its start. */
function staysInside(path: string): boolean {
  let depth = 0;
  for (const segment of path.replace(/^\//, "").split("/")) {
    const plain = segment.replace(/%2e/gi, ".");
    if (plain === "..") depth--;
    else if (plain !== ".") depth++;
    if (depth < 0) return false;
  }
  return true;
}
