// Draws the rows of a run in two columns: what the agent sent, and beside it what the client got because of it.
import { element, withCode } from "./dom.mjs";
import { wordsOf } from "./gateway_words.mjs";
import { hasMember, isObject, jsonText, readJson } from "./json_members.mjs";
import { say, sayName } from "./messages.mjs";
import { bytes, count, duration, sizeOf } from "./numbers.mjs";
import { ENDS } from "./row_book.mjs";
import { oneLine } from "./visible_text.mjs";

/** @typedef {import("./api.mjs").Row} Row */
/** @typedef {import("./api.mjs").Side} Side */
/** @typedef {{ name: string, value: string, change: import("./json_members.mjs").Change }} Shown */

/** A sign for each cause; the word stands beside it. */
export const CAUSE_SIGNS = {
  same: "=",
  changed: "\u2260",
  split: "\u21c9",
  merged: "\u2a1d",
  held: "\u2026",
  dropped: "\u2715",
  nothing: "\u00b7",
  gateway: "\u25c6",
  end: "\u25a0",
  disconnect: "\u21e4",
  mark: "\u00b6",
  unrecorded: "\u2298",
};
export const CHANGE_SIGNS = { same: "=", changed: "\u2260", added: "+", gone: "\u2212" };

/** Data that is longer is not parsed for a line of the list. */
const MOST_PARSED = 20_000;
const MOST_OF_LINE = 160;
const MOST_OF_VALUE = 48;

/**
 * A row has a line for each event that the client got, and at least one.
 * @param {Row} row
 */
export function linesOf({ client }) {
  return Math.max(1, client.length);
}

export function drawHead() {
  const cell = (/** @type {string} */ name) =>
    element("span", { class: `c-${name}`, role: "columnheader" }, sayName("row", name));
  return element("div", { class: "row-line", role: "row" }, ...["n", "at", "agent", "cause", "client"].map(cell));
}

/**
 * @param {Row} row
 * @param {number} part  which of the client's events
 */
export function drawLine(row, part) {
  const first = part === 0;
  const members = comparedFor(row, part);
  return element(
    "div",
    { class: `row-line ${row.cause} ${first ? "first" : "further"}` },
    element("span", { class: "c-n number", role: first ? "rowheader" : "gridcell" }, first && count(row.n)),
    element("span", { class: "c-at number", role: "gridcell" }, first && duration(row.at_ms)),
    element("span", { class: "c-agent", role: "gridcell" }, ...(first ? sideOf(row.agent, members.agent) : [])),
    element("span", { class: "c-cause", role: "gridcell" }, ...(first ? causeOf(row) : [])),
    element("span", { class: "c-client", role: "gridcell" }, ...clientOf(row, part, members.client)),
  );
}

/** @param {Row} row */
function causeOf({ client, cause, repairs, losses, note }) {
  return [
    element(
      "span",
      { class: "cause" },
      element("i", { class: "sign", "aria-hidden": "true" }, CAUSE_SIGNS[cause] ?? "?"),
      element("b", {}, sayName("cause", cause)),
    ),
    element(
      "span",
      { class: "second" },
      losses.length > 0 && element("em", { class: "loss" }, say("row.losses", { count: losses.length })),
      repairs.length > 0 && element("em", { class: "repair" }, say("row.repairs", { count: repairs.length })),
      // Beside a client's event there is no place for its words.
      note !== null && client.length > 0 && !ENDS.includes(cause) && element("em", { class: "repair" }, say("row.note")),
    ),
  ];
}

/**
 * @param {Row} row
 * @param {number} part
 * @param {Shown[]} [members]
 */
function clientOf({ client, note, cause, id_change: ids }, part, members) {
  if (client.length === 0) {
    const text = ids === undefined ? [sayName("nothing", cause)] : withCode(say("detail.id_change", ids));
    return [element("span", { class: "second none" }, ...(note === null || cause === "unrecorded" ? text : wordsOf(note)))];
  }
  const place = client.length > 1 && element("em", {}, say("row.part", { at: part + 1, of: client.length }));
  return sideOf(client[part], members, place);
}

/**
 * @param {Side | null} side
 * @param {Shown[]} [members]
 * @param {import("./dom.mjs").Child} [place]
 */
function sideOf(side, members, place) {
  if (side === null) return [];
  const { type, data } = side;
  const size = data !== null && data.length > MOST_PARSED && element("em", {}, bytes(sizeOf(data)));
  return [
    element("span", { class: "type" }, element("code", {}, type ?? say("row.no_event")), size, place),
    element(
      "span",
      { class: "second" },
      ...(members?.map(drawMember) ?? [data === null ? null : oneLine(data, MOST_OF_LINE)]),
    ),
  ];
}

/** @param {Shown} member */
function drawMember({ name, value, change }) {
  if (change === "same") return element("span", { class: "member" }, `${name}: ${value}`);
  return element(
    "mark",
    { class: `member ${change}`, title: sayName("change", change) },
    `${CHANGE_SIGNS[change]} ${name}: ${value}`,
  );
}

/**
 * Compares the members of both sides of a line, those that differ first.
 * @param {Row} row
 * @param {number} part
 */
function comparedFor({ agent, client }, part) {
  const read = (/** @type {Side | null | undefined} */ side) =>
    side?.data && side.data.length <= MOST_PARSED ? readJson(side.data) : undefined;
  const [left, right] = [agent, client[part]].map(read);
  const others = client.filter((_, at) => at !== part).map(read);
  return {
    agent: isObject(left) ? shown(left, isObject(right) ? right : null, "gone", others) : undefined,
    client: isObject(right) ? shown(right, isObject(left) ? left : null, "added", []) : undefined,
  };
}

/**
 * @param {Record<string, unknown>} object
 * @param {Record<string, unknown> | null} other  null if nothing stands beside it
 * @param {"gone" | "added"} alone
 * @param {unknown[]} elsewhere  a member that one of them has is not gone
 */
function shown(object, other, alone, elsewhere) {
  const members = Object.entries(object)
    .filter(([name]) => name !== "type")
    .map(([name, value]) => {
      const text = jsonText(value) ?? "";
      /** @type {Shown["change"]} */
      let change = "same";
      if (other !== null && !Object.hasOwn(other, name)) change = hasMember(elsewhere, name) ? "same" : alone;
      else if (other !== null && jsonText(other[name]) !== text) change = "changed";
      return { name: oneLine(name, MOST_OF_VALUE), value: oneLine(text, MOST_OF_VALUE), change };
    });
  return members.sort((one, two) => Number(one.change === "same") - Number(two.change === "same")).slice(0, 8);
}
