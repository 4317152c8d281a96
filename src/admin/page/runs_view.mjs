// The list of runs: live, filtered, sorted, and paused on request.
import { button, element, onKeys, put, withCode } from "./dom.mjs";
import { filterBox } from "./filter_box.mjs";
import { parseFilter } from "./filter.mjs";
import { captureControls } from "./capture.mjs";
import { divided } from "./gateway_texts.mjs";
import { inEnglish } from "./gateway_words.mjs";
import { listCause } from "./list_cause.mjs";
import { say, sayName } from "./messages.mjs";
import { bytes, clock, count, duration } from "./numbers.mjs";
import { VirtualList } from "./virtual_list.mjs";
import { LONG_SILENCE_MS, answerOf, hasFailed, hasFindings, levelOf } from "./verdict.mjs";
import { oneLine } from "./visible_text.mjs";

/** @typedef {import("./api.mjs").RunSummary} RunSummary */

export const LEVEL_SIGNS = { good: "\u2713", bad: "\u2715", warning: "\u25b2", plain: "\u25cf" };

/** The outcomes that a run can have. */
const OUTCOMES = ["finished", "interrupted", "agent_error", "upstream_error", "gateway_error", "client_gone", "unread", "drained",
  "expired", "limited", "cancelled", "refused"];

/** @type {import("./filter.mjs").FilterLanguage<RunSummary>} */
export const RUN_LANGUAGE = {
  keys: {
    route: { texts: ({ route }) => [route] },
    outcome: {
      // By the label of the metric, and as the page shows it.
      texts: ({ outcome }) => (outcome === null ? [] : [outcome, sayName("outcome", outcome)]),
      words: { failed: hasFailed, findings: hasFindings },
      values: () => OUTCOMES.flatMap((outcome) => [...new Set([outcome, sayName("outcome", outcome)])]),
    },
    state: { texts: ({ state }) => [state], values: () => ["running", "ended"] },
    code: { texts: ({ code }) => [code] },
    caller: { texts: (run) => [run.caller, expiredKeyOf(run)] },
    dialect: { texts: ({ client, agent }) => [client, agent] },
    client: { texts: ({ client }) => [client] },
    agent: { texts: ({ agent }) => [agent] },
    mode: { texts: ({ mode }) => [mode], values: () => ["events", "full"] },
    since: { number: ({ started_ms: at }) => Date.now() - at, bare: "less" },
    events: { number: (run) => run.events_in + run.events_out },
    bytes: { number: (run) => run.bytes_in + run.bytes_out },
    first: { number: ({ first_event_ms: ms }) => ms },
    duration: { number: ({ duration_ms: ms }) => ms },
    repairs: { number: ({ repairs }) => repairs },
    repair: { texts: ({ repair_names: names = [] }) => names, forRows: true },
    losses: { number: ({ losses }) => losses },
    loss: { texts: ({ loss_names: names = [] }) => names, forRows: true },
    silence: { number: silenceOf },
    missed: { number: ({ missed_bytes: missed }) => missed },
    thread: { texts: ({ thread_id: id }) => [id] },
    run: { texts: ({ run_id: id }) => [id] },
    request: { texts: ({ request_id: id }) => [id] },
    type: { texts: ({ types }) => types, forRows: true },
  },
  freeTexts: (run) => [`#${run.id}`, run.route, run.caller, run.thread_id, run.run_id, run.request_id, run.code, run.message, run.refusal,
    ...Object.values(listCause(run)), ...(run.repair_names ?? []), ...(run.loss_names ?? [])],
};

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {(run: RunSummary) => string | number} by  what the column is sorted by
 * @property {(run: RunSummary) => import("./dom.mjs").Child} text
 * @property {boolean} [isNumber]
 */

/** @type {Column[]} */
const COLUMNS = [
  { name: "started", by: (run) => run.started_ms, text: (run) => clock(run.started_ms) },
  { name: "route", by: (run) => run.route, text: (run) => run.route },
  { name: "outcome", by: (run) => `${levelOf(run)} ${run.outcome} ${run.code}`, text: outcomeText },
  { name: "events_in", by: (run) => run.events_in, text: (run) => count(run.events_in), isNumber: true },
  { name: "bytes_in", by: (run) => run.bytes_in, text: (run) => bytes(run.bytes_in), isNumber: true },
  { name: "first", by: (run) => run.first_event_ms ?? -1, text: (run) => duration(run.first_event_ms), isNumber: true },
  { name: "repairs", by: (run) => run.repairs, text: (run) => count(run.repairs), isNumber: true },
  { name: "caller", by: (run) => run.caller ?? "", text: (run) => run.caller ?? "\u2013" },
  { name: "dialects", by: (run) => `${run.agent} ${run.client}`, text: (run) => `${run.agent} \u2192 ${run.client}` },
  { name: "events_out", by: (run) => run.events_out, text: (run) => count(run.events_out), isNumber: true },
  { name: "bytes_out", by: (run) => run.bytes_out, text: (run) => bytes(run.bytes_out), isNumber: true },
  { name: "duration", by: (run) => run.duration_ms, text: (run) => duration(run.duration_ms), isNumber: true },
  { name: "losses", by: (run) => run.losses, text: (run) => count(run.losses), isNumber: true },
];

/** Characters of the reason in a row. */
const MOST_OF_CAUSE = 160;
/** A silence that a person takes for a failure. */
const SILENCE_SIGN = "\u25d4";

/** What survives while a run is looked at. */
const kept = { filter: "", sort: "started", descending: true, selected: -1, top: 0 };

/** @param {RunSummary} run */
function outcomeText(run) {
  const words = run.state === "running" ? say("state.running") : sayName("outcome", run.outcome ?? "");
  const { known, own } = messageOf(run);
  const cause = listCause(run);
  const isMarked = (levelOf(run) === "good" || run.code === null) && cause.text + cause.own !== "";
  // Why the agent refused is worth more than that it did, and what the rows have more than what the outcome means.
  const why = isMarked ? "" : [run.code, cause.text || answerOf(run) || known].filter(Boolean).join(": ");
  const rest = isMarked ? "" : own;
  const marks = [
    ...(isMarked ? [badge("warning"), " ", ...withCode(oneLine(cause.text, MOST_OF_CAUSE)), cause.own !== "" && inEnglish(oneLine(cause.own, MOST_OF_CAUSE)), " "] : []),
    ...(isSilent(run) ? [sign(SILENCE_SIGN), " ", say("runs.silence", { time: duration(silenceOf(run)) })] : []),
  ];
  // One line, since all lines of the list are as high.
  return element(
    "span",
    {},
    element("span", { class: `level ${levelOf(run)}` }, badge(levelOf(run)), element("b", {}, words)),
    (`${why}${rest}` !== "" || marks.length > 0) && element("span", { class: isMarked ? "second level warning" : "second" },
      ...withCode(oneLine(why, MOST_OF_CAUSE)), rest !== "" && why !== "" && ": ", rest !== "" && inEnglish(oneLine(rest, MOST_OF_CAUSE)),
      marks.length > 0 && `${why}${rest}` !== "" && " ", ...marks),
  );
}

/**
 * Returns the id of a key that has expired: its caller is unknown, and somebody looks for it.
 * @param {RunSummary} run
 */
function expiredKeyOf({ code, message }) {
  return code === "token_expired" ? /`([^`]+)`/.exec(message ?? "")?.[1] : undefined;
}

/** @param {RunSummary} run */
function silenceOf({ silence }) {
  return silence ? silence.until_ms - silence.from_ms : 0;
}

/**
 * Returns whether the agent was silent for so long that it is worth a mark, unless the code of a failure says so.
 * @param {RunSummary} run
 */
export function isSilent(run) {
  return run.state === "ended" && levelOf(run) !== "bad" && silenceOf(run) >= LONG_SILENCE_MS;
}

/**
 * Returns the message of a run; what the page has no words for stands behind what its code means.
 * @param {RunSummary} run
 */
function messageOf(run) {
  const { outcome, message, explanation } = run;
  if (outcome === "agent_error" || message === null) return { known: message ?? "", own: "" };
  const { known, own } = divided(message);
  return { known: own === "" ? known : divided(explanation ?? "").known, own };
}

/** @param {keyof LEVEL_SIGNS} level */
export function badge(level) {
  return sign(LEVEL_SIGNS[level]);
}

/** @param {string} text */
function sign(text) {
  return element("i", { class: "sign", "aria-hidden": "true" }, text);
}

/**
 * Keeps the terms for rows that were written into the filter of runs.
 * @returns {string}
 */
export function filterForRows() {
  const { forRows } = parseFilter(kept.filter, RUN_LANGUAGE);
  return forRows.map(({ negated, key, value }) => `${negated ? "-" : ""}${key}:${value}`).join(" ");
}

/**
 * @param {HTMLElement} main
 * @param {import("./run_store.mjs").RunStore} store
 * @param {AbortSignal} signal
 */
export function showRuns(main, store, signal) {
  /** @type {RunSummary[]} */
  let shown = [];
  let paused = false;

  const status = element("p", { class: "status", role: "status" });
  const empty = element("div", { class: "empty" });
  const head = element("div", { class: "run-line", role: "row" }, ...COLUMNS.map(headCell));
  const list = new VirtualList({
    id: "run",
    label: say("runs.label"),
    head,
    signal,
    draw: (at) => drawRun(shown[at]),
    onSelect: (at) => {
      kept.selected = shown[at].id;
    },
    onOpen: open,
  });
  const filter = filterBox({
    id: "run-filter",
    label: say("runs.filter"),
    value: kept.filter,
    language: RUN_LANGUAGE,
    example: "route:chat outcome:failed type:TOOL_* since:10m",
    items: () => store.runs.values(),
    onChange: (text) => {
      kept.filter = text;
      update();
    },
  });
  const pause = button(say("runs.pause"), togglePause, { key: "p", "aria-pressed": "false" });

  /** @param {Column} column */
  function headCell({ name, isNumber }) {
    const sort = () => {
      kept.descending = kept.sort === name ? !kept.descending : isNumber === true || name === "started";
      kept.sort = name;
      update();
    };
    return element(
      "span",
      { class: `c-${name}${isNumber ? " number" : ""}`, role: "columnheader", "data-name": name },
      element("button", { type: "button", onclick: sort }, sayName("column", name)),
    );
  }

  /** Opens the selected run, or the first. */
  function open() {
    const run = shown[Math.max(0, list.selected)];
    if (run !== undefined) location.hash = `#/run/${run.id}`;
  }

  function togglePause() {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    update();
  }

  /** Lists the runs again: filtered, sorted, with the same run selected. */
  function update() {
    const { test } = parseFilter(kept.filter, RUN_LANGUAGE);
    const { by } = COLUMNS.find(({ name }) => name === kept.sort) ?? COLUMNS[0];
    const order = kept.descending ? -1 : 1;
    shown = [...store.runs.values()].filter(test).sort((one, other) => {
      const [a, b] = [by(one), by(other)];
      return (a < b ? -1 : a > b ? 1 : one.id - other.id) * order;
    });
    list.count = shown.length;
    list.mark(shown.findIndex(({ id }) => id === kept.selected));
    list.refresh();
    for (const cell of head.children) {
      const sorted = kept.descending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", cell.getAttribute("data-name") === kept.sort ? sorted : "none");
    }
    put(status, ...statusTexts());
    const nothing = store.state === "live" && store.runs.size === 0;
    if (nothing !== empty.classList.contains("shown")) put(empty, ...(nothing ? noRuns() : []));
    empty.classList.toggle("shown", nothing);
    list.note = shown.length === 0 && store.runs.size > 0 ? say("filter.nothing") : "";
  }

  function statusTexts() {
    const texts = [say("runs.count", { shown: count(shown.length), all: count(store.runs.size) })];
    if (shown.length > 0) texts.push(say("runs.open"));
    if (paused) texts.push(say("runs.paused"));
    return [texts.join(" \u00b7 ")];
  }

  function noRuns() {
    return [element("h2", {}, say("runs.none")), element("p", {}, say("runs.none_help")), captureControls(signal)];
  }

  put(
    main,
    element(
      "section",
      { class: "runs", "aria-label": say("runs.title") },
      element("h1", { class: "unseen" }, say("runs.title")),
      element("div", { class: "tools" }, filter.root, pause, status),
      list.root,
      empty,
    ),
  );
  update();
  list.scroller.scrollTop = kept.top;
  list.scroller.addEventListener(
    "scroll",
    () => {
      kept.top = list.scroller.scrollTop;
    },
    { passive: true },
  );
  store.onChange(() => {
    if (!paused) update();
  }, signal);
  onKeys(
    { j: () => list.move(1), k: () => list.move(-1), Enter: open, p: togglePause, "/": () => filter.input.focus() },
    signal,
  );
  list.root.focus({ preventScroll: true });
}

/** @param {RunSummary} run */
function drawRun(run) {
  return element(
    "div",
    { class: "run-line" },
    ...COLUMNS.map(({ name, text, isNumber }) => {
      const remarkable = (name === "repairs" || name === "losses") && run[name] > 0;
      return element(
        "span",
        { class: `c-${name}${isNumber ? " number" : ""}${remarkable ? " some" : ""}`, role: "gridcell" },
        text(run),
      );
    }),
  );
}
