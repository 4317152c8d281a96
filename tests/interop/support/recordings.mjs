// Every stream and request that the repository has for its tests, as an agent or a client would send it, and its
// translation by `diglot translate`.
//
// Streams are the golden cases (tests/golden/stream/<agent>-to-<client>/<case>/input.sse, the agent's dialect in the
// folder's name) and the conformance cases of AG-UI (tests/spec/agui-client-cases.json), most of which the real client
// rejects without repairs.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { BINARY } from "./diglot.mjs";

const GOLDEN = new URL("../../golden/", import.meta.url);
const { cases } = JSON.parse(readFileSync(new URL("../../spec/agui-client-cases.json", import.meta.url)));

// The client refuses to send the request at all: no stream can repair that.
const BEFORE_THE_REQUEST = new Set(["pending-interrupt-uncovered", "pending-interrupt-expired-resolved"]);

/** Returns whether a conformance case is an event stream, without HTTP or the protobuf transport. */
const isStream = (it) =>
  !it.status && !it.headers && !it.redirect && !["http", "proto"].includes(it.area) && !BEFORE_THE_REQUEST.has(it.id);

/** The conformance cases that are event streams, as in the file. */
export const conformanceCases = cases.filter(isStream);

/** The body of a conformance case. */
export const bytes = (it) =>
  it.raw
    ? Buffer.concat(it.raw.map((chunk) => {
        if (typeof chunk === "string") return Buffer.from(chunk);
        if (chunk.b64 !== undefined) return Buffer.from(chunk.b64, "base64");
        return Buffer.from(chunk.rep === undefined ? "" : chunk.rep.repeat(chunk.n));
      }))
    : Buffer.from((it.stream ?? []).map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));

/** A golden folder's name for a side (`hai.blocks`, `ag-ui-0.pin=0-0-45`) as the command line spells it (`hai:blocks`, …). */
function sideOf(name) {
  const [dialect, ...options] = name.split(".");
  const spelled = options.map((option) => option.replace(/=.*/, (version) => version.replaceAll("-", ".")));
  return spelled.length > 0 ? `${dialect}:${spelled.join(",")}` : dialect;
}

/** The cases of `kind` as [name, side of the sender, input]. */
function goldenInputs(kind, file) {
  const root = new URL(`${kind}/`, GOLDEN);
  return readdirSync(root).flatMap((pair) =>
    readdirSync(new URL(`${pair}/`, root))
      .map((name) => ({ name: `${pair}/${name}`, input: new URL(`${pair}/${name}/${file}`, root) }))
      .filter(({ input }) => existsSync(input))
      .map(({ name, input }) => ({ name, from: sideOf(pair.slice(0, pair.indexOf("-to-"))), input: readFileSync(input) })),
  );
}

/** The conformance cases as an agent of dialect `from` would send them: `{name, from, input, client}`. */
export const conformanceStreams = (from) =>
  conformanceCases.map((it) => ({ name: `conformance/${it.id}`, from, input: bytes(it), client: it.client }));

/** Every stream that the corpus has an agent send: `{name, from, input, client}`. */
export const agentStreams = () => [...goldenInputs("stream", "input.sse"), ...conformanceStreams("ag-ui")];

/** Every request that a client may send: `{name, from, input}`. */
export const clientRequests = () => goldenInputs("request", "input.json");

/** The requests that the golden cases expect an agent of dialect `to` to get: `{name, text}`; without refusals. */
export const expectedRequests = (to) =>
  goldenInputs("request", "expected.json")
    .filter(({ name }) => name.split("/")[0].endsWith(`-to-${to}`))
    .map(({ name, input }) => ({ name, text: input.toString() }))
    .filter(({ text }) => !text.startsWith('"refused'));

/** Values that stand in for the right one in `faultyRequests`. */
const WRONG = [null, 7, true, "字", [], {}, { a: 1 }, ["x"], [null], [{ type: "text", text: "t" }], [{ type: "image" }], [{ type: "later" }]];

/** Every path into a JSON value, as a list of keys. */
function* pathsOf(value, path = []) {
  for (const [key, inner] of Object.entries(value !== null && typeof value === "object" ? value : {})) {
    yield [...path, key];
    yield* pathsOf(inner, [...path, key]);
  }
}

/** A copy of `request` without the member at `path`, or with another value there. */
function withFault(request, path, ...wrong) {
  const copy = structuredClone(request);
  const owner = path.slice(0, -1).reduce((value, key) => value[key], copy);
  if (wrong.length > 0) owner[path.at(-1)] = wrong[0];
  else delete owner[path.at(-1)];
  return copy;
}

/** Requests of the golden cases, each with one fault, a different one each time: `{name, from, input}`. */
export const faultyRequests = (count) => {
  const all = clientRequests().flatMap(({ name, from, input }) => {
    const request = JSON.parse(input);
    return [...pathsOf(request)].map((path) => ({ name: `${name} /${path.join("/")}`, from, request, path }));
  });
  const step = Math.max(1, Math.floor(all.length / count));
  return all
    .filter((_, at) => at % step === 0)
    .map(({ name, from, request, path }, at) => {
      const wrong = at % (WRONG.length + 1) === WRONG.length ? [] : [WRONG[at % (WRONG.length + 1)]];
      return { name: `${name} = ${JSON.stringify(wrong[0])}`, from, input: JSON.stringify(withFault(request, path, ...wrong)) };
    });
};

/**
 * Runs `diglot translate`. A stream that the agent cut short ends in RUN_ERROR and exit code 1, which is fine here; of a
 * request that the gateway refuses (exit code 1 and no output) nothing leaves, so the answer is undefined.
 */
export async function translate({ from, to, input, request = false }) {
  const args = ["translate", "--from", from, "--to", to, "--thread", "th", "--run", "r", ...(request ? ["--request"] : [])];
  const child = spawn(BINARY, args, { stdio: "pipe" });
  const collect = async (stream) => {
    const pieces = [];
    for await (const piece of stream) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  };
  child.stdin.on("error", () => {}); // It may stop reading early.
  child.stdin.end(input);
  const [output, said, code] = await Promise.all([
    collect(child.stdout),
    collect(child.stderr),
    new Promise((resolve, reject) => child.on("error", reject).on("close", resolve)),
  ]);
  const refused = request && code === 1 && output === "";
  assert.ok(code === 0 || (code === 1 && output !== "") || refused, `diglot ${args.join(" ")}: exit ${code}: ${said}`);
  return refused ? undefined : output;
}

/** The JSON texts of the events in an SSE body: what the data lines of each frame make together. */
export const eventTexts = (body) =>
  body
    .split("\n\n")
    .map((frame) => frame.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length)).join("\n"))
    .filter((text) => text !== "");

/** `work` for every item, a few at a time; the results in the order of the items. */
export async function inParallel(items, work) {
  const results = new Array(items.length);
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at]);
  };
  await Promise.all(Array.from({ length: 2 * availableParallelism() }, worker));
  return results;
}
