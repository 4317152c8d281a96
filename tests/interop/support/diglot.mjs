// Starts the diglot binary for a test file and stops it again: nothing is built here. The binary is $DIGLOT_BIN, or
// what `cargo build` leaves in target/debug.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const BINARY = process.env.DIGLOT_BIN ?? fileURLToPath(new URL("../../../target/debug/diglot", import.meta.url));
const START_LIMIT_MS = 15_000;
const STOP_LIMIT_MS = 10_000;

// A test file that dies must not leave servers behind.
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** One running diglot. `printed` keeps every line of both streams, for the message when something goes wrong. */
class Diglot {
  constructor(args) {
    assert.ok(existsSync(BINARY), `there is no diglot at ${BINARY}: run \`cargo build\` first, or set DIGLOT_BIN`);
    this.command = `diglot ${args.join(" ")}`;
    this.printed = [];
    this.child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "pipe"] });
    running.add(this.child);
    this.ended = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", (code, signal) => {
        running.delete(this.child);
        resolve({ code, signal });
      });
    });
  }

  /** Hands each line of both streams to `take` until it returns something, and resolves with that. */
  until(take) {
    return new Promise((resolve, reject) => {
      const fail = (why) => {
        this.child.kill("SIGKILL");
        reject(new Error(`${this.command}: ${why}; it printed:\n${this.printed.join("\n")}`));
      };
      const limit = setTimeout(() => fail(`not ready after ${START_LIMIT_MS} ms`), START_LIMIT_MS);
      const read = (line) => {
        this.printed.push(line);
        const found = take(line);
        if (found !== undefined) {
          clearTimeout(limit);
          resolve(found);
        }
      };
      for (const stream of [this.child.stdout, this.child.stderr]) createInterface({ input: stream }).on("line", read);
      this.ended.then(
        ({ code, signal }) => {
          clearTimeout(limit);
          fail(`ended with ${signal ?? code} before it was ready`);
        },
        (error) => fail(error.message),
      );
    });
  }

  /** Presses Ctrl-C and asserts a clean end. */
  async stop() {
    this.child.kill("SIGINT");
    const limit = setTimeout(() => this.child.kill("SIGKILL"), STOP_LIMIT_MS);
    const { code, signal } = await this.ended;
    clearTimeout(limit);
    assert.deepEqual({ code, signal }, { code: 0, signal: null }, `${this.command}: no clean end; it printed:\n${this.printed.join("\n")}`);
  }

  /** Ends it without a word, the way a crash does. */
  async crash() {
    this.child.kill("SIGKILL");
    await this.ended;
  }
}

const DEMO_ROUTES = ["hai-agent", "hai-agent-blocks", "ag-ui-agent", "ag-ui-agent-string", "pass", "ag-ui-0-agent", "ag-ui-snake-agent", "cloudbase-agent", "social-app-agent"];

/** `diglot demo` on free ports. Its stdout has, among words for people, `route <name> <url>` and `status <url>`. */
export async function startDemo() {
  const demo = new Diglot(["demo", ...["--listen", "--status", "--inspector"].flatMap((option) => [option, "127.0.0.1:0"])]);
  const routes = {};
  let status;
  await demo.until((line) => {
    const route = /^route (\S+) (http:\S+)$/.exec(line);
    if (route) routes[route[1]] = route[2];
    status ??= /^status (http:\S+)$/.exec(line)?.[1];
    return (status && DEMO_ROUTES.every((name) => routes[name])) || undefined;
  });
  return { url: (name) => routes[name], status, stop: () => demo.stop() };
}

/** One embedded agent on a free port, `pace` milliseconds between its events. Prints `agent <dialect> <url>`. */
export async function startAgent(dialect, pace) {
  const agent = new Diglot(["mock-agent", "--dialect", dialect, "--listen", "127.0.0.1:0", "--pace", String(pace)]);
  const url = await agent.until((line) => /^agent \S+ (http:\S+)$/.exec(line)?.[1]);
  return { url, stop: () => agent.stop(), crash: () => agent.crash() };
}

/** `diglot serve` with one route `/r` from `client` to the agent at `upstream`. */
export async function startGateway({ client, agent, upstream }) {
  const gateway = await serve(`routes:
  - name: r
    path: /r
    client: ${client}
    agent: ${agent}
    upstream: "${upstream}"
`);
  return { url: `${gateway.url}/r`, stop: gateway.stop };
}

/** `diglot serve` with `yaml` on free ports: its data plane's URL, and the lines that it printed so far. */
export async function serve(yaml) {
  const folder = await mkdtemp(path.join(tmpdir(), "diglot-interop-"));
  const file = path.join(folder, "diglot.yaml");
  await writeFile(file, `listeners: {data: "127.0.0.1:0", status: "127.0.0.1:0"}\ndrain_grace: 0s\n${yaml}`);
  const gateway = new Diglot(["serve", "--config", file]);
  const address = await gateway.until((line) => listeningOn("data", line));
  const stop = async () => {
    try {
      await gateway.stop();
    } finally {
      await rm(folder, { recursive: true });
    }
  };
  return { url: `http://${address}`, printed: gateway.printed, stop };
}

/** Returns the address in a JSON log line with the message "listening", or undefined for any other line. */
function listeningOn(plane, line) {
  if (!line.startsWith("{")) return undefined;
  const entry = JSON.parse(line);
  const said = { ...entry, ...entry.fields };
  return said.message === "listening" && said.plane === plane ? said.address : undefined;
}
