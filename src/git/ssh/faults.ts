/**
 * Why an ssh connection gave no git server. The exit status tells whose fault it is:
 *
 *   255   ssh's own: which one only its words tell, OpenSSH's, which are the same in every language
 *   127   no such command    126   a command that can't be run
 *   else  the command's: git-upload-pack found no repository, or a gatekeeper said no
 */
import { AgentqError } from "../../errors.ts";

export interface SshEnd {
  /** Exit status of ssh; null when a signal ended it. */
  readonly exit: number | null;
  readonly killedBy: string | null;
  readonly stderr: string;
  readonly name: string;
  /** The command that was to run there. */
  readonly command: string;
  /** True once the other side has said something in git's protocol. */
  readonly opened: boolean;
}

export function sshFault(end: SshEnd): AgentqError {
  const { exit, name, stderr } = end;
  const words = lastWords(stderr);
  const said = words === "" ? "" : `: ${JSON.stringify(words)}`;
  const details = { exit, ...(stderr === "" ? {} : { remoteOutput: stderr.slice(-2000) }) };
  if (end.opened) {
    const how = exit === null ? `ssh was ended by ${end.killedBy}` : `ssh exited ${exit}`;
    return new AgentqError(
      "origin-unreachable",
      `The connection to ${name} broke (${how})${said}.`,
      {
        details,
      },
    );
  }
  if (exit === 255) return connectionFault(end, details);
  if (exit === 127 || exit === 126) {
    const program = end.command.replace(/^env \S+ /, "").split(" ")[0]!;
    return new AgentqError("ssh-command-missing", `${name} can't run ${program}${said}.`, {
      details,
    });
  }
  if (exit === null) {
    return new AgentqError("origin-unreachable", `ssh to ${name} was ended by ${end.killedBy}.`, {
      details,
    });
  }
  return new AgentqError("origin-not-found", `${name} gives out no repository${said}.`, {
    details,
  });
}

/** What ssh says itself about a connection that comes to nothing. */
const OF_SSH =
  /^(ssh|kex_exchange_identification|ssh_dispatch_run_fatal|client_loop|banner exchange|mux_client_\w+|Connection (reset|refused|timed out)|Unable to negotiate|Received disconnect|Disconnected|Timeout)\b/;

function connectionFault({ name, stderr }: SshEnd, details: Record<string, unknown>): AgentqError {
  if (/REVOKED HOST KEY DETECTED|key has been marked as revoked/i.test(stderr)) {
    return hostKeyRevoked(name, details);
  }
  if (/HOST IDENTIFICATION HAS CHANGED/.test(stderr)) return hostKeyChanged(name, details);
  if (/Host key verification failed|No \S+ host key is known/.test(stderr)) {
    return hostKeyUnknown(name, details);
  }
  if (
    /Permission denied \(|Too many authentication failures|No supported authentication/.test(stderr)
  ) {
    return notAdmitted(name, details);
  }
  const words = lastWords(stderr);
  // Ssh's own words for a connection that ended don't count among the last ones; a banner does.
  if (/^Connection (to .* )?closed/m.test(stderr) && words !== "" && !OF_SSH.test(words)) {
    return new AgentqError(
      "origin-unreachable",
      `${name} closed the connection. It had said: ${JSON.stringify(words)}.`,
      { details },
    );
  }
  const why = words === "" ? "ssh exited 255 without a word" : JSON.stringify(words);
  if (/timed out/i.test(stderr)) {
    return new AgentqError("origin-timeout", `${name} did not accept a connection: ${why}.`, {
      details,
    });
  }
  return new AgentqError("origin-unreachable", `Can't reach ${name}: ${why}.`, { details });
}

export function hostKeyUnknown(name: string, details: Record<string, unknown>): AgentqError {
  return new AgentqError("host-key-unknown", `Nobody has vouched for the host key of ${name}.`, {
    details,
  });
}

export function hostKeyChanged(name: string, details: Record<string, unknown>): AgentqError {
  return new AgentqError(
    "host-key-changed",
    `${name} shows another host key than the one that is known: someone may be in between.`,
    { details },
  );
}

export function hostKeyRevoked(name: string, details: Record<string, unknown>): AgentqError {
  return new AgentqError(
    "host-key-changed",
    `${name} shows a host key that known_hosts marks as revoked: someone may be in between.`,
    {
      details,
      hint:
        "Don't connect, and remove no line of known_hosts: ask the server's operator, who revoked this key, which one holds now.",
    },
  );
}

export function notAdmitted(name: string, details: Record<string, unknown>): AgentqError {
  const agent = typeof details.agent === "string"
    ? ` The ssh agent could not be asked: ${JSON.stringify(details.agent)}.`
    : "";
  const tooMany = /too many authentication failures/i.test(String(details.remoteOutput ?? ""));
  const passed = Array.isArray(details.passedOver) ? details.passedOver.join("; ") : "";
  const passedOver = passed === "" ? "" : ` Passed over: ${passed}.`;
  const message = details.offered === 0
    ? `${name} wants a key, and none could be offered.${passedOver}${agent}`
    : `${name} does not accept any key it was offered.${passedOver}${agent}`;
  return new AgentqError("auth-required", message, {
    details,
    hint: tooMany
      ? "The server stopped asking after a few keys: name the right one with IdentityFile and IdentitiesOnly in ~/.ssh/config, or load only that into the agent."
      : "Load the key into ssh-agent, name it with IdentityFile or GIT_SSH_COMMAND, and see that the server knows it; nothing is asked for without a terminal.",
  });
}

/** The last line that says something, without what ssh and git add to every failure. */
export function lastWords(stderr: string): string {
  const lines = stderr.split(/\r?\n/).map((line) => line.trim())
    .filter((line) => line !== "" && !/^Connection (to .* )?closed/.test(line));
  return (lines.at(-1) ?? "").slice(0, 300);
}
