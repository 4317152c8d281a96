// One run: how it went in plain sentences, its events in two columns, its requests, and where its time went.
import { ApiError, readLines, readRun, request } from "./api.mjs";
import { BothSides } from "./both_sides.mjs";
import { button, element, onKeys, put, putChanged, withCode } from "./dom.mjs";
import { filterBox } from "./filter_box.mjs";
import { parseFilter } from "./filter.mjs";
import { failureOf, ownWordsOf, wordsOf } from "./gateway_words.mjs";
import { goldenCase, isCase, tarOf } from "./golden_case.mjs";
import { say, sayName } from "./messages.mjs";
import { bytes, clock, count, duration } from "./numbers.mjs";
import { filterInSlices, ROW_LANGUAGE, RowBook } from "./row_book.mjs";
import { drawRequests, heldOf, rawOf, whyOf } from "./row_detail.mjs";
import { drawHead, drawLine, linesOf } from "./row_lines.mjs";
import { badge, filterForRows } from "./runs_view.mjs";
import { curlOf, reportOf } from "./take_along.mjs";
import { offerText, saveFile, tabs } from "./widgets.mjs";
import { levelOf, verdictOf } from "./verdict.mjs";
import { VirtualList } from "./virtual_list.mjs";
import { oneLine } from "./visible_text.mjs";
import { strip, waterfall } from "./waterfall.mjs";

/** @typedef {import("./api.mjs").RunDetail} RunDetail */

/** The header and the strip follow a running run at this pace. */
const REDRAW_EVERY_MS = 500;
const MOST_OF_NAME = 60;
const MOST_OF_SENTENCE = 400;

/**
 * @param {HTMLElement} main
 * @param {import("./run_store.mjs").RunStore} store
 * @param {number} id
 * @param {AbortSignal} signal
 */
export async function showRun(main, store, id, signal) {
  put(main, element("p", { class: "status", role: "status" }, say("run.loading")));
  try {
    const run = await readRun(id, signal);
    if (!signal.aborted) new RunView(main, store, run, signal);
  } catch (error) {
    if (signal.aborted) return;
    const status = error instanceof ApiError ? error.status : 0;
    const isMissing = status === 404 || status === 410;
    const missing = say(status === 410 ? "run.unknown" : "run.never");
    const text = isMissing ? element("span", {}, missing, " ", ...wordsOf(/** @type {Error} */ (error).message)) : failureOf(error);
    put(
      main,
      element(
        "div",
        { class: "empty shown", role: "alert" },
        element("p", {}, text),
        element("p", {}, element("a", { href: "#/runs" }, say("run.back"))),
      ),
    );
    onKeys({ Escape: () => (location.hash = "#/runs") }, signal);
  }
}

/**
 * Returns a name that a client chose, which can be of any length; the pointer shows all of it.
 * @param {string | null} name
 */
function nameOf(name) {
  if (!name) return "\u2013";
  return name.length <= MOST_OF_NAME ? name : element("span", { title: name }, oneLine(name, MOST_OF_NAME));
}

/**
 * Returns how much of the agent's stream is kept, and how much is not.
 * @param {RunDetail} run
 */
function recordedOf({ kept_bytes: kept, missed_bytes: missed }) {
  if (missed === 0) return bytes(kept);
  return element("span", { class: "missed" }, say("run.missed", { kept: bytes(kept), missed: bytes(missed) }));
}

class RunView {
  #book = new RowBook();
  /**
   * The lines that the filter lets through: position of the row, and which of the client's events.
   * @type {{ at: number, part: number }[]}
   */
  #lines = [];
  #filterText = filterForRows();
  #filtering = new AbortController();
  /** @type {BothSides} */
  #sides;
  #selected = { at: -1, part: 0 };
  #redrawDue = false;
  #isReading = true;

  /**
   * @param {HTMLElement} main
   * @param {import("./run_store.mjs").RunStore} store
   * @param {RunDetail} run
   * @param {AbortSignal} signal
   */
  constructor(main, store, run, signal) {
    this.store = store;
    this.run = run;
    this.signal = signal;
    this.#sides = new BothSides(run.id);
    this.top = element("header", { class: "run-top" });
    this.strip = element("div");
    this.list = new VirtualList({
      id: "row",
      label: say("rows.label"),
      head: drawHead(),
      signal,
      draw: (at) => drawLine(this.#book.rows[this.#lines[at].at], this.#lines[at].part),
      onSelect: (at) => this.#select(at),
      onOpen: () => this.detail.body.focus(),
    });
    this.filter = filterBox({
      id: "row-filter",
      label: say("rows.filter"),
      value: this.#filterText,
      language: ROW_LANGUAGE,
      example: "type:TOOL_* cause:dropped is:remarkable",
      items: () => this.#book.rows.slice(0, 2_000),
      onChange: (text) => {
        this.#filterText = text;
        this.#applyFilter();
      },
    });
    this.status = element("p", { class: "status", role: "status" });
    this.detail = tabs("detail", say("detail.title"), {
      why: { key: null, draw: (body) => this.#drawWhy(body) },
      raw: { key: "r", draw: (body) => put(body, ...rawOf(this.#row()[0])) },
      held: { key: "m", draw: (body) => this.#drawHeld(body) },
    });
    const events = element(
      "div",
      { class: "events" },
      element(
        "div",
        { class: "tools" },
        this.filter.root,
        button(say("rows.next"), () => this.#jump(1), { key: "n" }),
        this.status,
      ),
      element("div", { class: "panes" }, this.list.root, this.detail.root),
    );
    this.pages = tabs("run", say("run.parts"), {
      // Drawn again for a jump within it: the list keeps the focus.
      events: { key: "1", draw: (body) => putChanged(body, events) },
      requests: { key: "2", draw: (body) => drawRequests(body, this.run) },
      timeline: { key: "3", draw: (body) => this.#drawTimeline(body) },
    });
    put(
      main,
      element(
        "article",
        { class: "run", "aria-label": say("run.title", { route: run.route }) },
        this.top,
        this.strip,
        this.pages.root,
      ),
    );
    this.pages.choose("events");
    put(this.detail.body, element("p", { class: "none" }, say("detail.none")));
    this.#redraw();
    this.#bindKeys();
    store.onChange(() => this.#takeSummary(), signal);
    this.list.root.focus({ preventScroll: true });
    this.#readRows();
  }

  #bindKeys() {
    onKeys(
      {
        j: () => this.list.move(1),
        k: () => this.list.move(-1),
        n: () => this.#jump(1),
        N: () => this.#jump(-1),
        r: () => this.#toggle("raw"),
        m: () => this.#toggle("held"),
        a: () => this.#showAll(),
        1: () => this.pages.choose("events"),
        2: () => this.pages.choose("requests"),
        3: () => this.pages.choose("timeline"),
        c: () => this.#copyCurl(),
        d: () => this.#saveRecording(),
        o: () => this.#saveGolden(),
        b: () => this.#copyReport(),
        "/": () => this.filter.input.focus(),
        Enter: () => this.detail.body.focus(),
        Escape: () => this.#leave(),
      },
      this.signal,
    );
  }

  /** Reads rows until the run ends; after a lost connection those that came stay. */
  async #readRows() {
    try {
      for await (const lines of readLines(`/inspect/v1/runs/${this.run.id}/rows?follow=1`, this.signal)) {
        const from = this.#book.rows.length;
        this.#book.add(lines);
        this.#addLines(from);
      }
      if (!this.#book.isGone) this.run = await readRun(this.run.id, this.signal);
      this.#isReading = false;
    } catch (error) {
      if (this.signal.aborted) return;
      put(this.status, failureOf(error));
      return;
    }
    this.#redraw();
    this.#selectFirst();
  }

  /** Selects what most people come for, unless they chose something already or filter for something else. */
  #selectFirst() {
    if (this.#book.rows.length === 0) {
      put(this.detail.body);
      this.list.note = say(this.run.outcome === "refused" ? "rows.none" : "rows.empty");
    }
    if (this.#selected.at >= 0 || this.#lines.length === 0) return;
    const { row } = verdictOf(this.run, this.#book)[0];
    if (this.#filterText !== "") this.list.select(0);
    else this.#goTo(row ?? this.#book.remarkable[0]?.n ?? this.#book.rows[0].n);
  }

  /**
   * Appends the lines of the rows from a position on, if they pass the filter.
   * @param {number} from
   */
  #addLines(from) {
    const { test } = parseFilter(this.#filterText, ROW_LANGUAGE);
    const { rows } = this.#book;
    for (let at = from; at < rows.length; at += 1) if (test(rows[at])) this.#pushLines(this.#lines, at);
    this.list.count = this.#lines.length;
    this.list.grow();
    this.#redrawSoon();
  }

  /**
   * @param {{ at: number, part: number }[]} lines
   * @param {number} at
   */
  #pushLines(lines, at) {
    const parts = linesOf(this.#book.rows[at]);
    for (let part = 0; part < parts; part += 1) lines.push({ at, part });
  }

  async #applyFilter() {
    this.#filtering.abort();
    const filtering = (this.#filtering = new AbortController());
    const { rows } = this.#book;
    const { test } = parseFilter(this.#filterText, ROW_LANGUAGE);
    /** @type {{ at: number, part: number }[]} */
    const lines = [];
    await filterInSlices(rows, test, filtering.signal, (at) => this.#pushLines(lines, at));
    if (filtering.signal.aborted) return;
    this.#lines = lines;
    this.list.count = this.#lines.length;
    this.list.mark(this.#lines.findIndex(({ at, part }) => at === this.#selected.at && part === this.#selected.part));
    this.list.refresh();
    if (this.list.selected >= 0) this.list.show(this.list.selected);
    this.list.note = this.#lines.length === 0 && rows.length > 0 ? say("filter.nothing") : "";
    this.#drawStatus();
  }

  /** @param {number} line */
  #select(line) {
    this.#selected = this.#lines[line];
    this.detail.choose(this.detail.chosen ?? "why");
  }

  /** @returns {[import("./api.mjs").Row, number]} */
  #row() {
    return [this.#book.rows[this.#selected.at], this.#selected.part];
  }

  /** @param {"raw" | "held"} name */
  #toggle(name) {
    if (this.#selected.at >= 0) this.detail.choose(this.detail.chosen === name ? "why" : name);
  }

  #showAll() {
    const shown = document.querySelector(".run .show-all");
    if (shown instanceof HTMLElement) shown.click();
  }

  /**
   * Selects the next remarkable row after the selected one, and after the last the first.
   * @param {1 | -1} step
   */
  #jump(step) {
    const { n } = this.#book.rows[this.#selected.at] ?? { n: 0 };
    const { remarkable } = this.#book;
    const next = step > 0 ? remarkable.find((row) => row.n > n) : remarkable.findLast((row) => row.n < n);
    const row = next ?? remarkable.at(step > 0 ? 0 : -1);
    if (row !== undefined) this.#goTo(row.n);
  }

  /**
   * Selects a row by its number, and takes the filter away if it hides the row.
   * @param {number} n
   */
  async #goTo(n) {
    this.pages.choose("events");
    const isIt = (/** @type {{ at: number }} */ { at }) => this.#book.rows[at].n === n;
    if (!this.#lines.some(isIt) && this.#filterText !== "") {
      this.#filterText = this.filter.input.value = "";
      await this.#applyFilter();
    }
    this.list.select(this.#lines.findIndex(isIt));
  }

  #leave() {
    if (this.detail.root.contains(document.activeElement)) this.list.root.focus();
    else location.hash = "#/runs";
  }

  #takeSummary() {
    const summary = this.store.runs.get(this.run.id);
    if (summary !== undefined) Object.assign(this.run, summary);
    this.#redrawSoon();
  }

  #redrawSoon() {
    if (this.#redrawDue) return;
    this.#redrawDue = true;
    setTimeout(() => {
      this.#redrawDue = false;
      if (!this.signal.aborted) this.#redraw();
    }, REDRAW_EVERY_MS);
  }

  #redraw() {
    const { run } = this;
    // A press between two drawings must find the same button.
    if (!this.top.contains(document.activeElement)) put(this.top, this.#titleLine(), this.#verdict(), this.#facts());
    put(this.strip, this.#book.rows.length > 0 && strip(this.#book.rows, run.duration_ms, run.missed_bytes === 0));
    this.#drawStatus();
  }

  #titleLine() {
    const { run } = this;
    const level = levelOf(run);
    const words = run.state === "running" ? say("state.running") : sayName("outcome", run.outcome ?? "");
    return element(
      "div",
      { class: "title" },
      element("a", { href: "#/runs", class: "back" }, `\u2190 ${say("runs.title")}`),
      element("h1", {}, say("run.title", { route: oneLine(run.route, MOST_OF_NAME) })),
      element("span", { class: `level ${level}` }, badge(level), element("b", {}, words)),
      element(
        "span",
        { class: "buttons" },
        button(say("take.curl"), () => this.#copyCurl(), { key: "c", disabled: run.requests.client === null }),
        button(say("take.recording"), () => this.#saveRecording(), { key: "d" }),
        button(say("take.golden"), () => this.#saveGolden(), { key: "o", disabled: !isCase(this.run, this.#book) }),
        button(say("take.report"), () => this.#copyReport(), { key: "b" }),
      ),
    );
  }

  #verdict() {
    const sentences = verdictOf(this.run, this.#book);
    return element(
      "ul",
      { class: "verdict", "aria-label": say("verdict.title") },
      ...sentences.map((sentence, at) =>
        element(
          "li",
          { class: `level ${sentence.level} ${at === 0 ? "main" : ""}` },
          badge(sentence.level),
          element("span", {}, ...this.#linked(sentence)),
        ),
      ),
    );
  }

  /**
   * Draws a sentence with a link to its row: where it names the row, or at its end.
   * @param {import("./verdict.mjs").Sentence} sentence
   * @returns {import("./dom.mjs").Child[]}
   */
  #linked({ text, row, own }) {
    const words = own === undefined ? withCode(oneLine(text, MOST_OF_SENTENCE)) : ownWordsOf(oneLine(own, MOST_OF_SENTENCE));
    if (row === undefined) return words;
    const name = say("verdict.row", { n: count(row) });
    const link = element("button", { type: "button", class: "link", onclick: () => this.#goTo(row) }, name);
    // Not in a longer number.
    const place = new RegExp(`${name}(?!\\d)`);
    const at = words.findIndex((part) => typeof part === "string" && place.test(part));
    if (at < 0) return [...words, " ", link];
    const part = String(words[at]);
    const from = part.search(place);
    return [...words.slice(0, at), part.slice(0, from), link, part.slice(from + name.length), ...words.slice(at + 1)];
  }

  #facts() {
    const { run } = this;
    const facts = {
      dialects: `${run.agent} \u2192 ${run.client}`,
      caller: nameOf(run.caller),
      started: clock(run.started_ms),
      duration: duration(run.duration_ms),
      first: duration(run.first_event_ms),
      events: `${count(run.events_in)} \u2192 ${count(run.events_out)}`,
      bytes: `${bytes(run.bytes_in)} \u2192 ${bytes(run.bytes_out)}`,
      repairs: count(run.repairs),
      losses: count(run.losses),
      recorded: recordedOf(run),
      thread: nameOf(run.thread_id),
      run: nameOf(run.run_id),
    };
    return element(
      "dl",
      { class: "facts" },
      ...Object.entries(facts).map(([name, value]) =>
        element("div", {}, element("dt", {}, sayName("column", name)), element("dd", {}, value)),
      ),
    );
  }

  #drawStatus() {
    const rows = count(this.#book.rows.length);
    const lines = count(this.#lines.length);
    const text = this.#filterText === "" ? say("rows.count", { rows }) : say("rows.filtered", { rows, lines });
    // More come: of a run in progress, or of one that takes time to read.
    const reading = this.#book.rows.length === 0 ? say("rows.reading") : `${text} \u2026`;
    put(this.status, this.#isReading ? reading : text);
  }

  /** @param {HTMLElement} body */
  #drawTimeline(body) {
    const settings = Object.entries(this.run.settings).map(([name, value]) =>
      element(
        "div",
        {},
        element("dt", {}, name),
        element("dd", {}, typeof value === "string" ? value : value === null ? "\u2013" : JSON.stringify(value)),
      ),
    );
    put(
      body,
      waterfall(this.run.timeline, this.run.duration_ms),
      element("h2", {}, say("run.settings")),
      element("dl", { class: "facts" }, ...settings),
    );
  }

  /** @param {HTMLElement} body */
  #drawWhy(body) {
    const [row, part] = this.#row();
    put(body, ...whyOf(row, part, this.#book, (n) => this.#goTo(n)));
  }

  /** @param {HTMLElement} body */
  async #drawHeld(body) {
    const { at } = this.#selected;
    const goesOn = () => this.#selected.at === at && this.detail.chosen === "held";
    try {
      const { n } = this.#book.rows[at];
      if (await this.#sides.foldTo(n, goesOn, this.signal)) put(body, ...heldOf(this.#sides, this.run));
    } catch (error) {
      if (goesOn()) put(body, failureOf(error));
    }
  }

  #copyCurl() {
    const { client, client_head: head } = this.run.requests;
    if (client !== null) offerText(say("take.curl"), curlOf(client, head));
  }

  #copyReport() {
    offerText(say("take.report"), reportOf(this.run, this.#book, verdictOf(this.run, this.#book)));
  }

  #saveRecording() {
    return this.#save(async (recording) => saveFile(`run-${this.run.id}.ndjson`, await recording.blob()));
  }


  async #saveGolden() {
    if (!isCase(this.run, this.#book)) return;
    await this.#save(async (recording) => {
      const files = goldenCase(await recording.text(), this.#book);
      saveFile(`golden-${this.run.id}.tar`, new Blob([tarOf(files)], { type: "application/x-tar" }));
    });
  }

  /** @param {(recording: Response) => Promise<void>} save */
  async #save(save) {
    try {
      await save(await request(`/inspect/v1/runs/${this.run.id}/recording`, { signal: this.signal }));
    } catch (error) {
      put(this.status, failureOf(error));
    }
  }
}
