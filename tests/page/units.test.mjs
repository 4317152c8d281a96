// The page's logic without a browser: filters, comparison, folding, metrics, lists, and what is taken along.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BothSides } from "../../src/admin/page/both_sides.mjs";
import { ClientFold } from "../../src/admin/page/client_fold.mjs";
import { Conversation } from "../../src/admin/page/conversation.mjs";
import { complete, glob, parseFilter, unknownKey, unknownValue, unreadableNumber } from "../../src/admin/page/filter.mjs";
import { divided, translated } from "../../src/admin/page/gateway_texts.mjs";
import { compareMembers, hasMember, jsonText, readJson } from "../../src/admin/page/json_members.mjs";
import { applyPatch } from "../../src/admin/page/json_patch.mjs";
import en from "../../src/admin/page/messages.en.mjs";
import { chooseLanguage, say } from "../../src/admin/page/messages.mjs";
import zh from "../../src/admin/page/messages.zh.mjs";
import { growth, parseMetrics, quantileOf, samplesOf, sumBy } from "../../src/admin/page/metrics.mjs";
import { goldenCase, isCase, tarOf } from "../../src/admin/page/golden_case.mjs";
import { bytes, duration } from "../../src/admin/page/numbers.mjs";
import { exampleOf, payloadOf } from "../../src/admin/page/playground_parts.mjs";
import { listCause } from "../../src/admin/page/list_cause.mjs";
import { filterInSlices, ROW_LANGUAGE, RowBook } from "../../src/admin/page/row_book.mjs";
import { isSilent, RUN_LANGUAGE } from "../../src/admin/page/runs_view.mjs";
import { SecretMask } from "../../src/admin/page/secrets.mjs";
import { curlOf, quote, reportOf } from "../../src/admin/page/take_along.mjs";
import { leftOpenText, hasFindings, verdictOf } from "../../src/admin/page/verdict.mjs";
import { linesInView, topToShow } from "../../src/admin/page/virtual_list.mjs";
import { codeParts, oneLine, visible } from "../../src/admin/page/visible_text.mjs";
import { density, partsOfDetail } from "../../src/admin/page/waterfall.mjs";
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

test("filters runs by every kind of term", (t) => {
  // A machine that stalls must not move a run over the limit.
  t.mock.method(Date, "now", () => NOW);
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
  all("type:TOOL_*", ({ types }) => types.some((type) => type.startsWith("TOOL_")));
  all("-type:TOOL_CALL_START", ({ types }) => !types.includes("TOOL_CALL_START"));
  all("route:", () => true);
});

test("keeps types for the rows of a run that is opened, and takes unknown keys as text", () => {
  assert.deepEqual(parseFilter("route:chat -type:TOOL_*", RUN_LANGUAGE).forRows, [{ negated: true, key: "type", value: "TOOL_*" }]);
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
  assert.deepEqual(options("outcome:f"), ["outcome:failed", "outcome:findings", "outcome:finished"]);
  assert.deepEqual(options("route:chat,re"), ["route:chat,research"]);
  assert.deepEqual(options("route:<"), []);
});

test("filters rows by type, cause and what is remarkable, in slices", async () => {
  const { rows } = bookOf("truncated");
  const numbers = async (text) => {
    /** @type {number[]} */
    const passed = [];
    const take = (at) => passed.push(rows[at].n);
    await filterInSlices(rows, parseFilter(text, ROW_LANGUAGE).test, new AbortController().signal, take);
    return passed;
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

test("finds a member of another event at its top alone", () => {
  const others = [undefined, [1], { metadata: { role: 1 }, toString: null }];
  assert.deepEqual(["metadata", "role", "toString", "valueOf"].map((name) => hasMember(others, name)), [true, false, true, false]);
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

test("takes what stands in backticks as code", () => {
  const marked = (text) => codeParts(text).map((part) => (part.isCode ? `<${part.text}>` : part.text)).join("");
  assert.equal(marked("from `m1` to `m2`: `m2` is"), "from <m1> to <m2>: <m2> is");
  assert.deepEqual(["one ` alone", "``", ""].map(marked), ["one ` alone", "``", ""]);
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
  assert.deepEqual([fold.messages[1].content, fold.messages[1].toolCalls], ["Hello", [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }]]);
  assert.deepEqual([fold.state, fold.problems.length], [{ n: 2 }, 2]);
});

test("links a held row with the one that released it", () => {
  const book = bookOf("call without end");
  const held = book.rows.find(({ cause }) => cause === "held");
  assert.equal(book.rows[book.released.get(held.n) - 1].cause, "split");
});

test("folds each side by itself", () => {
  const sides = new BothSides(1);
  const start = JSON.stringify({ type: "TEXT_MESSAGE_START", messageId: "m" });
  const text = JSON.stringify({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "Hi" });
  sides.add({ n: 1, agent: [], client: [start] });
  sides.add({ n: 2, agent: [text], client: [text] });
  assert.deepEqual(sides.client.messages.map(({ content }) => content), ["Hi"]);
  // The agent never started the message: the gateway did, for the client.
  assert.deepEqual([sides.agent.messages, sides.agent.problems], [[], ["TEXT_MESSAGE_CONTENT: m"]]);
});

test("reads metrics, and computes growth over a restart and quantiles", () => {
  const before = parseMetrics('# HELP x\na_total{route="x",type="T"} 5\na_total{route="y\\"\\n",type="T"} 9\n', 0);
  const now = parseMetrics('a_total{route="x",type="T"} 8\na_total{route="y\\"\\n",type="T"} 2\na_total{route="z",type="T"} 1\nb 1e3 1700\n', 2_000);
  assert.deepEqual(growth(before, now, "a_total").map(({ value }) => value), [3, 2, 1]);
  assert.deepEqual(samplesOf(now, "a_total")[1].labels, { route: 'y"\n', type: "T" });
  assert.equal(sumBy(samplesOf(now, "a_total"), ({ type }) => type).get("T"), 11);
  assert.equal(samplesOf(now, "b")[0].value, 1000);
  const buckets = [["0.1", 50], ["0.5", 90], ["+Inf", 100]].map(([le, value]) => ({ name: "h", labels: { le }, value }));
  const [half, most] = [0.5, 0.7].map((quantile) => quantileOf(buckets, quantile));
  assert.ok(Math.abs(half.value - 0.1) < 1e-9 && Math.abs(most.value - 0.3) < 1e-9 && half.sign + most.sign === "");
  assert.deepEqual(quantileOf(buckets, 0.99), { sign: "> ", value: 0.5 });
  // Of one run of 18 s, no more is known than its bucket.
  const one = [["10", 0], ["30", 1], ["+Inf", 1]].map(([le, value]) => ({ name: "h", labels: { le }, value }));
  assert.deepEqual([0.5, 0.95].map((quantile) => quantileOf(one, quantile)), [{ sign: "\u2264 ", value: 30 }, { sign: "\u2264 ", value: 30 }]);
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

test("names a key that the language does not have, and leaves addresses alone", () => {
  const { keys } = ROW_LANGUAGE;
  assert.equal(unknownKey("type:A rute:chat", keys), "rute");
  assert.equal(unknownKey("-rute:chat", keys), "rute");
  for (const known of ["type:A", "", "ru", "http://a:80/x", '"rute:chat"', "type:a:b"]) assert.equal(unknownKey(known, keys), undefined, known);
});

test("reads numbers with units, and names those that it cannot read", () => {
  const keys = { bytes: { number: (/** @type {number} */ found) => found }, since: { number: (/** @type {number} */ found) => found } };
  const passes = (/** @type {string} */ text, /** @type {number} */ found) => parseFilter(text, { keys, freeTexts: () => [] }).test(found);
  for (const [text, bound] of /** @type {[string, number][]} */ ([[">1MB", 1e6], [">1.5kB", 1_500], [">8MiB", 8_388_608], [">2s", 2_000]])) {
    assert.deepEqual([passes(`bytes:${text}`, bound), passes(`bytes:${text}`, bound + 1)], [false, true], text);
    assert.equal(unreadableNumber(`bytes:${text}`, keys), undefined);
  }
  assert.equal(unreadableNumber("bytes:>1,2XB", keys), "bytes:2XB");
  assert.equal(unreadableNumber("-since:yesterday x", keys), "since:yesterday");
  for (const unfinished of ["bytes:", "other:x", "bytes:1,"]) assert.equal(unreadableNumber(unfinished, keys), undefined, unfinished);
});

test("names a value that no run can have, and finds outcomes by what the page shows", () => {
  const unknown = (text) => unknownValue(text, RUN_LANGUAGE.keys)?.term;
  assert.deepEqual(["outcome:bogus", "-state:open,ended x", 'outcome:"client left"'].map(unknown),
    ["outcome:bogus", "state:open", "outcome:client left"]);
  for (const good of ["outcome:fin", "outcome:failed,findings", 'outcome:"client gone"', "outcome:*_error", "route:bogus", "state:"])
    assert.equal(unknown(good), undefined, good);
  assert.equal(unknownValue("cause:bogus", ROW_LANGUAGE.keys)?.term, "cause:bogus");
  assert.equal(unreadableNumber("since:11:03", RUN_LANGUAGE.keys), "since:11:03");
  const gone = { ...summaryOf(1, NOW), outcome: "client_gone" };
  assert.deepEqual(['outcome:"client gone"', "outcome:client_gone", "outcome:cancelled"].map((text) => parseFilter(text, RUN_LANGUAGE).test(gone)),
    [true, true, false]);
});

test("links the end to the last event that the client got, not to one behind it", () => {
  const book = bookOf("after the end");
  const ended = { ...summaryOf(STORY_IDS["after the end"], NOW), outcome: "agent_error", code: "boom", message: "no" };
  const last = book.rows.findLast(({ client }) => client.length > 0)?.n;
  assert.ok(last !== undefined && last < book.rows.length);
  assert.equal(verdictOf(ended, book).find(({ text }) => text.includes("boom"))?.row, last);
});

test("measures an event in bytes, as `tap` does", () => {
  const largest = (text) => {
    const book = new RowBook();
    book.add([{ ...[...rowsOf(1)][0], n: 3, client: [], agent: { type: "STATE_SNAPSHOT", data: text } }]);
    return book.largest;
  };
  assert.deepEqual(largest("部".repeat(100_000)), { size: 300_000, n: 3, type: "STATE_SNAPSHOT" });
  assert.equal(largest("部".repeat(83_333)).n, 0);
  assert.equal(largest("x".repeat(250_001)).size, 250_001);
});

test("names the party that was slow", () => {
  const wait = (clientWaits, silence = { from_ms: 900, until_ms: 6_900 }) => {
    const book = new RowBook();
    const [one] = [...rowsOf(1)];
    book.add([[1, 20], [2, 900], [3, 6_900]].map(([n, at_ms]) => ({ ...one, n, at_ms })));
    // Of a run that ended well, so long a wait is the first news.
    const [first] = verdictOf({ ...summaryOf(1, NOW), outcome: "finished", client_waits: clientWaits, silence }, book);
    return first.text;
  };
  assert.equal(wait([]), "The agent sent nothing for 6.00 s before row 3.");
  assert.equal(wait([{ from_ms: 6_900, until_ms: 9_000 }]), "The agent sent nothing for 6.00 s before row 3.");
  const client = "The client did not read for 6.00 s before row 3: the gateway waited for it.";
  assert.equal(wait([{ from_ms: 950, until_ms: 6_800 }]), client);
  assert.equal(wait(undefined), "The agent sent nothing for 6.00 s before row 3.");
  // Bytes came, but no whole event.
  const parts = "No event came for 6.00 s before row 3: the agent sent comments, or parts of a large event.";
  assert.deepEqual([null, { from_ms: 900, until_ms: 2_000 }].map((silence) => wait([], silence)), [parts, parts]);
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
  // Without a start and without an end is an agent that sends neither; a start without an end beside it is another id.
  const saysThatIdsChange = (...labels) => {
    const book = new RowBook();
    const repairs = labels.map((label) => ({ label, help: "" }));
    book.add([{ ...[...rowsOf(1)][0], repairs }]);
    return verdictOf(summaryOf(1, NOW), book).some(({ text }) => text.includes("several ids"));
  };
  assert.ok(saysThatIdsChange("opener_supplied", "closer_supplied", "closer_supplied"));
  assert.ok(!saysThatIdsChange("opener_supplied", "closer_supplied"));
  // Where the gateway names the ids, they are said before the repairs, and once.
  const book = new RowBook();
  const repairs = ["opener_supplied", "closer_supplied", "closer_supplied"].map((label) => ({ label, help: "" }));
  book.add([{ ...[...rowsOf(1)][0], n: 7, repairs, id_change: { before: "m1", after: "m2" } }]);
  const changes = verdictOf(summaryOf(1, NOW), book).filter(({ text }) => text.includes("from `m1` to `m2`"));
  const text = "The agent probably changed the id from `m1` to `m2`: `m2` has no start, and `m1` was open.";
  assert.deepEqual(changes, [{ level: "warning", text, row: 7 }]);
  // A new one with each event is the cause of all that is left open.
  const left = [{ item: "message", id: "m3", name: null, lacks: "end", n: 8 }];
  const change = (n, before, after, more) => ({ ...[...rowsOf(1)][0], n, repairs, id_change: { before, after }, ...more });
  book.add([change(8, "m2", "m3"), change(9, "m3", "m4"), change(10, "m4", "m5", { left_open: left })]);
  const [many, ...others] = verdictOf(summaryOf(1, NOW), book);
  assert.deepEqual([many.text, many.row], ["The agent probably changed the id 4 times: `m1` → `m2` → `m3` → `m4` …; no new id has a start.", 7]);
  assert.ok(others.every(({ text }) => !text.includes("m3")), others.map(({ text }) => text).join("\n"));
});

test("names where the stream was cut, an empty one, and what the gateway's code means, in its first sentence", () => {
  const first = (code, more, rows = []) => {
    const book = new RowBook();
    book.add(rows.map((row, at) => ({ ...[...rowsOf(1)][0], n: at + 1, client: [], losses: [], repairs: [], ...row })));
    return verdictOf({ ...summaryOf(1, NOW), outcome: "upstream_error", code, message: "why", ...more }, book).map(({ text }) => text);
  };
  const cut = (cut_within) => [{ cause: "dropped", agent: { type: "TEXT", data: "{" }, cut_within, note: "cut within this event" }];
  assert.match(first("upstream_truncated", {}, cut("character"))[0], /^The agent's stream was cut within a character of TEXT, at row 1\. The agent ended without RUN_FINISHED\./);
  assert.match(first("upstream_reset", {}, cut("event"))[0], /^The agent's stream was cut within TEXT, at row 1\. The connection to the agent broke/);
  assert.ok(!first("upstream_truncated", {}, cut("character")).join().includes("Note"));
  assert.match(first("upstream_truncated", { events_in: 0, bytes_in: 0 })[0], /^The agent accepted the request, and ended its answer without a single event\./);
  assert.match(first("upstream_truncated", { events_in: 0, bytes_in: 9 })[0], /^The agent ended without RUN_FINISHED\./);
  assert.match(first("tool_not_allowed", { explanation: "A tool is not allowed on this route." })[0], /^A tool is not allowed on this route\./);
  // What came of an event that is not recorded is unknown; that is no note of the gateway.
  const part = [{ cause: "unrecorded", agent: { type: "STATE_SNAPSHOT", data: "x".repeat(300_000) }, note: "kept nothing" }];
  const large = first(null, { outcome: "finished", missed_bytes: 9, withheld: false, limit: "inspect.run_bytes" }, part);
  assert.match(large[0], /^The largest event has at least 300 kB: STATE_SNAPSHOT at row 1\./);
  assert.ok(!large.join().includes("Note"), large.join("\n"));
});

test("writes a command that a shell reads as the same words", () => {
  const words = ["it's", "plain", "a\u001b[2Jb\nc'\\", "部署 \u202e"];
  for (const word of words) {
    const read = execFileSync("bash", ["-c", `printf %s ${quote(word)}`]).toString();
    assert.equal(read, word);
    assert.doesNotMatch(quote(word), /[\u0000-\u001f\u202e]/);
  }
  const head = "POST /chat HTTP/1.1\nhost: g:8787\naccept: text/event-stream\ncontent-length: 2\nx-api-key: ***\n";
  assert.equal(curlOf("{}", head), "# Fill in each ***: credentials are not recorded.\ncurl -sN -X POST 'http://g:8787/chat' \\\n  -H 'accept: text/event-stream' \\\n  -H 'x-api-key: ***' \\\n  -H 'content-type: application/json' \\\n  --data-raw '{}'");
  assert.match(curlOf("{}", null), /^curl -sN -X POST "\$GATEWAY" /);
});

test("makes a golden case with the ids of all cases, and the agent's bytes as they were", () => {
  const lines = [
    { diglot_recording: 1, route: "chat/a", client: "ag-ui-0:pin=0.0.42", agent: "hai:content=string", thread_id: "T", run_id: "R", started_ms: 0, outcome: "finished" },
    { at_ms: 0, request: "client", body: '{"threadId":"T"}' }, { at_ms: 0, request: "agent", body: "{}" },
    // The first piece ends within a character.
    { at_ms: 1, agent_base64: btoa('data: {"a":"\u00e9\u0083') }, { at_ms: 1, agent_base64: btoa('\u00a8","threadId":"T"}\n\n') },
    { at_ms: 2, client: 'id: x-1\ndata: {"runId":"R","threadId":"T"}\n\n' }, { end: "ended" },
  ];
  const book = { repairs: new Map([["null_dropped", { count: 2 }]]), losses: new Map() };
  const files = goldenCase(lines.map((line) => JSON.stringify(line)).join("\n"), book);
  const folder = "stream/hai.content=string-to-ag-ui-0.pin=0-0-42/chat-a-R";
  const text = (path) => Buffer.from(files[path], "latin1").toString("utf8");
  assert.equal(text(`${folder}/input.sse`), 'data: {"a":"部","threadId":"t1"}\n\n'.replace("部", Buffer.from([0xe9, 0x83, 0xa8]).toString()));
  assert.equal(text(`${folder}/expected.sse`), 'data: {"runId":"r1","threadId":"t1"}\n\n: repair null_dropped 2\n');
  assert.equal(text("request/ag-ui-0.pin=0-0-42-to-hai.content=string/chat-a-R/input.json"), '{"threadId":"t1"}\n');
  const list = execFileSync("tar", ["tf", "-"], { input: tarOf(files) }).toString().trim().split("\n");
  assert.deepEqual(list, Object.keys(files));
});

test("makes a golden case only of a whole stream of text", () => {
  const rows = [{ agent: null }, { agent: { type: "RUN_STARTED" } }];
  assert.equal(isCase({ state: "ended", missed_bytes: 0 }, { rows, cut: null }), true);
  assert.equal(isCase({ state: "ended", missed_bytes: 0 }, { rows, cut: { cut_within: "event" } }), true);
  assert.equal(isCase({ state: "ended", missed_bytes: 0 }, { rows, cut: { cut_within: "character" } }), false);
  assert.equal(isCase({ state: "ended", missed_bytes: 1 }, { rows, cut: null }), false);
  assert.equal(isCase({ state: "running", missed_bytes: 0 }, { rows, cut: null }), false);
  // Of a refused request, and of an agent that answers with an error.
  assert.equal(isCase({ state: "ended", missed_bytes: 0 }, { rows: rows.slice(0, 1), cut: null }), false);
});

test("reports without data if only events are recorded, and lets no data end its block", () => {
  const book = bookOf("hostile");
  const run = detailOf(STORY_IDS.hostile, NOW);
  const report = (mode) => reportOf({ ...run, mode }, book, verdictOf(run, book));
  assert.match(report("full"), /```json\n\{"type":"BUSINESS_DATA_CONTENT"/);
  assert.doesNotMatch(report("events"), /```/);
  for (const mode of ["full", "events"]) assert.doesNotMatch(report(mode), /[\u001b\u202e]/);
  // A refused run has neither rows nor an agent's address.
  const refused = reportOf({ ...run, settings: { ...run.settings, upstream: null }, message: "token=abcdef", code: "x" }, new RowBook(),
    [{ level: "bad", text: "Message: “token=abcdef” Code" }]);
  assert.doesNotMatch(refused, /null|Remarkable rows|abcdef/);
  assert.match(refused, /“token=\\\*\\\*\\\*” Code/);
  assert.doesNotMatch(report("events"), /(^|[^\\`])<img/m);
  // The gateway's own advice has no secret, and its code stays code.
  const advice = "Send exactly one credential: `Authorization: Bearer <token>` or an API key in `x-api-key`.";
  const advised = reportOf({ ...run, message: advice }, new RowBook(), [{ level: "bad", text: advice }]);
  assert.ok(advised.includes(`- ${advice}\n`), advised);
});

test("masks in a report what looks like a secret, and says how often", () => {
  const args = JSON.stringify({ to: "ada@example.org", api_key: "letmein", q: "select 1" });
  const agent = { type: "TOOL_CALL_ARGS", data: JSON.stringify({
    type: "TOOL_CALL_ARGS", toolCallId: "call_Ab12Cd34Ef56Gh78Ij90", delta: args, big: 1,
    state: { auth: "Authorization: Bearer abcdef0123456789", login: "https://bob:hunter2@db.example/x", hash: "9f86d081884c7d659a2feaa0c55ad015",
      jwt: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", note: "key sk-proj-0123456789abcdef, password=swordfish&x=1", people: { "eve@example.org": 1 } },
    max_tokens: "100", run: "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", prose: "An ordinary-sentence-with-many-words/and/a/path stays." }) };
  const row = { n: 1, at_ms: 1, agent, client: [], cause: "changed", repairs: [], losses: [], note: null };
  const own = detailOf(STORY_IDS.hostile, NOW);
  const timeline = [...own.timeline, { at_ms: 9, name: "connected", detail: "https://bob:tiger99@10.0.0.1, a new connection" }];
  const run = { ...own, timeline, mode: "full", thread_id: "carol@example.org" };
  const text = reportOf(run, { remarkable: [row] }, [{ text: "refused: token=abc123" }, { text: "password: `hedgehog9`, password=basic-otter5" }]);
  for (const secret of ["ada@", "letmein", "abcdef0123456789", "hunter2", "9f86d0", "eyJhb", "sk-proj", "swordfish", "eve@", "carol@", "abc123", "tiger99", "hedgehog9", "otter5"])
    assert.ok(!text.includes(secret), `${secret}: ${text}`);
  for (const kept of ["select 1", "call_Ab12Cd34Ef56Gh78Ij90", '"max_tokens":"100"', "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "db.example/x", "many-words/and/a/path stays.", "&x=1"])
    assert.ok(text.includes(kept), `${kept}: ${text}`);
  assert.match(text, /## Masked\n\n/);
  assert.match(text, /- e-mail addresses: 3\n/);
  const none = reportOf({ ...run, timeline: own.timeline, thread_id: "t" }, { remarkable: [{ ...row, agent: { type: "X", data: '{"n":1.0}' } }] }, []);
  assert.match(none, /Nothing looked like a secret/);
  assert.match(none, /\{"n":1\.0\}/, "data without a secret stays as it was sent");
});

test("masks hostile data in bounded time", () => {
  for (const piece of ["eyJ-", "a", "://", "bearer ", "token", "-----BEGIN ", "a@a.", "password=", '{"']) {
    const started = performance.now();
    new SecretMask().maskData(piece.repeat(2_000_000 / piece.length));
    assert.ok(performance.now() - started < 2_000, piece);
  }
});

test("says everything in both languages, with the same values", () => {
  const names = (text) => (text.match(/\{\w+\}/g) ?? []).sort();
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
  for (const [key, text] of Object.entries(en)) assert.deepEqual(names(zh[key]), names(text), key);
});

test("holds a conversation as an AG-UI client, and writes its next request", () => {
  const conversation = new Conversation();
  const first = conversation.start("hello");
  assert.deepEqual([first.messages.length, first.messages[0].content, "resume" in first], [1, "hello", false]);
  const events = [
    { type: "RUN_STARTED", threadId: first.threadId, runId: first.runId },
    { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "delete", parentMessageId: "m1" },
    { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "{}" },
    { type: "ACTIVITY_SNAPSHOT", messageId: "a1", activityType: "plan", content: { steps: [] } },
    { type: "STATE_SNAPSHOT", snapshot: { count: 1 } },
    { type: "RUN_FINISHED", threadId: "t", runId: "r", outcome: { type: "interrupt", interrupts: [{ id: "i1", reason: "sure" }] } },
  ];
  conversation.accept();
  for (const event of events) conversation.apply(event);
  assert.deepEqual([conversation.isEnded, conversation.interrupts[0].id], [true, "i1"]);
  const resume = [{ interruptId: "i1", status: "resolved", payload: true }];
  const second = conversation.start("", resume);
  assert.deepEqual(second.resume, resume);
  assert.deepEqual([second.threadId, second.state], [first.threadId, { count: 1 }]);
  assert.notEqual(second.runId, first.runId);
  // ToolCall has `type: "function"`; an activity is nothing that an agent reads.
  const calls = [{ type: "function", id: "c1", function: { name: "delete", arguments: "{}" } }];
  assert.deepEqual(second.messages.slice(1), [{ id: "m1", role: "assistant", toolCalls: calls }]);
  conversation.apply({ type: "TEXT_MESSAGE_START", messageId: "m2", role: "assistant" });
  conversation.apply({ type: "RUN_ERROR", code: "upstream_truncated", message: "cut" });
  assert.deepEqual([conversation.isEnded, conversation.error], [true, "upstream_truncated cut"]);
  conversation.restart();
  assert.deepEqual(conversation.fold.messages.map(({ id }) => id).slice(1), ["m1", "a1"]);
  for (const broken of [undefined, 5, { type: "MESSAGES_SNAPSHOT" }]) conversation.apply(broken);
  assert.equal(conversation.fold.problems.length, 1);
});

test("keeps a message that was refused out of the conversation, until it is accepted", () => {
  const conversation = new Conversation();
  const users = () => conversation.fold.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  conversation.start("one");
  conversation.accept();
  conversation.apply({ type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "ask" });
  conversation.apply({ type: "RUN_FINISHED", outcome: { type: "interrupt", interrupts: [{ id: "i1", reason: "sure" }] } });
  conversation.start("two");
  conversation.takeBack();
  assert.deepEqual([users(), conversation.unsent, conversation.interrupts.length, conversation.isEnded], [["one"], ["two"], 1, true]);
  assert.deepEqual(conversation.start("three").messages.map(({ content }) => content).filter(Boolean), ["one", "three"]);
  // Written only, and then another one.
  conversation.start("four");
  assert.deepEqual([users(), conversation.unsent], [["one", "four"], ["two", "three"]]);
  // Refused, and then the same request is accepted: somebody typed the credential that was missing.
  conversation.takeBack();
  assert.deepEqual(users(), ["one"]);
  conversation.accept();
  assert.deepEqual([users(), conversation.unsent], [["one", "four"], ["two", "three"]]);
  // Results of calls go with the request that sends them.
  conversation.addResults([{ id: "c1", content: "yes" }]);
  assert.deepEqual(conversation.start("").messages.filter(({ role }) => role === "tool").map(({ content }) => content), ["yes"]);
  conversation.takeBack();
  assert.deepEqual(conversation.openCalls.map(({ id }) => id), ["c1"]);
});

test("proposes an answer that its schema allows, and sends what is no JSON as a text", () => {
  const schema = { type: "object", properties: { ok: { type: "boolean" }, why: { type: "string" }, n: { type: "integer" }, size: { enum: ["s", "l"] }, at: { default: 3 } } };
  assert.deepEqual(exampleOf(schema), { ok: true, why: "", n: 0, size: "s", at: 3 });
  assert.equal(exampleOf({}), null);
  assert.deepEqual([payloadOf('{"ok":false}'), payloadOf("yes, please"), payloadOf("")], [{ ok: false }, "yes, please", ""]);
});

test("says that a run was evicted while its rows were read", () => {
  const rows = [...rowsOf(STORY_IDS.truncated)].slice(0, 3);
  const book = new RowBook();
  book.add([...rows, { gone: true }]);
  assert.equal(book.rows.length, rows.length);
  const sentences = verdictOf(summaryOf(STORY_IDS.truncated, NOW), book).map(({ text }) => text);
  assert.ok(sentences.some((text) => /evicted this run .* rows after 3 are missing/.test(text)), sentences.join("\n"));
});

test("names a wrong dialect, also if its names are understood, and the events that a repair made", () => {
  const run = { ...summaryOf(1, NOW), agent: "hai", events_in: 5 };
  const verdict = (...labels) => {
    const book = new RowBook();
    const client = ["X_START", "X_CONTENT", "X_END"].map((type) => ({ type, data: "{}" }));
    book.add(labels.map((label, at) => ({ n: at + 1, at_ms: 0, agent: { type: "A", data: "{}" }, client, canonical: ["C"], cause: "split", seed: null,
      carried: [], repairs: [{ label, help: label }], losses: [], note: null })));
    return { sentences: verdictOf(run, book).map(({ text }) => text).join(" "), book };
  };
  const wrong = /events are of another dialect than hai/;
  assert.match(verdict("foreign_type", "ag_ui_name").sentences, wrong);
  assert.equal(verdictOf({ ...run, looks_like: "ag-ui" }, verdict("ag_ui_name", "ag_ui_name").book)[0].text,
    "2 events are of another dialect than hai, and look like ag-ui: `agent` of the route is probably wrong.");
  assert.match(verdict("ag_ui_name", "ag_ui_name").sentences, wrong);
  assert.doesNotMatch(verdict("ag_ui_name").sentences, wrong);
  assert.match(verdict("opener_supplied").sentences, /opener_supplied \(X_START\)/);
  assert.match(verdict("closer_supplied").sentences, /closer_supplied \(X_END\)/);
  // Rows are found by the names of both sides, as in the list of runs and in `tap`.
  const { book } = verdict("opener_supplied");
  const found = (text) => book.rows.filter(parseFilter(text, ROW_LANGUAGE).test).length;
  assert.deepEqual(["type:A", "type:x_end", "type:C"].map(found), [1, 1, 0]);
});

test("marks runs that ended well with repairs or losses, and names the member that a repair added", () => {
  const run = { ...summaryOf(1, NOW), state: "ended", outcome: "finished", repairs: 0, losses: 0 };
  const isMarked = (more) => hasFindings({ ...run, ...more });
  assert.deepEqual([{}, { repairs: 1 }, { losses: 2 }, { repairs: 1, outcome: "upstream_error" }, { repairs: 1, state: "running", outcome: null }].map(isMarked),
    [false, true, true, false, false]);
  const { test } = parseFilter("outcome:findings", RUN_LANGUAGE);
  assert.deepEqual([test(run), test({ ...run, losses: 1 })], [false, true]);
  const book = new RowBook();
  const supplied = (member) => ({ label: "member_supplied", help: "added", member });
  book.add([1, 2].map((n) => ({ ...[...rowsOf(1)][0], n, repairs: [supplied("threadId"), supplied("runId")] })));
  const found = verdictOf({ ...run, repairs: 4 }, book).find(({ text }) => text.includes("member_supplied"));
  assert.equal(found.text, "Repaired 4 ×, member_supplied: added (threadId, runId).");
});

test("has the agent's own words of a refusal in its first sentence", () => {
  const run = { ...summaryOf(1, NOW), outcome: "upstream_error", code: "upstream_status",
    message: "The agent answered with status 401. See the agent's own log for the reason.", refusal: "401 Unauthorized: The access token expired" };
  const [first, second] = verdictOf(run, new RowBook());
  assert.equal(first.text, "The agent does not accept the credential that the gateway sends, or gets none. Its answer: “401 Unauthorized: The access token expired” Code: upstream_status.");
  const firstOf = (refusal) => verdictOf({ ...run, refusal }, new RowBook())[0].text;
  assert.match(firstOf("302 Found (Location: https://login.test/)"), /^The agent redirects the request, and the gateway follows no redirects: .* Its answer: “302 Found \(Location/);
  assert.match(firstOf("503 Service Unavailable: 302"), /^The agent refused the request: it answered with an HTTP status/);
  assert.deepEqual([first.level, second.level, second.text], ["bad", "plain", "Message: “The agent answered with status 401. See the agent's own log for the reason.”"]);
  assert.match(verdictOf({ ...run, refusal: null }, new RowBook())[0].text, /Message: “The agent answered with status 401\./);
  const page = { ...run, code: "upstream_content_type", refusal: 'content type "text/html", status 200 OK: page "Sign in"' };
  assert.match(verdictOf(page, new RowBook())[0].text, /Its answer: “content type "text\/html", status 200 OK: page "Sign in"”/);
});

test("names lines that a byte order mark makes no events before that the run has no end, and calls nothing of it permitted", () => {
  const run = { ...summaryOf(1, NOW), outcome: "upstream_error", code: "upstream_truncated", losses: 2, body_form: "begins with a byte order mark",
    message: "The agent's stream ended before its run did. Run it again; see the agent's own log for why it stopped." };
  const verdict = (labels, agent = null) => {
    const book = new RowBook();
    book.add([{ ...[...rowsOf(1)][0], n: 2, agent, canonical: [], losses: labels.map((label) => ({ label, help: label })) }]);
    return verdictOf(run, book).map(({ text, row }) => [text, row]);
  };
  const marked = verdict(["marked_line", "marked_line", "stripped"]);
  assert.deepEqual(marked[0], ["2 lines of the agent begin with a byte order mark (U+FEFF), which only the first line may have: the client got nothing of them. Remove the byte order mark from what writes the agent's lines.", 2]);
  assert.match(marked[1][0], /^The agent ended without RUN_FINISHED\./);
  assert.deepEqual(marked.slice(2).map(([text]) => text), ["Lost 1 ×, stripped: stripped."]);
  // The end was sent, and is lost; to run again does not help.
  const ended = verdict(["marked_line"], { type: "RUN_FINISHED", data: "\ufeffdata: {}" }).map(([text]) => text);
  assert.match(ended[1], /^The agent sent RUN_FINISHED in such a line, at row 2\./);
  assert.doesNotMatch([...marked, ...ended].join(), /Run it again/);
  assert.match(verdict([]).join(), /Run it again/);
  // In the list, from what the gateway counted, wherever in the stream the lines are.
  const lost = { ...run, body_form: null, loss_names: ["marked_line"] };
  assert.deepEqual([lost, { ...lost, loss_names: ["stripped"] }, run, { ...lost, code: "upstream_reset" }].map((one) => listCause(one).text !== ""),
    [true, false, false, false]);
  assert.ok(verdict([]).some(([text]) => text.endsWith("begins with a byte order mark: the gateway reads it all the same.")));
});

test("says in the list what the rows of a run have of its cause", () => {
  const good = { ...summaryOf(1, NOW), outcome: "finished", code: null, repairs: 0, losses: 0, repair_names: [], loss_names: [], missed_bytes: 0, looks_like: null };
  const cause = { n: 3, cause: "same", type: "STATE_DELTA", note: null };
  const unfit = "the client cannot apply this patch, and leaves it out: `replace` of `/b/c` does not fit the state that the client holds";
  const ids = { before: "m1", after: "m2" };
  const cut = { ...good, outcome: "upstream_error", code: "upstream_truncated", bytes_in: 9, events_in: 1 };
  for (const [more, expected] of [
    [{}, ""],
    [{ cause: { ...cause, note: unfit } }, `STATE_DELTA: ${unfit}.`],
    [{ cause: { ...cause, id_change: ids }, repair_names: ["opener_supplied"] }, "The agent probably changed the id from `m1` to `m2`: `m2` has no start, and `m1` was open."],
    [{ loss_names: ["after_terminal"] }, "The agent went on after its end of the run: the client got nothing of it."],
    [{ loss_names: ["stripped"], repair_names: ["x", "y"] }, "lost: stripped; repaired: x, y"],
    [{ missed_bytes: 9_000_000 }, "9.0 MB of the run were not recorded"],
    [cut, ""],
    [{ ...cut, cause: { ...cause, cut_within: "character", type: "TEXT" } }, "The agent's stream was cut within a character of TEXT, at row 3."],
    [{ ...cut, bytes_in: 0, events_in: 0 }, "The agent accepted the request, and ended its answer without a single event."],
    [{ outcome: "limited", code: "run_limit_reached", cause: { ...cause, left_open: [{ item: "message", id: "m", name: null, n: 2 }], cause: "gateway" } }, ""],
    [{ outcome: "client_gone", cause: { ...cause, left_open: [{ item: "message", id: "m", name: null, n: 2 }], cause: "disconnect" } }, "Still open when the client left: the message `m` of row 2."],
  ]) assert.equal(listCause({ ...good, ...more }).text, expected, JSON.stringify(more));
  const found = { ...good, cause: { ...cause, note: unfit } };
  for (const text of ["outcome:findings", '"/b/c"', "STATE_DELTA"]) assert.ok(parseFilter(text, RUN_LANGUAGE).test(found), text);
  assert.ok(!parseFilter("outcome:findings", RUN_LANGUAGE).test(good));
});

test("finds runs by kinds of losses and repairs, and by a key that has expired; a refused request is no failed run", () => {
  const run = { ...summaryOf(1, NOW), outcome: "refused", code: "token_expired", message: "The API key `old-ci` has expired. Get a new one.", caller: null, loss_names: ["stripped"], repair_names: ["null_member"] };
  const passes = (text, of = run) => parseFilter(text, RUN_LANGUAGE).test(of);
  for (const text of ["caller:old-ci", "loss:strip*", "repair:null_member", "outcome:refused", "outcome:failed,refused"]) assert.ok(passes(text), text);
  for (const text of ["caller:other", "loss:null_member", "outcome:failed"]) assert.ok(!passes(text), text);
  assert.ok(!passes("caller:old-ci", { ...run, code: "invalid_token" }));
  for (const outcome of ["agent_error", "upstream_error", "gateway_error", "expired", "limited"]) assert.ok(passes("outcome:failed", { ...run, outcome }), outcome);
  for (const outcome of ["client_gone", "cancelled", "drained", "unread", "finished"]) assert.ok(!passes("outcome:failed", { ...run, outcome }), outcome);
});

test("names another run behind the end before that the run finished", () => {
  const texts = (type) => {
    const book = new RowBook();
    book.add([{ ...[...rowsOf(1)][0], n: 4, agent: { type, data: "{}" }, client: [], canonical: [], cause: "dropped", losses: [{ label: "after_terminal", help: "late" }] }]);
    return verdictOf({ ...summaryOf(1, NOW), outcome: "finished" }, book).map(({ level, text, row }) => [level, text, row]);
  };
  assert.deepEqual(texts("RUN_STARTED")[0], ["bad", "The agent began another run after RUN_FINISHED (row 4): the client got nothing of it. Let the agent send one run in each answer.", 4]);
  assert.match(texts("RUN_STARTED")[1][1], /^Lost 1 ×, after_terminal/);
  assert.match(texts("RUN_STARTED")[2][1], /^The run finished\./);
  assert.deepEqual(texts("TEXT_MESSAGE_END")[0], ["bad", "The agent went on after its end of the run, with 1 event from row 4 on: the client got nothing of it. Let the agent send its last event at the end.", 4]);
});

test("names what the agent never ended, and before that the run finished", () => {
  const sentences = (more) => {
    const book = new RowBook();
    book.add([{ ...[...rowsOf(1)][0], n: 8, ...more }]);
    return verdictOf(summaryOf(1, NOW), book).map(({ text, row }) => [text, row]);
  };
  const call = { item: "call", id: "c7", name: "weather", n: 5 };
  const message = (id) => ({ item: "message", id, name: null, n: 2 });
  const [first, second] = sentences({ left_open: [call, message("m1")] });
  assert.deepEqual(first, ["The agent never ended the call `c7` (weather) of row 5, the message `m1` of row 2.", 8]);
  assert.match(second[0], /^The run finished\. /);
  const cut = sentences({ cause: "gateway", agent: null, left_open: [call, ...["a", "b", "c", "d"].map(message)] });
  assert.equal(cut[0][0], "Still open when the run was cut: the call `c7` (weather) of row 5, the message `a` of row 2, the message `b` of row 2, and 2 more.");
  // A message that goes on under another id is named once, with both.
  const changed = sentences({ left_open: [message("m1"), message("m2")], id_change: { before: "m1", after: "m2" } });
  assert.equal(changed.filter(([text]) => /`m[12]`/.test(text)).length, 1);
  assert.equal(verdictOf(summaryOf(STORY_IDS["call without end"], NOW), bookOf("call without end"))[0].text, "The agent never ended the call `c1` (weather) of row 5.");
});

test("names the silence after which a client left, and the call that hung", () => {
  const verdict = (at_ms, client_waits = []) => {
    const book = new RowBook();
    const [one] = [...rowsOf(1)];
    const call = { item: "call", id: "c7", name: "weather", n: 1 };
    const left_open = [{ ...call, lacks: "end" }, { ...call, id: "c8", lacks: "result" }];
    const left = { ...one, n: 2, at_ms, agent: null, client: [], cause: "disconnect", note: "the client closed the connection", left_open };
    book.add([{ ...one, n: 1, at_ms: 20 }, left]);
    return verdictOf({ ...summaryOf(1, NOW), outcome: "client_gone", code: null, client_waits }, book).map(({ level, text }) => `${level} ${text}`);
  };
  const open = "warning Still open when the client left: the call `c7` (weather) of row 1, the call `c8` (weather) of row 1 without a result.";
  const [silent, ...rest] = verdict(42_020);
  assert.match(silent, /^warning The client closed the connection after the agent had sent nothing for 42\.00 s\. \d+ events? came/);
  // Neither the wait nor the note of the last row again.
  assert.deepEqual(rest, [open]);
  const [left, ...more] = verdict(900);
  assert.match(left, /^warning The client closed the connection before the run ended\./);
  assert.deepEqual(more, [open]);
  const slow = verdict(42_020, [{ from_ms: 100, until_ms: 42_000 }]);
  assert.match(slow[0], /^warning The client closed the connection before the run ended\./);
  assert.deepEqual(slow.slice(1), [open, "warning The client did not read for 42.00 s before row 2: the gateway waited for it."]);
});

test("names the event in whose middle the agent stopped", () => {
  const book = new RowBook();
  const [one] = [...rowsOf(1)];
  const agent = { type: "TEXT_MESSAGE_CONTENT", data: "{" };
  book.add([{ ...one, n: 1, at_ms: 20 }, { ...one, n: 2, at_ms: 30, agent, client: [], cause: "dropped", cut_within: "unfinished", note: "the agent had not finished this event when the run ended" },
    { ...one, n: 3, at_ms: 9_030, agent: null, client: [], cause: "disconnect" }]);
  const [{ text }, ...rest] = verdictOf({ ...summaryOf(1, NOW), outcome: "client_gone", code: null }, book);
  assert.match(text, /sent nothing for 9\.00 s, in the middle of TEXT_MESSAGE_CONTENT \(row 2\)\. \d/);
  assert.ok(rest.some(({ text: other }) => other === "TEXT_MESSAGE_CONTENT: the agent had not finished this event when the run ended."), JSON.stringify(rest));
});

test("names no largest event beside the limit that it has reached", () => {
  const book = new RowBook();
  book.add([{ ...[...rowsOf(1)][0], n: 2, client: [], agent: { type: "STATE_SNAPSHOT", data: "x".repeat(300_000) } }]);
  const sizes = (code) => verdictOf({ ...summaryOf(1, NOW), outcome: "upstream_error", code }, book).filter(({ text }) => text.includes("largest event")).length;
  assert.deepEqual([sizes("frame_too_large"), sizes("upstream_reset")], [0, 1]);
});

test("marks runs in which the agent was silent for long, unless they failed", () => {
  const run = { ...summaryOf(1, NOW), state: "ended", outcome: "finished", code: null };
  const silence = (ms) => ({ silence: { from_ms: 1_000, until_ms: 1_000 + ms } });
  const isMarked = (more) => isSilent({ ...run, ...more });
  assert.deepEqual([{}, { silence: null }, silence(4_999), silence(5_000), { ...silence(9_000), outcome: "client_gone" },
    { ...silence(9_000), outcome: "upstream_error" }, { ...silence(9_000), state: "running", outcome: null }].map(isMarked),
    [false, false, false, true, true, false, false]);
  const found = (filter) => [run, { ...run, ...silence(4_999) }, { ...run, ...silence(5_000) }, { ...run, ...silence(6_000) }]
    .map(parseFilter(filter, RUN_LANGUAGE).test);
  assert.deepEqual(found("silence:>=5s"), [false, false, true, true]);
  assert.deepEqual(found("silence:>5s"), [false, false, false, true]);
  assert.deepEqual(found("silence:<=5s"), [true, true, true, false]);
  assert.deepEqual(found("silence:<5s"), [true, true, false, false]);
});

test("reads a check's verdict from its members, not from its words", () => {
  const text = (moment) => partsOfDetail({ at_ms: 0, ...moment }).map(({ text }) => text).join("");
  assert.equal(text({ name: "authenticate", verdict: "refused", code: "invalid_token", detail: "an API key of keys, in x-api-key" }),
    "refused: invalid_token; required: an API key of keys, in x-api-key");
  assert.equal(text({ name: "request check", verdict: "refused", code: "invalid_request", detail: null }), "refused: invalid_request");
  assert.equal(text({ name: "authenticate", verdict: "passed", detail: "a token" }), "passed: a token");
  assert.equal(text({ name: "connected", detail: "refused: of an agent" }), "refused: of an agent");
});

test("counts one thing and several", () => {
  assert.equal(say("rows.count", { rows: "1" }), "1 row");
  assert.equal(say("rows.filtered", { lines: "1,000", rows: 2 }), "1,000 lines of 2 rows");
  assert.equal(say("verdict.numbers", { in: 1, out: 1 }), "1 event came from the agent, 1 went to the client.");
});

test("shows the gateway's sentences in Chinese, with what they name, and leaves others as they are", () => {
  const refusal = "The request carries no credential; the route requires an API key in `x-api-key`. Send a credential of a kind that the route accepts.";
  assert.equal(translated(refusal), refusal);
  Object.assign(globalThis, { localStorage: { getItem: () => "zh" }, document: { documentElement: {} } });
  chooseLanguage();
  const forms = {
    [refusal]: "请求没有凭据；该路由需要 `x-api-key` 中的 API key。请发送该路由接受的凭据。",
    "a required member is present": "必需成员存在",
    "The rate limit chat is exhausted: 5 requests per 1s, with bursts of up to 7. Retry in 3 s.":
      "速率限制 chat 已用完：每 1s 允许 5 个请求，突发最多 7 个。请在 3 秒后重试。",
    "the inspector kept nothing of the agent's next 77 bytes: a limit of `inspect` was reached":
      "检查器没有保留智能体接下来的 77 字节：已达到 `inspect` 的限制",
    "RUN_FINISHED breaks the rule that a run is started only once (second_start).": "RUN_FINISHED 违反了规则“运行只开始一次”（second_start）。",
    "Nobody knows this. The credential has expired.": "Nobody knows this. 凭据已过期。",
    "Nobody knows this": "Nobody knows this",
    "The rate limit chat is exhausted: 1 request per 1h, with bursts of up to 1. Retry in 9 s.":
      "速率限制 chat 已用完：每 1h 允许 1 个请求，突发最多 1 个。请在 9 秒后重试。",
    "": "",
  };
  for (const [english, chinese] of Object.entries(forms)) assert.equal(translated(english), chinese);
  const call = { item: "call", name: "weather", n: 1 };
  const left_open = [{ ...call, id: "c7", lacks: "result" }, { ...call, id: "c8", name: null, lacks: "result" }];
  assert.equal(leftOpenText({ cause: "disconnect", left_open }),
    "客户端离开时仍未结束：调用 `c7`（weather，第 1 行，尚无结果）、调用 `c8`（第 1 行，尚无结果）。");
  // What the page has no words for stands beneath the cause, as the gateway wrote it.
  const detail = "/tools/0/name: the tool `delete` is not allowed on this route. Correct the request and send it again.";
  assert.deepEqual(divided(detail), { known: "请更正后重新发送。", own: "/tools/0/name: the tool `delete` is not allowed on this route." });
  assert.deepEqual(divided(refusal), { known: forms[refusal], own: "" });
  const refused = { ...summaryOf(1, NOW), state: "ended", outcome: "refused", code: "tool_not_allowed", message: detail,
    explanation: "The request cannot be read." };
  const [first, second] = verdictOf(refused, new RowBook()).map(({ text }) => text);
  assert.equal(first, "网关拒绝了该请求，智能体没有收到它。无法读取该请求。代码：tool_not_allowed。消息：“请更正后重新发送。”");
  assert.equal(second, "网关原文（英文）：“/tools/0/name: the tool `delete` is not allowed on this route.”");
});
