// What the gateway does now, from its own metrics: events per second, runs, times, refusals, agents. And its
// configuration.
import { request } from "./api.mjs";
import { checkCard, explainCard } from "./config_check.mjs";
import { button, drawing, element, longText, onKeys, put, table } from "./dom.mjs";
import { failureOf } from "./gateway_words.mjs";
import { say, sayName } from "./messages.mjs";
import { growth, parseMetrics, quantileOf, samplesOf, sumBy } from "./metrics.mjs";
import { count, duration, rate } from "./numbers.mjs";

/** @typedef {import("./metrics.mjs").Reading} Reading */
/** @typedef {import("./dom.mjs").Child} Child */

const EVERY_MS = 2_000;
/** Quantiles are of the last minute. */
const KEPT_READINGS = 31;

/**
 * @param {HTMLElement} main
 * @param {AbortSignal} signal
 */
export function showThroughput(main, signal) {
  /** @type {Reading[]} */
  const readings = [];
  let paused = false;
  const status = element("p", { class: "status", role: "status" }, say("throughput.first"));
  const numbers = element("div", { class: "cards" });
  const config = element("div", { class: "config" });
  const pause = button(say("runs.pause"), togglePause, { key: "p", "aria-pressed": "false" });

  function togglePause() {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
  }

  async function read() {
    try {
      const text = await (await request("/metrics", { signal })).text();
      readings.push(parseMetrics(text, performance.now()));
      readings.splice(0, readings.length - KEPT_READINGS);
      put(status, say("throughput.every"));
      if (readings.length > 1 && !paused) keepScrolled(numbers, () => put(numbers, ...cardsOf(readings)));
    } catch (error) {
      put(status, failureOf(error));
    }
    if (!signal.aborted) setTimeout(read, EVERY_MS);
  }

  async function readConfig() {
    try {
      const text = await (await request("/config", { signal })).text();
      put(config, text === "" ? element("p", { class: "none" }, say("check.no_file")) : longText(text));
    } catch (error) {
      put(config, element("p", { role: "alert" }, failureOf(error)));
    }
  }

  put(
    main,
    element(
      "section",
      { class: "throughput", "aria-label": say("throughput.title") },
      element("h1", { class: "unseen" }, say("throughput.title")),
      element("div", { class: "tools" }, pause, status),
      numbers,
      element("div", { class: "cards" }, explainCard(signal), checkCard(signal)),
      element(
        "section",
        { class: "card wide", "aria-label": say("config.title") },
        element("h2", {}, say("config.title")),
        button(say("config.reload"), readConfig),
        config,
      ),
    ),
  );
  onKeys({ p: togglePause }, signal);
  read();
  readConfig();
}

/**
 * @param {string} title
 * @param {...Child} children
 */
function card(title, ...children) {
  return element("section", { class: "card", "aria-label": title }, element("h2", {}, title), ...children);
}

/**
 * Draws tables again, which stay where they were scrolled to, and keep the focus.
 * @param {HTMLElement} root
 * @param {() => void} draw
 */
function keepScrolled(root, draw) {
  const regions = () => /** @type {HTMLElement[]} */ ([...root.querySelectorAll(".scroll")]);
  const before = new Map(regions().map((one) => [one.ariaLabel, { top: one.scrollTop, focused: one === document.activeElement }]));
  draw();
  for (const region of regions()) {
    const { top, focused } = before.get(region.ariaLabel) ?? { top: 0, focused: false };
    region.scrollTop = top;
    if (focused) region.focus({ preventScroll: true });
  }
}

/**
 * A table of any length, of which a part is in view.
 * @param {string} title
 * @param {string[]} head
 * @param {Child[][]} rows
 * @param {string} kind
 */
function scrolled(title, head, rows, kind) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table(title, head, rows, kind));
}

/** @param {Reading[]} readings  at least two */
function cardsOf(readings) {
  const [first, before, now] = [readings[0], readings[readings.length - 2], readings[readings.length - 1]];
  return [
    card(say("card.rate"), rateLine(readings)),
    card(say("card.routes"), routesTable(first, before, now)),
    card(say("card.events"), eventsTable(before, now)),
    card(say("card.refusals"), countsTable(now, "diglot_refusals_total", ["route", "reason"], say("card.refusals"))),
    card(say("card.outcomes"), countsTable(now, "diglot_streams_total", ["route", "outcome"], say("card.outcomes"))),
    card(say("card.agents"), agentsTable(now)),
  ];
}

/**
 * Draws the rate of all events over the kept readings, as numbers and as a line.
 * @param {Reading[]} readings
 */
function rateLine(readings) {
  const rates = readings.slice(1).map((now, at) => {
    const grown = growth(readings[at], now, "diglot_events_total");
    const sums = sumBy(grown, ({ direction }) => direction);
    const seconds = (now.at - readings[at].at) / 1000;
    return ["from_agent", "to_client"].map((direction) => (sums.get(direction) ?? 0) / seconds);
  });
  const most = Math.max(0, ...rates.flat());
  const line = (/** @type {number} */ side) =>
    drawing("polyline", {
      class: side === 0 ? "agent" : "client",
      points: rates.map((both, at) => `${at * 10},${40 - (both[side] / Math.max(1, most)) * 38}`).join(" "),
    });
  const last = rates[rates.length - 1];
  return element(
    "div",
    {},
    element(
      "dl",
      { class: "facts large" },
      ...["from_agent", "to_client"].map((direction, side) =>
        element(
          "div",
          {},
          element("dt", {}, sayName("direction", direction)),
          element("dd", {}, `${rate(last[side])}/s`),
        ),
      ),
    ),
    drawing(
      "svg",
      {
        class: "line",
        viewBox: `0 0 ${(KEPT_READINGS - 2) * 10} 40`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      line(0),
      line(1),
    ),
    element("p", { class: "equal" }, say("card.rate_help", { most: rate(most) })),
  );
}

/**
 * @param {Reading} first
 * @param {Reading} before
 * @param {Reading} now
 */
function routesTable(first, before, now) {
  const seconds = (now.at - before.at) / 1000;
  const open = sumBy(samplesOf(now, "diglot_streams_active"), ({ route }) => route);
  const grown = growth(before, now, "diglot_events_total");
  const firstEvents = growth(first, now, "diglot_stream_first_event_seconds_bucket");
  const rows = [...open.keys()].sort().map((route) => {
    const buckets = firstEvents.filter(({ labels }) => labels.route === route);
    const perSecond = (/** @type {string} */ direction) => {
      const events = grown.filter(({ labels }) => labels.route === route && labels.direction === direction);
      return rate(events.reduce((sum, { value }) => sum + value, 0) / seconds);
    };
    const times = [0.5, 0.95].map((quantile) => {
      const found = quantileOf(buckets, quantile);
      return found === null ? duration(null) : `${found.sign}${duration(found.value * 1000)}`;
    });
    return [route, ...[count(open.get(route) ?? 0), perSecond("from_agent"), perSecond("to_client"), ...times]];
  });
  const head = ["route", "open", "from_agent", "to_client", "p50", "p95"].map((name) => sayName("routes", name));
  return scrolled(say("card.routes"), head, rows, "numbers-from-2");
}

/**
 * @param {Reading} before
 * @param {Reading} now
 */
function eventsTable(before, now) {
  const seconds = (now.at - before.at) / 1000;
  const key = (/** @type {Record<string, string>} */ { direction, dialect, type }) =>
    `${direction}\n${dialect}\n${type}`;
  const totals = sumBy(samplesOf(now, "diglot_events_total"), key);
  const rows = [...sumBy(growth(before, now, "diglot_events_total"), key)]
    .sort(([one, a], [two, b]) => b - a || (totals.get(two) ?? 0) - (totals.get(one) ?? 0))
    .map(([name, grown]) => {
      const [direction, dialect, type] = name.split("\n");
      return [
        sayName("direction", direction),
        dialect,
        element("code", {}, type),
        rate(grown / seconds),
        count(totals.get(name) ?? 0),
      ];
    });
  if (rows.length === 0) return element("p", { class: "none" }, say("card.none"));
  const head = ["direction", "dialect", "type", "rate", "total"].map((name) => sayName("events", name));
  return scrolled(say("card.events"), head, rows, "numbers-from-4");
}

/**
 * Lists the counts of a metric that are not 0.
 * @param {Reading} now
 * @param {string} name
 * @param {string[]} labels
 * @param {string} title
 */
function countsTable(now, name, labels, title) {
  const rows = samplesOf(now, name)
    // What an agent refused is a run that has ended.
    .filter(({ value, labels: { reason = "" } }) => value > 0 && !reason.startsWith("upstream_"))
    .sort((one, two) => two.value - one.value)
    .map((sample) => [
      ...labels.map((label) => sayName("outcome", sample.labels[label]) || "\u2013"),
      count(sample.value),
    ]);
  if (rows.length === 0) return element("p", { class: "none" }, say("card.none"));
  const head = [...labels, "total"].map((label) => sayName("events", label));
  return scrolled(title, head, rows, "numbers-from-3");
}

/** @param {Reading} now */
function agentsTable(now) {
  const failed = sumBy(
    samplesOf(now, "diglot_upstream_requests_total").filter(({ labels }) => labels.outcome !== "answered"),
    ({ upstream }) => upstream,
  );
  const answered = sumBy(
    samplesOf(now, "diglot_upstream_requests_total").filter(({ labels }) => labels.outcome === "answered"),
    ({ upstream }) => upstream,
  );
  const rows = samplesOf(now, "diglot_upstream_up").map(({ labels: { route, upstream }, value }) => {
    const level = value === 1 ? "good" : "bad";
    const health = element(
      "span",
      { class: `level ${level}` },
      element("i", { class: "sign", "aria-hidden": "true" }, value === 1 ? "\u2713" : "\u2715"),
      say(`health.${level}`),
    );
    return [
      route,
      element("code", {}, upstream),
      health,
      count(answered.get(upstream) ?? 0),
      count(failed.get(upstream) ?? 0),
    ];
  });
  if (rows.length === 0) return element("p", { class: "none" }, say("card.none"));
  const head = ["route", "upstream", "health", "answered", "failed"].map((name) => sayName("agents", name));
  return scrolled(say("card.agents"), head, rows, "numbers-from-4");
}
