/** Runs a program that the kernel refuses some system calls, through bubblewrap and a BPF filter. */
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { tempDir } from "./git.ts";

const AUDIT_ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
const LINK_CALLS = { x64: [86, 265], arm64: [37] } as const;

/** Linux's own numbers, where the runtime's table lacks the name. */
const NUMBERS: Record<string, number> = { ENOTSUP: 95, EOPNOTSUPP: 95 };

/** A classic BPF program: link and linkat answer `errno`, everything else is allowed. */
export function linkDenyingFilter(errno: string): Buffer {
  const arch = process.arch as keyof typeof AUDIT_ARCH;
  const calls = LINK_CALLS[arch];
  const number = NUMBERS[errno] ?? constants.errno[errno as keyof typeof constants.errno];
  const LOAD = 0x20, JUMP_EQUAL = 0x15, RETURN = 0x06;
  const ALLOW = 0x7fff0000, ERRNO = 0x00050000;
  const program: [code: number, yes: number, no: number, k: number][] = [
    [LOAD, 0, 0, 4],
    [JUMP_EQUAL, 0, calls.length + 1, AUDIT_ARCH[arch]],
    [LOAD, 0, 0, 0],
    ...calls.map((call, index): [number, number, number, number] => [
      JUMP_EQUAL,
      calls.length - index,
      0,
      call,
    ]),
    [RETURN, 0, 0, ALLOW],
    [RETURN, 0, 0, ERRNO | number],
  ];
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code, yes, no, k], index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(yes, index * 8 + 2);
    bytes.writeUInt8(no, index * 8 + 3);
    bytes.writeUInt32LE(k, index * 8 + 4);
  });
  return bytes;
}

/** Runs `argv` under bubblewrap with link and linkat answering `errno`; its standard output. */
export async function runWithoutLinks(errno: string, argv: readonly string[]): Promise<string> {
  const path = join(tempDir(), "filter.bpf");
  writeFileSync(path, linkDenyingFilter(errno));
  const fd = openSync(path, "r");
  const child = spawn("bwrap", ["--dev-bind", "/", "/", "--seccomp", "3", "--", ...argv], {
    stdio: ["ignore", "pipe", "pipe", fd],
  });
  let output = "";
  let errors = "";
  child.stdout!.on("data", (chunk) => output += chunk);
  child.stderr!.on("data", (chunk) => errors += chunk);
  await once(child, "close");
  closeSync(fd);
  if (child.exitCode !== 0) throw new Error(`bwrap exited ${child.exitCode}: ${errors}`);
  return output;
}
