// Parts that several views use: tabs, a text to take along, and a file to save.
import { button, element, put } from "./dom.mjs";
import { say, sayName } from "./messages.mjs";

/**
 * A list of tabs and the panel of the chosen one.
 * @param {string} id
 * @param {string} label
 * @param {Record<string, { key: string | null, draw: (body: HTMLElement) => void }>} pages  `key` does the same
 */
export function tabs(id, label, pages) {
  const names = Object.keys(pages);
  const body = element("div", { class: "panel", role: "tabpanel", id: `${id}-panel`, tabindex: "0" });
  const heads = names.map((name) =>
    element(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${id}-tab-${name}`,
        "aria-controls": body.id,
        "aria-selected": "false",
        tabindex: "-1",
        "aria-keyshortcuts": pages[name].key,
        onclick: () => choose(name),
      },
      sayName(`tab.${id}`, name),
      pages[name].key && element("kbd", { "aria-hidden": "true" }, pages[name].key),
    ),
  );
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": label }, ...heads);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const next = (names.indexOf(result.chosen ?? "") + step + names.length) % names.length;
    choose(names[next]);
    heads[next].focus();
  });

  /** @param {string} name */
  function choose(name) {
    const other = result.chosen !== name;
    result.chosen = name;
    for (const [at, head] of heads.entries()) {
      head.setAttribute("aria-selected", String(names[at] === name));
      head.tabIndex = names[at] === name ? 0 : -1;
    }
    body.setAttribute("aria-labelledby", `${id}-tab-${name}`);
    pages[name].draw(body);
    if (other) body.scrollTop = 0;
  }

  const result = {
    root: element("div", { class: `tabbed ${id}` }, list, body),
    body,
    choose,
    chosen: /** @type {string | undefined} */ (undefined),
  };
  return result;
}

/**
 * Copies a text, and shows it: the reader sees what was copied, and can take it by hand where copying is not allowed.
 * @param {string} title
 * @param {string} text
 */
export async function offerText(title, text) {
  const said = element("p", { role: "status" });
  const field = element("textarea", { readonly: true, rows: "16", "aria-label": title, spellcheck: "false" });
  field.value = text;
  openDialog(title, said, field);
  // From its end to its beginning, which is what is seen then.
  field.setSelectionRange(0, text.length, "backward");
  field.scrollTop = 0;
  try {
    await navigator.clipboard.writeText(text);
    put(said, say("take.copied"));
  } catch {
    put(said, say("take.by_hand"));
  }
}

/**
 * Opens a dialog at its beginning: the focus would be on its first button otherwise, which may be the last thing in it.
 * @param {string} title
 * @param {...import("./dom.mjs").Child} children
 */
export function openDialog(title, ...children) {
  const dialog = element("dialog", { "aria-label": title }, element("h2", { tabindex: "-1", autofocus: true }, title), ...children);
  dialog.append(button(say("close"), () => dialog.close(), { class: "close" }));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * @param {string} name
 * @param {Blob} content
 */
export function saveFile(name, content) {
  const href = URL.createObjectURL(content);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
