import assert from "node:assert/strict";
import { lstatSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { test } from "node:test";
import { systemError } from "../../src/platform/system-error.ts";

function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error("it worked");
}

test("errors of system calls say what could not be done with which path", () => {
  const cases: [() => unknown, RegExp][] = [
    [() => lstatSync("/no/such"), /^can't look at \/no\/such: .* \(ENOENT\)$/],
    [() => readdirSync("/no/such"), /^can't (list|open) \/no\/such: .* \(ENOENT\)$/],
    [() => readFileSync("/no/such"), /^can't open \/no\/such: .* \(ENOENT\)$/],
    [() => rmdirSync("/no/such"), /^can't remove \/no\/such: .* \(ENOENT\)$/],
  ];
  for (const [call, message] of cases) {
    const error = systemError(thrownBy(call));
    assert.match(error!.message, message);
    assert.equal(error!.code, "io-error");
    assert.equal(error!.details?.errno, "ENOENT");
  }
});

test("without a path the system's own words; what came from no system call is none", () => {
  const bare = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" });
  assert.equal(systemError(bare)?.message, "read ECONNRESET");
  for (
    const other of [new Error("x"), null, undefined, "x", Object.assign(new Error(), { code: "E" })]
  ) {
    assert.equal(systemError(other), null);
  }
});
