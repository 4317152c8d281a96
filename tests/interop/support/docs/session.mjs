// The environment of a reader of a page: a folder, a shell with its variables, the servers that the page starts, and
// files. Each port of a page is replaced by a free one, in every command, file and output.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { BINARY } from "../diglot.mjs";
import { packages } from "../python.mjs";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const INTEROP = path.join(ROOT, "tests/interop");
const COMMAND_LIMIT_MS = 60_000;

/** Ports as the pages write them. */
const PORTS = [8787, 8788, 8789, 8443, 9001, 9002, 9090, 9091, 9092, 4000];

/** The Python packages that scripts of the pages may use. */
const PYTHON_SETS = ["ag-ui-langgraph-0.0.47"];

/** Log lines with which a server reports that it is ready; other servers are ready after their first line. */
const READY = [
  [/^(make demo|(\w+=\S+ )*diglot (serve|demo))\b/, /"message":"listening","plane":"status"/],
  [/^diglot mock-agent\b/, /^Ctrl-C ends it/m],
  [/./, /\n/],
];
export const isServer = (command) => /^(make demo|(\w+=\S+ )*diglot (serve|demo|mock-agent))\b/.test(command);

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, () => new Promise((ready) => {
      const server = createServer().listen(0, "127.0.0.1", () => ready(server));
    })),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))));
  return ports;
}

export class Session {
  static async start() {
    assert.ok(existsSync(BINARY), `there is no diglot at ${BINARY}: run \`cargo build\` first, or set DIGLOT_BIN`);
    const session = new Session();
    session.folder = await mkdtemp(path.join(tmpdir(), "diglot-page-"));
    session.ports = new Map((await freePorts(PORTS.length)).map((port, index) => [PORTS[index], port]));
    session.servers = new Map();
    await session.furnish();
    session.environment = {
      ...process.env,
      PATH: [path.join(session.folder, ".bin"), process.env.PATH].join(path.delimiter),
      CURL_HOME: path.join(session.folder, ".bin"),
      PYTHONPATH: (await Promise.all(PYTHON_SETS.map(packages))).join(path.delimiter),
      PYTHONIOENCODING: "utf-8",
      NO_COLOR: "1",
      COPILOTKIT_TELEMETRY_DISABLED: "true",
      DO_NOT_TRACK: "1",
    };
    for (const name of ["DIGLOT_CONFIG", "DIGLOT_LOG"]) delete session.environment[name];
    session.shell = session.spawn("bash", ["--noprofile", "--norc"], ["pipe", "pipe", "pipe"]);
    await session.command(`make() { command make -C '${ROOT}' -n "$1" > /dev/null; }`);
    return session;
  }

  /** The folder: `diglot` on the path, a curl that is quiet and fails where it is refused, the packages that an `npm install` would bring, and the repository's files. */
  async furnish() {
    const at = (...names) => path.join(this.folder, ...names);
    await mkdir(at(".bin"));
    await symlink(BINARY, at(".bin/diglot"));
    await writeFile(at(".bin/.curlrc"), "silent\nfail-with-body\n");
    await mkdir(at("node_modules/hai-client"), { recursive: true });
    await symlink(path.join(INTEROP, "node_modules/@ag-ui"), at("node_modules/@ag-ui"));
    // A project of its own, since it brings another version of @ag-ui/client.
    await mkdir(at("copilotkit"));
    await symlink(path.join(INTEROP, "copilotkit/node_modules"), at("copilotkit/node_modules"));
    await writeFile(at("node_modules/hai-client/package.json"), '{"type": "module", "exports": "./index.js"}');
    await writeFile(at("node_modules/hai-client/index.js"), `export * from "${path.join(INTEROP, "support/hai-client.mjs")}";\n`);
    for (const name of ["config", "deploy", "tests"]) await symlink(path.join(ROOT, name), at(name));
  }

  /** A text of the page as it is here. */
  here(text) {
    const ports = text.replace(/(?<=:|listen\()\d{4}\b/g, (port) => this.ports.get(Number(port)) ?? port);
    return ports.replace(/(?<![\w/.])\/run\/(?=[a-z])/g, `${this.folder}/run/`);
  }

  /** A text from here as the page has it. */
  there(text) {
    let back = text.replaceAll(`${this.folder}/run/`, "/run/");
    for (const [page, port] of this.ports) back = back.replaceAll(`:${port}`, `:${page}`);
    return back;
  }

  spawn(command, args, stdio = ["ignore", "pipe", "pipe"]) {
    const child = spawn(command, args, { cwd: this.folder, env: this.environment, stdio });
    child.said = "";
    child.waiting = () => {};
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        child.said += text;
        child.waiting();
      });
    }
    running.add(child);
    child.ended = new Promise((resolve) => child.once("close", resolve)).then(() => {
      running.delete(child);
      child.waiting();
    });
    return child;
  }

  /** Waits for output of a process that matches, and returns it. */
  said(child, pattern, what) {
    return new Promise((resolve, reject) => {
      const limit = setTimeout(() => reject(new Error(`${what}: not within ${COMMAND_LIMIT_MS} ms; it said:\n${child.said}`)), COMMAND_LIMIT_MS);
      child.waiting = () => {
        const found = pattern.exec(child.said);
        if (!found && running.has(child)) return;
        clearTimeout(limit);
        child.waiting = () => {};
        if (found) resolve(found);
        else reject(new Error(`${what}: it has ended, having said:\n${child.said}`));
      };
      child.waiting();
    });
  }

  /** Runs a command in the page's shell; returns its output and its exit code. */
  async command(text) {
    await writeFile(path.join(this.folder, ".command"), `${this.here(text)}\n`);
    this.shell.said = "";
    this.shell.stdin.write(". ./.command < /dev/null 2>&1; printf '\\036%d\\036' \"$?\"\n");
    const [whole, code] = await this.said(this.shell, /\x1e(\d+)\x1e/, text);
    return { code: Number(code), output: this.there(this.shell.said.replace(whole, "")) };
  }

  /**
   * Starts a server as a reader does in another terminal, in place of the server on its port. Returns its first output.
   */
  async serve(text) {
    const gateway = /^(make demo|(\w+=\S+ )*diglot (serve|demo))\b/.test(text);
    const place = gateway ? "gateway" : (/127\.0\.0\.1:\d+/.exec(text)?.[0] ?? text);
    // The one before goes on beside it, until the page ends.
    if (text.includes("--upgrade")) this.servers.set(`before ${text}`, this.servers.get(place));
    else await this.stop(place);
    const [, ready] = READY.find(([command]) => command.test(text));
    // Like `make demo` after the build.
    const run = this.here(text.replace(/^make demo( ARGS="([^"]*)")?/, "diglot demo $2")).replace(/^(diglot demo) *$/, `$1 ${this.demo()}`);
    const child = this.spawn("bash", ["-c", `exec env ${run}`]);
    this.servers.set(place, child);
    await this.said(child, ready, text);
    return { code: 0, output: this.there(child.said) };
  }

  /** The demo's own addresses, on the ports here. */
  demo() {
    return this.here("--listen 127.0.0.1:8787 --status 127.0.0.1:8788 --inspector 127.0.0.1:8789");
  }

  async stop(place) {
    const child = this.servers.get(place);
    if (!child) return;
    this.servers.delete(place);
    // At once: the drain has tests of its own.
    child.kill("SIGKILL");
    await child.ended;
  }

  async write(name, text) {
    await writeFile(path.join(this.folder, name), this.here(text));
  }

  /** Makes a file that a configuration names and the page's reader is assumed to have. */
  async provide(name) {
    const file = path.resolve(this.folder, this.here(name));
    if (existsSync(file)) return;
    await mkdir(path.dirname(file), { recursive: true });
    if (!/\.(crt|pem|key)$/.test(name)) return writeFile(file, "a-secret-of-sixteen-or-more-bytes\n");
    const [key, certificate] = [".key", ".crt"].map((suffix) => path.join(this.folder, ".bin", `page${suffix}`));
    if (!existsSync(key)) {
      const request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
      execFileSync("openssl", [...request, "-keyout", key, "-out", certificate], { stdio: "pipe" });
    }
    await symlink(/key/.test(path.basename(name)) ? key : certificate, file);
  }

  async end() {
    for (const place of [...this.servers.keys()]) await this.stop(place);
    this.shell.kill("SIGKILL");
    await this.shell.ended;
    await rm(this.folder, { recursive: true });
  }
}
