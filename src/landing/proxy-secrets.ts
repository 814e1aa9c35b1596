/**
 * A proxy's password in the environment: checks may need the proxy, so they are told of it, but the end of their
 * output is published, for all who read the origin.
 */

type Env = Readonly<Record<string, string | undefined>>;

/** A shorter password is hidden only where it stands in front of an at sign: it may be any word. */
const TELLING = 6;

/** `text` without user and password of the proxies that `env` names, as they are written there and decoded. */
export function withoutProxySecrets(text: string, env: Env): string {
  const hidden = new Set<string>();
  for (const [name, value] of Object.entries(env)) {
    if (!/^(https?|ftp|all)_proxy$/i.test(name)) continue;
    const login = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/]*)@/is.exec(value ?? "")?.[1];
    if (!login) continue;
    const password = login.includes(":") ? login.slice(login.indexOf(":") + 1) : "";
    hidden.add(`${login}@`).add(`${decoded(login)}@`);
    for (const word of [password, decoded(password)]) {
      if (word.length >= TELLING) hidden.add(word);
      else if (word !== "") hidden.add(`${word}@`);
    }
  }
  // Longer ones first, since one may be a part of another.
  const words = [...hidden].sort((a, b) => b.length - a.length);
  return words.reduce(
    (left, word) => left.replaceAll(word, word.endsWith("@") ? "…@" : "…"),
    text,
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
