// Draws where the time of a run went: a strip of all events over time, and each moment with its bar.
import { drawing, element } from "./dom.mjs";
import { partsOf, translated } from "./gateway_texts.mjs";
import { nodesOf } from "./gateway_words.mjs";
import { count, duration } from "./numbers.mjs";
import { say, sayName } from "./messages.mjs";

/** @typedef {import("./api.mjs").Moment} Moment */
/** @typedef {import("./api.mjs").Row} Row */

const WIDTH = 1000;
const BUCKETS = 250;
const HALF = 18;
/** A wait is marked if it is a good part of the run, and long enough for a person to notice. */
const GAP_SHARE = 0.1;
const GAP_MS = 200;
/** Moments that are a cause rather than a step. */
const BROKEN = ["failed", "not_connected", "silence", "client_wait"];
/** The checks that a request passes, in their order. */
export const GATES = [
  "host",
  "origin",
  "address",
  "limits before auth",
  "authenticate",
  "authorize",
  "limits after auth",
  "streams",
  "request check",
];

/**
 * Counts events in equal spans of time, and lists the waits between events.
 * @param {Row[]} rows
 * @param {number} total  in milliseconds
 * @param {boolean} [isWhole]  false if something came that is not recorded
 */
export function density(rows, total, isWhole = true) {
  const agent = new Array(BUCKETS).fill(0);
  const client = new Array(BUCKETS).fill(0);
  /** @type {{ from: number, to: number }[]} */
  const gaps = [];
  const wait = Math.max(GAP_MS, total * GAP_SHARE);
  let last = 0;
  for (const row of rows) {
    const at = Math.min(BUCKETS - 1, Math.floor((row.at_ms / total) * BUCKETS));
    if (row.agent !== null) agent[at] += 1;
    client[at] += row.client.length;
    if (row.at_ms - last > wait) gaps.push({ from: last, to: row.at_ms });
    last = row.at_ms;
  }
  if (isWhole && total - last > wait) gaps.push({ from: last, to: total });
  return { agent, client, gaps };
}

/**
 * Draws the strip: events of the agent above the line, events for the client below, waits between them.
 * @param {Row[]} rows
 * @param {number} total
 * @param {boolean} isWhole
 */
export function strip(rows, total, isWhole) {
  const { agent, client, gaps } = density(rows, Math.max(total, 1), isWhole);
  const most = Math.max(1, ...agent, ...client);
  const x = (/** @type {number} */ ms) => (ms / Math.max(total, 1)) * WIDTH;
  const bars = (/** @type {number[]} */ counts, /** @type {string} */ name, /** @type {boolean} */ up) =>
    counts.map((events, at) => {
      if (events === 0) return null;
      const height = Math.max(2, (Math.log1p(events) / Math.log1p(most)) * (HALF - 2));
      const width = WIDTH / BUCKETS;
      return drawing("rect", { class: name, x: at * width, width: width - 0.5, y: up ? HALF - height : HALF, height });
    });
  const picture = drawing(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${2 * HALF}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...gaps.map(({ from, to }) =>
      drawing("rect", { class: "gap", x: x(from), width: x(to - from), y: 0, height: 2 * HALF }),
    ),
    ...bars(agent, "agent", true),
    ...bars(client, "client", false),
    drawing("line", { x1: 0, x2: WIDTH, y1: HALF, y2: HALF }),
  );
  const longest = gaps.reduce((most, { from, to }) => Math.max(most, to - from), 0);
  const waits = gaps.length > 0 ? say("strip.waits", { count: count(gaps.length), longest: duration(longest) }) : "";
  const label = `${say("strip.label", { total: duration(total) })} ${waits}`;
  return element(
    "figure",
    { class: "strip" },
    element(
      "div",
      { class: "sides", "aria-hidden": "true" },
      element("span", {}, say("side.agent")),
      element("span", {}, say("side.client")),
    ),
    picture,
    element("figcaption", {}, label),
  );
}

/** @param {string} name */
function kindOf(name) {
  if (GATES.includes(name)) return "gate";
  return name === "keep_alive" ? "kept" : "step";
}

/**
 * Returns what the gateway writes of a moment: a verdict with what it required, an outcome, or a text.
 * @param {Moment} moment
 * @returns {import("./gateway_texts.mjs").Part[]}
 */
export function partsOfDetail({ name, verdict, code = "", detail: own }) {
  const detail = own ?? "";
  const known = (/** @type {string} */ text) => ({ isKnown: true, text });
  if (name === "end") return [known(sayName("outcome", detail))];
  if (verdict === undefined) return partsOf(detail);
  const verdictText = sayName("verdict.gate", verdict) + say("verdict.between");
  if (code !== "" && detail === "") return [known(verdictText + code)];
  const each = detail.split("; ").map(partsOf);
  // A requirement may have a semicolon of its own.
  const isWhole = each.flat().some(({ isKnown }) => !isKnown) && translated(detail) !== detail;
  const wants = isWhole ? partsOf(detail) : each.flatMap((parts, at) => (at > 0 ? [known(say("list.between")), ...parts] : parts));
  return [known(verdictText + (code === "" ? "" : say("gate.required", { code }))), ...wants];
}

/**
 * Lists the moments of a run, each with the time until the next.
 * @param {Moment[]} timeline
 * @param {number} total
 */
export function waterfall(timeline, total) {
  const end = Math.max(total, 1, ...timeline.map(({ at_ms: at }) => at));
  const lines = timeline.map((moment, index) => {
    const { at_ms: at, name, verdict, times = 1, until_ms: last = at } = moment;
    const until = last > at ? last : (timeline[index + 1]?.at_ms ?? end);
    const often = times > 1 ? say("timeline.times", { times: count(times), last: duration(last) }) : "";
    const bar = drawing(
      "svg",
      { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      drawing("rect", {
        x: Math.min(99.4, (at / end) * 100),
        width: Math.max(0.6, ((until - at) / end) * 100),
        y: 0,
        height: 10,
      }),
    );
    const what = element("span", {}, often && often + say("verdict.between"), ...nodesOf(partsOfDetail(moment)));
    const cells = [sayName("moment", name), duration(at), duration(until - at), what, bar];
    return element(
      "tr",
      { class: verdict === "refused" || BROKEN.includes(name) ? "broken" : kindOf(name) },
      ...cells.map((cell, place) =>
        element(
          place === 0 ? "th" : "td",
          { class: ["name", "number", "number", "what", "bar"][place], scope: place === 0 && "row" },
          cell,
        ),
      ),
    );
  });
  const head = ["moment", "at", "until_next", "detail", "bar"].map((name) =>
    element("th", { scope: "col", class: ["at", "until_next"].includes(name) && "number" }, sayName("timeline", name)),
  );
  return element(
    "table",
    { class: "waterfall", "aria-label": say("timeline.title") },
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...lines),
  );
}
