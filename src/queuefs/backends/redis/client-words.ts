/**
 * What ioredis says about itself in words that its users understand: its own speak of its options and of its insides.
 * What servers answer, and what the system says of a connection, is none of these and stays as it is.
 */

/** After a connection, or an attempt at one, ended without a reason. */
export const CLOSED = "the server closed the connection";
/** Calls that were under way when it did. */
const LOST = "the connection was lost before the answer";
export const NONE = "there is no connection";

/** True for a call that the client has not sent, or whose senders were each told by a server that it did nothing. */
export function isUnsent(message: string): boolean {
  return /^(Stream isn't writeable|Cluster isn't ready)/.test(message) ||
    /^Too many Cluster redirections\. Last error: \w*Error: (MOVED|ASK|TRYAGAIN) /.test(message);
}

/** Text by text, all that the connections, clusters and sentinels of ioredis 6 can reject with or emit. */
const WORDS: readonly [RegExp, (rest: string, timeoutMs: number) => string][] = [
  [/^Reached the max retries per request limit|^Command aborted due to connection/, () => LOST],
  [/^Stream isn't writeable|^Cluster isn't ready/, () => NONE],
  [/^Connection is (?:closed|aborted|discarded)|^Cluster is (?:ended|disconnect)/, () => CLOSED],
  [/^(?:Node is disconnected|Redis is already connecting)/, () => NONE],
  [/^(?:Command timed out$|timeout$|Socket timeout)/, (_, ms) => `no answer within ${ms} ms`],
  [/^connect ETIMEDOUT$/, (_, ms) => `no connection within ${ms} ms`],
  [
    /^(?:None of startup nodes is available|Failed to refresh slots cache)/,
    () => "no node of the cluster answers",
  ],
  [
    /^Too many Cluster redirections\. Last error: (?:\w*Error: )?(.*)$/s,
    (rest) => `the nodes of the cluster refer to each other: ${rest}`,
  ],
  [/^All sentinels are unreachable.* Last error: (.+)$/s, (rest) => `no sentinel answers: ${rest}`],
  [/^All sentinels are unreachable/, () => "no sentinel answers"],
  // An answer before anything was asked.
  [/^Command queue state error\..* Last error: (.+)$/s, (rest) => rest],
];

/** The error itself, or one with our words for it (its `cause`). */
export function plainly(error: Error, timeoutMs: number): Error {
  const found = WORDS.find(([words]) => words.test(error.message));
  if (found === undefined) return error;
  const [words, said] = found;
  const rest = words.exec(error.message)![1] ?? "";
  const message = said(plainly(new Error(rest), timeoutMs).message, timeoutMs);
  return Object.assign(new Error(message, { cause: error }), { name: error.name });
}

/** Why a call failed with its connection: `last` is the connection's own error, where there is one. */
export function callWords(error: Error, last: Error | null, timeoutMs: number): string {
  const { message } = plainly(error, timeoutMs);
  if (![LOST, NONE, CLOSED].includes(message)) return message;
  const why = last === null ? CLOSED : plainly(last, timeoutMs).message;
  return message === why ? message : `${message}: ${why}`;
}
