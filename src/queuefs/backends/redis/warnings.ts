/** What about a server endangers messages, or isn't what its users may think. */
import type { RedisAddress } from "./address.ts";
import type { RedisConnection } from "./connection.ts";
import { saysReplica } from "./role.ts";

/** One sentence each; all is asked at once, and users that may not ask aren't told. */
export async function redisWarnings(
  { mode, username, password }: RedisAddress,
  connection: RedisConnection,
): Promise<string[]> {
  const [memory, replica, open] = await Promise.all([
    connection.info("memory").catch(() => ""),
    mode === "single" ? saysReplica(connection) : false,
    password === null ? null : connection.takesAnyPassword(username ?? "default"),
  ]);
  const limit = Number(/^maxmemory:(\d+)/m.exec(memory)?.[1] ?? 0);
  const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? "";
  const evicts = limit > 0 && policy.startsWith("allkeys-");
  return [
    ...(evicts
      ? [
        `the server removes any key when memory is short (maxmemory-policy ${policy}): messages can ` +
        "vanish, and queues look complete; set it to noeviction",
      ]
      : []),
    ...(replica ? ["it is a replica: what it shows may be behind its master"] : []),
    ...(open === true
      ? ["a password is given, but the server asks for none: everybody who reaches it may use it"]
      : []),
  ];
}
