// Every published client accepts the output of the gateway for any agent: each stream of the corpus, translated to
// `ag-ui-0`, is given to the versions of @ag-ui/client since 0.0.42, and each pinned version gets its own.
//
// Before 1.0 an event of an unknown type, an empty delta or a tool result in parts ends the run; 0.0.39 and 0.0.35
// accept no messages in parts, and 0.0.35 one open item at a time and no THINKING_START (the verdicts per version:
// ../shared/specs/ag-ui-1.0.md §3.6). These two have only their pins.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { agentStreams, conformanceStreams, inParallel, translate } from "./support/recordings.mjs";
import { hear, startBodies, VERSIONS } from "./support/old-clients.mjs";

const LIMIT = { timeout: 120_000 };

let bodies;
const quiet = { warn: console.warn, error: console.error };
before(async () => {
  bodies = await startBodies();
  console.warn = console.error = () => {};
}, LIMIT);
after(() => {
  Object.assign(console, quiet);
  bodies?.stop();
});

const streams = agentStreams();

/** The versions that need no pin. */
const UNPINNED = VERSIONS.filter((version) => !["0.0.35", "0.0.39"].includes(version));

/** The side for a client of this version. */
const sideFor = (version) => (UNPINNED.includes(version) ? "ag-ui-0" : `ag-ui-0:pin=${version}`);

const addresses = new Map();

/** The address of a stream's translation to `to`; translated once. */
function heardAt(it, to) {
  const key = `${it.name} from ${it.from} to ${to}`;
  if (!addresses.has(key)) addresses.set(key, translate({ ...it, to }).then((body) => bodies.add(body)));
  return addresses.get(key);
}

/**
 * Translates streams (by default the whole corpus) to `to`, runs each of `versions` with them, and returns the
 * rejections.
 */
async function refusals(to, versions, from = streams) {
  const all = await inParallel(from, async (it) => {
    const url = await heardAt(it, to);
    const refused = [];
    for (const version of versions) {
      const heard = await hear(version, url, it.client);
      if (heard.refused) refused.push(`${it.name} (${it.from} to ${to}), client ${version}: ${heard.refused.replace(/\s+/g, " ").slice(0, 200)}`);
    }
    return refused;
  });
  return all.flat();
}

/** Fails with all of them, one a line: a difference of two lists would cut them off. */
const assertNone = (list) => assert.ok(list.length === 0, `${list.length} of them:\n${list.join("\n")}`);

/** The visible result of a run, as far as nine versions can agree on it: messages in parts have no common form. */
function shown({ messages, state, events }, client) {
  const before = new Set((client?.messages ?? []).map((message) => message.id));
  const own = messages.filter((message) => !before.has(message.id));
  return {
    text: own.filter((message) => message.role === "assistant").map((message) => message.content ?? "").join(""),
    // The current client has interrupts in their place; an agent's own call with such an id is left out, too.
    calls: own.flatMap((message) => message.toolCalls ?? []).filter((call) => !/^(agent:)?interrupt:/.test(call.id)).map((call) => `${call.id} ${call.function.name} ${call.function.arguments}`).sort(),
    results: own.filter((message) => message.role === "tool" && typeof message.content === "string").map((message) => message.content).sort(),
    state: state ?? {}, // The older ones take a state of null for none.
    errors: events.filter((event) => event.type === "RUN_ERROR").map((event) => event.message),
  };
}

/** Streams for which an older client shows a different result than the current one, with the reason. */
const OTHERWISE = {
  "a result in parts is text there, and not compared here":
    /^(ag-ui-to-(cloudbase|ag-ui-snake)\/not-shown|ag-ui-to-(ag-ui-snake|cloudbase|hai|social-app)\/tool-result-without-parts|ag-ui-to-hai\/(tools-steps-state|tool-result-parts)|hai-to-ag-ui\/tool-result-(looks-like-parts|parts-came-back)|ag-ui-to-ag-ui-0(\.pin=0-0-35)?\/parts(-are-text)?|ag-ui-to-ag-ui-snake\/results|conformance\/tool-result-unknown-source) results$/,
  "text of a user is the assistant's, since 0.0.35 knows no other": /\/(chunks|roles) text$/,
  "a call that an error cuts off is not begun: 0.0.35 would take no error then": /\/(error-with-open-items|fails-in-mid-arguments|error-in-a-call|error-while-a-call-waits) calls$/,
  "a snapshot of null ends the state there, and not here": /^hai-to-ag-ui\/state-delta-from-and-path state$/,
  "the same texts, one after the other": /^(conformance\/chunk-parallel-lanes|ag-ui-to-hai\/texts-interleave|ag-ui-to-social-app\/text-before-another-message) text$/,
  "what waits, or goes on as another message, comes behind the snapshot that lacks it: 0.0.35 takes one at a time":
    /^(ag-ui-to-hai\/snapshot-during-a-call calls|ag-ui-to-ag-ui\/snapshot-(lacks-(open|empty)|renames-open)-items (calls|text)|ag-ui-to-social-app\/open-text-at-the-end text)$/,
  "0.0.35 takes no arguments behind a result": /\/result-before-the-end-of-objects calls$/,
  "what repeats a call is not added to it there": /^ag-ui-to-ag-ui-0\/call-starts-again calls$/,
  "a patch with an operation of a later version does not apply at all": /^conformance\/state-delta-unknown-op state$/,
};

test("finds the corpus of streams", () => {
  assert.ok(streams.length > 200, `only ${streams.length} streams`);
  assert.ok(new Set(streams.map((it) => it.from.split(":")[0])).size >= 2);
});

test("the current client accepts `ag-ui` from every agent", LIMIT, async () => {
  assertNone(await refusals("ag-ui", ["1.0.0"]));
});

test("all clients since 0.0.42 accept `ag-ui-0` from every agent", LIMIT, async () => {
  assertNone(await refusals("ag-ui-0", UNPINNED));
});

// Any agent may send what an AG-UI agent sends by mistake.
for (const from of ["ag-ui-0", "ag-ui-snake", "cloudbase", "social-app", "hai"]) {
  test(`all clients accept the conformance cases from a ${from} agent`, LIMIT, async () => {
    const said = conformanceStreams(from);
    const refused = [await refusals("ag-ui", ["1.0.0"], said), await refusals("ag-ui-0", UNPINNED, said)];
    for (const version of ["0.0.35", "0.0.39"]) refused.push(await refusals(sideFor(version), [version], said));
    assertNone(refused.flat());
  });
}

// Found by mutating the corpus; tests/it/run_guard/before_1_0.rs has what leaves for them.
const THINK = ["START", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_START", "START", "END"];
const KILLED_RUNS = {
  "thinking that starts again": THINK.map((word) => ({ type: `THINKING_${word}`, ...(word.endsWith("CONTENT") && { delta: "a" }) })),
  "a title that is a number": [{ type: "THINKING_START", title: 7 }, { type: "THINKING_END" }],
  "numbers as ids": [
    { type: "STEP_STARTED", stepName: 1 },
    { type: "TEXT_MESSAGE_START", messageId: 2, role: "assistant" },
    { type: "TOOL_CALL_ARGS", toolCallId: 3, delta: "{}" },
  ],
  "a chunk without an id after an activity": [
    { type: "TEXT_MESSAGE_CHUNK", messageId: "a", delta: "x" },
    { type: "ACTIVITY_SNAPSHOT", messageId: "s", activityType: "p", content: {} },
    { type: "TEXT_MESSAGE_CHUNK", delta: "y" },
    { type: "TOOL_CALL_CHUNK", toolCallId: "c", toolCallName: "f", delta: "{" },
    { type: "ACTIVITY_SNAPSHOT", messageId: "s", activityType: "p", content: {} },
    { type: "TOOL_CALL_CHUNK", toolCallId: "c", delta: "}" },
  ],
  "messages without a known role": [{ type: "MESSAGES_SNAPSHOT", messages: [{ id: "1", content: "a" }, { id: "2", role: "king", content: "b" }] }],
};

for (const [name, events] of Object.entries(KILLED_RUNS)) {
  test(`all clients since 0.0.42 accept ${name}`, LIMIT, async () => {
    const [start, end] = ["RUN_STARTED", "RUN_FINISHED"].map((type) => ({ type, threadId: "th", runId: "r" }));
    const input = Buffer.from([start, ...events, end].map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
    assertNone(await refusals("ag-ui-0", UNPINNED, [{ name, from: "ag-ui-0", input }]));
  });
}

test("no client has two messages with one id", LIMIT, async () => {
  const all = await inParallel(streams, async (it) => {
    const found = [];
    for (const version of VERSIONS) {
      const heard = await hear(version, await heardAt(it, sideFor(version)), it.client);
      const ids = heard.messages.map((message) => message.id);
      const twice = ids.filter((id, at) => ids.indexOf(id) < at);
      if (twice.length > 0) found.push(`${it.name} (${it.from}), client ${version}: ${twice}`);
    }
    return found;
  });
  assertNone(all.flat());
});

test("old clients show what the current client shows", LIMIT, async () => {
  const unneeded = new Set(Object.keys(OTHERWISE));
  const all = await inParallel(streams, async (it) => {
    const current = shown(await hear("1.0.0", await heardAt(it, "ag-ui"), it.client), it.client);
    const differences = [];
    for (const version of VERSIONS) {
      const url = await heardAt(it, sideFor(version));
      const heard = await hear(version, url, it.client);
      if (heard.refused) continue; // The test above says so.
      const old = shown(heard, it.client);
      for (const what of Object.keys(current)) {
        const [is, was] = [JSON.stringify(old[what]), JSON.stringify(current[what])];
        if (is === was) continue;
        const reasons = Object.keys(OTHERWISE).filter((reason) => OTHERWISE[reason].test(`${it.name} ${what}`));
        reasons.forEach((reason) => unneeded.delete(reason));
        if (reasons.length === 0) differences.push(`${it.name} ${what}, client ${version}: ${is} where 1.0.0 has ${was}`);
      }
    }
    return differences;
  });
  assertNone(all.flat());
  assertNone([...unneeded]);
});

// Scenario 4 of seed 001, with what the client itself keeps and sends.
test("every client answers an interrupt by a tool message, which becomes resume", LIMIT, async () => {
  const outcome = { type: "interrupt", interrupts: [{ id: "i1", reason: "confirmation", message: "Delete 15 files?" }] };
  const run = { threadId: "th", runId: "r" };
  const events = [{ type: "RUN_STARTED", ...run }, { type: "RUN_FINISHED", ...run, outcome }];
  const input = Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  for (const version of VERSIONS) {
    const side = sideFor(version);
    const { refused, messages } = await hear(version, await heardAt({ name: "interrupt", from: "ag-ui", input }, side));
    assert.equal(refused, undefined, version);
    const [call] = messages.flatMap((message) => message.toolCalls ?? []);
    assert.equal(call.function.name, "confirmAction", version);
    assert.equal(JSON.parse(call.function.arguments).action, "Delete 15 files?", version);
    const answer = { id: "a", role: "tool", toolCallId: call.id, content: "confirmed" };
    const body = { ...run, messages: [...messages, answer], tools: [], context: [] };
    const sent = await translate({ from: side, to: "ag-ui", input: JSON.stringify(body), request: true });
    const { resume, messages: left } = JSON.parse(sent);
    assert.deepEqual([resume, left], [[{ interruptId: "i1", status: "resolved", payload: "confirmed" }], []], version);
  }
});

// Its document has no events of thinking; all clients that need no pin have THINKING_*.
test("every client without a pin receives thinking in its place, and those that show it have it as a message", LIMIT, async () => {
  const run = { threadId: "th", runId: "r" };
  const thought = { messageId: "k", role: "reasoning" };
  const events = [
    { type: "RUN_STARTED", ...run },
    { type: "REASONING_START", messageId: "k" },
    { type: "REASONING_MESSAGE_START", ...thought },
    { type: "REASONING_MESSAGE_CONTENT", messageId: "k", delta: "想" },
    { type: "REASONING_MESSAGE_END", messageId: "k" },
    { type: "REASONING_END", messageId: "k" },
    { type: "TEXT_MESSAGE_CHUNK", messageId: "m", role: "assistant", delta: "答" },
    { type: "RUN_FINISHED", ...run },
  ];
  const input = Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  for (const version of UNPINNED) {
    const { refused, messages, events: heard } = await hear(version, await heardAt({ name: "thinking", from: "ag-ui", input }, "ag-ui-0"));
    assert.equal(refused, undefined, version);
    const pieces = heard.filter((event) => /MESSAGE_(CONTENT|CHUNK)$/.test(event.type));
    assert.deepEqual(pieces.map((event) => event.delta), ["想", "答"], version);
    const shown = messages.map((message) => [message.role, message.content]);
    const reasoning = ["0.0.45", "1.0.0"].includes(version) ? [["reasoning", "想"]] : [];
    assert.deepEqual(shown, [...reasoning, ["assistant", "答"]], version);
  }
});

test("an old client rejects more than a quarter of the corpus without `ag-ui-0`", LIMIT, async () => {
  const refused = await refusals("ag-ui", ["0.0.35"]);
  assert.ok(refused.length > streams.length / 4, `only ${refused.length} of ${streams.length}`);
});

describe("each old client accepts the stream pinned to its version", () => {
  for (const version of VERSIONS.filter((version) => version !== "1.0.0")) {
    test(version, LIMIT, async () => {
      assertNone(await refusals(`ag-ui-0:pin=${version}`, [version]));
    });
  }
});
