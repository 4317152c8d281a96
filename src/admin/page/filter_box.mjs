// The field of a filter: a combobox that proposes keys and values, and says what the filter leaves out.
import { element, put } from "./dom.mjs";
import { complete, unknownKey, unknownValue, unreadableNumber } from "./filter.mjs";
import { say } from "./messages.mjs";

/**
 * @template T
 * @param {object} options
 * @param {string} options.id
 * @param {string} options.label
 * @param {string} options.value
 * @param {string} options.example
 * @param {import("./filter.mjs").FilterLanguage<T>} options.language
 * @param {() => Iterable<T>} options.items  proposed values are theirs
 * @param {(text: string) => void} options.onChange
 */
export function filterBox({ id, label, value, example, language, items, onChange }) {
  const list = element("ul", {
    id: `${id}-options`,
    role: "listbox",
    "aria-label": say("filter.options"),
    hidden: true,
  });
  const input = element("input", {
    id,
    type: "search",
    role: "combobox",
    "aria-label": label,
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    "aria-controls": list.id,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: example,
    value,
  });
  const unknown = element("p", { class: "unknown", role: "status" });
  const warn = () => {
    const key = unknownKey(input.value, language.keys);
    const term = unreadableNumber(input.value, language.keys);
    const value = unknownValue(input.value, language.keys);
    put(
      unknown,
      key !== undefined && say("filter.unknown_key", { key, keys: Object.keys(language.keys).join(", ") }),
      key === undefined && term !== undefined && say("filter.no_number", { term }),
      key === undefined && term === undefined && value !== undefined &&
        say("filter.no_value", { term: value.term, values: value.values.join(", ") }),
    );
  };
  /** @type {import("./filter.mjs").Completion[]} */
  let options = [];
  let word = "";
  let chosen = -1;

  const draw = () => {
    const open = options.length > 0 && document.activeElement === input;
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    if (open && chosen >= 0) input.setAttribute("aria-activedescendant", `${id}-option-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
    put(
      list,
      ...options.map(({ insert, help }, at) =>
        element(
          "li",
          {
            id: `${id}-option-${at}`,
            role: "option",
            "aria-selected": String(at === chosen),
            onpointerdown: (/** @type {Event} */ event) => {
              event.preventDefault();
              accept(at);
            },
          },
          element("code", {}, insert),
          element("span", {}, help),
        ),
      ),
    );
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const propose = () => {
    const caret = input.selectionStart ?? input.value.length;
    ({ word, options } = complete(input.value.slice(0, caret), language, items()));
    chosen = -1;
    warn();
    draw();
  };
  const close = () => {
    options = [];
    draw();
  };
  const accept = (/** @type {number} */ at) => {
    const caret = input.selectionStart ?? input.value.length;
    const { insert } = options[at];
    const space = insert.endsWith(":") ? "" : " ";
    input.setRangeText(insert + space, caret - word.length, caret, "end");
    onChange(input.value);
    propose();
  };
  input.addEventListener("input", () => {
    onChange(input.value);
    propose();
  });
  input.addEventListener("focus", propose);
  input.addEventListener("blur", draw);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && options.length > 0) {
      chosen = (chosen + step + options.length + (chosen < 0 && step < 0 ? 1 : 0)) % options.length;
      draw();
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      accept(chosen);
    } else if (event.key === "Enter") {
      close();
      input.blur();
    } else if (event.key === "Escape") {
      // The first press closes the proposals, the next leaves the field.
      if (options.length > 0) close();
      else input.blur();
      event.stopPropagation();
    } else {
      return;
    }
    event.preventDefault();
  });
  warn();
  return { root: element("div", { class: "filter", role: "search" }, input, list, unknown), input };
}
