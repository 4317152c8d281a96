// Builds elements. Every text becomes a text node after its invisible characters were made visible: nothing that an
// agent or a client sent is ever parsed as markup, wherever on the page it is shown.
import { say } from "./messages.mjs";
import { bytes, sizeOf } from "./numbers.mjs";
import { codeParts, visible } from "./visible_text.mjs";

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Properties  `on…` adds a listener, everything else is an attribute */

const SVG = "http://www.w3.org/2000/svg";
/** What of a long text is shown at first. */
const SHOWN_AT_FIRST = 4_000;
/** The browser lays out only the blocks that are in view. */
const BLOCK = 20_000;

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 */
export function element(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/**
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 */
export function drawing(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/**
 * @template {Element} Kind
 * @param {Kind} target
 * @param {Properties} properties
 * @param {Child[]} children
 */
function fill(target, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) target.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else target.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  put(target, ...children);
  return target;
}

/**
 * Replaces what an element holds.
 * @param {Element} target
 * @param {...Child} children
 */
export function put(target, ...children) {
  const shown = children.filter((child) => child !== null && child !== undefined && child !== false);
  target.replaceChildren(...shown.map((child) => (child instanceof Node ? child : visible(String(child)))));
}

/**
 * Replaces what an element holds, and touches only what differs: what is scrolled, unfolded or selected in the rest stays.
 * @param {Element} target
 * @param {...(Node | false)} children
 */
export function putChanged(target, ...children) {
  const shown = children.filter((child) => child !== false);
  const kept = new Set(shown);
  for (const child of [...target.childNodes]) if (!kept.has(child)) child.remove();
  shown.forEach((child, at) => {
    if (target.childNodes[at] !== child) target.insertBefore(child, target.childNodes[at] ?? null);
  });
}

/**
 * A button with a label, and the key that does the same.
 * @param {string} label
 * @param {() => unknown} onclick
 * @param {Properties & { key?: string }} [properties]
 */
export function button(label, onclick, { key, ...properties } = {}) {
  return element("button", { type: "button", onclick, "aria-keyshortcuts": key, ...properties }, label,
    key && element("kbd", { "aria-hidden": "true" }, key));
}

/**
 * A sentence with what stands in backticks as code.
 * @param {string} sentence
 */
export function withCode(sentence) {
  return codeParts(sentence).map(({ text, isCode }) => (isCode ? element("code", {}, text) : text));
}

/**
 * A text as it came, in lines. Of a long one the beginning, with a button for the rest.
 * @param {string} text
 */
export function longText(text) {
  const pre = element("pre", { tabindex: "0" }, text.slice(0, SHOWN_AT_FIRST));
  if (text.length <= SHOWN_AT_FIRST) return pre;
  const all = button(say("show.all", { size: bytes(sizeOf(text)) }), () => {
    const blocks = [];
    for (let at = 0; at < text.length; at += BLOCK) blocks.push(element("div", {}, text.slice(at, at + BLOCK)));
    put(pre, ...blocks);
    pre.focus();
    all.remove();
  }, { key: "a", class: "show-all" });
  return element("div", { class: "long" }, pre, all);
}

/**
 * A table of a caption, a head and rows of cells.
 * @param {string} label
 * @param {string[]} head
 * @param {(Child[])[]} rows
 * @param {string} [kind]
 */
export function table(label, head, rows, kind = "") {
  const cell = (/** @type {Child} */ child) => element("td", {}, child);
  return element("table", { class: kind, "aria-label": label },
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map(cell)))));
}

/**
 * Calls the handler of a pressed key. Keys that are typed into a field stay there, and so do combinations with
 * modifiers, which belong to the browser.
 * @param {Record<string, (event: KeyboardEvent) => unknown>} handlers  by `KeyboardEvent.key`
 * @param {AbortSignal} signal
 */
export function onKeys(handlers, signal) {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    const typing = target.closest("input, select, textarea, dialog") !== null;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing) return;
    // Enter on a button or link is its own.
    if (event.key === "Enter" && target.closest("button, a, summary") !== null) return;
    const handler = Object.hasOwn(handlers, event.key) && handlers[event.key];
    if (!handler) return;
    event.preventDefault();
    handler(event);
  }, { signal });
}
