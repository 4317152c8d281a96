// Runs the blocks of a page, with one function for each language.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { difference } from "./match.mjs";
import { isServer } from "./session.mjs";

/** Keys of the top level of a configuration; what a fragment has besides belongs to a route. */
const TOP = ["listeners", "trusted_proxies", "auth", "rate_limits", "redis", "limits", "keep_alive", "drain_grace", "drain_timeout",
  "upgrade_timeout", "run_dir", "replay", "dialects", "dialect_files", "routes"];

/** Defaults that complete a fragment of a configuration. */
const ROUTE = { path: "/agents/chat", client: "ag-ui", agent: "hai", upstream: "http://127.0.0.1:9001/chat" };
const REST = {
  auth: "{issuers: [{name: corp, issuer: https://login.example.com, audience: diglot, tenant_claim: tenant}]}",
  rate_limits: "[{name: per-caller, requests: 60, per: 1m}]",
};

/** Patterns of fragments that need one of these. */
const SPEAKS_OF = { auth: /^require:/m, rate_limits: /^rate_limits:/m };

function agree(expected, actual, what) {
  const off = difference(expected.join("\n"), actual);
  if (off) assert.fail(`${what}: ${off}`);
}

const keysOf = (lines) => lines.flatMap((line) => /^(\w+):/.exec(line)?.[1] ?? []);
const missing = (defaults, keys) => Object.entries(defaults).filter(([key]) => !keys.includes(key)).map(([key, value]) => `${key}: ${value}`);

/** A configuration from a fragment: one of a route gets the rest of it, one without routes gets one. */
export function whole(written) {
  const depth = Math.min(...written.filter((line) => line.trim() !== "").map((line) => line.search(/\S/)));
  const lines = written.map((line) => line.slice(depth));
  const [keys, text] = [keysOf(lines), lines.join("\n")];
  if (keys.includes("routes")) return text;
  const rest = Object.fromEntries(Object.entries(REST).filter(([key]) => SPEAKS_OF[key].test(text)));
  const indented = (all) => all.map((line) => `    ${line}`);
  if (keys.some((key) => TOP.includes(key))) return [...lines, "routes:", "  -", ...indented(missing(ROUTE, []))].join("\n");
  return [...missing(rest, []), "routes:", "  -", ...indented([...missing(ROUTE, keys), ...lines])].join("\n");
}

/** The default ports in so many words, since here they are others. */
function onOwnPorts(text) {
  const [data, status] = ['  data: "127.0.0.1:8787"\n', '  status: "127.0.0.1:8788"\n'];
  if (!/^listeners:/m.test(text)) return `${text}\nlisteners:\n${data}${status}`;
  return /^ +status:/m.test(text) ? text : text.replace(/^listeners:\n/m, `$&${status}`);
}

/** The commands of a script, a line each; one that ends in `\` goes on, and so does a here-document. */
export function commandsOf(lines) {
  const commands = [];
  let until;
  let open = false;
  for (const line of lines) {
    if (until || open) commands[commands.length - 1] += `\n${line}`;
    else if (line.trim() !== "" && !line.startsWith("#")) commands.push(line);
    else continue;
    if (until) until = line === until ? undefined : until;
    else until = /<<-?\s*'?(\w+)'?/.exec(line)?.[1];
    open = !until && line.endsWith("\\");
  }
  return commands;
}

/** The commands of a `console` block, each with what it prints. */
function dialogue(lines) {
  const turns = [];
  for (const line of lines) {
    if (line.startsWith("$ ")) turns.push({ command: line.slice(2), expected: [] });
    else if (turns.length === 0) throw new Error(`output before the first command: ${line}`);
    else if (turns.at(-1).command.endsWith("\\") && turns.at(-1).expected.length === 0) turns.at(-1).command += `\n${line}`;
    else turns.at(-1).expected.push(line);
  }
  return turns;
}

async function execute(session, text) {
  // Commands that a reader runs in the background, or in another terminal.
  const command = text.replace(/\s+#.*$/, "").replace(/\s*&$/, "");
  return isServer(command) ? session.serve(await ofOwn(session, command)) : session.command(text);
}

/** A command with a copy of the configuration that ships, on the ports here. */
async function ofOwn(session, command) {
  const shipped = /config\/examples\/[\w-]+\.yaml/.exec(command)?.[0];
  if (!shipped) return command;
  const text = await readFile(path.join(session.folder, shipped), "utf8");
  await session.write("shipped.yaml", onOwnPorts(text.replaceAll("../dialects/", "config/dialects/")));
  return command.replace(shipped, "shipped.yaml");
}

async function console_(session, { lines }) {
  for (const { command, expected } of dialogue(lines)) {
    // A recording is made from what the page prints of it.
    const shown = /^cat ([\w.-]+)$/.exec(command)?.[1];
    if (shown && !existsSync(path.join(session.folder, shown))) await session.write(shown, `${expected.join("\n").trimEnd()}\n`);
    const { code, output } = await execute(session, command);
    if (expected.join("").trim() === "") assert.ok(code === 0, `${command}: ${code}\n${output}`);
    else agree(expected, output, command);
    session.output = output;
  }
}

async function sh(session, { lines }) {
  session.output = "";
  for (const command of commandsOf(lines)) {
    const { code, output } = await execute(session, command);
    assert.ok(code === 0, `${command}: ${code}\n${output}`);
    if (!isServer(command)) session.output += output;
  }
}

/** A dialect file, whose own examples have to pass. */
async function testDialect(session, name, lines) {
  await session.write(name, `${lines.join("\n")}\n`);
  const { code, output } = await session.command(`diglot check --test ${name}`);
  assert.ok(code === 0, output);
}

async function yaml(session, { lines, file }) {
  const name = file ?? /^# ([\w-]+\.yaml)$/.exec(lines[0])?.[1] ?? "fragment.yaml";
  for (const [, found] of lines.join("\n").matchAll(/\b(?:cert|key|ca|client_ca|\w+_file): "?([\w./-]+)/g)) await session.provide(found);
  if (lines.some((line) => line.includes("keys.yaml"))) await session.command("test -e keys.yaml || echo 'keys: []' > keys.yaml");
  if (lines.includes("events:") && !lines.includes("routes:")) return testDialect(session, name, lines);
  const text = whole(lines);
  await session.write(name, onOwnPorts(text));
  const { code, output } = await session.command(`diglot check ${name}`);
  assert.ok(code === 0, `${output}\n${text}`);
}

/** Runs a program: it prints the following block of text, or it is a server and continues. */
const program = (suffix, interpreter) => async (session, { lines, file, line, runsOn }) => {
  const source = `${lines.join("\n")}\n`;
  const project = source.includes('"@copilotkit/') ? "copilotkit/" : "";
  const name = project + (file ?? `block-${line}.${suffix}`);
  await session.write(name, source);
  if (runsOn) return void (await session.serve(`${interpreter} ${name}`));
  const { code, output } = await session.command(`${interpreter} ${name}`);
  assert.ok(code === 0, output);
  session.output = output;
};

/** Compares the output of the previous block. */
async function text(session, { lines }) {
  assert.ok(session.output !== undefined, "no block before this one prints anything");
  agree(lines, session.output, "the block before");
}

const LANGUAGES = { console: console_, sh, yaml, js: program("mjs", "node"), python: program("py", "python3"), text };

/** Runs one block. */
export async function run(session, block) {
  const how = LANGUAGES[block.language];
  assert.ok(how, `nobody runs blocks of ${block.language || "no language"}; there are: ${Object.keys(LANGUAGES).join(", ")}`);
  if (block.given) await execute(session, block.given);
  await how(session, block);
}
