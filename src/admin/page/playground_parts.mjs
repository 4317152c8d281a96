// Draws a conversation as a chat, the questions of an interrupt, and the events of a run.
import { button, element, longText, put } from "./dom.mjs";
import { wordsOf } from "./gateway_words.mjs";
import { jsonText } from "./json_members.mjs";
import { say, sayName } from "./messages.mjs";
import { count, duration } from "./numbers.mjs";
import { oneLine } from "./visible_text.mjs";

/** @typedef {import("./client_fold.mjs").Message} Message */
/** @typedef {import("./conversation.mjs").Interrupt} Interrupt */
/** @typedef {import("./conversation.mjs").Resume} Resume */
/** @typedef {import("./api.mjs").Row} Row */

const MOST_OF_LINE = 200;
/** More messages than anyone reads here; they are all part of the conversation. */
const MOST_MESSAGES = 200;

/** Draws the last messages of a conversation. Those that stayed as they were keep their elements. */
export class MessageList {
  /** @type {WeakMap<Message, { shown: unknown[], drawn: HTMLElement }>} */
  #drawn = new WeakMap();

  /** @param {Message[]} messages */
  draw(messages) {
    const earlier = messages.length - MOST_MESSAGES;
    return [
      earlier > 0 && element("p", { class: "none" }, say("held.earlier", { count: count(earlier) })),
      ...messages.slice(-MOST_MESSAGES).map((message) => this.#elementOf(message)),
    ];
  }

  /** @param {Message} message */
  #elementOf(message) {
    const { role, content, toolCalls = [], toolCallId, activityType } = message;
    const shown = [role, content, toolCallId, activityType, ...toolCalls.flatMap((call) => Object.values(call.function))];
    const known = this.#drawn.get(message);
    if (known?.shown.length === shown.length && known.shown.every((value, at) => value === shown[at])) return known.drawn;
    const drawn = drawMessage(message);
    this.#drawn.set(message, { shown, drawn });
    return drawn;
  }
}

/** @param {Message} message */
function drawMessage({ role, content, toolCalls = [], toolCallId, activityType }) {
  const text = typeof content === "string" ? content : jsonText(content);
  const about = toolCallId ?? activityType;
  return element("article", { class: `said ${role}` },
    element("h2", {}, sayName("role", role), about !== undefined && element("code", {}, about)),
    text !== undefined && text !== "" && longText(text),
    ...toolCalls.map(({ function: { name, arguments: given } }) =>
      element("div", { class: "call" }, element("b", {}, name), longText(given))));
}

/**
 * A message that the gateway did not accept, which agents do not get with the next one.
 * @param {string} text
 * @param {boolean} isReady
 * @param {() => void} onsend
 */
export function drawUnsent(text, isReady, onsend) {
  const again = button(say("play.send_again"), onsend);
  again.disabled = !isReady;
  return element("article", { class: "said user unsent" },
    element("h2", {}, sayName("role", "user"), element("span", { class: "loss" }, say("play.unsent"))),
    longText(text), again);
}

/**
 * A form with a question for each interrupt, all of which one request answers.
 * @param {Interrupt[]} interrupts
 * @param {(answers: Resume[]) => void} onanswer
 */
export function interruptForm(interrupts, onanswer) {
  const fields = interrupts.map(({ id, reason, message, responseSchema }) => {
    const answer = element("textarea", { "aria-label": say("play.answer") });
    answer.value = responseSchema === undefined ? "" : JSON.stringify(exampleOf(responseSchema), null, 2);
    const warning = element("p", { class: "loss", role: "status" });
    answer.addEventListener("input", () => put(warning, responseSchema !== undefined && !isJson(answer.value) && say("play.no_json")));
    answer.rows = Math.min(12, Math.max(3, answer.value.split("\n").length + 1));
    const root = element("fieldset", {}, element("legend", {}, say("play.interrupt"), " ", element("code", {}, reason)),
      message !== undefined && element("p", {}, message),
      responseSchema !== undefined && element("details", {}, element("summary", {}, say("play.schema")),
        longText(JSON.stringify(responseSchema, null, 2))),
      answer, warning);
    return { id, answer, root };
  });
  const answerAll = () => onanswer(fields.map(({ id, answer }) =>
    ({ interruptId: id, status: "resolved", payload: payloadOf(answer.value) })));
  const cancelAll = () => onanswer(fields.map(({ id }) => ({ interruptId: id, status: "cancelled" })));
  return element("form", { class: "interrupt", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    ...fields.map(({ root }) => root),
    element("span", { class: "buttons" }, button(say("play.answer"), answerAll), button(say("play.cancel"), cancelAll)));
}

/**
 * A form for the results of calls of the client's own tools.
 * @param {import("./client_fold.mjs").ToolCall[]} calls
 * @param {(results: { id: string, content: string }[]) => void} onanswer
 */
export function callForm(calls, onanswer) {
  const fields = calls.map(({ id, function: { name, arguments: given } }) => {
    const result = element("textarea", { rows: "2", "aria-label": say("play.result") });
    const root = element("fieldset", {}, element("legend", {}, say("play.call"), " ", element("code", {}, name)),
      longText(given), result);
    return { id, result, root };
  });
  const answerAll = () => onanswer(fields.map(({ id, result }) => ({ id, content: result.value })));
  return element("form", { class: "interrupt", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    ...fields.map(({ root }) => root), element("span", { class: "buttons" }, button(say("play.result"), answerAll)));
}

/**
 * Returns what a person wrote as JSON if it is some, else as a text.
 * @param {string} text
 */
export function payloadOf(text) {
  return isJson(text) ? JSON.parse(text) : text;
}

/** @param {string} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the simplest value that a schema allows, as a start for an answer.
 * @param {any} schema
 * @returns {unknown}
 */
export function exampleOf(schema) {
  if (schema?.default !== undefined) return schema.default;
  if (Array.isArray(schema?.enum)) return schema.enum[0];
  if (schema?.type === "object" || schema?.properties !== undefined)
    return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, one]) => [name, exampleOf(one)]));
  return { boolean: true, string: "", number: 0, integer: 0, array: [] }[String(schema?.type)] ?? null;
}

/** The list of the events of a run, to which those that come are appended. */
export class EventList {
  root = element("ol", { class: "event-list" });
  /** @type {Row[] | undefined} */
  #rows;
  #drawn = 0;

  /** @param {Row[]} rows  another array is another run */
  draw(rows) {
    if (rows !== this.#rows) {
      this.#rows = rows;
      this.#drawn = 0;
      put(this.root);
    }
    const fresh = rows.filter(({ n }) => n > this.#drawn);
    this.#drawn = rows.at(-1)?.n ?? 0;
    this.root.append(...fresh.map(drawEvent));
    while (this.root.children.length > rows.length) this.root.firstElementChild?.remove();
  }
}

/** @param {Row} row  the agent's side is what the client read, the client's the same as AG-UI */
function drawEvent({ n, at_ms: at, agent, client, note }) {
  const details = element("details", {}, element("summary", {},
    element("span", { class: "number" }, n), element("span", { class: "number" }, duration(at)),
    element("code", {}, agent?.type ?? say("row.no_event")),
    element("span", { class: "second" }, oneLine(agent?.data ?? "", MOST_OF_LINE))));
  details.addEventListener("toggle", () => {
    if (details.children.length > 1) return;
    details.append(note === null ? "" : element("p", { class: "note" }, ...wordsOf(note)), longText(agent?.data ?? ""));
    const other = client.filter(({ data }) => data !== agent?.data);
    if (other.length > 0)
      details.append(element("h3", {}, say("play.as_ag_ui")), ...other.map(({ data }) => longText(data ?? "")));
  });
  return element("li", {}, details);
}
