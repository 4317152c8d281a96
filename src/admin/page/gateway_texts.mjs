// Sentences of the gateway in the language of the reader. Agents and clients are quoted, never translated.
import zh from "./gateway.zh.mjs";
import { isChinese } from "./messages.mjs";

/** @typedef {{ form: RegExp, text: string }} Sentence */
/** @typedef {{ isKnown: boolean, text: string }} Part   in the reader's language, or as the gateway wrote it */

const SPECIAL = /[.*+?^${}()|[\]\\]/g;
/** What is looked up again and again: the help of the repairs of a long run. */
const MOST_KEPT = 2_000;

/** Texts with places. @type {Sentence[]} */
const withPlaces = [];
/** Sentences that end in a full stop, which others may follow; the longest first. @type {Sentence[]} */
const sentences = [];
/** @type {Map<string, string>} */
const known = new Map(Object.entries(zh));

for (const [english, text] of Object.entries(zh).sort(([one], [other]) => other.length - one.length)) {
  const form = english.split("{}").map((part) => part.replace(SPECIAL, "\\$&")).join("(.+?)");
  if (english.endsWith(".")) sentences.push({ form: new RegExp(`^${form}(?= |$)`, "s"), text });
  else if (english.includes("{}")) withPlaces.push({ form: new RegExp(`^${form}$`, "s"), text });
}

/**
 * Returns a text of the gateway in the reader's language, as far as its sentences are known.
 * @param {string} text
 * @returns {string}
 */
export function translated(text) {
  if (!isChinese() || text === "") return text;
  let found = known.get(text);
  if (found === undefined) {
    found = ofWhole(text) ?? ofSentences(text);
    if (known.size < MOST_KEPT) known.set(text, found);
  }
  return found;
}

/**
 * Returns the parts of a text of the gateway.
 * @param {string} text
 * @returns {Part[]}
 */
export function partsOf(text) {
  if (!isChinese() || text === "") return [{ isKnown: true, text }];
  const whole = known.get(text) ?? ofWhole(text);
  return whole !== undefined && whole !== text ? [{ isKnown: true, text: whole }] : sentencesOf(text);
}

/**
 * Divides a text of the gateway into the sentences that the page has in the reader's language, and the others.
 * @param {string} text
 */
export function divided(text) {
  if (!isChinese() || text === "" || (known.get(text) ?? text) !== text || ofWhole(text) !== undefined)
    return { known: translated(text), own: "" };
  const parts = sentencesOf(text);
  const join = (/** @type {boolean} */ isKnown, /** @type {string} */ between) =>
    parts.filter((part) => part.isKnown === isKnown).map((part) => part.text).join(between);
  return { known: join(true, ""), own: join(false, " ") };
}

/** @param {string} text */
function ofWhole(text) {
  for (const { form, text: chinese } of withPlaces) {
    const match = form.exec(text);
    if (match) return filled(chinese, match);
  }
  return undefined;
}

/** @param {string} text */
function ofSentences(text) {
  return sentencesOf(text)
    .reduce((found, part) => found + (part.isKnown ? part.text : `${found === "" ? "" : " "}${part.text} `), "")
    .trimEnd();
}

/** @param {string} text */
function sentencesOf(text) {
  const parts = [];
  let rest = text;
  while (rest !== "") {
    const match = first(rest);
    // An unknown sentence stays as it is.
    const length = match?.length ?? (rest.indexOf(". ") + 1 || rest.length);
    parts.push({ isKnown: match !== undefined, text: match?.text ?? rest.slice(0, length) });
    rest = rest.slice(length).trimStart();
  }
  return parts;
}

/** @param {string} text */
function first(text) {
  for (const { form, text: chinese } of sentences) {
    const match = form.exec(text);
    if (match) return { length: match[0].length, text: filled(chinese, match) };
  }
  return undefined;
}

/**
 * Fills the places in their order, or those with a number.
 * @param {string} chinese
 * @param {RegExpExecArray} match
 */
function filled(chinese, [, ...values]) {
  let at = 0;
  return chinese.replace(/\{(\d?)\}/g, (_, place) => translated(values[place === "" ? at++ : Number(place)]));
}
