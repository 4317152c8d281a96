// Generated streams: legal ones of every event type, and mutations of them: nulls, wrong types, dropped, repeated and
// reordered events. The same seed always gives the same streams.

/** Mulberry32: a number from 0 (included) to 1 (excluded). */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const START = { type: "RUN_STARTED", threadId: "th", runId: "r", protocolVersion: "1.0", timestamp: 1 };
const FINISH = { type: "RUN_FINISHED", threadId: "th", runId: "r" };

const PARTS = [
  { type: "text", id: "p", text: "t", metadata: { a: null } },
  { type: "image", source: { type: "url", value: "u", mimeType: "image/png" }, metadata: { n: 1 } },
  { type: "document", source: { type: "data", value: "d", mimeType: "a/b" } },
  { type: "audio", source: { type: "file", value: "f", provider: "x" } },
  { type: "binary", mimeType: "image/png", data: "AA==", filename: "f.png" },
];
const MESSAGES = [
  { id: "u1", role: "user", content: "q", name: "n" },
  { id: "u2", role: "user", content: PARTS },
  { id: "a1", role: "assistant", content: "x", toolCalls: [{ id: "c0", type: "function", function: { name: "f", arguments: "{}" } }], metadata: { k: null } },
  { id: "a2", role: "assistant", subagentRunId: "s1", encryptedValue: "e" },
  { id: "t1", role: "tool", content: PARTS.slice(0, 2), toolCallId: "c0", error: "e" },
  { id: "y1", role: "system", content: "s" },
  { id: "d1", role: "developer", content: "s" },
  { id: "r1", role: "reasoning", content: "s", subagentRunId: "s1" },
  { id: "v1", role: "activity", activityType: "plan", content: { steps: [] } },
];
const INPUT = {
  threadId: "th", runId: "r", parentRunId: "p", state: { a: 1 }, messages: MESSAGES.slice(0, 5),
  tools: [{ name: "f", description: "d", parameters: { type: "object" }, metadata: {} }],
  context: [{ description: "d", value: "v" }],
  forwardedProps: { x: 1 },
  resume: [{ interruptId: "i", status: "resolved", payload: { ok: true } }],
};
const OPERATIONS = [
  { op: "add", path: "/a~1b", value: null },
  { op: "replace", path: "", value: 1 },
  { op: "remove", path: "/a", value: 1 },
  { op: "move", from: "/a", path: "/b" },
  { op: "copy", from: "/a", path: "/c", extra: 1 },
  { op: "test", path: "/a", value: 1 },
];

const text = (id, more = {}) => [
  { type: "TEXT_MESSAGE_START", messageId: id, role: "assistant", name: "n", ...more },
  { type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: "hello", ...more },
  { type: "TEXT_MESSAGE_END", messageId: id, ...more },
];
const call = (id, more = {}) => [
  { type: "TOOL_CALL_START", toolCallId: id, toolCallName: "f", ...more },
  { type: "TOOL_CALL_ARGS", toolCallId: id, delta: "{}" },
  { type: "TOOL_CALL_END", toolCallId: id },
  { type: "TOOL_CALL_RESULT", messageId: `${id}-r`, toolCallId: id, content: "ok", role: "tool" },
];
const thought = (id, more = {}) => [
  { type: "REASONING_START", messageId: id, ...more },
  { type: "REASONING_MESSAGE_START", messageId: id, role: "reasoning", ...more },
  { type: "REASONING_MESSAGE_CONTENT", messageId: id, delta: "hm", ...more },
  { type: "REASONING_MESSAGE_END", messageId: id, ...more },
  { type: "REASONING_END", messageId: id, ...more },
  { type: "REASONING_ENCRYPTED_VALUE", subtype: "message", entityId: id, encryptedValue: "e", ...more },
];
const step = (name, inner, more = {}) => [
  { type: "STEP_STARTED", stepName: name, ...more }, ...inner, { type: "STEP_FINISHED", stepName: name, ...more },
];
const subagent = (id, inner, more = {}) => [
  { type: "SUBAGENT_STARTED", subagentRunId: id, name: "n", description: "d", ...more },
  ...inner,
  { type: "SUBAGENT_FINISHED", subagentRunId: id, result: { a: 1 }, outcome: { type: "suspended", interruptIds: ["i"] } },
];
const by = (subagentRunId) => ({ subagentRunId });

/** Runs that the client accepts, each of them with other kinds of event. */
export const LEGAL = [
  [START, ...text("m1"), ...call("c1", { parentMessageId: "m1" }), ...step("s", text("m2")), FINISH],
  [START, ...thought("r1"), ...text("m1"), { type: "CUSTOM", name: "x.y", value: null }, { type: "RAW", event: null, source: "s" }, FINISH],
  [
    START,
    ...subagent("s1", [...text("m1", by("s1")), ...call("c1", { parentMessageId: "m1", ...by("s1") }), ...thought("r1", by("s1"))]),
    ...subagent("s2", step("x", [], by("s2")), { parentSubagentRunId: "s1", parentToolCallId: "c1", parentMessageId: "m1" }),
    { type: "SUBAGENT_STARTED", subagentRunId: "s3", name: "n" },
    { type: "SUBAGENT_ERROR", subagentRunId: "s3", message: "m", code: "c" },
    FINISH,
  ],
  [
    { ...START, input: INPUT },
    { type: "STATE_SNAPSHOT", snapshot: { a: 1 } },
    { type: "STATE_DELTA", delta: OPERATIONS },
    { type: "MESSAGES_SNAPSHOT", messages: MESSAGES },
    ...text("a2", by("s1")),
    { type: "ACTIVITY_SNAPSHOT", messageId: "v1", activityType: "plan", content: { a: 1 }, replace: false },
    { type: "ACTIVITY_DELTA", messageId: "v1", activityType: "plan", patch: OPERATIONS.slice(0, 2) },
    { type: "REASONING_ENCRYPTED_VALUE", subtype: "tool-call", entityId: "c0", encryptedValue: "e" },
    { ...FINISH, result: { a: 1 }, outcome: { type: "success", pendingToolCallIds: ["c0"] }, usage: [{ provider: "p", model: "m", inputTokens: 1, totalTokens: 2 }] },
  ],
  [
    START,
    { type: "TEXT_MESSAGE_CHUNK", messageId: "m1", role: "assistant", name: "n", delta: "a" },
    { type: "TEXT_MESSAGE_CHUNK", delta: "b" },
    { type: "TEXT_MESSAGE_CHUNK", messageId: "m1", delta: "c", rawEvent: { a: 1 } },
    { type: "RAW", event: 1 },
    { type: "TEXT_MESSAGE_CHUNK", messageId: "m2", delta: "d", ...by("s1") },
    { type: "TOOL_CALL_CHUNK", toolCallId: "c1", toolCallName: "f", parentMessageId: "m1", delta: "{" },
    { type: "TOOL_CALL_CHUNK", delta: "}", metadata: { a: 1 } },
    { type: "REASONING_MESSAGE_CHUNK", messageId: "r1", delta: "h" },
    { type: "REASONING_MESSAGE_CHUNK", metadata: {} },
    { type: "TEXT_MESSAGE_CHUNK", delta: "e", ...by("s1") },
    FINISH,
  ],
  [
    START,
    { type: "THINKING_START", title: "t" },
    { type: "THINKING_TEXT_MESSAGE_START" },
    { type: "THINKING_TEXT_MESSAGE_CONTENT", delta: "hm" },
    { type: "THINKING_TEXT_MESSAGE_END" },
    { type: "THINKING_END" },
    { type: "TOOL_CALL_RESULT", messageId: "t1", toolCallId: "c9", content: PARTS.slice(0, 4) },
    { ...FINISH, outcome: { type: "interrupt", interrupts: [{ id: "i", reason: "r", message: "m", toolCallId: "c", responseSchema: {}, expiresAt: "2030-01-01", metadata: {} }] } },
  ],
  [START, ...text("m1"), { type: "RUN_ERROR", message: "m", code: "c", usage: [{ outputTokens: 1 }] }],
  [START, ...text("m1"), FINISH, { ...START, runId: "r2" }, ...text("m1", by("s9")), { ...FINISH, runId: "r2", outcome: { type: "cancelled" } }],
];

const WRONG = [null, 0, 1.5, -1, 1e20, true, "", "x", "assistant", "/a", "~", [], {}, [null], [{}], { type: "nope" }, { type: "success" }, { role: "user" }, [{ op: "spin" }], "s1", "m1"];
const TYPES = ["THINKING_END", "THINKING_TEXT_MESSAGE_CONTENT", "SURPRISE", "run_started", "", "TEXT_MESSAGE_END", "STEP_STARTED", "RUN_STARTED", "RUN_ERROR", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_CHUNK"];

const pick = (random, list) => list[Math.floor(random() * list.length)];

/** Every place in a value that can be changed: the object or list, and the key. */
function places(value, found = []) {
  if (value && typeof value === "object") {
    for (const key of Object.keys(value)) {
      found.push([value, Array.isArray(value) ? Number(key) : key]);
      places(value[key], found);
    }
  }
  return found;
}

const MUTATIONS = [
  (random, events) => { const [of, key] = pick(random, places(events).filter(([of]) => of !== events)); of[key] = null; },
  (random, events) => { const [of, key] = pick(random, places(events).filter(([of]) => of !== events)); of[key] = pick(random, WRONG); },
  (random, events) => {
    const [of, key] = pick(random, places(events).filter(([of]) => of !== events));
    if (Array.isArray(of)) of.splice(key, 1); else delete of[key];
  },
  (random, events) => { events.splice(Math.floor(random() * events.length), 1); },
  (random, events) => {
    const at = Math.floor(random() * (events.length - 1));
    [events[at], events[at + 1]] = [events[at + 1], events[at]];
  },
  (random, events) => { events.splice(Math.floor(random() * events.length), 0, structuredClone(pick(random, events))); },
  (random, events) => { events.splice(Math.floor(random() * (events.length + 1)), 0, structuredClone(pick(random, pick(random, LEGAL)))); },
  (random, events) => { pick(random, events).type = pick(random, TYPES); },
  (random, events) => { pick(random, events).subagentRunId = pick(random, ["s1", "s2", "s9", null]); },
  (random, events) => { const [of] = pick(random, places(events).filter(([of]) => !Array.isArray(of))); of[pick(random, ["surprise", "toString", "name", "metadata", "subagentRunId", "type", "delta", "role"])] = pick(random, WRONG); },
  (random, events) => { const field = pick(random, ["messageId", "toolCallId", "stepName", "parentMessageId", "entityId"]); pick(random, events)[field] = pick(random, ["m1", "m2", "c1", "r1", "s", "a2"]); },
];

/** A stream of events: a legal one, changed once to three times. */
export function mutated(random) {
  const events = structuredClone(pick(random, LEGAL));
  for (let left = 1 + Math.floor(random() * 3); left > 0 && events.length > 1; left--) pick(random, MUTATIONS)(random, events);
  return events;
}

const frame = (event) => `data: ${JSON.stringify(event)}\n\n`;
const FRAMINGS = [
  (random, frames) => frames.join("").replace(/\n/g, "\r\n"),
  (random, frames) => frames.map((it) => (random() < 0.2 ? it.replace("\n\n", "\r\n\n") : it)).join(""),
  (random, frames) => frames.map((it) => (random() < 0.1 ? it.replace("\n\n", "\n") : it)).join(""),
  (random, frames) => frames.map((it) => (random() < 0.1 ? it.replace("\n\n", "\r\n\r\n") : it)).join(""),
  (random, frames) => frames.join("").trimEnd(),
  (random, frames) => frames.join("") + pick(random, ["data: [DONE]\n\n", "data:\n\n", "data\n\n", "data: ping\n\n", ": bye\n\n", "data: null\n\n", "data: []\n\n", "data: 1", "event: end\ndata: {}\n\n", "\n", "data: {}", " data: x\n\n"]),
  (random, frames) => "\ufeff" + frames.join(""),
  (random, frames) => "\ufeff\ufeff" + frames.join(""),
  (random, frames) => frames.map((it) => pick(random, ["", ": hi\n", "id: 1\nevent: error\n", "retry: 1\n\n", "\n", "\r\n"]) + it).join(""),
  (random, frames) => frames.map((it) => it.replace("data: ", pick(random, ["data:", "data:  ", "Data: ", "data: \t"]))).join(""),
  (random, frames) => frames.map((it) => it.replace(/,"/g, pick(random, [',"', ',\ndata: "', ',\n: c\ndata:"', ',\r\ndata:"']))).join(""),
  (random, frames) => { const all = frames.join(""); return all.slice(0, Math.floor(random() * all.length)); },
  (random, frames) => { const all = frames.join(""); const at = Math.floor(random() * all.length); return all.slice(0, at) + pick(random, ["\n", "\r", "\u0000", "x", '"', "{", "\ud800", "\\"]) + all.slice(at + 1); },
];

/** Returns the bytes of a stream: framed as a client expects them, or, one time in three, in an unusual form. */
export function framed(random, events) {
  const frames = events.map(frame);
  return Buffer.from(random() < 0.67 ? frames.join("") : pick(random, FRAMINGS)(random, frames));
}

/** Returns one event about one of two messages, calls, steps or subagents, with one of three owners. */
function anything(random) {
  const one = (of) => pick(random, of);
  const some = (members, chance = 0.4) => (random() < chance ? members : {});
  const id = () => one(["a", "b"]);
  const subagentRunId = () => one(["s", "u"]);
  const tag = () => some({ subagentRunId: subagentRunId() });
  const messages = () => Array.from({ length: Math.floor(random() * 3) }, () => ({
    ...one([
      { role: "assistant", toolCalls: [{ id: id(), type: "function", function: { name: "f", arguments: "" } }] },
      { role: "user", content: "x" }, { role: "reasoning", content: "x" }, { role: "activity", activityType: "p", content: {} }, { role: "bot" },
    ]),
    id: id(), ...tag(),
  }));
  return one([
    () => ({ type: "RUN_STARTED", threadId: "th", runId: "r", ...some({ input: { threadId: "th", runId: "r", messages: messages() } }) }),
    () => ({ type: "RUN_FINISHED", threadId: "th", runId: "r" }),
    () => (random() < 0.1 ? { type: "RUN_ERROR", message: "m" } : { type: "RAW", event: 1, ...tag() }),
    () => ({ type: one(["STEP_STARTED", "STEP_FINISHED"]), stepName: id(), ...tag() }),
    () => ({ type: one(["TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]), messageId: id(), ...tag() }),
    () => ({ type: one(["TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"]), messageId: id(), delta: "x", ...tag() }),
    () => ({ type: "TOOL_CALL_START", toolCallId: id(), toolCallName: "f", ...some({ parentMessageId: id() }, 0.5), ...tag() }),
    () => ({ type: one(["TOOL_CALL_ARGS", "TOOL_CALL_END"]), toolCallId: id(), delta: "x", ...tag() }),
    () => ({ type: "TOOL_CALL_RESULT", toolCallId: id(), messageId: id(), content: "x", ...tag() }),
    () => ({ type: one(["REASONING_START", "REASONING_END", "REASONING_MESSAGE_END"]), messageId: id(), ...tag() }),
    () => ({ type: "REASONING_MESSAGE_START", role: "reasoning", messageId: id(), ...tag() }),
    () => ({ type: "REASONING_ENCRYPTED_VALUE", subtype: one(["message", "tool-call"]), entityId: id(), encryptedValue: "x", ...tag() }),
    () => ({ type: "ACTIVITY_SNAPSHOT", messageId: id(), activityType: "p", content: {}, ...some({ replace: random() < 0.5 }), ...tag() }),
    () => ({ type: "ACTIVITY_DELTA", messageId: id(), activityType: "p", patch: [], ...tag() }),
    () => ({ type: "SUBAGENT_STARTED", subagentRunId: subagentRunId(), name: "n", ...some({ parentSubagentRunId: subagentRunId() }) }),
    () => ({ type: one(["SUBAGENT_FINISHED", "SUBAGENT_ERROR"]), subagentRunId: subagentRunId(), message: "m" }),
    () => ({ type: "MESSAGES_SNAPSHOT", messages: messages() }),
    () => ({ type: "CUSTOM", name: "a.b", value: 1, ...tag() }),
    () => ({ type: "TEXT_MESSAGE_CHUNK", ...some({ messageId: id() }, 0.6), ...some({ role: one(["assistant", "user"]) }, 0.2), ...some({ name: "n" }, 0.1), ...some({ delta: "x" }, 0.7), ...some({ metadata: {} }, 0.2), ...tag() }),
    () => ({ type: "TOOL_CALL_CHUNK", ...some({ toolCallId: id() }, 0.6), ...some({ toolCallName: one(["f", "f", "g"]) }, 0.6), ...some({ parentMessageId: one([id(), null]) }, 0.3), ...some({ delta: "x" }, 0.7), ...tag() }),
    () => ({ type: "REASONING_MESSAGE_CHUNK", ...some({ messageId: id() }, 0.6), ...some({ rawEvent: one([1, null]) }, 0.3), ...some({ delta: "x" }, 0.7), ...tag() }),
    () => ({ type: one(TYPES.slice(0, 2)), delta: "x", ...tag() }),
  ])();
}

/** A walk through the rules: what may come next by the client's own judgement, and one event that it refuses at the end. */
export async function walked(random, accepts) {
  const events = [START];
  for (let left = 60; left > 0; left--) {
    const next = [...events, anything(random)];
    if (await accepts(next)) events.push(next.at(-1));
    else if (events.length > 12) return [events, next];
  }
  return [events];
}
