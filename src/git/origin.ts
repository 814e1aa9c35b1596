/** The one way to an origin: by the name of a remote, or by url. Each transport is loaded when used. */
import { AgentqError } from "../errors.ts";
import { type GitConfig, openConfig } from "./config.ts";
import { promisorOf } from "./missing-blobs.ts";
import { parseRemoteUrl, redactUrl, type RemoteLocation, resolveRemote } from "./remote.ts";
import type { Repository } from "./repository.ts";
import type { Oid, Origin } from "./types.ts";

export interface OriginOptions {
  /** The clone whose config names remotes, credentials and rewrites; null outside of one. */
  readonly repository?: Repository | null;
  /** The config to use where there is no repository; that of this user alone unless given. */
  readonly config?: GitConfig;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Where relative paths count from: the work tree or git directory, else the current directory. */
  readonly base?: string;
  readonly timeouts?: OriginTimeouts;
  /** Nothing is to be pushed there, so that it may be a remote which git pushes to several places. */
  readonly reading?: boolean;
  /** Told in words, once each, what git would remark on while pushing; without it nobody is. */
  readonly note?: (text: string) => void;
}

/** Milliseconds. */
export interface OriginTimeouts {
  /** Until a connection stands. Default 30 s. */
  readonly connect?: number;
  /** Without a byte from the other side. Default 120 s. */
  readonly idle?: number;
  /** For one request with its whole answer. Default 30 min. */
  readonly total?: number;
  /** Until a ref that was made is listed, for servers whose readers are late. Default 10 s. */
  readonly shown?: number;
}

/** Refs of the clone that are offered as `have`; more would cost more than they save. */
const MAX_LOCAL_HAVES = 256;

/**
 * Opens an origin by the name of a remote (`origin`) or by url (path, file://, http(s)://, ssh://, user@host:path, git://).
 * Nothing is sent to a server yet.
 * @throws `remote-unknown`, `url-unsupported`, `origin-not-found` (paths), `repository-unsupported`, `config-invalid`
 */
export async function openOrigin(
  nameOrUrl: string,
  options: OriginOptions = {},
): Promise<Origin> {
  const env = options.env ?? process.env;
  const repository = options.repository ?? null;
  const config: GitConfig = repository?.config ?? options.config ??
    openConfig({ repository: null, env });
  const base = options.base ?? repository?.workTree ?? repository?.gitDir ?? process.cwd();
  const remote = resolveRemote(config, nameOrUrl, base, options.reading);
  // Reading and writing must meet the same refs: the compare-and-swap rests on what was read there.
  const url = remote.pushUrl;
  const location = parseRemoteUrl(url, base, env);
  const printable = nameOf(url, location);
  const localHaves = () => repository ? clonesOwnCommits(repository) : [];
  const clone = {
    localHaves,
    shallow: () => [...repository?.shallow ?? []],
    partial: () => repository !== null && promisorOf(repository) !== null,
  };
  const shown = options.timeouts?.shown === undefined ? {} : { shownMs: options.timeouts.shown };
  switch (location.kind) {
    case "file": {
      refuseNamespace(env, printable);
      const { openFileOrigin } = await import("./file/origin.ts");
      return openFileOrigin(location.path, printable, localHaves, options.note);
    }
    case "http": {
      const { openHttpOrigin } = await import("./http/origin.ts");
      return openHttpOrigin(location.url, printable, {
        config,
        env,
        timeouts: options.timeouts ?? {},
        remote: remote.name,
        ...shown,
        ...clone,
      });
    }
    case "ssh": {
      const { sshDial } = await import("./ssh/dial.ts");
      const limits = streamLimits(options.timeouts);
      const dial = sshDial(location, printable, {
        config,
        env,
        remote: remote.name,
        connectMs: limits.connectMs,
      });
      const { openStreamOrigin } = await import("./stream/origin.ts");
      // Somebody who is asked for a passphrase may take any time.
      const firstMs = dial.interactive ? null : limits.connectMs + limits.idleMs;
      return openStreamOrigin(dial, printable, {
        limits: { ...limits, firstMs },
        ...shown,
        ...clone,
      });
    }
    case "git": {
      const { daemonDial } = await import("./daemon/dial.ts");
      const { openStreamOrigin } = await import("./stream/origin.ts");
      const limits = streamLimits(options.timeouts);
      const dial = daemonDial(location.url, printable, limits);
      return openStreamOrigin(dial, printable, {
        limits: { ...limits, firstMs: limits.idleMs },
        ...shown,
        ...clone,
      });
    }
  }
}

/**
 * `GIT_NAMESPACE` leads git's own push and fetch to other refs of a repository on disk. Going to the
 * repository's own instead would read and publish where nobody meant it.
 */
function refuseNamespace(
  env: Readonly<Record<string, string | undefined>>,
  url: string,
): void {
  if (!env.GIT_NAMESPACE) return;
  throw new AgentqError(
    "config-invalid",
    `GIT_NAMESPACE is set (${
      JSON.stringify(env.GIT_NAMESPACE)
    }), and ${url} is on disk: agentq has no namespaces there.`,
    {
      hint:
        "Unset it to use the repository's own refs, or reach the namespace through a server that sets it.",
    },
  );
}

/** An origin's url as it is printed and stored: a path is written out, since a relative one tells none from another. */
function nameOf(url: string, location: RemoteLocation): string {
  return location.kind === "file" && !/^file:/i.test(url) ? location.path : redactUrl(url);
}

/** The `url` that {@link openOrigin} gives an origin, without opening it. */
export function originUrl(repository: Repository, nameOrUrl: string): string {
  const base = repository.workTree ?? repository.gitDir;
  const { pushUrl } = resolveRemote(repository.config, nameOrUrl, base);
  return nameOf(pushUrl, parseRemoteUrl(pushUrl, base, process.env));
}

function streamLimits(timeouts: OriginTimeouts = {}) {
  return {
    connectMs: timeouts.connect ?? 30_000,
    idleMs: timeouts.idle ?? 120_000,
    totalMs: timeouts.total ?? 30 * 60_000,
  };
}

/** Commits that the clone's refs name, which it holds with all they reach. */
function clonesOwnCommits(repository: Repository): Oid[] {
  const oids = new Set<Oid>();
  const head = repository.head().oid;
  if (head) oids.add(head);
  for (const { oid } of repository.refs.list("refs/remotes/", "refs/heads/")) {
    if (oids.size >= MAX_LOCAL_HAVES) break;
    oids.add(oid);
  }
  return [...oids];
}
