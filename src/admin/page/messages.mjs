// The words of the page, in the language of the reader; `gateway_texts.mjs` has those that the gateway itself writes.
import en from "./messages.en.mjs";
import zh from "./messages.zh.mjs";

/** @typedef {keyof typeof en} Key */

const LANGUAGE_KEY = "diglot.language";
const TEXTS = { en, zh };

/** @type {"en" | "zh"} */
let language = "en";

/** Takes the language that was chosen before, else the browser's. */
export function chooseLanguage() {
  const wanted = localStorage.getItem(LANGUAGE_KEY) ?? navigator.language;
  language = wanted.startsWith("zh") ? "zh" : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

/** Changes to the other language, for this and later visits. */
export function switchLanguage() {
  localStorage.setItem(LANGUAGE_KEY, language === "zh" ? "en" : "zh");
  chooseLanguage();
}

export const isChinese = () => language === "zh";

/**
 * Returns a text of the page with its `{names}` filled in; `{name|run|runs}` is the word for one, or for several.
 * @param {Key} key
 * @param {Record<string, string | number>} [values]
 */
export function say(key, values = {}) {
  const text = TEXTS[language][key].replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name, one, several) =>
    String(values[name]) === "1" ? one : several,
  );
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/**
 * Returns the text of `group.name`, or the name itself if the gateway has a word that the page does not know yet.
 * @param {string} group
 * @param {string} name
 */
export function sayName(group, name) {
  const key = `${group}.${name}`;
  return Object.hasOwn(en, key) ? say(/** @type {Key} */ (key)) : name;
}
