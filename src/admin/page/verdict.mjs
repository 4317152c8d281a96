// Says in plain sentences how a run went and why, the worst first.
import { divided, translated } from "./gateway_texts.mjs";
import { bytes, count, duration } from "./numbers.mjs";
import { say, sayName } from "./messages.mjs";
import { ENDS } from "./row_book.mjs";

/** @typedef {import("./api.mjs").RunSummary} RunSummary */
/** @typedef {import("./row_book.mjs").RowBook} RowBook */
/** @typedef {"bad" | "warning" | "good" | "plain"} Level */
/**
 * @typedef {{ level: Level, text: string, row?: number, own?: string }} Sentence
 *   `row`: where to look, `own`: what of the text the gateway has in English alone
 */

/** Outcomes that nobody has to look into. */
const GOOD = ["finished", "interrupted"];
/** Ends by a person or a plan rather than by a failure. */
const STOPPED = ["client_gone", "cancelled", "drained", "unread"];
const MOST_OF_A_KIND = 3;
/** The code of a run whose agent ended before it. */
export const TRUNCATED = "upstream_truncated";
/** The loss of an event whose line begins with a byte order mark. */
export const MARKED = "marked_line";
/** The loss of an event after the end of the run. */
export const LATE = "after_terminal";
/** The code of a run in which an event was larger than the gateway accepts. */
const TOO_LARGE = "frame_too_large";
/** A silence of the agent that is marked in the list of runs. */
export const LONG_SILENCE_MS = 5_000;

/**
 * @param {Pick<RunSummary, "state" | "outcome">} run
 * @returns {Level}
 */
export function levelOf({ state, outcome }) {
  if (state === "running") return "plain";
  if (outcome === null || GOOD.includes(outcome)) return "good";
  return STOPPED.includes(outcome) ? "warning" : "bad";
}

/**
 * Returns whether a run failed, rather than was refused, or ended by a person or a plan.
 * @param {Pick<RunSummary, "state" | "outcome">} run
 */
export function hasFailed(run) {
  return levelOf(run) === "bad" && run.outcome !== "refused";
}

/**
 * Returns whether a run that ended well has something to look at.
 * @param {RunSummary} run
 */
export function hasFindings(run) {
  return run.state === "ended" && levelOf(run) === "good" && (run.repairs + run.losses > 0 || Boolean(run.cause));
}

/**
 * @param {RunSummary} run
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
export function verdictOf(run, book) {
  const causes = [...lateEvents(book), ...foreignTypes(run, book), ...changingIds(book), ...leftOpen(book)];
  const notes = book.noted.slice(0, 2).map(noteSentence);
  const tallies = [...book.losses.values()].filter(({ label }) => label !== MARKED).slice(0, MOST_OF_A_KIND);
  const lossesOf = (/** @type {boolean} */ isCarried) => tallies
    .filter(({ label }) => label.endsWith("_not_shown") === isCarried).map((tally) => findingSentence("loss", tally));
  const end = endOf(run, book);
  const waited = waits(book, run);
  const isGood = levelOf(run) === "good";
  const isLong = isGood && book.longestWait.ms >= LONG_SILENCE_MS;
  return [
    ...markedLines(book),
    // That a run finished is no news if its agent is broken, the client lacks something, or somebody waited.
    ...(isGood
      ? [...causes, ...notes, ...lossesOf(false), ...largest(book, run), ...(isLong ? waited : []), ...end]
      : [...end, ...causes, ...lossesOf(false)]),
    ...lossesOf(true),
    ...[...book.repairs.values()].slice(0, MOST_OF_A_KIND).map((tally) => findingSentence("repair", tally)),
    ...more(book),
    ...(isGood ? [] : notes),
    ...(isLong ? [] : waited),
    ...(isGood ? [] : largest(book, run)),
    ...incomplete(run, book),
  ];
}

/**
 * @param {RunSummary} run
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function endOf(run, book) {
  const numbers = { in: count(run.events_in), out: count(run.events_out) };
  if (run.state === "running") return [{ level: "plain", text: say("verdict.running", numbers) }];
  const level = levelOf(run);
  const outcome = run.outcome ?? "";
  if (outcome === "client_gone" && leftInSilence(run, book)) {
    const { ms, n } = book.longestWait;
    const { agent, n: within } = book.unfinished ?? {};
    const left = within === undefined
      ? say("verdict.left_after", { time: duration(ms) })
      : say("verdict.left_within", { time: duration(ms), type: agent?.type ?? say("row.no_event"), n: count(within) });
    return [{ level, text: [left, say("verdict.numbers", numbers)].join(say("verdict.between")), row: n }];
  }
  if (run.code === null) {
    return [{ level, text: [sayName("verdict.outcome", outcome), say("verdict.numbers", numbers)].join(say("verdict.between")) }];
  }
  const cause = causeOf(run, run.code, book);
  const known = cause !== run.code;
  // The last event that the gateway made is the one that ended the run for the client.
  const made = book.made.findLast(({ client }) => client.length > 0);
  const unrecorded = book.rows.findLast(({ cause }) => cause === "unrecorded");
  const written = made && say("verdict.written", { type: made.client.at(-1)?.type ?? "", code: run.code, n: made.n });
  // That the agent shall run again helps nobody if its lines are lost.
  const message = run.code === TRUNCATED && book.losses.has(MARKED) ? "" : (run.message ?? "");
  const words = outcome === "agent_error" ? { known: message, own: "" } : divided(message);
  const refusal = answerOf(run);
  // That the agent failed is no news beside how.
  const failure = outcome === "upstream_error" ? translated(run.explanation ?? "") : "";
  const quoted = words.known && say("verdict.message", { message: words.known });
  const text = [
    known ? cause : failure || sayName("verdict.outcome", outcome),
    words.own !== "" && !known && failure === "" && translated(run.explanation ?? ""),
    refusal && say("verdict.refusal", { answer: refusal }),
    written ?? say("verdict.coded", { code: run.code }),
    refusal === "" && quoted,
  ];
  /** @type {Sentence[]} */
  const end = [{ level, text: text.filter(Boolean).join(say("verdict.between")), row: (made ?? unrecorded ?? book.rows.findLast(({ client }) => client.length > 0) ?? book.rows.at(-1))?.n }];
  // The agent's own words are worth more than that it answered.
  if (refusal !== "" && quoted) end.push({ level: "plain", text: quoted });
  // What the page has no words for stands beneath, as the gateway wrote it.
  if (words.own !== "") end.push({ level: "plain", text: say("verdict.own_words", { message: words.own }), own: words.own });
  return end;
}

/**
 * Returns the sentence of the code with which a run ended, or a better one; without any, the code.
 * @param {RunSummary} run
 * @param {string} code
 * @param {RowBook} book
 */
function causeOf(run, code, book) {
  const lostEnd = lostEndOf(run, book);
  if (lostEnd !== undefined) return say("verdict.lost_end", { n: count(lostEnd) });
  const own = sayName("verdict.code", code);
  if (book.cut !== undefined) {
    const { agent, cut_within: within, n } = book.cut;
    return [cutText(within, agent?.type, n), own].join(say("verdict.between"));
  }
  if (isEmpty(run)) return say("verdict.empty");
  return refusalText(run) || own;
}

/**
 * Says in what the agent's stream was cut.
 * @param {string | undefined} within
 * @param {string | null | undefined} type
 * @param {number} n
 */
export function cutText(within, type, n) {
  const values = { type: type ?? say("row.no_event"), n: count(n) };
  return say(within === "character" ? "verdict.cut_character" : "verdict.cut_event", values);
}

/**
 * Returns whether the agent accepted the request, and sent nothing.
 * @param {RunSummary} run
 */
export function isEmpty({ code, events_in, bytes_in }) {
  return code === TRUNCATED && events_in === 0 && bytes_in === 0;
}

/**
 * Says what a status means with which the agent refused the request, if the gateway knows more than that.
 * @param {RunSummary} run
 */
export function refusalText({ code, refusal }) {
  const status = code === "upstream_status" ? (refusal ?? "").slice(0, 3) : "";
  if (/^30[12378]$/.test(status)) return say("verdict.redirected");
  return status === "401" ? say("verdict.unauthorized") : "";
}

/**
 * Returns whether the client left in the longest wait, and that was one for the agent.
 * @param {RunSummary} run
 * @param {RowBook} book
 */
function leftInSilence(run, { rows, longestWait }) {
  return rows[longestWait.n - 1]?.cause === "disconnect" && !isForClient(run, longestWait);
}

/**
 * @param {import("./api.mjs").Row} row
 * @returns {Sentence}
 */
function noteSentence({ n, note, agent }) {
  return noteOf(n, note, agent?.type ?? "");
}

/**
 * @param {number} n
 * @param {string | null} note
 * @param {string} type  of the agent's event
 * @returns {Sentence}
 */
export function noteOf(n, note, type) {
  const { known, own } = divided(note ?? "");
  if (own === "") return { level: "warning", text: say(type === "" ? "verdict.note" : "verdict.note_of", { note: known, type }), row: n };
  return { level: "warning", text: say("verdict.own_words", { message: own }), own, row: n };
}

/**
 * @param {"loss" | "repair"} kind
 * @param {import("./row_book.mjs").Tally} tally
 * @returns {Sentence}
 */
function findingSentence(kind, { label, help, count: times, n, added }) {
  const made = added.size > 0 ? ` (${[...added].join(", ")})` : "";
  const text = say(`verdict.${kind}`, { label, help: `${translated(help)}${made}`, times: count(times) });
  return { level: "warning", text, row: n };
}

/**
 * What the client lacks of the run, its end included, follows from this.
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function markedLines({ losses }) {
  const lost = losses.get(MARKED);
  return lost === undefined ? [] : [{ level: "bad", text: say("verdict.marked_lines", { count: count(lost.count) }), row: lost.n }];
}

/**
 * Returns the row of the agent's end of the run, if that is one of the lines that are lost.
 * @param {RunSummary} run
 * @param {RowBook} book
 */
function lostEndOf({ code }, { losses }) {
  return code === TRUNCATED ? losses.get(MARKED)?.agents.get("RUN_FINISHED") : undefined;
}

/**
 * A run that finished is half of the truth if the agent went on, and the client got nothing of it.
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function lateEvents({ losses }) {
  const late = losses.get(LATE);
  if (late === undefined) return [];
  const row = late.agents.get("RUN_STARTED");
  if (row !== undefined) return [{ level: "bad", text: say("verdict.another_run", { n: count(row) }), row }];
  return [{ level: "bad", text: say("verdict.late_events", { count: count(late.count), n: count(late.n) }), row: late.n }];
}

/**
 * Returns how the agent refused the request. What the gateway found instead of an event stream is in its own words.
 * @param {RunSummary} run
 */
export function answerOf({ code, refusal }) {
  return code === "upstream_content_type" ? translated(refusal ?? "") : refusal ?? "";
}

/**
 * A few events of another dialect are an extension; most of them are a wrong setting.
 * @param {RunSummary} run
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function foreignTypes({ agent, events_in, looks_like: name }, { repairs }) {
  const foreign = ["foreign_type", "ag_ui_name"].flatMap((label) => repairs.get(label) ?? []);
  const times = foreign.reduce((sum, tally) => sum + tally.count, 0);
  if (times === 0 || times * 3 < events_in) return [];
  const row = Math.min(...foreign.map(({ n }) => n));
  const key = name ? "verdict.wrong_dialect_named" : "verdict.wrong_dialect";
  return [{ level: "bad", text: say(key, { agent, count: count(times), name: name ?? "" }), row }];
}

/**
 * The gateway names the ids if one item was open. Otherwise, items had no start while others, that were started, had no
 * end: mostly the same ones, under other ids.
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function changingIds({ losses, repairs, idChanges: { n, count: times, ids } }) {
  if (times === 1) return [{ level: "warning", text: say("detail.id_change", ids[0]), row: n }];
  if (times > 1) return [{ level: "warning", text: say("verdict.ids_change", { times: count(times), ids: chainOf(ids, times) }), row: n }];
  const opened = repairs.get("opener_supplied");
  if (opened === undefined) return [];
  const isLeftOpen = (repairs.get("closer_supplied")?.count ?? 0) > opened.count || losses.has("stray_boundary");
  return isLeftOpen ? [{ level: "warning", text: say("verdict.changing_ids"), row: opened.n }] : [];
}

/**
 * Lists changes of ids in their order.
 * @param {{ before: string, after: string }[]} ids
 * @param {number} times
 */
function chainOf(ids, times) {
  let chain = "";
  let last = "";
  for (const { before, after } of ids.slice(0, MOST_OF_A_KIND)) {
    const start = before === last ? "" : `${chain === "" ? "" : say("list.comma")}\`${before}\``;
    chain += `${start} \u2192 \`${after}\``;
    last = after;
  }
  return times > MOST_OF_A_KIND ? `${chain} \u2026` : chain;
}

/**
 * An item that went on under another id was named with it.
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function leftOpen({ leftOpen: row, idChanges: { ids } }) {
  const text = row && leftOpenText(row, ({ id }) => !ids.some(({ before, after }) => id === before || id === after));
  return text ? [{ level: "warning", text, row: row.n }] : [];
}

/**
 * Says what the agent did not end.
 * @param {Pick<import("./api.mjs").Row, "left_open" | "cause">} row
 * @param {(open: import("./api.mjs").LeftOpen) => boolean} [isNamed]
 */
export function leftOpenText({ left_open: all = [], cause }, isNamed = () => true) {
  const open = all.filter(isNamed);
  if (open.length === 0) return "";
  const items = open.slice(0, MOST_OF_A_KIND).map(({ item, id, name, lacks, n }) =>
    say(name === null ? "open.item" : "open.named", {
      item: sayName("item", item), id, name: name ?? "", n: count(n), result: lacks === "result" ? say("open.unanswered") : "",
    }));
  const rest = open.length - items.length;
  if (rest > 0) items.push(say("open.more", { count: count(rest) }));
  const key = cause === "disconnect" ? "verdict.open_at_leave" : ENDS.includes(cause) ? "verdict.open_at_cut" : "verdict.left_open";
  return say(key, { items: items.join(say("list.comma")) });
}

/**
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function more({ losses, repairs }) {
  const rest = [losses, repairs].map(({ size }) => Math.max(0, size - MOST_OF_A_KIND));
  if (rest[0] + rest[1] === 0) return [];
  return [{ level: "plain", text: say("verdict.more", { losses: rest[0], repairs: rest[1] }) }];
}

/**
 * Returns whether the gateway waited for the client to read in most of a wait.
 * @param {RunSummary} run
 * @param {RowBook["longestWait"]} wait
 */
function isForClient({ client_waits: clientWaits = [] }, { until, ms }) {
  const forClient = clientWaits.reduce(
    (sum, wait) => sum + Math.max(0, Math.min(wait.until_ms, until) - Math.max(wait.from_ms, until - ms)), 0);
  return 2 * forClient >= ms;
}

/**
 * Returns whether the agent sent nothing at all in most of a wait, rather than no whole event.
 * @param {RunSummary} run
 * @param {RowBook["longestWait"]} wait
 */
function isSilent({ silence }, { ms }) {
  return silence === undefined || (silence !== null && 2 * (silence.until_ms - silence.from_ms) >= ms);
}

/**
 * @param {RowBook} book
 * @param {RunSummary} run
 * @returns {Sentence[]}
 */
function waits(book, run) {
  const { longestWait, rows } = book;
  /** @type {Sentence[]} */
  const sentences = [];
  // That the client left in it is how the run ended.
  if (longestWait.n > 0 && !leftInSilence(run, book)) {
    // The first row may be the end that the gateway made.
    const isFirst = longestWait.n === 1 && rows[0].agent !== null;
    const slow = isForClient(run, longestWait) ? "verdict.wait_client" : isSilent(run, longestWait) ? "verdict.wait_agent" : "verdict.wait_parts";
    const isEnd = rows[longestWait.n - 1]?.cause === "gateway" && slow === "verdict.wait_agent";
    const key = isFirst ? "verdict.slow_first" : isEnd ? "verdict.wait_end" : slow;
    sentences.push({
      level: "warning",
      text: say(key, { time: duration(longestWait.ms), n: longestWait.n }),
      row: longestWait.n,
    });
  }
  return sentences;
}

/**
 * @param {RowBook} book
 * @param {RunSummary} run
 * @returns {Sentence[]}
 */
function largest({ largest: { n, size, type } }, { missed_bytes: missed, code }) {
  // That an event is too large is how the run ended.
  if (n === 0 || code === TOO_LARGE) return [];
  // Of an event that was not kept, the row has the beginning.
  const key = missed > 0 ? "verdict.largest_part" : "verdict.largest";
  return [{ level: "warning", text: say(key, { size: bytes(size), type: type || say("row.no_event"), n }), row: n }];
}

/**
 * @param {RunSummary} run
 * @param {RowBook} book
 * @returns {Sentence[]}
 */
function incomplete({ missed_bytes, withheld, limit, mode, body_form: form }, { isGone, rows, losses }) {
  /** @type {Sentence[]} */
  const sentences = [];
  // Nothing about the form is fine if lines are lost by it.
  if (form && !losses.has(MARKED)) sentences.push({ level: "plain", text: say("verdict.body_form", { form: translated(form) }) });
  if (missed_bytes > 0) {
    const key = withheld ? "verdict.withheld" : "verdict.missed_bytes";
    sentences.push({ level: "warning", text: say(key, { size: bytes(missed_bytes), limit: limit ?? "inspect" }) });
  }
  if (isGone) sentences.push({ level: "warning", text: say("verdict.evicted", { n: count(rows.length) }) });
  if (mode === "events") sentences.push({ level: "plain", text: say("verdict.mode_events") });
  return sentences;
}
