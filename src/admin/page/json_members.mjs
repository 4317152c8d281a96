// Compares the members of two JSON texts: what an agent sent and what its client got.

/** @typedef {"same" | "changed" | "added" | "gone"} Change */
/** @typedef {{ path: string, change: Change, left: string | undefined, right: string | undefined }} Member */

/** More members than anyone reads; the raw text has them all. */
const MOST_MEMBERS = 400;
const DEEPEST = 30;

const rawJson = /** @type {{ rawJSON?: (text: string) => unknown, isRawJSON?: (value: unknown) => boolean }} */ (
  /** @type {unknown} */ (JSON));

/**
 * Reads a JSON text. A number that a double cannot hold keeps its digits: an id that lost some is a different id.
 * @param {string | null | undefined} text
 * @returns {unknown} undefined if it is no JSON
 */
export function readJson(text) {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text, /** @type {(key: string, value: any) => any} */ (keepDigits));
  } catch {
    return undefined;
  }
}

/**
 * @param {string} _key
 * @param {unknown} value
 * @param {{ source?: string }} [context]  older browsers have none
 */
function keepDigits(_key, value, context) {
  const exact = typeof value !== "number" || Number.isInteger(value) === Number.isSafeInteger(value);
  if (exact || context?.source === undefined || rawJson.rawJSON === undefined) return value;
  return rawJson.rawJSON(context.source);
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !rawJson.isRawJSON?.(value);
}

/**
 * Returns whether one of the values has a member of this name, at its top.
 * @param {unknown[]} values
 * @param {string} name
 */
export function hasMember(values, name) {
  return values.some((value) => isObject(value) && Object.hasOwn(value, name));
}

/**
 * Writes a value as JSON; undefined stays undefined.
 * @param {unknown} value
 */
export function jsonText(value) {
  try {
    return JSON.stringify(value);
  } catch {
    // Nested deeper than the stack.
    return "\u2026";
  }
}

/**
 * Lists the members of both values by path, in the order of the right one and then what only the left one has.
 * @param {unknown} left
 * @param {unknown} right
 */
export function compareMembers(left, right) {
  /** @type {Member[]} */
  const members = [];
  compare("", left, right, members, 0);
  return members.slice(0, MOST_MEMBERS);
}

/**
 * @param {string} path
 * @param {unknown} left
 * @param {unknown} right
 * @param {Member[]} members
 * @param {number} depth
 */
function compare(path, left, right, members, depth) {
  if (members.length > MOST_MEMBERS) return;
  if (depth < DEEPEST && isObject(left) && isObject(right)) {
    const keys = new Set([...Object.keys(right), ...Object.keys(left)]);
    for (const key of keys) {
      const [a, b] = [left, right].map((side) => (Object.hasOwn(side, key) ? side[key] : undefined));
      compare(path === "" ? key : `${path}.${key}`, a, b, members, depth + 1);
    }
    if (keys.size > 0) return;
  } else if (depth < DEEPEST && Array.isArray(left) && Array.isArray(right)) {
    const length = Math.max(left.length, right.length);
    for (let at = 0; at < length; at += 1) compare(`${path}[${at}]`, left[at], right[at], members, depth + 1);
    if (length > 0) return;
  }
  const [before, after] = [jsonText(left), jsonText(right)];
  /** @type {Change} */
  let change = "changed";
  if (before === after) change = "same";
  else if (before === undefined) change = "added";
  else if (after === undefined) change = "gone";
  members.push({ path, change, left: before, right: after });
}
