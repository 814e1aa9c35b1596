/** The way to an ssh origin: the system's ssh where there is one, else the embedded client. */
import { isatty } from "node:tty";
import { AgentqError } from "../../errors.ts";
import type { GitConfig } from "../config.ts";
import type { Dial, Service, Version2 } from "../stream/channel.ts";
import { remoteQuote, sshProgram, type SshTarget } from "./command.ts";
import { systemSshDial } from "./system.ts";

export interface SshDialOptions {
  readonly config: GitConfig;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The remote's name, for remote.<name>.uploadpack and .receivepack; null for a url. */
  readonly remote: string | null;
  readonly connectMs: number;
}

export interface SshDial extends Dial {
  /** True when ssh may ask somebody at the terminal, however long that takes. */
  readonly interactive: boolean;
}

export function sshDial(
  target: SshTarget & { readonly path: string },
  name: string,
  options: SshDialOptions,
): SshDial {
  const { config, env } = options;
  if (/[\r\n\0]/.test(target.path + target.host + (target.user ?? ""))) {
    throw new AgentqError("url-unsupported", `Can't use ${name} as an origin: it is malformed.`);
  }
  const remoteCommand = (service: Service, version2: Version2) => {
    const key = service === "git-upload-pack" ? "uploadpack" : "receivepack";
    const own = options.remote === null ? null : config.get(`remote.${options.remote}.${key}`);
    const insist = version2 === "insist" ? "env GIT_PROTOCOL=version=2 " : "";
    return `${insist}${own || service} ${remoteQuote(target.path)}`;
  };
  const program = sshProgram(config, env);
  const interactive = program !== null && isatty(0) && env.GIT_TERMINAL_PROMPT !== "0";
  if (program !== null) {
    const system = systemSshDial(program, target, name, {
      config,
      env,
      connectMs: options.connectMs,
      interactive,
      remoteCommand,
    });
    return { ...system, interactive };
  }
  // Loaded only where it is needed: it is large.
  let embedded: Promise<Dial> | null = null;
  return {
    kind: "ssh",
    name,
    insists: true,
    interactive: false,
    async open(service, version2, signal) {
      embedded ??= import("./embedded.ts").then(({ embeddedSshDial }) =>
        embeddedSshDial(target, name, { env, connectMs: options.connectMs, remoteCommand })
      );
      return await (await embedded).open(service, version2, signal);
    },
    close() {
      embedded?.then((dial) => dial.close(), () => {});
    },
  };
}
