/** The clients of ioredis, and what they must be taught: they pass over what servers say before they are ready. */
import { Cluster, Redis } from "ioredis";
import type { RedisAddress } from "./address.ts";
import type { Client } from "./link.ts";
import { placed, redirected } from "./places.ts";
import type { Place } from "./unasked.ts";

type Answered<T> = (error: Error | null, answer?: T) => void;

interface RedisInside extends Client {
  info(answered: Answered<string>): Promise<unknown>;
  emit(event: string, error: Error): unknown;
}

interface Node {
  readonly options: Place;
  duplicate(options: unknown): {
    cluster(name: string, answered: Answered<Parameters<typeof placed>[0]>): unknown;
  };
}

/** What is used of a cluster besides its documented methods; `tests/queuefs/redis-cluster.test.ts` looks after it. */
interface ClusterInside extends Client {
  emit(event: string, error: Error): unknown;
  getInfoFromNode(node: Node | undefined, done: Answered<never>): void;
  readyCheck(done: (error: Error | null, state?: string) => void): void;
  handleError(error: Error, tries: unknown, handlers: unknown): void;
}

/** Not connected yet. What a server says of its state while it isn't ready is emitted as an `error`. */
export function makeClient(address: RedisAddress): Client {
  const shared = {
    ...(address.username === null ? {} : { username: address.username }),
    ...(address.password === null ? {} : { password: address.password }),
    ...(address.tls === null ? {} : { tls: address.tls }),
    protocol: 2 as const,
    connectTimeout: address.timeoutMs,
    commandTimeout: address.timeoutMs,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    disableClientInfo: true,
    connectionName: `agentq-${process.pid}`,
  };
  const again = (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 2000);
  if (address.mode === "cluster") {
    const cluster = new Cluster([...address.hosts], {
      lazyConnect: true,
      enableOfflineQueue: false,
      clusterRetryStrategy: again,
      // What was under way when a connection broke off may have been done: it is not sent again.
      retryDelayOnFailover: 0,
      slotsRefreshTimeout: address.timeoutMs,
      redisOptions: shared,
    });
    return withPlaces(cluster as unknown as ClusterInside, address.hosts[0]!.host);
  }
  const target = address.mode === "single" ? { ...address.hosts[0]! } : {
    sentinels: [...address.hosts],
    name: address.master!,
    sentinelRetryStrategy: again,
    failoverDetector: true,
    ...(address.sentinelPassword === null ? {} : { sentinelPassword: address.sentinelPassword }),
    ...(address.tls === null ? {} : { enableTLSForSentinelMode: true, sentinelTLS: address.tls }),
  };
  const redis = new Redis({
    ...shared,
    ...target,
    db: address.db,
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: again,
    // A demoted master answers READONLY: leave it and ask the sentinels again.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  });
  return tellingOfLoading(redis as unknown as RedisInside);
}

/** Its check before it is ready waits without a word while the server loads its data. */
function tellingOfLoading(redis: RedisInside): Client {
  const info = redis.info.bind(redis);
  redis.info = (answered) =>
    info((error, answer) => {
      if (/^loading:1/m.test(String(answer))) {
        redis.emit("error", new Error("LOADING Redis is loading the dataset in memory"));
      }
      answered(error, answer);
    });
  return redis;
}

/** Has the nodes of a cluster found that tell no host of theirs, and says that the cluster's state is bad. */
function withPlaces(cluster: ClusterInside, given: string): Client {
  const hosts = new Map<number, string>();
  const slotsOf = cluster.getInfoFromNode.bind(cluster);
  cluster.getInfoFromNode = (node, done) => {
    if (node === undefined) return slotsOf(node, done);
    const { options } = node;
    const duplicate: Node["duplicate"] = (how) => {
      const connection = node.duplicate(how);
      const ask = connection.cluster.bind(connection);
      connection.cluster = (name, answered) =>
        ask(name, (error, rows) => {
          if (error || !Array.isArray(rows)) return answered(error, rows);
          let all: ReturnType<typeof placed>;
          try {
            all = placed(rows, options);
          } catch (fault) {
            return answered(fault as Error);
          }
          for (const node of all.flatMap((row) => row.slice(2))) {
            const [host, port] = node as readonly [string, number];
            if (host) hosts.set(port, host);
          }
          answered(null, all);
        });
      return connection;
    };
    slotsOf({ options, duplicate }, done);
  };
  const check = cluster.readyCheck.bind(cluster);
  cluster.readyCheck = (done) =>
    check((error, state) => {
      const said = error ??
        (state && new Error(`CLUSTERDOWN The cluster is down (state ${state})`));
      if (said) cluster.emit("error", said);
      done(error, state);
    });
  const handle = cluster.handleError.bind(cluster);
  cluster.handleError = (error, tries, handlers) =>
    handle(redirected(error, (port) => hosts.get(port) ?? given), tries, handlers);
  return cluster;
}
