// Explains one row: why it is what it is, which members differ, its raw bytes, and what the client holds after it.
import { element, longText, put, table, withCode } from "./dom.mjs";
import { translated } from "./gateway_texts.mjs";
import { wordsOf } from "./gateway_words.mjs";
import { compareMembers, hasMember, jsonText, readJson } from "./json_members.mjs";
import { say, sayName } from "./messages.mjs";
import { count, duration } from "./numbers.mjs";
import { CAUSE_SIGNS, CHANGE_SIGNS } from "./row_lines.mjs";
import { leftOpenText } from "./verdict.mjs";

/** @typedef {import("./api.mjs").Row} Row */
/** @typedef {import("./dom.mjs").Child} Child */

/** A member is shown in a cell up to this length; the raw text has all of it. */
const MOST_OF_MEMBER = 300;
/** A row changes the last messages; a long run has thousands. */
const MOST_MESSAGES = 200;

/**
 * @param {Row} row
 * @param {number} part  which of the client's events is compared
 * @param {{ released: Map<number, number> }} book
 * @param {(n: number) => void} goTo  shows another row
 * @returns {Child[]}
 */
export function whyOf(row, part, { released }, goTo) {
  const { cause, seed, canonical, carried, kept = [], repairs, losses, note, id_change: ids, releases = [] } = row;
  const link = (/** @type {number} */ n) =>
    element("button", { type: "button", class: "link", onclick: () => goTo(n) }, say("verdict.row", { n: count(n) }));
  const writer = released.get(row.n);
  const facts = [
    ["time", duration(row.at_ms)],
    ["canonical", canonical.join(", ")],
    ["seed", seed && translated(seed)],
  ];
  return [
    element(
      "p",
      { class: "lead" },
      element("i", { class: "sign", "aria-hidden": "true" }, CAUSE_SIGNS[cause] ?? "?"),
      sayName("why", cause === "dropped" && losses.length === 0 ? "unfinished" : cause),
    ),
    writer !== undefined && element("p", { class: "linked" }, say("detail.released_by"), " ", link(writer)),
    releases.length > 0 &&
      element("p", { class: "linked" }, say("detail.releases"), ...releases.flatMap((n) => [" ", link(n)])),
    ids !== undefined && element("p", { class: "note" }, ...withCode(say("detail.id_change", ids))),
    row.left_open !== undefined && element("p", { class: "note" }, ...withCode(leftOpenText(row))),
    note !== null && element("p", { class: "note" }, ...wordsOf(note)),
    ...losses.map((finding) => findingOf("loss", finding)),
    ...repairs.map((finding) => findingOf("repair", finding)),
    ...(isLost(row) ? [] : carried).map(({ names, in: place }) =>
      element("p", { class: "carried" }, say("detail.carried", { names: names.join(", "), place })),
    ),
    kept.length > 0 && element("p", { class: "carried" }, say("detail.kept", { values: kept.join(", ") })),
    element(
      "dl",
      { class: "facts" },
      ...facts
        .filter(([, value]) => value)
        .map(([name, value]) =>
          element("div", {}, element("dt", {}, sayName("detail", name ?? "")), element("dd", {}, value)),
        ),
    ),
    membersOf(row, part),
  ];
}

/**
 * Returns whether nothing carries what an event has: it is left out, and not just without a form that shows it.
 * @param {Row} row
 */
function isLost({ cause, losses }) {
  return cause === "dropped" && !losses.some(({ label }) => label.endsWith("_not_shown"));
}

/**
 * @param {"loss" | "repair"} kind
 * @param {import("./api.mjs").Finding} finding
 */
function findingOf(kind, { label, help, rule, member }) {
  return element(
    "p",
    { class: kind },
    element("b", {}, say(`detail.${kind}`)),
    element("code", {}, member === undefined ? label : `${label} ${member}`),
    ...wordsOf(help),
    rule && element("span", { class: "rule" }, element("b", {}, say("detail.rule")), ...wordsOf(rule)),
  );
}

/**
 * @param {Row} row
 * @param {number} part
 */
function membersOf({ agent, client, cause }, part) {
  const right = client[part];
  if (!agent?.data || !right?.data || cause === "same") return null;
  // A member that another of the row's events has is not gone.
  const others = client.filter((_, at) => at !== part).map(({ data }) => readJson(data));
  return membersTable(agent.data, right.data, say("side.agent"), say("side.client"), others);
}

/**
 * Lists the members of two JSON texts that differ, and then how many are equal.
 * @param {string} left
 * @param {string} right
 * @param {string} leftName
 * @param {string} rightName
 * @param {unknown[]} [elsewhere]   values that have further members of the left
 */
export function membersTable(left, right, leftName, rightName, elsewhere = []) {
  const values = [left, right].map(readJson);
  if (values.includes(undefined)) return element("p", {}, say("members.no_json"));
  const isElsewhere = (/** @type {string} */ path) => hasMember(elsewhere, path.split(/[.[]/, 1)[0]);
  const members = compareMembers(values[0], values[1]).filter(({ path, change }) => change !== "gone" || !isElsewhere(path));
  const differing = members.filter(({ change }) => change !== "same");
  const equal = element("p", { class: "equal" }, say("members.equal", { count: members.length - differing.length }));
  if (differing.length === 0) return equal;
  const rows = differing.map(({ path, change, left: before, right: after }) => [
    element(
      "span",
      { class: `change ${change}` },
      element("i", { class: "sign", "aria-hidden": "true" }, CHANGE_SIGNS[change]),
      sayName("change", change),
    ),
    element("code", {}, path),
    cellOf(before),
    cellOf(after),
  ]);
  const head = [say("members.change"), say("members.member"), leftName, rightName];
  return element("div", {}, table(say("members.title"), head, rows, "members"), equal);
}

/** @param {string | undefined} value */
function cellOf(value) {
  if (value === undefined) return element("span", { class: "none" }, "\u2013");
  return element("code", {}, value.length > MOST_OF_MEMBER ? `${value.slice(0, MOST_OF_MEMBER)}\u2026` : value);
}

/**
 * @param {Row} row
 * @returns {Child[]}
 */
export function rawOf({ agent, client }) {
  const sides = [
    agent && { name: say("side.agent"), side: agent },
    ...client.map((side, at) => ({ name: `${say("side.client")} ${client.length > 1 ? at + 1 : ""}`, side })),
  ].filter((one) => one !== null);
  if (sides.length === 0) return [element("p", {}, say("raw.nothing"))];
  return sides.flatMap(({ name, side: { type, event, data } }) => [
    element("h2", {}, name, " ", element("code", {}, type ?? say("row.no_event"))),
    data === null
      ? element("p", {}, say("raw.not_recorded"))
      : longText(event === undefined ? data : `event: ${event}\ndata: ${data}`),
  ]);
}

/**
 * Shows what both sides hold after a row.
 * @param {import("./both_sides.mjs").BothSides} sides
 * @param {import("./api.mjs").RunDetail} run
 * @returns {Child[]}
 */
export function heldOf({ client, agent, knowsInput }, run) {
  const side = (/** @type {"client" | "agent"} */ name, /** @type {import("./client_fold.mjs").ClientFold} */ fold) => {
    const dialect = run[name];
    return element(
      "section",
      { "aria-label": say(`side.${name}`) },
      element("h2", {}, say(`held.${name}`)),
      dialect !== "ag-ui" && element("p", { class: "none" }, say("held.read_as", { dialect })),
      ...sideOf(fold),
    );
  };
  return [
    !knowsInput && element("p", { class: "note" }, say("held.no_input")),
    element("div", { class: "pair" }, side("agent", agent), side("client", client)),
  ];
}

/**
 * @param {import("./client_fold.mjs").ClientFold} fold
 * @returns {Child[]}
 */
function sideOf({ messages, state, problems }) {
  const earlier = messages.length - MOST_MESSAGES;
  return [
    ...problems.slice(0, 5).map((problem) => element("p", { class: "repair" }, say("held.problem", { problem }))),
    element("h3", {}, say("held.messages")),
    messages.length === 0 && element("p", { class: "none" }, say("held.none")),
    earlier > 0 && element("p", { class: "none" }, say("held.earlier", { count: count(earlier) })),
    ...messages.slice(-MOST_MESSAGES).map(({ id, role, content, toolCalls = [], toolCallId }) =>
      element(
        "article",
        { class: `message ${role}` },
        element(
          "h4",
          {},
          element("b", {}, role),
          " ",
          element("code", {}, toolCallId ? `${id} \u2190 ${toolCallId}` : id),
        ),
        content !== undefined &&
          content !== "" &&
          longText(typeof content === "string" ? content : (jsonText(content) ?? "")),
        ...toolCalls.map(({ id: call, function: { name, arguments: text } }) =>
          element("div", {}, element("code", {}, `${name} (${call})`), longText(text)),
        ),
      ),
    ),
    element("h3", {}, say("held.state")),
    longText(JSON.stringify(state, null, 2) ?? ""),
  ];
}

/**
 * Shows both requests, and which members of the body differ.
 * @param {HTMLElement} root
 * @param {import("./api.mjs").RunDetail} run
 */
export function drawRequests(root, { requests, mode }) {
  const { client, agent } = requests;
  const heads = { client: requests.client_head, agent: requests.agent_head };
  if ([client, agent, heads.client, heads.agent].every((text) => text === null)) {
    put(root, element("p", { class: "note" }, say("requests.none", { mode: sayName("mode", mode) })));
    return;
  }
  const side = (/** @type {string} */ name, /** @type {string | null} */ head, /** @type {string | null} */ text) =>
    element(
      "section",
      { "aria-label": name },
      element("h2", {}, name),
      head && longText(head.trimEnd()),
      text === null ? element("p", {}, say("raw.not_recorded")) : longText(text),
    );
  const names = [say("requests.client"), say("requests.agent")];
  put(
    root,
    client !== null && agent !== null && membersTable(client, agent, names[0], names[1]),
    element("div", { class: "pair" }, side(names[0], heads.client, client), side(names[1], heads.agent, agent)),
    element("p", { class: "none" }, say("requests.masked")),
  );
}
