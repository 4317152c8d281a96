// What the gateway does with a request to a path, and what it says of its configuration file.
import { request } from "./api.mjs";
import { button, element, longText, put, table } from "./dom.mjs";
import { translated } from "./gateway_texts.mjs";
import { failureOf, inEnglish, wordsOf } from "./gateway_words.mjs";
import { say, sayName } from "./messages.mjs";

/** @typedef {import("./dom.mjs").Child} Child */
/** @typedef {{ status: number, code: string, message: string, hint: string }} Refusal */
/** @typedef {"passes" | { refuses: Refusal } | { depends: string }} Verdict */

const METHODS = ["POST", "GET", "OPTIONS"];

/** @param {AbortSignal} signal */
export function explainCard(signal) {
  const path = element("input", { type: "text", spellcheck: "false", id: "explain-path", value: "/" });
  const method = element("select", { "aria-label": say("play.draft.method") },
    ...METHODS.map((name) => element("option", { value: name }, name)));
  const answer = element("div", { class: "explained", role: "status" });

  async function explain() {
    const query = new URLSearchParams({ method: method.value, path: path.value });
    try {
      put(answer, ...explanationOf(await (await request(`/inspect/v1/explain?${query}`, { signal })).json()));
    } catch (error) {
      put(answer, failureOf(error));
    }
  }

  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    explain();
  };
  return element("section", { class: "card", "aria-label": say("explain.title") },
    element("h2", {}, say("explain.title")),
    element("form", { class: "tools", onsubmit }, method,
      element("label", { for: path.id }, say("play.draft.path")), path, button(say("explain.ask"), explain)),
    element("p", { class: "status" }, say("explain.help")), answer);
}

/**
 * @param {any} explanation  as `diglot explain-route --format json` prints it
 * @returns {Child[]}
 */
export function explanationOf({ outcome, route }) {
  const [[kind, value]] = Object.entries(outcome);
  if (kind === "no_route") return [refusalOf(value[0]), element("p", {}, ...wordsOf(value[1]))];
  const conditions = kind === "refused" ? [] : listOf([value].flat());
  const key = kind === "passes" && conditions.length > 0 ? "passes_if" : kind;
  const first = kind === "refused" ? refusalOf(value)
    : element("p", {}, element("b", {}, sayName("explain", key)), " ", ...conditions);
  const facts = element("p", {}, say("explain.route", { name: route.name, purpose: translated(route.purpose),
    client: route.client.configured, agent: route.agent.configured }));
  const gates = route.gates.map((/** @type {{ gate: string, verdict: Verdict, requirements: string[] }} */ one) =>
    [inEnglish(one.gate), verdictOf(one.verdict), element("span", {}, ...listOf(one.requirements))]);
  const head = ["gate", "verdict", "requires"].map((name) => sayName("explain", name));
  return [first, facts, table(say("explain.gates"), head, gates),
    element("details", {}, element("summary", {}, say("explain.more")),
      element("div", { lang: "en" }, longText(JSON.stringify({ agent_requests: route.agent_requests, settings: route.settings }, null, 2))))];
}

/**
 * @param {string[]} texts
 * @returns {Child[]}
 */
function listOf(texts) {
  return texts.flatMap((text, at) => [at > 0 && "; ", ...wordsOf(text)]);
}

/** @param {Refusal} refusal */
function refusalOf({ status, code, message, hint }) {
  return element("p", { class: "loss" }, element("b", {}, `${status} ${code}`), " ", ...wordsOf(message), " ",
    element("i", {}, ...wordsOf(hint)));
}

/** @param {Verdict} verdict */
function verdictOf(verdict) {
  const [kind, text] = typeof verdict === "string" ? [verdict, ""] : Object.entries(verdict)[0];
  const level = { passes: "good", refuses: "bad" }[kind] ?? "plain";
  const sign = { passes: "\u2713", refuses: "\u2715" }[kind] ?? "?";
  return element("span", { class: `level ${level}` }, element("i", { class: "sign", "aria-hidden": "true" }, sign),
    `${sayName("explain", kind)} `, ...(typeof text === "string" ? wordsOf(text) : [text.code]));
}

/** @param {AbortSignal} signal */
export function checkCard(signal) {
  const verdict = element("div", { role: "status" });

  async function check() {
    try {
      put(verdict, ...checkOf(await (await request("/inspect/v1/check", { signal })).json()));
    } catch (error) {
      if (!signal.aborted) put(verdict, failureOf(error));
    }
  }

  check();
  return element("section", { class: "card", "aria-label": say("check.title") },
    element("h2", {}, say("check.title")), verdict, button(say("check.again"), check));
}

/**
 * @param {{ file: string | null, problems: { severity: string, line: number | null, path: string, message: string,
 *   hint: string | null }[] }} verdict
 * @returns {Child[]}
 */
export function checkOf({ file, problems }) {
  if (file === null) return [element("p", { class: "none" }, say("check.no_file"))];
  if (problems.length === 0) return [element("p", {}, element("span", { class: "level good" },
    element("i", { class: "sign", "aria-hidden": "true" }, "\u2713"), say("check.good", { file })))];
  return [element("p", {}, element("code", {}, file)), ...problems.map(({ severity, line, path, message, hint }) =>
    element("p", { class: "loss" }, element("b", {}, sayName("check", severity)), " ",
      line !== null && `${say("check.line", { line })} `, element("code", {}, path), " ", inEnglish(message), " ",
      element("i", {}, inEnglish(hint))))];
}
