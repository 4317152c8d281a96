// The filter language: `route:chat outcome:failed since:10m -caller:alice "free text"`. Terms are joined by "and",
// values with commas by "or"; `*` stands for any characters, `>`, `>=`, `<` and `<=` compare numbers, and `-` negates.
import { sayName } from "./messages.mjs";

/**
 * A key of the language. `texts` are compared with globs, `number` with numbers and spans of time, `words` stand for a
 * test of their own.
 * @template T
 * @typedef {object} FilterKey
 * @property {(item: T) => (string | null | undefined)[]} [texts]
 * @property {(item: T) => number | null} [number]
 * @property {Record<string, (item: T) => boolean>} [words]
 * @property {() => string[]} [values]   all texts that an item can have, if they are few
 * @property {"less"} [bare]   a number without a sign is an upper bound, as in `since:10m`
 * @property {boolean} [forRows]   also filters the rows of a run that is opened
 */

/**
 * @template T
 * @typedef {object} FilterLanguage
 * @property {Record<string, FilterKey<T>>} keys
 * @property {(item: T) => (string | null | undefined)[]} freeTexts   where words without a key are looked for
 */

/** @typedef {{ negated: boolean, key: string | null, value: string }} Term */
/** @typedef {{ insert: string, help: string }} Completion */

const TERM = /(-?)(?:([a-z_]+):("[^"]*"?|\S*)|"[^"]*"?|\S+)/g;
const SPECIAL = /[.*+?^${}()|[\]\\]/g;
/** Names are few, and rows are many. */
const MOST_KEPT = 500;
/** Of times in milliseconds, and of sizes in bytes. */
const UNITS = /** @type {Record<string, number>} */ ({
  ...{ "": 1, ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 },
  ...{ B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 },
});

/**
 * @param {string} text
 * @param {Record<string, unknown>} keys
 * @returns {Term[]}
 */
export function termsOf(text, keys) {
  return Array.from(text.matchAll(TERM), ([whole, minus, name, value]) => {
    const key = name !== undefined && Object.hasOwn(keys, name) ? name : null;
    // A word with a colon that is no key is text, such as an address.
    const rest = key === null ? whole.slice(minus.length) : (value ?? "");
    return { negated: minus === "-", key, value: rest.replace(/^"|"$/g, "") };
  });
}

/**
 * Returns the first word that looks like a term of a key that there is not: it is searched for as text.
 * @param {string} text
 * @param {Record<string, unknown>} keys
 */
export function unknownKey(text, keys) {
  const terms = Array.from(text.matchAll(TERM), ([, , name, value = ""]) => ({ name, value }));
  // An address is text.
  return terms.find(({ name, value }) => name !== undefined && !Object.hasOwn(keys, name) && !value.startsWith("//"))?.name;
}

/**
 * Returns the first value that should be a number and is none, with its key: nothing passes it.
 * @param {string} text
 * @param {Record<string, Pick<FilterKey<never>, "number" | "words">>} keys
 */
export function unreadableNumber(text, keys) {
  for (const { key, value } of termsOf(text, keys)) {
    if (key === null || keys[key].number === undefined) continue;
    const isRead = (/** @type {string} */ one) => Object.hasOwn(keys[key].words ?? {}, one) || readComparison(one) !== null;
    const unread = value.split(",").find((one) => one !== "" && !isRead(one));
    if (unread !== undefined) return `${key}:${unread}`;
  }
  return undefined;
}

/**
 * Returns the first value that no item can have, with its key and the values that there are. The beginning of one is
 * still being typed.
 * @param {string} text
 * @param {Record<string, Pick<FilterKey<never>, "values" | "words">>} keys
 */
export function unknownValue(text, keys) {
  for (const { key, value } of termsOf(text, keys)) {
    const known = key === null ? undefined : keys[key].values?.();
    if (key === null || known === undefined) continue;
    const all = [...known, ...Object.keys(keys[key].words ?? {})];
    const isKnown = (/** @type {string} */ one) => all.some((own) => glob(`${one}*`).test(own));
    const unread = value.split(",").find((one) => one !== "" && !isKnown(one));
    if (unread !== undefined) return { term: `${key}:${unread}`, values: all };
  }
  return undefined;
}

/**
 * Returns the test that a text describes, and the terms that also filter rows.
 * @template T
 * @param {string} text
 * @param {FilterLanguage<T>} language
 * @returns {{ test: (item: T) => boolean, forRows: Term[] }}
 */
export function parseFilter(text, { keys, freeTexts }) {
  /** @type {Term[]} */
  const forRows = [];
  /** @type {((item: T) => boolean)[]} */
  const tests = [];
  for (const term of termsOf(text, keys)) {
    if (term.key !== null && keys[term.key].forRows) forRows.push(term);
    const test = term.key === null ? containing(term.value, freeTexts) : testOf(keys[term.key], term.value);
    tests.push(term.negated ? (item) => !test(item) : test);
  }
  return { test: (item) => tests.every((test) => test(item)), forRows };
}

/**
 * @template T
 * @param {string} value
 * @param {(item: T) => (string | null | undefined)[]} freeTexts
 */
function containing(value, freeTexts) {
  // Unlike a copy in lower case, it takes no memory for each of a hundred thousand rows.
  const wanted = new RegExp(value.replace(SPECIAL, "\\$&"), "i");
  return (/** @type {T} */ item) => freeTexts(item).some((text) => typeof text === "string" && wanted.test(text));
}

/**
 * @template T
 * @param {FilterKey<T>} key
 * @param {string} value
 * @returns {(item: T) => boolean}
 */
function testOf(key, value) {
  const tests = value
    .split(",")
    .filter((one) => one !== "")
    .map((one) => testOfOne(key, one));
  // A key that is still being typed filters nothing.
  return (item) => tests.length === 0 || tests.some((test) => test(item));
}

/**
 * @template T
 * @param {FilterKey<T>} key
 * @param {string} value
 * @returns {(item: T) => boolean}
 */
function testOfOne({ texts, number, words, bare }, value) {
  if (words !== undefined && Object.hasOwn(words, value)) return words[value];
  if (number !== undefined) {
    const compare = comparison(value, bare);
    return (item) => {
      const found = number(item);
      return found !== null && compare(found);
    };
  }
  const pattern = glob(value);
  /** @type {Map<string, boolean>} */
  const known = new Map();
  const matches = (/** @type {string} */ found) => {
    let is = known.get(found);
    if (is === undefined) {
      is = pattern.test(found);
      if (known.size < MOST_KEPT) known.set(found, is);
    }
    return is;
  };
  return (item) => (texts?.(item) ?? []).some((found) => typeof found === "string" && matches(found));
}

/**
 * Reads a number with its sign and unit; `null` if it is none.
 * @param {string} value
 */
function readComparison(value) {
  const [, sign, digits, unit = ""] = /^([<>]?=?)(\d+(?:\.\d+)?|\.\d+)([a-zA-Z]*)$/.exec(value) ?? [];
  return digits === undefined || !Object.hasOwn(UNITS, unit) ? null : { sign, bound: Number(digits) * UNITS[unit] };
}

/**
 * @param {string} value
 * @param {"less" | undefined} bare
 * @returns {(found: number) => boolean}
 */
function comparison(value, bare) {
  const read = readComparison(value);
  if (read === null) return () => false;
  const { sign, bound } = read;
  if (sign === ">") return (found) => found > bound;
  if (sign === "<") return (found) => found < bound;
  if (sign === ">=") return (found) => found >= bound;
  if (sign === "<=") return (found) => found <= bound;
  return bare === "less" ? (found) => found <= bound : (found) => found === bound;
}

/** @param {string} pattern */
export function glob(pattern) {
  const parts = pattern.split("*").map((part) => part.replace(SPECIAL, "\\$&"));
  return new RegExp(`^${parts.join("[\\s\\S]*")}$`, "i");
}

/**
 * Returns what the word at the caret can become: keys, or values of its key.
 * @template T
 * @param {string} text  up to the caret
 * @param {FilterLanguage<T>} language
 * @param {Iterable<T>} items  whose values are proposed
 * @returns {{ word: string, options: Completion[] }}
 */
export function complete(text, { keys }, items) {
  const word = /\S*$/.exec(text)?.[0] ?? "";
  const [, minus, name, typed] = /^(-?)(?:([a-z_]+):)?(.*)$/.exec(word) ?? ["", "", undefined, ""];
  if (name === undefined) {
    const names = Object.keys(keys).filter((key) => key.startsWith(typed) && `${key}:` !== typed);
    return { word, options: names.map((key) => ({ insert: `${minus}${key}:`, help: sayName("filter", key) })) };
  }
  if (!Object.hasOwn(keys, name)) return { word, options: [] };
  const before = typed.slice(0, typed.lastIndexOf(",") + 1);
  const begun = typed.slice(before.length).toLowerCase();
  const options = valuesOf(keys[name], items)
    .filter((value) => value.toLowerCase().startsWith(begun) && value.toLowerCase() !== begun)
    .slice(0, 12)
    .map((value) => ({ insert: `${minus}${name}:${before}${value}`, help: sayName("word", value) }))
    .map(({ insert, help }) => ({ insert, help: insert.endsWith(help) ? "" : help }));
  return { word, options };
}

/**
 * @template T
 * @param {FilterKey<T>} key
 * @param {Iterable<T>} items
 */
function valuesOf({ texts, number, words, bare }, items) {
  const values = new Set(Object.keys(words ?? {}));
  if (number !== undefined)
    for (const value of bare === "less" ? ["1m", "10m", "1h"] : [">0", ">100", ">1s"]) values.add(value);
  if (texts !== undefined) {
    for (const item of items) {
      // A value with a space or a comma would be read as more than one.
      for (const text of texts(item)) if (text && !values.has(text) && text.length < 60 && !/[\s,"]/.test(text)) values.add(text);
    }
  }
  return [...values].sort();
}
