// Python packages for the tests, and scripts that run on them. Each file of ../python/requirements names a set of
// packages, every one pinned; a set is installed once into a folder of its own under target/, so that several versions
// of one package lie side by side and a machine needs no virtual environment.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("../python/", import.meta.url));
const REPOSITORY = fileURLToPath(new URL("../../../", import.meta.url));
const SETS = path.resolve(REPOSITORY, process.env.CARGO_TARGET_DIR ?? "target", "interop-python");
const INSTALL_LIMIT_MS = 600_000;
const START_LIMIT_MS = 60_000;

/** Runs a command to its end; gives what it printed. */
function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const { input = "", ...rest } = options;
    const child = execFile(command, args, { maxBuffer: 64 << 20, ...rest }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command} ${args.join(" ")}: ${error.message}\n${stdout}${stderr}`));
      else resolve(stdout);
    });
    child.stdin.on("error", () => {}); // It may end before it has read everything.
    child.stdin.end(input);
  });
}

let checked;
/** Returns the version of python3, or fails with the command to install it. */
function pythonVersion() {
  checked ??= run("python3", ["-c", "import sys, pip; assert sys.version_info >= (3, 11); print(sys.version.split()[0])"]).then(
    (version) => version.trim(),
    (error) => assert.fail(`the interop tests need python3, 3.11 or newer, with pip (on Debian: apt-get install python3 python3-pip): ${error.message}`),
  );
  return checked;
}

/** The folder in which the packages of requirements/`name`.txt lie; installs them when they do not. */
export async function packages(name) {
  const list = path.join(HERE, "requirements", `${name}.txt`);
  const key = createHash("sha256").update(await pythonVersion()).update(await readFile(list));
  const folder = path.join(SETS, `${name}-${key.digest("hex").slice(0, 12)}`);
  if (existsSync(folder)) return folder;
  // Into a folder of its own first: another test file may be installing the same, and a half-made one must not be found.
  const growing = `${folder}.${process.pid}`;
  await mkdir(SETS, { recursive: true });
  const options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--no-compile", "--only-binary", ":all:"];
  await run("python3", ["-m", "pip", "install", ...options, "--target", growing, "--requirement", list], { timeout: INSTALL_LIMIT_MS });
  await rename(growing, folder).catch((error) => {
    if (!existsSync(folder)) throw error;
  });
  await rm(growing, { recursive: true, force: true });
  return folder;
}

// -S leaves out whatever else is installed on the machine: a script sees its sets of packages and nothing more.
const argumentsFor = (script) => ["-S", path.join(HERE, script)];
const environmentFor = async (sets) => ({
  ...process.env,
  PYTHONPATH: (await Promise.all(sets.map(packages))).join(path.delimiter),
  PYTHONIOENCODING: "utf-8",
  PYTHONPYCACHEPREFIX: path.join(SETS, "bytecode"), // The sources' own folders stay clean.
});

/** Runs python/`script` on these sets of packages, `input` as JSON on its stdin; gives the JSON it prints. */
export async function ask(script, sets, input) {
  const answer = await run("python3", argumentsFor(script), { env: await environmentFor(sets), input: JSON.stringify(input) });
  return JSON.parse(answer);
}

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** Starts the server python/`script`; it prints `agent <url>` when it listens. */
export async function startServer(script, sets) {
  const child = spawn("python3", argumentsFor(script), { env: await environmentFor(sets), stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  const printed = [];
  const ended = new Promise((resolve) => child.once("close", resolve)).then(() => running.delete(child));
  const url = await new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${script}: ${why}; it printed:\n${printed.join("\n")}`));
    const limit = setTimeout(() => fail(`not ready after ${START_LIMIT_MS} ms`), START_LIMIT_MS);
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        printed.push(line);
        const found = /^agent (http:\S+)$/.exec(line);
        if (found) resolve(found[1]);
      });
    }
    child.once("error", (error) => fail(error.message));
    ended.then(() => fail("ended before it was ready"));
    ended.finally(() => clearTimeout(limit));
    limit.unref();
  });
  return {
    url,
    printed,
    async stop() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
