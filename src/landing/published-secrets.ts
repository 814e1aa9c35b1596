/**
 * Credentials that checks may come to see and print (`git remote -v`, `env`): those of the clone's configuration,
 * which opens the origin, and of proxies, which checks may need. The end of what they say is published, for all
 * who read the origin.
 */

type Env = Readonly<Record<string, string | undefined>>;
type Setting = { readonly key: string; readonly value: string | null };

/** A shorter password is hidden only where it stands in front of an at sign: it may be any word. */
const TELLING = 6;

/** A url with something in front of an at sign; in ssh's that is a user name, and no secret. */
const LOGIN = /\b(?!(?:git\+)?ssh|ssh\+git)[a-z][a-z0-9+.-]*:\/\/([^/?#\s]*)@/gi;

/**
 * `text` without users and passwords of the proxies that `env` names and of urls in `config`, as they are written
 * there and decoded, without `AGENTQ_TOKEN`, and without what configured headers say who is asking.
 */
export function withoutSecrets(text: string, env: Env, config: readonly Setting[] = []): string {
  const hidden = new Set<string>();
  const word = (secret: string) => {
    if (secret.length >= TELLING) hidden.add(secret);
  };
  const login = (given: string) => {
    hidden.add(`${given}@`).add(`${decoded(given)}@`);
    const password = given.includes(":") ? given.slice(given.indexOf(":") + 1) : "";
    for (const secret of [password, decoded(password)]) {
      if (secret.length >= TELLING) word(secret);
      else if (secret !== "") hidden.add(`${secret}@`);
    }
  };
  for (const [name, value] of Object.entries(env)) {
    if (!/^(https?|ftp|all)_proxy$/i.test(name)) continue;
    const given = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/]*)@/is.exec(value ?? "")?.[1];
    if (given) login(given);
  }
  word(env.AGENTQ_TOKEN ?? "");
  const urls = [env.AGENTQ_REMOTE ?? "", ...config.flatMap(({ key, value }) => [key, value ?? ""])];
  for (const url of urls) {
    for (const [, given] of url.matchAll(LOGIN)) if (given) login(given);
  }
  for (const { key, value } of config) {
    if (!/^http\.(.*\.)?extraheader$/is.test(key)) continue;
    const said = /^[^:]*(?:auth|token|cookie|key|secret)[^:]*:\s*(?:\w+\s+)?(.*\S)/is.exec(
      value ?? "",
    );
    if (said) word(said[1]!);
  }
  // Longer ones first, since one may be a part of another.
  const secrets = [...hidden].sort((a, b) => b.length - a.length);
  return secrets.reduce(
    (left, secret) => left.replaceAll(secret, secret.endsWith("@") ? "…@" : "…"),
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
