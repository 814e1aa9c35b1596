/** Names that a JSON object has twice: JSON.parse keeps the last and says nothing of the others. */

/** The first name that an object of this text has twice, or null. The text must be JSON. */
export function duplicateName(json: string): string | null {
  /** Of every object that is open the names so far; of an array null. */
  const open: (Set<string> | null)[] = [];
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case "{":
        open.push(new Set());
        break;
      case "[":
        open.push(null);
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case '"': {
        const end = endOfString(json, at);
        if (isFollowedByColon(json, end)) {
          const name = JSON.parse(json.slice(at, end)) as string;
          const names = open.at(-1);
          if (names?.has(name)) return name;
          names?.add(name);
        }
        at = end - 1;
      }
    }
  }
  return null;
}

/** How often `part` stands in `text`. */
export function occurrences(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count++;
  return count;
}

function endOfString(json: string, start: number): number {
  let at = start + 1;
  for (; json[at] !== '"'; at++) if (json[at] === "\\") at++;
  return at + 1;
}

function isFollowedByColon(json: string, at: number): boolean {
  while (json[at] === " " || json[at] === "\n" || json[at] === "\r" || json[at] === "\t") at++;
  return json[at] === ":";
}
