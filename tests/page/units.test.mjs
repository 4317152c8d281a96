// The page's logic without a browser: filters, comparison, folding, metrics, lists, and what is taken along.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClientFold } from "../../src/admin/page/client_fold.mjs";
import { complete, glob, parseFilter } from "../../src/admin/page/filter.mjs";
import { compareMembers, jsonText, readJson } from "../../src/admin/page/json_members.mjs";
import { applyPatch } from "../../src/admin/page/json_patch.mjs";
import en from "../../src/admin/page/messages.en.mjs";
import zh from "../../src/admin/page/messages.zh.mjs";
import { growth, parseMetrics, quantileOf, samplesOf, sumBy } from "../../src/admin/page/metrics.mjs";
import { bytes, duration } from "../../src/admin/page/numbers.mjs";
import { filterInSlices, ROW_LANGUAGE, RowBook } from "../../src/admin/page/row_book.mjs";
import { RUN_LANGUAGE } from "../../src/admin/page/runs_view.mjs";
import { curlOf, quote, reportOf } from "../../src/admin/page/take_along.mjs";
import { verdictOf } from "../../src/admin/page/verdict.mjs";
import { linesInView, topToShow } from "../../src/admin/page/virtual_list.mjs";
import { oneLine, visible } from "../../src/admin/page/visible_text.mjs";
import { density } from "../../src/admin/page/waterfall.mjs";
import { detailOf, rowsOf, RUNS, STORY_IDS, summaryOf } from "./fixtures.mjs";
import { execFileSync } from "node:child_process";

const NOW = Date.now();
const runs = Array.from({ length: RUNS }, (_, at) => summaryOf(at + 1, NOW));
const idsOf = (text) => runs.filter(parseFilter(text, RUN_LANGUAGE).test).map(({ id }) => id);
const bookOf = (story) => {
  const book = new RowBook();
  book.add([...rowsOf(STORY_IDS[story])]);
  return book;
};

test("filters runs by every kind of term", () => {
  const all = (text, holds) => {
    const ids = new Set(idsOf(text));
    assert.ok(ids.size > 0, `${text} lets nothing through`);
    for (const run of runs) assert.equal(ids.has(run.id), holds(run), `${text}: ${JSON.stringify(run)}`);
  };
  all("route:chat", ({ route }) => route === "chat");
  all("route:CHAT*", ({ route }) => route.startsWith("chat"));
  all("route:chat,research", ({ route }) => ["chat", "research"].includes(route));
  all("-route:chat", ({ route }) => route !== "chat");
  all("outcome:failed", ({ outcome }) => ["agent_error", "upstream_error", "limited"].includes(outcome));
  all("losses:>0", ({ losses }) => losses > 0);
  all("first:<0.1s", ({ first_event_ms: ms }) => ms !== null && ms < 100);
  all("events:19", (run) => run.events_in + run.events_out === 19);
  all("since:10m", ({ started_ms: at }) => NOW - at <= 600_000);
  all('BOB "t1"', ({ caller, thread_id: id, run_id: run }) => caller === "bob" && /t1/.test(`${id}${run}`));
  all("route:", () => true);
});

test("leaves types out of runs, and takes unknown keys as text", () => {
  assert.deepEqual(parseFilter("route:chat -type:TOOL_*", RUN_LANGUAGE).ignored, [{ negated: true, key: "type", value: "TOOL_*" }]);
  assert.deepEqual(idsOf("http://x"), []);
  assert.equal(parseFilter("constructor:x", RUN_LANGUAGE).test(runs[0]), false);
});

test("treats a glob as a glob only", () => {
  assert.ok(glob("a.b*").test("a.bc") && !glob("a.b*").test("axbc") && !glob("a").test("ab"));
});

test("proposes keys, then values of the data, behind commas and minus too", () => {
  const options = (text) => complete(text, RUN_LANGUAGE, runs).options.map(({ insert }) => insert);
  assert.deepEqual(options("ro"), ["route:"]);
  assert.deepEqual(options("x -ou"), ["-outcome:"]);
  assert.deepEqual(options("outcome:f"), ["outcome:failed", "outcome:finished"]);
  assert.deepEqual(options("route:chat,re"), ["route:chat,research"]);
  assert.deepEqual(options("route:<"), []);
});

test("filters rows by type, cause and what is remarkable, in slices", async () => {
  const { rows } = bookOf("truncated");
  const numbers = async (text) => {
    const passed = await filterInSlices(rows, parseFilter(text, ROW_LANGUAGE).test, new AbortController().signal);
    return passed.map((at) => rows[at].n);
  };
  assert.deepEqual(await numbers("type:TOOL_*"), [8, 9]);
  assert.deepEqual(await numbers("cause:gateway,end"), [11, 12]);
  assert.deepEqual(await numbers("is:remarkable"), [10, 12]);
  assert.deepEqual(await numbers("at:>50ms at:<80ms"), [7, 8, 9]);
  assert.deepEqual(await numbers("部署到"), [7]);
});

test("compares members by path", () => {
  const members = compareMembers({ a: 1, b: { c: [1, 2], d: null }, x: "y" }, { a: 1, b: { c: [1, "2", 3], d: null }, z: {} });
  assert.deepEqual(members.map(({ path, change }) => `${change} ${path}`),
    ["same a", "same b.c[0]", "changed b.c[1]", "added b.c[2]", "same b.d", "added z", "gone x"]);
  assert.deepEqual(compareMembers([], []).map(({ change }) => change), ["same"]);
});

test("keeps the digits of large numbers where the runtime can", { skip: JSON.rawJSON === undefined && "node is too old" }, () => {
  assert.equal(jsonText(readJson('{"id":12345678901234567891}')), '{"id":12345678901234567891}');
});

test("reads what is no JSON, or too deep, without an error", () => {
  assert.equal(readJson('{"a":'), undefined);
  assert.equal(readJson(null), undefined);
  const deep = readJson(`${"[".repeat(5_000)}${"]".repeat(5_000)}`);
  assert.ok(compareMembers(deep, [1]).length > 0);
});

test("makes invisible characters visible", () => {
  assert.equal(visible("a\u001b[2J\u0000\u202eb\u2066\ufeff\ud800\u{e0041}\u007f"), "a⟨ESC⟩[2J⟨NUL⟩⟨U+202E⟩b⟨U+2066⟩⟨U+FEFF⟩⟨U+D800⟩⟨U+E0041⟩⟨U+007F⟩");
  assert.equal(visible("好的 😀 a\tb\nc"), "好的 😀 a\tb\nc");
  assert.equal(oneLine("a\nb\tcdef", 5), "a↵b⇥c…");
});

test("applies a JSON Patch whole or not at all", () => {
  const document = { a: [1, 2], "x/y": { "~": 1 } };
  const cases = [
    [[{ op: "add", path: "/a/-", value: 3 }], { a: [1, 2, 3], "x/y": { "~": 1 } }],
    [[{ op: "add", path: "/a/0", value: 0 }], { a: [0, 1, 2], "x/y": { "~": 1 } }],
    [[{ op: "remove", path: "/x~1y/~0" }], { a: [1, 2], "x/y": {} }],
    [[{ op: "move", from: "/a", path: "/b" }], { b: [1, 2], "x/y": { "~": 1 } }],
    [[{ op: "copy", from: "/a/1", path: "/a/0" }], { a: [2, 1, 2], "x/y": { "~": 1 } }],
    [[{ op: "replace", path: "", value: 7 }], 7],
    [[{ op: "test", path: "/a/1", value: 2 }, { op: "replace", path: "/a/1", value: 9 }], { a: [1, 9], "x/y": { "~": 1 } }],
  ];
  for (const [patch, expected] of cases) assert.deepEqual(applyPatch(document, patch), expected, JSON.stringify(patch));
  const refused = [{ op: "remove", path: "/none" }, { op: "add", path: "/a/9", value: 1 }, { op: "add", path: "/a/01", value: 1 },
    { op: "test", path: "/a/0", value: 2 }, { op: "add", path: "/q/r", value: 1 }, { op: "jump", path: "/a" }, { op: "add", path: "a", value: 1 },
    { op: "add", path: "/__proto__/x", value: 1 }];
  for (const operation of refused) assert.throws(() => applyPatch(document, [operation]), JSON.stringify(operation));
  assert.deepEqual(document, { a: [1, 2], "x/y": { "~": 1 } });
});

test("folds a client's events into messages and state", () => {
  const fold = new ClientFold({ messages: [{ id: "u", role: "user", content: "hi" }], state: { n: 1 } });
  const events = [
    { type: "TEXT_MESSAGE_START", messageId: "m" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "Hel" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "lo" }, { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: "m" },
    { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "{}" }, { type: "TEXT_MESSAGE_START", messageId: "n", role: "developer" },
    { type: "TOOL_CALL_RESULT", messageId: "r", toolCallId: "c", content: "ok" }, { type: "STATE_DELTA", delta: [{ op: "replace", path: "/n", value: 2 }] },
    { type: "STATE_DELTA", delta: [{ op: "remove", path: "/none" }] }, { type: "TEXT_MESSAGE_CONTENT", messageId: "q", delta: "x" }, { type: "toString" },
  ];
  for (const event of events) fold.apply(event);
  assert.deepEqual(fold.messages.map(({ id, role }) => `${id} ${role}`), ["u user", "m assistant", "r tool", "n developer"]);
  assert.deepEqual([fold.messages[1].content, fold.messages[1].toolCalls], ["Hello", [{ id: "c", function: { name: "f", arguments: "{}" } }]]);
  assert.deepEqual([fold.state, fold.problems.length], [{ n: 2 }, 2]);
});

test("reads metrics, and computes growth over a restart and quantiles", () => {
  const before = parseMetrics('# HELP x\na_total{route="x",type="T"} 5\na_total{route="y\\"\\n",type="T"} 9\n', 0);
  const now = parseMetrics('a_total{route="x",type="T"} 8\na_total{route="y\\"\\n",type="T"} 2\na_total{route="z",type="T"} 1\nb 1e3 1700\n', 2_000);
  assert.deepEqual(growth(before, now, "a_total").map(({ value }) => value), [3, 2, 1]);
  assert.deepEqual(samplesOf(now, "a_total")[1].labels, { route: 'y"\n', type: "T" });
  assert.equal(sumBy(samplesOf(now, "a_total"), ({ type }) => type).get("T"), 11);
  assert.equal(samplesOf(now, "b")[0].value, 1000);
  const buckets = [["0.1", 50], ["0.5", 90], ["+Inf", 100]].map(([le, value]) => ({ name: "h", labels: { le }, value }));
  assert.ok(Math.abs(quantileOf(buckets, 0.5) - 0.1) < 1e-9 && Math.abs(quantileOf(buckets, 0.7) - 0.3) < 1e-9);
  assert.equal(quantileOf(buckets, 0.99), 0.5);
  assert.equal(quantileOf([], 0.5), null);
});

test("draws only the lines in view, and scrolls no further than needed", () => {
  assert.deepEqual(linesInView({ top: 0, height: 100, line: 10, count: 1000 }), { first: 0, end: 18 });
  assert.deepEqual(linesInView({ top: 5_000, height: 100, line: 10, count: 1000 }), { first: 492, end: 518 });
  assert.deepEqual(linesInView({ top: 9_900, height: 100, line: 10, count: 20 }), { first: 20, end: 20 });
  assert.deepEqual(linesInView({ top: 0, height: 100, line: 10, count: 0 }), { first: 0, end: 0 });
  assert.deepEqual([2, 10, 30].map((at) => topToShow({ top: 50, height: 100, line: 10, at })), [20, 50, 210]);
});

test("counts events over time, and marks waits that a person notices", () => {
  const { rows } = bookOf("slow first byte");
  assert.deepEqual(density(rows, 9_311).gaps, [{ from: 0, to: 9_240 }]);
  assert.deepEqual(density(bookOf("truncated").rows, 92).gaps, []);
});

test("writes numbers for people", () => {
  assert.deepEqual([0, 999, 1000, 99_949, 999_499, 1e7].map(bytes), ["0 B", "999 B", "1.0 kB", "99.9 kB", "999 kB", "10.0 MB"]);
  assert.deepEqual([null, 0.42, 999, 1_000, 61_000, 300_000].map(duration), ["–", "0.4 ms", "999 ms", "1.00 s", "61.00 s", "5 min 00 s"]);
});

test("says the worst first", () => {
  const first = (story) => verdictOf(summaryOf(STORY_IDS[story], NOW), bookOf(story))[0];
  assert.match(first("truncated").text, /^The agent ended without RUN_FINISHED\. The gateway wrote RUN_ERROR upstream_truncated at row 12\./);
  assert.deepEqual([first("truncated").level, first("truncated").row], ["bad", 12]);
  assert.equal(first("other ids").level, "good");
});

test("writes a command that a shell reads as the same words", () => {
  const words = ["it's", "plain", "a\u001b[2Jb\nc'\\", "部署 \u202e"];
  for (const word of words) {
    const read = execFileSync("bash", ["-c", `printf %s ${quote(word)}`]).toString();
    assert.equal(read, word);
    assert.doesNotMatch(quote(word), /[\u0000-\u001f\u202e]/);
  }
  const request = 'POST /chat HTTP/1.1\r\nhost: g:8787\r\naccept: text/event-stream\r\ncontent-length: 2\r\n\r\n{}';
  assert.equal(curlOf(request), "curl -sN -X POST 'http://g:8787/chat' \\\n  -H 'accept: text/event-stream' \\\n  -H 'content-type: application/json' \\\n  --data-raw '{}'");
  assert.match(curlOf("{}"), /^curl -sN -X POST "\$GATEWAY" /);
});

test("reports without data if only events are recorded, and lets no data end its block", () => {
  const book = bookOf("hostile");
  const run = detailOf(STORY_IDS.hostile, NOW);
  const report = (mode) => reportOf({ ...run, mode }, book, verdictOf(run, book));
  assert.match(report("full"), /```json\n\{"type":"BUSINESS_DATA_CONTENT"/);
  assert.doesNotMatch(report("events"), /```/);
  for (const mode of ["full", "events"]) assert.doesNotMatch(report(mode), /[\u001b\u202e]/);
  assert.doesNotMatch(report("events"), /(^|[^\\])<img/m);
});

test("says everything in both languages, with the same values", () => {
  const names = (text) => (text.match(/\{\w+\}/g) ?? []).sort();
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
  for (const [key, text] of Object.entries(en)) assert.deepEqual(names(zh[key]), names(text), key);
});
