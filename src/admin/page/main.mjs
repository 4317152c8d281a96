// Starts the page: takes the token out of the address, follows the runs, and shows the view that the address names.
import { hasToken, takeToken } from "./api.mjs";
import { captureControls } from "./capture.mjs";
import { button, element, onKeys, put } from "./dom.mjs";
import { chooseLanguage, say, sayName, switchLanguage } from "./messages.mjs";
import { showPlayground } from "./playground_view.mjs";
import { RunStore } from "./run_store.mjs";
import { showRun } from "./run_view.mjs";
import { RUN_LANGUAGE, showRuns } from "./runs_view.mjs";
import { showThroughput } from "./throughput_view.mjs";
import { openDialog } from "./widgets.mjs";

const THEME_KEY = "diglot.theme";

/** Keys and what they do, as the help shows them. */
const KEYS = /** @type {const} */ ([
  ["j / k", "help.move"], ["Enter", "help.open"], ["Escape", "help.back"], ["/", "help.filter"], ["p", "help.pause"],
  ["n / N", "help.next"], ["r", "help.raw"], ["m", "help.held"], ["a", "help.all"], ["1 2 3", "help.parts"],
  ["c / d / o / b", "help.take"], ["w", "help.write"], ["g / t / e", "help.views"], ["?", "help.help"],
]);

const forever = new AbortController().signal;
const store = new RunStore();
const main = element("main", { id: "main", tabindex: "-1" });
const header = element("header", { class: "page" });
const banner = element("div", { class: "banner", role: "alert" });
let view = new AbortController();

takeToken();
chooseLanguage();
applyTheme(localStorage.getItem(THEME_KEY));
document.body.replaceChildren(header, banner, main);
window.addEventListener("hashchange", () => {
  // The address of a new process, pasted into the tab of the old one: everything is read again.
  if (takeToken()) location.reload();
  else show();
});
store.onChange(drawBanner, forever);
onKeys({ "?": showHelp, g: () => (location.hash = "#/runs"), t: () => (location.hash = "#/throughput"),
  e: () => (location.hash = "#/playground") }, forever);
show();
store.follow(forever);

/** Shows the view of the address; the one before stops reading. */
function show() {
  view.abort();
  view = new AbortController();
  drawHeader();
  drawBanner();
  const [name, id] = location.hash.replace(/^#\//, "").split("/");
  const titles = /** @type {const} */ ({ throughput: "throughput.title", playground: "play.title" });
  const title = name === "throughput" || name === "playground" ? titles[name] : "runs.title";
  document.title = `${say(title)} \u2013 diglot`;
  if (name === "run" && /^\d+$/.test(id)) showRun(main, store, Number(id), view.signal);
  else if (name === "throughput") showThroughput(main, view.signal);
  else if (name === "playground") showPlayground(main, store, view.signal);
  else showRuns(main, store, view.signal);
}

function drawHeader() {
  const link = (/** @type {string} */ to, /** @type {string} */ text, /** @type {boolean} */ here) =>
    element("a", { href: to, "aria-current": here && "page" }, text);
  put(header, element("b", { class: "name" }, "diglot"),
    element("nav", { "aria-label": say("nav.label") },
      link("#/runs", say("runs.title"), !/^#\/(throughput|playground)/.test(location.hash)),
      link("#/playground", say("play.title"), location.hash.startsWith("#/playground")),
      link("#/throughput", say("throughput.title"), location.hash.startsWith("#/throughput"))),
    element("span", { class: "buttons" },
      button(say("capture.title"), () => openDialog(say("capture.title"), element("p", {}, say("capture.help")),
        captureControls(forever))),
      button(say("theme.switch"), switchTheme),
      button(say("language.other"), () => {
        switchLanguage();
        show();
      }, { lang: document.documentElement.lang === "en" ? "zh-Hans" : "en" }),
      button(say("help.title"), showHelp, { key: "?" })));
}

function drawBanner() {
  const refused = say(hasToken() ? "banner.refused" : "banner.no_token");
  const text = { connecting: "", live: "", lost: say("banner.lost"), refused }[store.state];
  if (banner.textContent !== text) put(banner, text);
}

/** @param {string | null} theme  "light", "dark", or null for the system's */
function applyTheme(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  const theme = dark ? "light" : "dark";
  localStorage.setItem(THEME_KEY, theme);
  applyTheme(theme);
}

function showHelp() {
  openDialog(say("help.title"), element("dl", { class: "keys" }, ...KEYS.map(([keys, key]) =>
    element("div", {}, element("dt", {}, element("kbd", {}, keys)), element("dd", {}, say(key))))),
  element("h3", {}, say("help.filters")), element("p", {}, say("help.language")),
    element("dl", { class: "keys" }, ...Object.keys(RUN_LANGUAGE.keys).map((key) =>
      element("div", {}, element("dt", {}, element("code", {}, `${key}:`)), element("dd", {}, sayName("filter", key))))));
}
