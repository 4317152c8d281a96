// Texts of the gateway as nodes: what the page has no words for in the reader's language is marked as English.
import { element, withCode } from "./dom.mjs";
import { partsOf } from "./gateway_texts.mjs";
import { say } from "./messages.mjs";

/**
 * @param {string} text
 * @returns {import("./dom.mjs").Child[]}
 */
export function wordsOf(text) {
  return nodesOf(partsOf(text));
}

/**
 * @param {import("./gateway_texts.mjs").Part[]} parts
 * @returns {import("./dom.mjs").Child[]}
 */
export function nodesOf(parts) {
  return parts.flatMap(({ isKnown, text: part }) => (isKnown ? withCode(part) : [inEnglish(part), " "]));
}

/** @param {string | null} text  which the gateway has in English alone */
export function inEnglish(text) {
  return element("span", { lang: "en" }, ...withCode(text ?? ""));
}

/**
 * Quotes what the page has no words for.
 * @param {string} own
 */
export function ownWordsOf(own) {
  const [before, after] = say("verdict.own_words").split("{message}");
  return [before, inEnglish(own), after];
}

/**
 * Says that something did not work, and why.
 * @param {unknown} error
 */
export function failureOf(error) {
  const [before, after] = say("failed").split("{reason}");
  return element("span", {}, before, ...wordsOf(/** @type {Error} */ (error).message), after);
}
