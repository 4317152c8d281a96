// The protobuf transport against the real packages: the bytes of `diglot translate --format proto` are those of
// @ag-ui/proto's encoder for the same event, either decoder reads either's bytes, and the real client runs on them.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { AGUI_MEDIA_TYPE, EventEncoder } from "@ag-ui/encoder";
import { decode } from "@ag-ui/proto";
import { newClient, plain, runOnce } from "./support/ag-ui-client.mjs";
import { EVENTS } from "./support/corpus.mjs";
import { BINARY, startAgent, startGateway } from "./support/diglot.mjs";

const { cases } = JSON.parse(readFileSync(new URL("../spec/agui-client-cases.json", import.meta.url)));
const encoder = new EventEncoder({ accept: AGUI_MEDIA_TYPE });

// The encoder warns of events that it does not validate; what it writes is all that counts here.
process.env.SUPPRESS_TRANSFORMATION_WARNINGS = "1";
console.warn = () => {};

const START = { type: "RUN_STARTED", threadId: "th", runId: "r" };
const FINISH = { type: "RUN_FINISHED", threadId: "th", runId: "r" };

const sse = (events) => Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
const plainJson = (value) => JSON.parse(JSON.stringify(value));

/** Translates a body with `diglot translate`. */
function translate(input, ...options) {
  const args = ["translate", "--from", "ag-ui", "--to", "ag-ui", ...options];
  const { stdout, status, stderr } = spawnSync(BINARY, args, { input, maxBuffer: 256 << 20 });
  assert.ok(status === 0 || status === 1, `exit ${status}: ${stderr}`);
  return stdout;
}

/** The events of what `diglot translate` makes of a body, each as its text. */
const lines = (input, ...options) => {
  const text = translate(input, "--format", "ndjson", ...options).toString();
  return text.split("\n").filter(Boolean);
};

/** The messages of a body of frames. */
function messages(body) {
  const all = [];
  for (let at = 0; at < body.length; ) {
    const length = body.readUInt32BE(at);
    all.push(body.subarray(at + 4, at + 4 + length));
    assert.equal(all.at(-1).length, length, "a cut frame");
    at += 4 + length;
  }
  return all;
}

/** The metadata of an event without what Diglot carries there, and that. */
function carried(event) {
  const { diglot, ...metadata } = event.metadata ?? {};
  const { json, ...own } = diglot ?? {};
  if (json === undefined) return { event };
  const rest = Object.keys(own).length > 0 ? { ...metadata, diglot: own } : metadata;
  const { metadata: _, ...others } = event;
  return { event: Object.keys(rest).length > 0 ? { ...others, metadata: rest } : others, json };
}

/** The frame of the real encoder; nothing for what it refuses, such as an operation of a patch that it does not know. */
function realFrame(event) {
  try {
    return Buffer.from(encoder.encodeBinary(event));
  } catch {
    return undefined;
  }
}

const MEDIA = new Set(["image", "audio", "video", "document"]);

/** Holds one stream in both forms against the real packages; returns how many events took which way. */
function compare(body, what) {
  const said = lines(body).map((line) => JSON.parse(line));
  const ours = translate(body, "--format", "proto");
  const frames = messages(ours);
  assert.equal(frames.length, said.length, what);
  const count = { same: 0, carried: 0 };
  const theirs = said.map((event, at) => {
    const where = `${what}, event ${at}: ${JSON.stringify(event).slice(0, 2000)}`;
    const real = realFrame(event);
    if (real === undefined) {
      // Not a word of it, so all of it is carried.
      assert.deepEqual(JSON.parse(carried(plainJson(decode(frames[at]))).json), event, where);
      return undefined;
    }
    const [message] = messages(real);
    if (frames[at].equals(message)) {
      count.same += 1;
      assert.deepEqual(plainJson(decode(frames[at])), plainJson(decode(message)), where);
    } else {
      // Values that the real encoding loses are carried; the rest equals the output of the real encoder.
      const { event: rest, json } = carried(plainJson(decode(frames[at])));
      assert.ok(json, `other bytes, and nothing carried\nours   ${frames[at].toString("hex")}\ntheirs ${message.toString("hex")}\n${where}`);
      count.carried += 1;
      assert.deepEqual(JSON.parse(json), event, where);
      const { metadata, ...expected } = plainJson(decode(message));
      // The client rejects a run with a part that has no source, which is what the real encoder makes of a source type that
      // it does not know. The gateway leaves the part out.
      if (Array.isArray(expected.content)) expected.content = expected.content.filter((part) => !MEDIA.has(part.type) || part.source);
      const { metadata: kept, ...got } = rest;
      assert.deepEqual(got, expected, where);
      assert.deepEqual(kept ?? {}, metadata ?? {}, where);
    }
    return real;
  });
  // Our decoder of our bytes: the very events. Of theirs: what their own decoder makes of them.
  assert.deepEqual(lines(ours).map((line) => JSON.parse(line)), said, what);
  if (theirs.includes(undefined)) return { count, said };
  const back = messages(Buffer.concat(theirs)).map((message) => plainJson(decode(message)));
  const heard = lines(Buffer.concat(theirs), "--input", "proto").map((line) => JSON.parse(line));
  return { count, said, back, heard };
}

// Ids of their own keep the run guard from taking one event for the continuation of another.
const IDS = ["messageId", "toolCallId", "stepName", "subagentRunId"];
const own = (event, at) => {
  const renamed = Object.fromEntries(IDS.filter((id) => event[id] !== undefined).map((id) => [id, `${event[id]}-${at}`]));
  return { ...event, ...renamed };
};

/**
 * Returns the events that must precede an event, so that the run guard passes it: its item is open, its parent is
 * known.
 */
function before(event) {
  const { type, messageId, toolCallId, stepName, subagentRunId, parentSubagentRunId } = event;
  const subagent = (id) => ({ type: "SUBAGENT_STARTED", subagentRunId: id, name: "n" });
  const owner = subagentRunId === undefined ? {} : { subagentRunId };
  switch (type) {
    case "TEXT_MESSAGE_END":
      return [{ type: "TEXT_MESSAGE_START", messageId, role: "user", ...owner }];
    case "TOOL_CALL_END":
      return [{ type: "TOOL_CALL_START", toolCallId, toolCallName: "n", ...owner }];
    case "STEP_FINISHED":
      return [{ type: "STEP_STARTED", stepName, ...owner }];
    case "REASONING_END":
      return [{ type: "REASONING_START", messageId, ...owner }];
    case "REASONING_MESSAGE_END":
      return [{ type: "REASONING_START", messageId, ...owner }, { type: "REASONING_MESSAGE_START", messageId, role: "reasoning", ...owner }];
    case "SUBAGENT_STARTED":
      return parentSubagentRunId === undefined ? [] : [subagent(parentSubagentRunId)];
    case "SUBAGENT_FINISHED":
    case "SUBAGENT_ERROR":
      return [subagent(subagentRunId)];
    default:
      return [];
  }
}

test("encodes every event of the schema to the bytes of the reference encoder", () => {
  const total = { same: 0, carried: 0 };
  const left = new Set();
  const take = (stream, what) => {
    const { count, said, back, heard } = compare(sse(stream), what);
    total.same += count.same;
    total.carried += count.carried;
    for (const event of said) left.add(JSON.stringify(event));
    assert.deepEqual(heard, back, what);
  };
  const types = new Set(EVENTS.map((event) => event.type));
  for (const type of types) {
    const events = EVENTS.map(own).filter((event) => event.type === type);
    if (type === "RUN_STARTED") events.forEach((event) => take([event, { ...FINISH, threadId: event.threadId, runId: event.runId }], type));
    else if (type === "RUN_FINISHED" || type === "RUN_ERROR") events.forEach((event) => take([{ ...START, threadId: event.threadId ?? "th", runId: event.runId ?? "r" }, event], type));
    else take([START, ...events.flatMap((event) => [...before(event), event]), FINISH], type);
  }
  // Most of them stay unchanged: the guard closes and opens items, and repairs little.
  const whole = EVENTS.map(own).filter((event) => left.has(JSON.stringify(event)));

  assert.ok(whole.length > EVENTS.length * 0.95, `${whole.length} of ${EVENTS.length}`);
  for (const type of types) assert.ok(whole.some((event) => event.type === type), type);
  assert.ok(total.same > total.carried, JSON.stringify(total));
});

const bytes = (it) =>
  it.raw
    ? Buffer.concat(it.raw.map((chunk) => {
        if (typeof chunk === "string") return Buffer.from(chunk);
        if (chunk.b64 !== undefined) return Buffer.from(chunk.b64, "base64");
        return Buffer.from(chunk.rep === undefined ? "" : chunk.rep.repeat(chunk.n));
      }))
    : sse(it.stream ?? []);

test("encodes every conformance stream to the bytes of the reference encoder", () => {
  const streams = cases.filter((it) => !it.status && !it.headers && !it.redirect && !["http", "proto"].includes(it.area));
  assert.ok(streams.length > 140, `only ${streams.length} streams`);
  for (const it of streams) compare(bytes(it), it.id);
});

test("differs only in map order, where JavaScript puts numeric names first", () => {
  const text = '{"type":"CUSTOM","name":"n","value":{"b":1,"10":{"c":[],"2":true}}}';
  const body = Buffer.from(sse([START]) + `data: ${text}\n\n` + sse([FINISH]));
  const ours = messages(translate(body, "--format", "proto"))[1];
  const [theirs] = messages(Buffer.from(encoder.encodeBinary(JSON.parse(text))));
  assert.ok(!ours.equals(theirs) && ours.length === theirs.length);
  assert.deepEqual(plainJson(decode(ours)), plainJson(decode(theirs)));
  const said = lines(translate(body, "--format", "proto"))[1];
  assert.equal(said, text);
});

/** Serves `body` once as `type`, and gives the address. */
async function serve(body, type, seen = () => {}) {
  const server = http.createServer((request, response) => {
    seen(request);
    request.resume();
    response.writeHead(200, { "content-type": type });
    response.end(body);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A client that asks for protobuf the way its application can: a header, to which it adds its own. */
const asking = (url, seen) =>
  new HttpAgent({
    url,
    threadId: "th",
    headers: { accept: AGUI_MEDIA_TYPE },
    fetch: async (...request) => {
      const response = await fetch(...request);
      seen(response.headers.get("content-type"));
      return response;
    },
  });

test("serves protobuf to the AG-UI client that asks for it", async () => {
  const agent = await startAgent("ag-ui", 1);
  const gateway = await startGateway({ client: "ag-ui", agent: "ag-ui", upstream: agent.url });
  try {
    const types = [];
    const binary = newClient(gateway.url);
    Object.assign(binary, { headers: { accept: AGUI_MEDIA_TYPE }, fetch: asking(gateway.url, (type) => types.push(type)).fetch });
    const text = newClient(gateway.url);
    const [over, under] = [await runOnce(binary, "run-1"), await runOnce(text, "run-1")];
    assert.deepEqual(types, [AGUI_MEDIA_TYPE]);
    assert.deepEqual(over.warnings, []);
    assert.deepEqual(over.types, under.types);
    assert.ok(over.types.includes("TOOL_CALL_ARGS") && over.types.at(-1) === "RUN_FINISHED", over.types.join());
    assert.deepEqual(plain(binary.messages), plain(text.messages));
    assert.deepEqual(binary.state, text.state);
  } finally {
    await gateway.stop();
    await agent.stop();
  }
});

test("sends RUN_ERROR in protobuf when the agent dies", async () => {
  const upstream = await serve(sse([START, { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" }]), "text/event-stream");
  const gateway = await startGateway({ client: "ag-ui", agent: "ag-ui", upstream: upstream.url });
  try {
    const types = [];
    const { errors, types: events } = await runOnce(asking(gateway.url, (type) => types.push(type)), "r");
    assert.deepEqual([types, events.at(-1)], [[AGUI_MEDIA_TYPE], "RUN_ERROR"]);
    assert.equal(errors[0].code, "upstream_truncated");
  } finally {
    await gateway.stop();
    upstream.stop();
  }
});

test("reads protobuf from an agent without asking for it", async () => {
  for (const it of cases.filter((it) => it.area === "proto")) {
    let accept;
    const upstream = await serve(bytes(it), AGUI_MEDIA_TYPE, (request) => (accept = request.headers.accept));
    const gateway = await startGateway({ client: "ag-ui", agent: "ag-ui", upstream: upstream.url });
    try {
      for (const headers of [{}, { accept: AGUI_MEDIA_TYPE }]) {
        const agent = Object.assign(asking(gateway.url, () => {}), { headers });
        const { types } = await runOnce(agent, "r");
        assert.match(types.at(-1), /^RUN_(FINISHED|ERROR)$/, it.id);
        if (/^proto-(ok|split|content)/.test(it.id)) {
          assert.deepEqual([types.length, types.at(-1)], [5, "RUN_FINISHED"], it.id);
          assert.deepEqual(agent.messages.map(({ content }) => content), ["中文"], it.id);
        }
        if (it.id === "proto-sse-body") assert.deepEqual(types, ["RUN_ERROR"], it.id);
        if (/unknown-arm|garbage/.test(it.id)) assert.deepEqual(types, ["RUN_STARTED", "RAW", "RUN_FINISHED"], it.id);
      }
      assert.equal(accept, "text/event-stream", it.id);
    } finally {
      await gateway.stop();
      upstream.stop();
    }
  }
});
