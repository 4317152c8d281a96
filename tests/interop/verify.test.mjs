// `diglot verify` gives the verdict of the real client: for every plain stream of the conformance cases, and for
// generated streams. If the two differ, the test names the stream and both verdicts.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { BINARY } from "./support/diglot.mjs";
import { framed, generator, LEGAL, mutated, walked } from "./support/streams.mjs";

const { cases } = JSON.parse(readFileSync(process.env.DIGLOT_CASES ?? new URL("../spec/agui-client-cases.json", import.meta.url)));
const SEED = Number(process.env.DIGLOT_SEED ?? 1);
const COUNT = Number(process.env.DIGLOT_STREAMS ?? 300);

// The verdict depends on data outside the stream: the status, the media type of the protobuf transport, the socket, the
// request.
const isPlain = (it) =>
  !it.status && !it.redirect && !it.client?.pending && !it.abortAfter && !["http", "proto"].includes(it.area) &&
  !(it.raw ?? []).some((chunk) => chunk.destroy);

const bytes = (it) =>
  it.raw
    ? Buffer.concat(it.raw.map((chunk) => {
        if (typeof chunk === "string") return Buffer.from(chunk);
        if (chunk.b64 !== undefined) return Buffer.from(chunk.b64, "base64");
        return Buffer.from(chunk.rep === undefined ? "" : chunk.rep.repeat(chunk.n));
      }))
    : sse(it.stream ?? []);

/** Runs `diglot verify`; returns whether the stream is accepted, and the report. */
function verified(body, dialect = "ag-ui") {
  const { status, stdout, stderr } = spawnSync(BINARY, ["verify", "--dialect", dialect, "-"], { input: body, encoding: "utf8", maxBuffer: 64 << 20 });
  assert.ok(status === 0 || status === 1, `exit ${status}: ${stderr}`);
  const accepted = /: (accepted|nothing to verify): \d+ events?, [^\n]*\n$/.test(stdout);
  // Without an event the client ends the run silently; `verify` reports it, with a failing exit code.
  assert.equal(status === 0, accepted && !/: nothing to verify: /.test(stdout), stdout);
  return { accepted, report: stdout };
}

/** Runs the real client; returns its error if it rejects. */
async function rejected(body) {
  const fetch = async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const agent = new HttpAgent({ url: "http://in.process/", threadId: "th", fetch });
  try {
    await agent.runAgent({ runId: "r" });
    return undefined;
  } catch (error) {
    return String(error?.message ?? error);
  }
}

/** Runs `inner` with the client's warnings kept to itself. */
async function quietly(inner) {
  const said = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  try {
    await inner();
  } finally {
    Object.assign(console, said);
  }
}

test("gives the client's verdict on every plain conformance stream", () => {
  const plain = cases.filter(isPlain);
  assert.ok(plain.length > 140, `only ${plain.length} streams`);
  const different = [];
  for (const it of plain) {
    const { accepted, report } = verified(bytes(it));
    if (accepted !== (it.expect.verdict === "accepted")) different.push(`${it.id}: the client ${it.expect.verdict} it (${it.observed?.error ?? ""})\n${report}`);
  }
  assert.deepEqual(different, []);
});

const sse = (events) => Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));

test("finds no violation in legal streams, which the client accepts", () =>
  quietly(async () => {
    for (const events of LEGAL) {
      const body = sse(events);
      assert.equal(await rejected(body), undefined);
      const { accepted, report } = verified(body);
      assert.ok(accepted, report);
    }
  }));

test(`gives the client's verdict on ${COUNT} random streams (seed ${SEED})`, () =>
  quietly(async () => {
    const random = generator(SEED);
    const different = [];
    let bad = 0;
    for (let at = 0; at < COUNT; at++) {
      const body = framed(random, mutated(random));
      const error = await rejected(body);
      const { accepted, report } = verified(body);
      bad += error ? 1 : 0;
      if (accepted !== !error) different.push(`${at}: the client says ${error ?? "nothing"}\n${report}\n${body}`);
    }
    assert.deepEqual(different, []);
    assert.ok(bad > COUNT / 4 && bad < (COUNT * 9) / 10, `${bad} of ${COUNT} are rejected`);
  }));

test("gives the client's verdict on random walks along the order and ownership rules", () =>
  quietly(async () => {
    const random = generator(SEED);
    const accepts = async (events) => !(await rejected(sse(events)));
    const different = [];
    for (let at = 0; at < COUNT / 5; at++) {
      for (const [index, events] of (await walked(random, accepts)).entries()) {
        const { accepted, report } = verified(sse(events));
        if (accepted !== (index === 0)) different.push(`${at}: the client says ${await rejected(sse(events))}\n${report}\n${sse(events)}`);
      }
    }
    assert.deepEqual(different, []);
  }));
