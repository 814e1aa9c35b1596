/**
 * Gives a built Linux binary an entry of its own: `bun scripts/entry.ts FILE`.
 *
 * The runtime asks for the current directory before any JavaScript runs, and where that was deleted it
 * ends the process with words and an exit code of its own. A few instructions in front of the real
 * entry ask first, and when the answer is ENOENT move to /proc/self/fdinfo, where nobody works:
 * src/platform/directory.ts recognises that, and the commands say what is wrong as they say
 * everything, or work where no directory is needed. Without /proc the runtime's words remain.
 *
 *     ELF header    entry ───────────────▶ the stub, appended to the file
 *     PT_NOTE       becomes the PT_LOAD that maps it (its build id serves nobody here)
 *     the stub      getcwd() = ENOENT? chdir("/proc/self/fdinfo"); then jump to the old entry
 *
 * Other systems' binaries, and those whose headers look otherwise than expected, are left alone.
 */
import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";
import process from "node:process";

const X86_64 = 0x3e;
const AARCH64 = 0xb7;
const PT_LOAD = 1;
const PT_NOTE = 4;
const READ_EXECUTE = 5;
/** The largest page of any of the machines: where a segment may begin. */
const ALIGNMENT = 0x10000n;
const MARKER = Buffer.from("/proc/self/fdinfo\0", "latin1");

/** Keeps rdx, where the system hands over a function, and the stack as they were. */
function stubX64(at: bigint, entry: bigint): Buffer {
  const code = Buffer.from(
    "4989d4" + // mov r12, rdx
      "4881ec00100000" + // sub rsp, 4096
      "4889e7" + // mov rdi, rsp
      "be00100000" + // mov esi, 4096
      "b84f000000" + // mov eax, 79 (getcwd)
      "0f05" + // syscall
      "4881c400100000" + // add rsp, 4096
      "4883f8fe" + // cmp rax, -ENOENT
      "750e" + // jne go
      "488d3d0f000000" + // lea rdi, [rip + marker]
      "b850000000" + // mov eax, 80 (chdir)
      "0f05" + // syscall
      "4c89e2" + // go: mov rdx, r12
      "e900000000", // jmp entry
    "hex",
  );
  code.writeInt32LE(Number(entry - (at + BigInt(code.length))), code.length - 4);
  return Buffer.concat([code, MARKER]);
}

/** Keeps x0, where the system hands over a function, and the stack as they were. */
function stubArm64(at: bigint, entry: bigint): Buffer {
  const code = Buffer.from(
    "f30300aa" + // mov x19, x0
      "ff0740d1" + // sub sp, sp, #4096
      "e0030091" + // mov x0, sp
      "010082d2" + // mov x1, #4096
      "280280d2" + // mov x8, #17 (getcwd)
      "010000d4" + // svc #0
      "ff074091" + // add sp, sp, #4096
      "1f0800b1" + // cmn x0, #ENOENT
      "81000054" + // b.ne go
      "60010010" + // adr x0, marker
      "280680d2" + // mov x8, #49 (chdir)
      "010000d4" + // svc #0
      "e00313aa" + // go: mov x0, x19
      "70feff10" + // adr x16, start
      "91000058" + // ldr x17, distance
      "1002118b" + // add x16, x16, x17
      "00021fd6" + // br x16
      "1f2003d5" + // nop
      "0000000000000000", // distance
    "hex",
  );
  code.writeBigInt64LE(entry - at, code.length - 8);
  return Buffer.concat([code, MARKER]);
}

/** Rewrites the file in place; says why not where it is left alone. */
function giveEntry(file: string): string | null {
  const fd = openSync(file, "r+");
  try {
    const header = Buffer.alloc(64);
    readSync(fd, header, 0, 64, 0);
    if (header.toString("latin1", 0, 6) !== "\x7fELF\x02\x01") return "no 64-bit ELF file";
    const machine = header.readUInt16LE(18);
    const stubOf = { [X86_64]: stubX64, [AARCH64]: stubArm64 }[machine];
    if (stubOf === undefined) return `machine ${machine}`;
    const [offset, size, count] = [
      Number(header.readBigUInt64LE(32)),
      header.readUInt16LE(54),
      header.readUInt16LE(56),
    ];
    if (size !== 56) return `program headers of ${size} bytes`;
    const table = Buffer.alloc(size * count);
    readSync(fd, table, 0, table.length, offset);
    const headers = Array.from({ length: count }, (_, i) => table.subarray(i * 56, i * 56 + 56));
    const loads = headers.filter((one) => one.readUInt32LE(0) === PT_LOAD);
    // Loads stand in ascending order of their addresses, and the new one's is the highest.
    const note = headers.findLast((one) => one.readUInt32LE(0) === PT_NOTE);
    if (note === undefined || headers.indexOf(note) < headers.indexOf(loads.at(-1)!)) {
      return "no note after the segments";
    }
    const up = (value: bigint) => (value + ALIGNMENT - 1n) / ALIGNMENT * ALIGNMENT;
    const end = loads.map((one) => one.readBigUInt64LE(16) + one.readBigUInt64LE(40))
      .reduce((a, b) => a > b ? a : b);
    const place = up(BigInt(fstatSync(fd).size));
    const address = up(end);
    const stub = stubOf(address, header.readBigUInt64LE(24));
    const size64 = BigInt(stub.length);
    note.writeUInt32LE(PT_LOAD, 0);
    note.writeUInt32LE(READ_EXECUTE, 4);
    [place, address, address, size64, size64, ALIGNMENT].forEach((value, i) =>
      note.writeBigUInt64LE(value, 8 + i * 8)
    );
    header.writeBigUInt64LE(address, 24);
    writeSync(fd, stub, 0, stub.length, Number(place));
    writeSync(fd, table, 0, table.length, offset);
    writeSync(fd, header, 0, 64, 0);
    return null;
  } finally {
    closeSync(fd);
  }
}

for (const file of process.argv.slice(2)) {
  const left = giveEntry(file);
  if (left !== null) console.error(`${file}: keeps its entry (${left})`);
}
