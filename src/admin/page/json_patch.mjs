// Applies a JSON Patch (RFC 6902) to a copy of a document, whole or not at all.
import { jsonText } from "./json_members.mjs";

/** @typedef {{ op: string, path: string, from?: string, value?: unknown }} Operation */

/**
 * @param {unknown} document
 * @param {Operation[]} operations
 * @returns {unknown}
 * @throws if an operation does not fit the document
 */
export function applyPatch(document, operations) {
  // The document is put into a holder, so that the root is a member like any other.
  const holder = { "": structuredClone(document) };
  for (const operation of operations) apply(holder, operation);
  return holder[""];
}

/**
 * @param {{ "": unknown }} holder
 * @param {Operation} operation
 */
function apply(holder, { op, path, from, value }) {
  switch (op) {
    case "add":
      return add(holder, path, structuredClone(value));
    case "remove":
      return remove(holder, path);
    case "replace":
      if (path !== "") remove(holder, path);
      return add(holder, path, structuredClone(value));
    case "move":
      return add(holder, path, remove(holder, from));
    case "copy":
      return add(holder, path, structuredClone(get(holder, from)));
    case "test":
      if (jsonText(get(holder, path)) !== jsonText(value)) throw new Error(`test ${path}`);
      return undefined;
    default:
      throw new Error(`op ${op}`);
  }
}

/**
 * Returns the container that a pointer leads to, and the last name in it.
 * @param {{ "": unknown }} holder
 * @param {string | undefined} pointer
 * @returns {{ parent: any, name: string }}
 */
function locate(holder, pointer) {
  if (typeof pointer !== "string" || (pointer !== "" && !pointer.startsWith("/"))) throw new Error(`path ${pointer}`);
  const names = pointer.split("/").map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
  const name = names.pop() ?? "";
  /** @type {any} */
  let parent = holder;
  for (const step of names) {
    if (!has(parent, step)) throw new Error(`path ${pointer}`);
    parent = parent[step];
  }
  if (typeof parent !== "object" || parent === null || name === "__proto__") throw new Error(`path ${pointer}`);
  return { parent, name };
}

/**
 * @param {any} parent
 * @param {string} name
 */
function has(parent, name) {
  return typeof parent === "object" && parent !== null && Object.hasOwn(parent, name) && name !== "length";
}

/**
 * @param {{ "": unknown }} holder
 * @param {string | undefined} pointer
 */
function get(holder, pointer) {
  const { parent, name } = locate(holder, pointer);
  if (!has(parent, name)) throw new Error(`path ${pointer}`);
  return parent[name];
}

/**
 * @param {{ "": unknown }} holder
 * @param {string} pointer
 * @param {unknown} value
 */
function add(holder, pointer, value) {
  const { parent, name } = locate(holder, pointer);
  if (!Array.isArray(parent)) {
    parent[name] = value;
    return;
  }
  const at = name === "-" ? parent.length : Number(name);
  if (!/^(-|0|[1-9]\d*)$/.test(name) || at > parent.length) throw new Error(`path ${pointer}`);
  parent.splice(at, 0, value);
}

/**
 * @param {{ "": unknown }} holder
 * @param {string | undefined} pointer
 */
function remove(holder, pointer) {
  const value = get(holder, pointer);
  const { parent, name } = locate(holder, pointer);
  if (Array.isArray(parent)) parent.splice(Number(name), 1);
  else delete parent[name];
  return value;
}
