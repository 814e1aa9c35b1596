/** The one way to an origin: by the name of a remote, or by url. Each transport is loaded when used. */
import process from "node:process";
import { AgentqError } from "../errors.ts";
import { type GitConfig, openConfig } from "./config.ts";
import { parseRemoteUrl, redactUrl, resolveRemote } from "./remote.ts";
import type { Repository } from "./repository.ts";
import type { Oid, Origin } from "./types.ts";

export interface OriginOptions {
  /** The clone whose config names remotes, credentials and rewrites; null outside of one. */
  readonly repository?: Repository | null;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Where relative paths count from: the work tree or git directory, else the current directory. */
  readonly base?: string;
  readonly timeouts?: OriginTimeouts;
}

/** Milliseconds. */
export interface OriginTimeouts {
  /** Until a connection stands. Default 30 s. */
  readonly connect?: number;
  /** Without a byte from the other side. Default 120 s. */
  readonly idle?: number;
  /** For one request with its whole answer. Default 30 min. */
  readonly total?: number;
}

/** Refs of the clone that are offered as `have`; more would cost more than they save. */
const MAX_LOCAL_HAVES = 256;

/**
 * Opens an origin by the name of a remote (`origin`) or by url (path, file://, http(s)://).
 * Nothing is sent to a server yet.
 * @throws `remote-unknown`, `url-unsupported`, `origin-not-found` (paths), `repository-unsupported`
 */
export async function openOrigin(
  nameOrUrl: string,
  options: OriginOptions = {},
): Promise<Origin> {
  const env = options.env ?? process.env;
  const repository = options.repository ?? null;
  const config: GitConfig = repository?.config ?? openConfig({ repository: null, env });
  const remote = resolveRemote(config, nameOrUrl);
  const base = options.base ?? repository?.workTree ?? repository?.gitDir ?? process.cwd();
  // Reading and writing must meet the same refs: the compare-and-swap rests on what was read there.
  const url = remote.pushUrl;
  const printable = redactUrl(url);
  const location = parseRemoteUrl(url, base);
  const localHaves = () => repository ? clonesOwnCommits(repository) : [];
  switch (location.kind) {
    case "file": {
      const { openFileOrigin } = await import("./file/origin.ts");
      return openFileOrigin(location.path, printable, localHaves);
    }
    case "http": {
      const { openHttpOrigin } = await import("./http/origin.ts");
      return openHttpOrigin(location.url, printable, {
        config,
        env,
        timeouts: options.timeouts ?? {},
        localHaves,
        shallow: () => [...repository?.shallow ?? []],
      });
    }
    default:
      throw new AgentqError(
        "url-unsupported",
        `Can't reach ${printable}: ${location.kind}:// is not supported.`,
      );
  }
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
