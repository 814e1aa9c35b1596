/**
 * The one test command. Runs every check and every test and ends with `N passed, N failed`.
 *
 *   npm test              everything: checks, unit tests under Bun and Deno, end-to-end tests
 *   deno task ok          the same without the end-to-end tests (--fast)
 *
 * Debian programs that tests need (scripts/debian-packages.txt) are installed when root; otherwise the
 * one apt line to run is printed and the run fails.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import process from "node:process";

const root = resolve(import.meta.dirname!, "..");
const bin = (name: string) => join(root, "node_modules", ".bin", name);
const fast = process.argv.includes("--fast");
const reports = mkdtempSync(join(tmpdir(), "agentq-reports-"));
/** Generated cases are the same in every run unless AGENTQ_TEST_SEED says otherwise. */
const seed = process.env.AGENTQ_TEST_SEED === "random"
  ? String(Math.floor(Math.random() * 0x7fffffff))
  : process.env.AGENTQ_TEST_SEED ?? "20261130";
const env: NodeJS.ProcessEnv = {
  ...process.env,
  AGENTQ_TEST_SEED: seed,
  PATH: `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH ?? ""}`,
  NO_COLOR: "1",
};
// What tests make has the modes that they expect, whatever the shell's mask is.
process.umask(0o022);
let passed = 0;
let failed = 0;

function which(program: string): boolean {
  const places = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  return program.startsWith("/")
    ? existsSync(program)
    : places.some((place) => existsSync(join(place, program)));
}

/** Installs what is missing of scripts/debian-packages.txt; false when that can't be done. */
function debianPrograms(): boolean {
  const missing = () =>
    readFileSync(join(root, "scripts", "debian-packages.txt"), "utf8").split("\n")
      .map((line) => line.replace(/#.*/, "").trim().split(/\s+/))
      .filter((words) => words.length >= 2 && !which(words[0]!))
      .map((words) => words[1]!);
  let packages = [...new Set(missing())];
  if (packages.length === 0) return true;
  const install = ["install", "-y", "--no-install-recommends", ...packages];
  if (process.getuid?.() === 0 && which("apt-get")) {
    const options = {
      stdio: "inherit",
      env: { ...env, DEBIAN_FRONTEND: "noninteractive" },
    } as const;
    spawnSync("apt-get", ["update", "-q"], options);
    spawnSync("apt-get", ["-q", ...install], options);
    packages = [...new Set(missing())];
    if (packages.length === 0) return true;
  }
  console.error(`Missing programs. Run:\n  sudo apt-get install -y ${packages.join(" ")}`);
  return false;
}

interface Run {
  code: number;
  output: string;
  seconds: number;
}

/** Runs a command; its output is shown whole when it fails. */
function run(
  command: string,
  args: readonly string[],
  extra: NodeJS.ProcessEnv = {},
): Promise<Run> {
  const began = Date.now();
  return new Promise((done) => {
    const child = spawn(command, [...args], {
      cwd: root,
      env: { ...env, ...extra },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const chunks: Uint8Array[] = [];
    child.stdout.on("data", (chunk) => chunks.push(chunk));
    child.stderr.on("data", (chunk) => chunks.push(chunk));
    const finish = (code: number, more = "") =>
      done({
        code,
        output: Buffer.concat(chunks).toString("utf8") + more,
        seconds: Math.round((Date.now() - began) / 1000),
      });
    child.on("error", (error) => finish(127, String(error)));
    child.on("close", (code, signal) => finish(code ?? 1, signal ? `killed by ${signal}\n` : ""));
  });
}

async function check(name: string, command: string, args: readonly string[]): Promise<boolean> {
  const result = await run(command, args);
  const good = result.code === 0;
  if (good) passed++;
  else failed++;
  console.log(`${good ? "ok    " : "FAILED"} ${name} (${result.seconds} s)`);
  if (!good) console.log(result.output);
  return good;
}

/** Counts a JUnit report; null when there is none to count. */
function count(report: string): { passed: number; failed: number; skipped: number } | null {
  if (!existsSync(report)) return null;
  const cases = readFileSync(report, "utf8").split("<testcase").slice(1);
  const of = (pattern: RegExp) => cases.filter((one) => pattern.test(one)).length;
  const skipped = of(/<skipped/);
  const bad = of(/<failure|<error/);
  return { passed: cases.length - bad - skipped, failed: bad, skipped };
}

/** What a suite printed, without the lines of tests that passed: what failed is easier to find. */
function withoutPasses(output: string): string {
  return output.split("\n").filter((line) => !/^\(pass\)| \.\.\. ok \(/.test(line)).join("\n");
}

/** Runs one suite; a crash, or a suite that ran no test, counts as one failure. */
async function suite(
  name: string,
  command: string,
  args: readonly string[],
  report: string,
): Promise<void> {
  const result = await run(command, args);
  const counts = count(report);
  const ran = counts ? counts.passed + counts.failed : 0;
  passed += counts?.passed ?? 0;
  let bad = counts?.failed ?? 0;
  if (ran === 0 || (bad === 0 && result.code !== 0)) bad += 1;
  // A skipped test shows nothing: it counts against the run.
  bad += counts?.skipped ?? 0;
  failed += bad;
  console.log(
    `${bad === 0 ? "ok    " : "FAILED"} ${name}: ${counts?.passed ?? 0} passed, ${
      counts?.failed ?? 0
    } failed, ${counts?.skipped ?? 0} skipped (${result.seconds} s)`,
  );
  if (bad > 0) console.log(withoutPasses(result.output).slice(-100_000));
}

/** Test files below tests/, by folder. */
function testFolders(): string[] {
  return readdirSync(join(root, "tests"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "e2e")
    .map((entry) => `tests/${entry.name}/`)
    .filter((dir) =>
      readdirSync(join(root, dir), { recursive: true }).some((file) =>
        String(file).endsWith(".test.ts")
      )
    );
}

async function main(): Promise<number> {
  mkdirSync(reports, { recursive: true });
  if (!debianPrograms()) {
    console.log("\n0 passed, 1 failed");
    return 1;
  }
  const deno = bin("deno");
  const bun = bin("bun");
  console.log(`seed of generated cases: ${seed} (AGENTQ_TEST_SEED)`);
  await check("format", deno, ["fmt", "--check", "--quiet"]);
  await check("lint", deno, ["lint", "--quiet"]);
  await check("types", deno, [
    "check",
    "--quiet",
    "mod.ts",
    "cli/",
    "src/",
    "scripts/",
    "bench/",
    "tests/",
  ]);
  await check("import arrows", bun, ["scripts/arrows.ts"]);
  await check("generated docs", bun, ["scripts/docs.ts", "--check"]);
  const built = await check("compile", "sh", ["./compile.sh"]);
  const folders = testFolders();
  const junit = (name: string) => join(reports, `${name}.xml`);
  const underBun = () =>
    suite("unit tests under Bun", bun, [
      "test",
      "--preload=./tests/helpers/seed.ts",
      "--timeout=120000",
      "--reporter=junit",
      `--reporter-outfile=${junit("bun")}`,
      ...folders.map((folder) => `./${folder}`),
    ], junit("bun"));
  const underDeno = () =>
    suite("unit tests under Deno", deno, [
      "test",
      "-A",
      "--preload=tests/helpers/seed.ts",
      "--no-check",
      "--quiet",
      `--junit-path=${junit("deno")}`,
      ...folders,
    ], junit("deno"));
  const ofTheBinary = () =>
    suite("end-to-end tests of the binary", bun, [
      "test",
      "--timeout=300000",
      "--reporter=junit",
      `--reporter-outfile=${junit("e2e")}`,
      "./tests/e2e/",
    ], junit("e2e"));
  // Two at a time: each waits for processes and servers most of the time, and none knows of another.
  await Promise.all([
    underBun().then(() => (!fast && built ? ofTheBinary() : undefined)),
    underDeno(),
  ]);
  rmSync(reports, { recursive: true, force: true });
  console.log(`\n${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

process.exit(await main());
