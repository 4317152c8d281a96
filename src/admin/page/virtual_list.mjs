// A list of any length of which only the lines in view exist, as a grid for screen readers. All lines have the height
// that the style sheet says in --line-height.
import { element, put } from "./dom.mjs";

/** Lines that are drawn beyond the view, so that a fast scroll shows no gap. */
const BEYOND = 8;

/**
 * Returns which lines are to be drawn.
 * @param {{ top: number, height: number, line: number, count: number }} view
 */
export function linesInView({ top, height, line, count }) {
  const first = Math.max(0, Math.min(Math.floor(top / line) - BEYOND, count));
  return { first, end: Math.max(first, Math.min(count, Math.ceil((top + height) / line) + BEYOND)) };
}

/**
 * Returns where to scroll so that a line is in view, and not further.
 * @param {{ top: number, height: number, line: number, at: number }} view
 */
export function topToShow({ top, height, line, at }) {
  if (at * line < top) return at * line;
  return Math.max(top, (at + 1) * line - height);
}

export class VirtualList {
  count = 0;
  selected = -1;
  /** @type {Map<number, HTMLElement>} */
  #drawn = new Map();
  #line = 1;
  #drawDue = false;

  /**
   * @param {object} options
   * @param {string} options.id
   * @param {string} options.label
   * @param {HTMLElement} options.head  the row of column headers
   * @param {(at: number) => HTMLElement} options.draw  draws one line
   * @param {(at: number) => void} options.onSelect
   * @param {() => void} options.onOpen
   * @param {AbortSignal} options.signal
   */
  constructor({ id, label, head, draw, onSelect, onOpen, signal }) {
    this.id = id;
    this.draw = draw;
    this.onSelect = onSelect;
    this.space = element("div", { class: "space", role: "rowgroup" });
    this.noted = element("p", { class: "list-note", hidden: true });
    this.scroller = element("div", { class: "scroller", role: "presentation", tabindex: "-1" }, this.noted, this.space);
    this.root = element(
      "div",
      { class: "grid", role: "grid", tabindex: "0", "aria-label": label },
      element("div", { class: "head", role: "rowgroup" }, head),
      this.scroller,
    );
    this.scroller.addEventListener("scroll", () => this.#drawSoon(), { passive: true });
    this.space.addEventListener("click", (event) => {
      const line = /** @type {Element} */ (event.target).closest("[role=row]");
      if (line !== null) this.select(Number(line.getAttribute("aria-rowindex")) - 2);
    });
    this.space.addEventListener("dblclick", onOpen);
    this.root.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.#line) - 1);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[
        event.key
      ];
      if (step === undefined || event.target !== this.root) return;
      event.preventDefault();
      this.move(step);
    });
    let isOut = false;
    const resized = new ResizeObserver(() => {
      const wasOut = isOut;
      // Another tab is shown in its place, and the browser forgets where it was scrolled to.
      isOut = this.scroller.clientHeight === 0;
      if (isOut) return;
      this.refresh();
      if (wasOut && this.selected >= 0) this.show(this.selected);
    });
    resized.observe(this.scroller);
    signal.addEventListener("abort", () => resized.disconnect());
  }

  /** Says why there are no lines; an empty text says nothing. @param {string} text */
  set note(text) {
    this.noted.hidden = text === "";
    put(this.noted, text);
  }

  /** Draws all lines in view again, after what they show or their number changed. */
  refresh() {
    this.#line = parseFloat(getComputedStyle(this.scroller).getPropertyValue("--line-height")) || 1;
    this.#drawn.clear();
    put(this.space);
    this.#measure();
    this.#drawLines();
  }

  /** Takes a larger number of lines without drawing those in view again. */
  grow() {
    this.#measure();
    this.#drawSoon();
  }

  #measure() {
    this.space.style.height = `${this.count * this.#line}px`;
    this.root.setAttribute("aria-rowcount", String(this.count + 1));
  }

  /** @param {number} step */
  move(step) {
    if (this.count === 0) return;
    this.select(Math.max(0, Math.min(this.count - 1, this.selected + step)));
  }

  /** @param {number} at */
  select(at) {
    if (at < 0 || at >= this.count) return;
    this.mark(at);
    this.show(at);
    this.onSelect(at);
  }

  /**
   * Marks a line as selected without scrolling to it.
   * @param {number} at
   */
  mark(at) {
    this.#drawn.get(this.selected)?.setAttribute("aria-selected", "false");
    this.selected = at;
    this.#drawn.get(at)?.setAttribute("aria-selected", "true");
    this.#announce();
  }

  /** @param {number} at */
  show(at) {
    const { scrollTop: top, clientHeight: height } = this.scroller;
    this.scroller.scrollTop = topToShow({ top, height, line: this.#line, at });
    this.#drawLines();
  }

  #drawSoon() {
    if (this.#drawDue) return;
    this.#drawDue = true;
    requestAnimationFrame(() => {
      this.#drawDue = false;
      this.#drawLines();
    });
  }

  #drawLines() {
    const { scrollTop: top, clientHeight: height } = this.scroller;
    const { first, end } = linesInView({ top, height, line: this.#line, count: this.count });
    for (const [at, line] of this.#drawn) {
      if (at >= first && at < end) continue;
      line.remove();
      this.#drawn.delete(at);
    }
    for (let at = first; at < end; at += 1) if (!this.#drawn.has(at)) this.#drawLine(at);
    this.#announce();
  }

  /** @param {number} at */
  #drawLine(at) {
    const line = this.draw(at);
    line.id = `${this.id}-${at}`;
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", String(at + 2));
    line.setAttribute("aria-selected", String(at === this.selected));
    line.style.transform = `translateY(${at * this.#line}px)`;
    this.#drawn.set(at, line);
    this.space.append(line);
  }

  /** Tells screen readers which line is selected, as long as it exists. */
  #announce() {
    if (this.#drawn.has(this.selected)) this.root.setAttribute("aria-activedescendant", `${this.id}-${this.selected}`);
    else this.root.removeAttribute("aria-activedescendant");
  }
}
