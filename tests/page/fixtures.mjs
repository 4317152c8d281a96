// Made-up recordings for the page's tests: 5,000 runs, one of 100,000 rows, hostile texts, and agents that break in ways
// whose cause the page must show. Everything is computed from the ids, so each start gives the same.

const HELP = {
  closer_supplied: "an item was still open at RUN_FINISHED, or when another began with its id: its end is added",
  ids_replaced: "the agent used another thread or run id than the request: the request's id is sent, the agent's is carried",
  foreign_type: "only another dialect has an event of this type (`agent` of the route may be wrong): it is sent as CUSTOM",
  malformed_frame: "a frame was not an event: it is sent as RAW",
  after_terminal: "an event followed the end of the run: it is left out",
  text_not_shown: "the receiver's dialect has no place for a message, or for a text that is shown next to one, or the agent's snapshot lacks an open message: it is carried, and not shown",
};
const RULES = { closer_supplied: "every item is ended before the run finishes", malformed_frame: "every frame is an event" };
const finding = (label) => ({ label, help: HELP[label], rule: RULES[label] ?? null });
const side = (event) => ({ type: event.type ?? null, data: typeof event === "string" ? event : JSON.stringify(event) });

/** A row of the contract; what is not given is empty. */
function row(at_ms, cause, agent, client = [], more = {}) {
  return {
    at_ms, cause, agent: agent === null ? null : side(agent), client: client.map(side),
    canonical: client.map(({ type }) => type).filter(Boolean), seed: agent?.type ? `§3.3.1 ${agent.type.toLowerCase()}` : null,
    carried: [], repairs: [], losses: [], note: null, releases: [], ...more,
  };
}

const stamp = 1761819878500;
const started = (at = 9) => row(at, "changed", { type: "RUN_STARTED", messageId: "m1", role: "assistant", timestamp: stamp },
  [{ type: "RUN_STARTED", timestamp: stamp, threadId: "t1", runId: "r1", protocolVersion: "1.0", metadata: { hai: { messageId: "m1", role: "assistant" } } }],
  { carried: [{ names: ["messageId", "role"], in: "metadata.hai" }], seed: "§4.2 build_run_started" });
const opened = (at) => row(at, "held", { type: "BUSINESS_DATA_START", messageId: "m1", role: "assistant", timestamp: stamp });
const text = (at, delta) => row(at, "changed", { type: "BUSINESS_DATA_CONTENT", messageId: "m1", delta, timestamp: stamp },
  [{ type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta, timestamp: stamp }]);
const firstText = (at, delta, messageId = "m1") => row(at, "split", { type: "BUSINESS_DATA_CONTENT", messageId, delta, timestamp: stamp }, [
  { type: "TEXT_MESSAGE_START", messageId, role: "assistant", timestamp: stamp },
  { type: "TEXT_MESSAGE_CONTENT", messageId, delta, timestamp: stamp }]);
const closed = (at) => row(at, "changed", { type: "BUSINESS_DATA_END", messageId: "m1", role: "assistant", timestamp: stamp },
  [{ type: "TEXT_MESSAGE_END", messageId: "m1", timestamp: stamp }]);
const finished = (at) => row(at, "changed", { type: "RUN_FINISHED", messageId: "m1", role: "assistant", timestamp: stamp },
  [{ type: "RUN_FINISHED", threadId: "t1", runId: "r1", timestamp: stamp }]);
const ended = (at) => row(at, "end", null);
const failed = (at, code, message) => row(at, "gateway", null, [{ type: "RUN_ERROR", code, message }]);
const tool = (at, name) => [
  row(at, "same", { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: name, parentMessageId: "m1" },
    [{ type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: name, parentMessageId: "m1" }]),
  row(at + 4, "same", { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '{"city":"Xi\u2019an"}' },
    [{ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '{"city":"Xi\u2019an"}' }]),
];
const state = (at) => [
  row(at, "same", { type: "STATE_SNAPSHOT", snapshot: { items: [{ name: "部署", status: "pending" }] } },
    [{ type: "STATE_SNAPSHOT", snapshot: { items: [{ name: "部署", status: "pending" }] } }]),
  row(at + 3, "changed", { type: "STATE_DELTA", delta: [{ op: "replace", path: "/items/0/status", value: "running", from: "" }] },
    [{ type: "STATE_DELTA", delta: [{ op: "replace", path: "/items/0/status", value: "running" }] }]),
];
const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script> \u001b[2J\u001b[31mred\u001b[0m \u202Eevil\u202C \u2066x\u2069 \u200b\ufeff\u0000 \ud800 z\u0351\u0351\u0351\u0351';

/** Runs with a story: what differs from a run that went well, and the rows. */
const STORIES = [
  { name: "truncated", outcome: "upstream_error", code: "upstream_truncated", message: "The agent's response ended early.",
    rows: () => [started(), ...state(12), opened(20), { ...firstText(31, "好的，"), kept: ['session = "s-81"'] }, text(44, "我将把应用"), text(58, "部署到生产环境"), ...tool(70, "confirmAction"),
      row(90, "mark", "{\"type\":\"BUSI", [], { note: "a note of a later gateway" }), ended(91),
      failed(92, "upstream_truncated", "The agent's response ended early.")] },
  { name: "call without end", rows: () => [started(), opened(14), firstText(20, "Let me look."), closed(26), ...tool(30, "weather"),
    row(52, "split", { type: "RUN_FINISHED", messageId: "m1" }, [{ type: "TOOL_CALL_END", toolCallId: "c1" }, { type: "RUN_FINISHED", threadId: "t1", runId: "r1" }],
      { repairs: [finding("closer_supplied")], left_open: [{ item: "call", id: "c1", name: "weather", n: 5 }] }), ended(53)] },
  { name: "other ids", rows: () => [{ ...started(), repairs: [finding("ids_replaced")] }, opened(14), firstText(21, "Hi"), closed(30), finished(34), ended(35)] },
  { name: "wrong dialect", rows: () => [started(), ...Array.from({ length: 6 }, (_, at) => row(12 + at, "changed",
    { type: "text-delta", id: "m1", delta: `word ${at}` }, [{ type: "CUSTOM", name: "hai.text-delta", value: { id: "m1", delta: `word ${at}` } }],
    { repairs: [finding("foreign_type")] })), finished(30), ended(31)] },
  { name: "after the end", rows: () => [started(), opened(14), firstText(20, "Done."), closed(30), finished(34),
    row(36, "dropped", { type: "BUSINESS_DATA_CONTENT", messageId: "m1", delta: "One more thing" }, [], { losses: [finding("after_terminal")] }), ended(37)] },
  { name: "slow first byte", silence: { from_ms: 0, until_ms: 9_240 }, rows: () => [started(9_240), opened(9_250), firstText(9_260, "Sorry, I was asleep."), closed(9_300), finished(9_310), ended(9_311)] },
  { name: "huge state", rows: () => {
    const snapshot = { type: "STATE_SNAPSHOT", snapshot: { blob: "x".repeat(10_000_000), note: HOSTILE } };
    return [started(), row(40, "same", snapshot, [snapshot]), opened(60), firstText(70, "ok"), closed(80), finished(90), ended(91)];
  } },
  { name: "refused", outcome: "upstream_error", code: "upstream_status", message: "The agent answered with the status 401.",
    rows: () => [failed(18, "upstream_status", "The agent answered with the status 401.")] },
  { name: "limit", missed: 3_456_000, outcome: "limited", code: "run_limit_reached", message: "The run reached a limit.",
    rows: () => [started(), opened(12), firstText(20, "On and on"), ...Array.from({ length: 20 }, (_, at) => text(30 + at * 9, ` and on ${at}`)), failed(240, "run_limit_reached", "The run reached a limit.")] },
  { name: "hostile", outcome: "agent_error", code: HOSTILE, message: HOSTILE, rows: () => [started(), opened(12),
    row(20, "changed", { type: "BUSINESS_DATA_CONTENT", messageId: HOSTILE, delta: HOSTILE }, [{ type: "TEXT_MESSAGE_CONTENT", messageId: HOSTILE, delta: HOSTILE, extra: { [HOSTILE]: HOSTILE } }],
      { note: HOSTILE, repairs: [{ label: "malformed_frame", help: HOSTILE }], losses: [finding("text_not_shown")], seed: HOSTILE,
        kept: [HOSTILE], carried: [{ names: [HOSTILE], in: HOSTILE }], id_change: { before: "m1", after: HOSTILE } }),
    row(22, "dropped", { type: "TEXT_MESSAGE_END", messageId: "m3" }, [], { losses: [finding("after_terminal")], id_change: { before: "m2", after: "m3" } }),
    row(25, "changed", { type: HOSTILE, id: 12345678901234567890n.toString() }, [{ type: "RAW", event: HOSTILE }]),
    row(28, "changed", '{"type":"CUSTOM","id":12345678901234567891}', [{ type: "CUSTOM", id: 12345678901234567000 }]), finished(34), ended(35)] },
  { name: "hung call", outcome: "client_gone", silence: { from_ms: 34, until_ms: 42_034 }, rows: () => [started(), opened(14), firstText(20, "Let me look."), closed(26), ...tool(30, "weather"),
    row(42_034, "disconnect", null, [], { note: "the client closed the connection", left_open: [{ item: "call", id: "c1", name: "weather", lacks: "end", n: 5 }] })] },
];
const OUTCOMES = [...new Array(12).fill("finished"), "interrupted", "agent_error", "client_gone", "cancelled"];
const ROUTES = ["chat", "chat-hai", "research", "support-desk", "playground"];
const DIALECTS = [["hai", "ag-ui"], ["ag-ui", "ag-ui"], ["ag-ui", "hai"], ["cloudbase", "ag-ui"], ["social-app", "ag-ui-0"]];

export const RUNS = 5_000;
export const LONG_RUN = 4_000;
export const STORY_IDS = Object.fromEntries(STORIES.map(({ name }, at) => [name, RUNS - at]));

/** The rows of a run, numbered. */
export function* rowsOf(id) {
  if (id === LONG_RUN) return yield* longRun(100_000);
  const story = STORIES[RUNS - id];
  const rows = story?.rows() ?? [started(), ...state(12), opened(16), firstText(22, "Hello"), text(30, " there"), closed(40), finished(44), ended(45)];
  let held = [];
  for (const [at, one] of rows.entries()) {
    const releases = one.client.length > 0 ? held : [];
    held = one.cause === "held" ? [...held, at + 1] : one.client.length > 0 ? [] : held;
    yield { n: at + 1, ...one, releases };
  }
}

function* longRun(rows) {
  yield { n: 1, ...started() };
  yield { n: 2, ...opened(10) };
  for (let n = 3; n <= rows; n += 1) {
    const message = n === 3 ? "m1" : n % 250 === 0 ? `m${n}` : null;
    const one = n % 997 === 0 ? tool(n, "look_up")[0] : message ? firstText(n * 3, `w${n} `, message) : text(n * 3, `w${n} `);
    yield { n, ...one, repairs: n === 51_234 ? [finding("malformed_frame")] : [] };
  }
}

/** Rows of stories without their data, and its size: one of them has 10 MB. */
const measured = {};
function measure(id, story) {
  const sizes = { in: 0, out: 0 };
  const rows = story === undefined ? [] : [...rowsOf(id)];
  for (const one of rows) {
    sizes.in += one.agent?.data.length ?? 0;
    for (const part of one.client) sizes.out += part.data.length;
    for (const part of [one.agent, ...one.client]) if (part) part.data = "";
  }
  return { rows, sizes };
}

/** The types of both sides' events. Runs without a story call a tool now and then. */
function typesOf(id, rows) {
  if (rows.length === 0) return ["RUN_FINISHED", "RUN_STARTED", "STATE_DELTA", ...(id % 7 === 0 ? ["TOOL_CALL_START"] : [])];
  const types = rows.flatMap((one) => [one.agent?.type, ...one.client.map(({ type }) => type)]);
  return [...new Set(types.filter(Boolean))].sort();
}

/** Both sides' events as AG-UI: the agent's as if nothing had been repaired. */
export function* readingOf(id, now) {
  const { requests } = detailOf(id, now);
  if (requests.client !== null) yield { n: 0, agent: [requests.agent], client: [requests.client] };
  for (const { n, client, cause, repairs } of rowsOf(id)) {
    const events = client.map(({ data }) => data);
    yield { n, client: events, agent: cause === "gateway" ? [] : repairs.length > 0 ? events.slice(-1) : events };
  }
}

/** The summary of a run; `now` is the time of the newest. */
export function summaryOf(id, now) {
  const story = STORIES[RUNS - id];
  const { rows, sizes } = (measured[id] ??= measure(id, story));
  const [agent, client] = story === undefined && id !== LONG_RUN ? DIALECTS[id % DIALECTS.length] : DIALECTS[0];
  const events = id === LONG_RUN ? 100_000 : rows.filter((one) => one.agent).length || 9;
  const hostile = story?.name === "hostile" ? { caller: HOSTILE, thread_id: HOSTILE, run_id: HOSTILE, request_id: HOSTILE, body_form: HOSTILE } : {};
  return {
    id, route: story?.name === "hostile" ? HOSTILE : ROUTES[id % ROUTES.length], caller: id % 3 === 0 ? null : ["alice", "bob", "build-bot"][id % 3],
    client, agent, thread_id: `t${id % 700}`, run_id: `r-${id}`, request_id: `req-${id.toString(16)}`, mode: id % 11 === 0 ? "events" : "full",
    started_ms: now - (RUNS - id) * 1_700, state: "ended", outcome: story ? story.outcome ?? "finished" : OUTCOMES[id % OUTCOMES.length],
    code: story?.code ?? (OUTCOMES[id % OUTCOMES.length] === "agent_error" && !story ? "agent_said_no" : null),
    message: story?.message ?? null, events_in: events, events_out: id === LONG_RUN ? 100_001 : rows.reduce((all, one) => all + one.client.length, 0) || 10,
    bytes_in: sizes.in || events * 110, bytes_out: sizes.out || events * 131, first_event_ms: story?.name === "refused" ? null : rows[0]?.at_ms ?? 5 + (id % 400),
    duration_ms: id === LONG_RUN ? 300_000 : rows.at(-1)?.at_ms ?? 45 + (id % 3_000), repairs: rows.reduce((all, one) => all + one.repairs.length, 0),
    losses: rows.reduce((all, one) => all + one.losses.length, 0), types: typesOf(id, rows), kept_bytes: 2_100, missed_bytes: story?.missed ?? 0,
    silence: story?.silence ?? null, repair_names: labelsOf(rows, "repairs"), loss_names: labelsOf(rows, "losses"), ...hostile,
  };
}

const labelsOf = (rows, kind) => [...new Set(rows.flatMap((one) => one[kind].map(({ label }) => label)))];

/** A run with its settings, requests and timeline. */
export function detailOf(id, now) {
  const summary = summaryOf(id, now);
  const first = summary.first_event_ms ?? summary.duration_ms;
  const timeline = [
    { at_ms: 0, name: "request", detail: null }, { at_ms: 0.04, name: "host", verdict: "passed", detail: "a path or an http URL, one Host, at most 100 fields" },
    { at_ms: 0.4, name: "authenticate", verdict: "passed", detail: "a token of corp, as `Authorization: Bearer …`" },
    { at_ms: 0.6, name: "limits after auth", verdict: "passed", detail: "chat: 60 requests in 1m, 10 at once of one caller; all replicas together" }, { at_ms: 1.2, name: "body", detail: "214 bytes" },
    { at_ms: 2, name: "sent", detail: "231 bytes" }, { at_ms: Math.min(9, first), name: "connected", detail: "http://10.0.3.17:8080, a new connection" },
    ...(first > 5_000 ? [{ at_ms: 2_002, name: "keep_alive", detail: "0 bytes so far", times: 4, until_ms: 8_002 }] : []),
    { at_ms: Math.max(9, first - 1), name: "first_byte", detail: null }, { at_ms: summary.duration_ms, name: "end", detail: summary.outcome },
  ];
  if (id === STORY_IDS.hostile) timeline.splice(3, 0, { at_ms: 0.5, name: HOSTILE, detail: HOSTILE }, { at_ms: 0.5, name: "authorize", verdict: "passed", detail: HOSTILE });
  const settings = { guard: "repair", agent_framing: "sse", client_framing: "sse", strip: [], interrupt_tool: null };
  const messages = [{ id: "u1", role: "user", content: "部署应用 please <b>now</b>" }];
  const requests = summary.mode !== "full" ? { client_head: null, client: null, agent_head: null, agent: null } : {
    client_head: "POST /chat HTTP/1.1\nhost: gateway.example:8787\ncontent-type: application/json\nauthorization: ***\n",
    agent_head: "POST /agent HTTP/1.1\nhost: 10.0.3.17:8080\ncontent-type: application/json\naccept: text/event-stream\n",
    client: JSON.stringify({ threadId: "t1", runId: "r1", messages, tools: [{ name: "confirmAction", description: "Asks the user" }], context: [], state: {}, forwardedProps: {} }),
    agent: JSON.stringify({ threadId: "t1", runId: "r1", messages, tools: [{ type: "function", name: "confirmAction", description: "Asks the user" }], state: {}, user: "alice" }),
  };
  return { ...summary, settings, requests, timeline };
}

/** Metrics whose counters grow with time. */
export function metricsAt(seconds) {
  const lines = [];
  for (const [at, type] of ["TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_START", "STATE_DELTA", "RUN_STARTED", "RUN_FINISHED"].entries()) {
    for (const route of ["chat", "research"]) {
      lines.push(`diglot_events_total{dialect="hai",direction="from_agent",route="${route}",type="${type}"} ${Math.floor((seconds * 400) / (at + 1))}`);
      lines.push(`diglot_events_total{dialect="ag-ui",direction="to_client",route="${route}",type="${type}"} ${Math.floor((seconds * 420) / (at + 1))}`);
    }
  }
  for (const [route, open] of [["chat", 41], ["research", 7], ["support-desk", 0]]) {
    lines.push(`diglot_streams_active{route="${route}"} ${open}`);
    for (const [at, le] of ["0.01", "0.025", "0.05", "0.1", "0.25", "1", "+Inf"].entries()) {
      lines.push(`diglot_stream_first_event_seconds_bucket{route="${route}",le="${le}"} ${Math.floor((seconds * open * (at + 1)) / 7)}`);
    }
    lines.push(`diglot_upstream_up{route="${route}",upstream="http://10.0.3.17:8080"} ${route === "research" ? 0 : 1}`);
  }
  lines.push('diglot_refusals_total{reason="rate_limited",route="chat"} 17', 'diglot_refusals_total{reason="invalid_token",route="research"} 4',
    'diglot_refusals_total{reason="overloaded",route="chat"} 0', 'diglot_streams_total{outcome="finished",route="chat"} 1822',
    'diglot_streams_total{outcome="upstream_error",route="research"} 12', 'diglot_upstream_requests_total{outcome="answered",upstream="http://10.0.3.17:8080"} 1840',
    'diglot_upstream_requests_total{outcome="timed_out",upstream="http://10.0.3.17:8080"} 12');
  return `# HELP diglot_events_total Events.\n# TYPE diglot_events_total counter\n${lines.join("\n")}\n`;
}

export const CONFIG = `listeners:
  data: 0.0.0.0:8787
  status: 127.0.0.1:8788
auth:
  issuers: [{name: corp, url: https://login.example.com, client_secret: "***"}]
routes:
  - {name: chat, path: /chat, client: ag-ui, agent: hai, upstream: "http://10.0.3.17:8080", inspect: full}
  - {name: research, path: /research, client: ag-ui, agent: ag-ui, upstream: "http://10.0.3.18:8080"}
`;
