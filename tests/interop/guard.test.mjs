// The real client accepts the output of the gateway for any agent stream: every stream of the conformance cases
// (tests/spec/agui-client-cases.json: inputs with the verdict of @ag-ui/client 1.0.0) passes `diglot translate` and
// then the client itself. The client rejects most of these streams when they come straight from an agent.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import http from "node:http";
import { test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { bytes, conformanceCases } from "./support/recordings.mjs";
import { BINARY } from "./support/diglot.mjs";
import { hear, startBodies } from "./support/old-clients.mjs";

// Streams beyond the corpus, each of which got past the guard once.
const finish = (members) => [{ type: "RUN_FINISHED", threadId: "th", runId: "r", ...members }];
const subagent = (outcome) => [
  { type: "SUBAGENT_STARTED", subagentRunId: "s", name: "n" },
  { type: "SUBAGENT_FINISHED", subagentRunId: "s", outcome },
  ...finish(),
];
const interrupt = (members) => finish({ outcome: { type: "interrupt", interrupts: [{ id: "i", reason: "r", ...members }] } });
const MORE = {
  "content reopens a message under another owner": [
    { type: "TEXT_MESSAGE_START", messageId: "m", subagentRunId: "s1" },
    { type: "TEXT_MESSAGE_END", messageId: "m" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "x", subagentRunId: "s2" },
    ...finish(),
  ],
  "a token count that is a text": finish({ usage: [{ inputTokens: "3" }] }),
  "a model that is a number": finish({ usage: [{ model: 3 }] }),
  "pending calls that are numbers": finish({ outcome: { type: "success", pendingToolCallIds: [1] } }),
  "an interrupt's message that is a number": interrupt({ message: 5 }),
  "an interrupt's schema that is a text": interrupt({ responseSchema: "x" }),
  "a subagent's interrupts that are numbers": subagent({ type: "suspended", interruptIds: [1] }),
  "a step that another owner finishes": [
    { type: "STEP_STARTED", stepName: "s", subagentRunId: "a" },
    { type: "STEP_FINISHED", stepName: "s" },
    ...finish(),
  ],
  "a subagent of nobody": [
    { type: "SUBAGENT_STARTED", subagentRunId: "s", name: "n", parentSubagentRunId: "nobody" },
    { type: "SUBAGENT_FINISHED", subagentRunId: "s" },
    ...finish(),
  ],
  "an encrypted value of another owner": [
    { type: "REASONING_MESSAGE_START", messageId: "m", role: "reasoning", subagentRunId: "a" },
    { type: "REASONING_ENCRYPTED_VALUE", subtype: "message", entityId: "m", encryptedValue: "v", subagentRunId: "b" },
    { type: "REASONING_MESSAGE_END", messageId: "m" },
    ...finish(),
  ],
  "a call in the message of another owner, which was renamed": [
    { type: "REASONING_MESSAGE_CHUNK", messageId: "m", delta: "a" },
    { type: "TEXT_MESSAGE_START", messageId: "m", subagentRunId: "a" },
    { type: "TEXT_MESSAGE_END", messageId: "m" },
    { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: "m", subagentRunId: "b" },
    { type: "TOOL_CALL_END", toolCallId: "c" },
    ...finish(),
  ],
  "a snapshot whose assistant says parts": [
    { type: "MESSAGES_SNAPSHOT", messages: [{ id: "1", role: "assistant", content: [{ type: "text", text: "hi" }] }] },
    ...finish(),
  ],
  "a snapshot of odd values": [
    {
      type: "MESSAGES_SNAPSHOT",
      messages: [
        { id: "1", role: "assistant", name: {}, toolCalls: [1, { id: "c", function: { name: 5 } }] },
        { id: "2", role: "user", content: ["x", { type: "text" }], metadata: 7 },
        { id: "3", role: "tool", toolCallId: 4, content: { a: 1 }, error: [] },
        { id: "4", role: "activity", content: "x" },
        "none",
      ],
    },
    ...finish(),
  ],
  "a result whose content is no list of parts": [
    { type: "TOOL_CALL_RESULT", messageId: "m", toolCallId: "c", content: ["x"] },
    ...finish(),
  ],
  "a chunk of a subagent, then content of the agent itself": [
    { type: "TEXT_MESSAGE_CHUNK", messageId: "c", subagentRunId: "s2", delta: "a" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "c", delta: "b" },
    ...finish(),
  ],
  "a chunk of reasoning of a subagent, then its start by the agent itself": [
    { type: "REASONING_MESSAGE_CHUNK", messageId: "c", subagentRunId: "s2", delta: "a" },
    { type: "REASONING_MESSAGE_START", messageId: "c", role: "reasoning" },
    { type: "REASONING_MESSAGE_END", messageId: "c" },
    ...finish(),
  ],
  "a chunk of a call of a subagent, then its arguments by the agent itself": [
    { type: "TOOL_CALL_CHUNK", toolCallId: "c", toolCallName: "f", subagentRunId: "s2", delta: "{" },
    { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "}" },
    ...finish(),
  ],
  "a chunk without an id, after a start of the same call": [
    { type: "TOOL_CALL_CHUNK", toolCallId: "a", toolCallName: "f" },
    { type: "TOOL_CALL_START", toolCallId: "a", toolCallName: "f" },
    { type: "TOOL_CALL_CHUNK", delta: "{}" },
    ...finish(),
  ],
  "a span that is open at the end, under a text's id": [
    { type: "TEXT_MESSAGE_START", messageId: "m" },
    { type: "REASONING_START", messageId: "m" },
    { type: "REASONING_MESSAGE_START", messageId: "m", role: "reasoning" },
    ...finish(),
  ],
};

// Those which the client takes as they are, and once refused for what the guard made of them.
const SOUND = new Set([
  "a chunk of a subagent, then content of the agent itself",
  "a chunk of a call of a subagent, then its arguments by the agent itself",
]);

// Kinds of message under one id: what the client holds afterwards, guarded and raw, as role, id and content.
const COLLIDING = [
  { type: "RUN_STARTED", threadId: "th", runId: "r" },
  { type: "REASONING_START", messageId: "m" },
  { type: "REASONING_MESSAGE_START", messageId: "m", role: "reasoning" },
  { type: "REASONING_MESSAGE_CONTENT", messageId: "m", delta: "thought" },
  { type: "REASONING_MESSAGE_END", messageId: "m" },
  { type: "REASONING_END", messageId: "m" },
  { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "text" },
  { type: "TEXT_MESSAGE_END", messageId: "m" },
  { type: "ACTIVITY_SNAPSHOT", messageId: "m", activityType: "PLAN", content: { steps: [] } },
  { type: "ACTIVITY_DELTA", messageId: "m", activityType: "PLAN", patch: [{ op: "add", path: "/steps/-", value: 1 }] },
  { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: "m" },
  { type: "TOOL_CALL_END", toolCallId: "c" },
  { type: "TOOL_CALL_RESULT", messageId: "m", toolCallId: "c", content: "result" },
  // A client makes a message of its own for a call without a parent, called like the call.
  { type: "REASONING_MESSAGE_CHUNK", messageId: "d", delta: "more" },
  { type: "TOOL_CALL_START", toolCallId: "d", toolCallName: "g" },
  { type: "TOOL_CALL_END", toolCallId: "d" },
  ...finish(),
];
const TOLD_APART = [
  ["reasoning", "m", "thought"],
  ["assistant", "m:text", "text"],
  ["tool", "m:tool", "result"],
  ["activity", "m:activity", { steps: [1] }],
  ["reasoning", "d", "more"],
  ["assistant", "d:text", undefined],
];

/** Translates the stream with `diglot translate`, with ids as in a request. */
function guarded(it) {
  const args = ["translate", "--from", "ag-ui", "--to", "ag-ui", "--thread", "th", "--run", "r"];
  const { stdout, status, stderr } = spawnSync(BINARY, args, { input: bytes(it), maxBuffer: 64 << 20 });
  assert.ok(status === 0 || status === 1, `${it.id}: exit ${status}: ${stderr}`);
  return stdout;
}

/** Runs the real client on a body; gives its error, if it rejects. `seen` is given the client's messages. */
async function verdict(body, it, seen = () => {}) {
  const server = http.createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(body);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const agent = new HttpAgent({
    url: `http://127.0.0.1:${server.address().port}/`,
    threadId: "th",
    initialMessages: it.client?.messages ?? [],
    initialState: it.client?.state ?? {},
  });
  try {
    await agent.runAgent({ runId: "r" });
    seen(agent.messages);
    return undefined;
  } catch (error) {
    return String(error?.message ?? error);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("finds the diglot binary", () => {
  assert.match(execFileSync(BINARY, ["--version"], { encoding: "utf8" }), /^diglot /);
});

test("the client accepts every conformance stream after the run guard", async () => {
  assert.ok(conformanceCases.length > 140, `only ${conformanceCases.length} streams`);
  const quiet = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  const rejected = [];
  try {
    for (const it of conformanceCases) {
      const error = await verdict(guarded(it), it);
      if (error) rejected.push(`${it.id}: ${error.slice(0, 200)}`);
    }
  } finally {
    Object.assign(console, quiet);
  }
  assert.deepEqual(rejected, []);
});

test("the client accepts guarded streams that once slipped through the guard", async () => {
  const quiet = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  try {
    for (const [id, events] of Object.entries(MORE)) {
      const it = { id, stream: [{ type: "RUN_STARTED", threadId: "th", runId: "r" }, ...events] };
      assert.equal((await verdict(bytes(it), it)) === undefined, SOUND.has(id), `${id}: raw`);
      assert.equal(await verdict(guarded(it), it), undefined, id);
    }
  } finally {
    Object.assign(console, quiet);
  }
});

test("separates messages that share an id and restores the agent's ids in the next request", async () => {
  const quiet = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  const it = { id: "collision", stream: COLLIDING };
  let [messages, merged] = [];
  try {
    assert.equal(await verdict(guarded(it), it, (all) => (messages = all)), undefined);
    assert.equal(await verdict(bytes(it), it, (all) => (merged = all)), undefined);
  } finally {
    Object.assign(console, quiet);
  }
  assert.ok(merged.length < TOLD_APART.length, `raw, the client holds ${merged.length} messages`);
  const plain = (all) => all.map(({ role, id, content }) => [role, id, content]);
  assert.deepEqual(plain(messages).sort(), [...TOLD_APART].sort());
  const args = ["translate", "--request", "--from", "ag-ui", "--to", "ag-ui", "--thread", "th", "--run", "r"];
  const body = JSON.stringify({ threadId: "th", runId: "r2", messages });
  const { stdout, status, stderr } = spawnSync(BINARY, args, { input: body, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  const said = JSON.parse(stdout).messages;
  assert.deepEqual(said.map(({ id }) => id), messages.map(({ id }) => id.replace(/:.*/, "")));
  assert.ok(!stdout.includes("diglot"), stdout);
});

test("the client rejects the bad conformance streams without the guard", async () => {
  const quiet = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  try {
    const bad = conformanceCases.filter((it) => it.stream && it.expect?.verdict === "rejected").slice(0, 10);
    for (const it of bad) assert.ok(await verdict(bytes(it), it), it.id);
  } finally {
    Object.assign(console, quiet);
  }
});

// Snapshots that lack an item which is open: its start and first piece, its other events, and the loss of its kind. "absent ids
// dropped, except local … reasoning (unless it carries any reasoning)" (specs/ag-ui-1.0.md §3.4).
const USER = { id: "u", role: "user", content: "hi" };
const THOUGHT = { id: "k0", role: "reasoning", content: "old" };
const thought = (type, members) => ({ type: `REASONING_${type}`, messageId: "k", ...members });
const OPEN_ITEMS = {
  text: {
    head: [{ type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "one " }],
    tail: [{ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "two" }, { type: "TEXT_MESSAGE_END", messageId: "m" }],
    lost: [[[USER], "text_not_shown 1"], [[USER, { id: "m", role: "assistant", content: "one " }], "nothing"]],
  },
  call: {
    head: [{ type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f" }, { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "one " }],
    tail: [{ type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "two" }, { type: "TOOL_CALL_END", toolCallId: "c" }],
    lost: [
      [[USER], "event_not_shown 1"],
      [[USER, { id: "c", role: "assistant", toolCalls: [{ id: "c", type: "function", function: { name: "f", arguments: "one " } }] }], "nothing"],
    ],
  },
  thought: {
    head: [thought("START"), thought("MESSAGE_START", { role: "reasoning" }), thought("MESSAGE_CONTENT", { delta: "one " })],
    tail: [thought("MESSAGE_CONTENT", { delta: "two" }), thought("MESSAGE_END"), thought("END")],
    lost: [[[USER], "nothing"], [[USER, THOUGHT], "reasoning_not_shown 1"]],
  },
};

test("counts the open items that a client drops with a snapshot, and those alone", async () => {
  const quiet = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  const bodies = await startBodies();
  try {
    for (const [kind, { head, tail, lost }] of Object.entries(OPEN_ITEMS)) {
      for (const [messages, expected] of lost) {
        const stream = [{ type: "RUN_STARTED", threadId: "th", runId: "r" }, ...head, { type: "MESSAGES_SNAPSHOT", messages }, ...tail, ...finish()];
        const input = bytes({ stream });
        const args = ["translate", "--from", "ag-ui", "--to", "ag-ui", "--thread", "th", "--run", "r", "--explain"];
        const { stdout, stderr } = spawnSync(BINARY, args, { input, encoding: "utf8" });
        assert.match(stderr, new RegExp(`lost: ${expected}$`, "m"), `${kind}: ${stderr}`);
        // 0.0.53 keeps reasoning also beside that of a snapshot.
        for (const version of kind === "thought" ? ["1.0.0"] : ["1.0.0", "0.0.53"]) {
          const [raw, own] = [await hear(version, bodies.add(input)), await hear(version, bodies.add(stdout))];
          assert.deepEqual(own.messages, raw.messages, `${kind} ${version}`);
          assert.equal(JSON.stringify(own.messages).includes("one two"), expected === "nothing", `${kind} ${version}`);
        }
      }
    }
  } finally {
    Object.assign(console, quiet);
    bodies.stop();
  }
});
