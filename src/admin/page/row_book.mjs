// Keeps the rows of one run and what is remarkable about them, counted as the rows come.
import { sizeOf } from "./numbers.mjs";

/** @typedef {import("./api.mjs").Row} Row */
/**
 * @typedef {{ label: string, help: string, count: number, n: number, added: Set<string>, agents: Map<string, number> }} Tally
 *   `n` is the first row, `added` the types of events that the repair made, or the members that it added, `agents` the
 *   types of the agent's events, each with its first row
 */

/** Repairs that make events, and the ends of their types. */
const SUPPLIES = /** @type {Record<string, RegExp>} */ ({
  opener_supplied: /_START(ED)?$/,
  closer_supplied: /_(END|FINISHED)$/,
});

/** Causes of rows at which a run ended without the agent's own end. */
export const ENDS = ["gateway", "end", "disconnect"];

/** Changes of ids that are kept: those of the items that may be open. */
const MOST_CHANGES = 64;
/** What a screen can show of a wait, and a person can feel. */
const LONG_WAIT_MS = 1_000;
const LARGE_BYTES = 250_000;
/** No UTF-16 unit of a text needs more bytes in UTF-8. */
const MOST_BYTES_OF_UNIT = 3;

export class RowBook {
  /** @type {Row[]} */
  rows = [];
  /** @type {Map<string, Tally>} */
  losses = new Map();
  /** @type {Map<string, Tally>} */
  repairs = new Map();
  /** @type {Row[]} */
  made = [];
  /** @type {Row[]} */
  noted = [];
  /** @type {Row[]} */
  remarkable = [];
  /** @type {Map<number, number>} the row that released a held one */
  released = new Map();
  /** The ids that the agent changed, and the row of the first; no more are kept than a sentence needs. */
  idChanges = { n: 0, count: 0, ids: /** @type {{ before: string, after: string }[]} */ ([]) };
  /** The row in which the agent's stream was cut. @type {Row | undefined} */
  cut;
  /** The row of the event that the agent had not finished when the run ended. @type {Row | undefined} */
  unfinished;
  /** The row at whose end the agent had left something open. @type {Row | undefined} */
  leftOpen;
  longestWait = { ms: LONG_WAIT_MS, n: 0, until: 0 };
  largest = { size: LARGE_BYTES, n: 0, type: "" };
  /** True if the run was evicted before all its rows were read. */
  isGone = false;

  /** @param {any[]} lines  rows, and the last if the run was evicted */
  add(lines) {
    for (const line of lines) {
      if (line.gone) this.isGone = true;
      else this.#addRow(line);
    }
  }

  /** @param {Row} row */
  #addRow(row) {
    const before = this.rows.at(-1)?.at_ms ?? 0;
    this.rows.push(row);
    if (row.at_ms - before > this.longestWait.ms) this.longestWait = { ms: row.at_ms - before, n: row.n, until: row.at_ms };
    for (const side of [row.agent, ...row.client]) {
      const text = side?.data ?? "";
      if (text.length * MOST_BYTES_OF_UNIT <= this.largest.size) continue;
      const size = sizeOf(text);
      if (size > this.largest.size) this.largest = { size, n: row.n, type: side?.type ?? "" };
    }
    countFindings(this.losses, row.losses, row);
    countFindings(this.repairs, row.repairs, row);
    if (row.id_change !== undefined) {
      if (this.idChanges.count === 0) this.idChanges.n = row.n;
      if (this.idChanges.ids.length < MOST_CHANGES) this.idChanges.ids.push(row.id_change);
      this.idChanges.count += 1;
    }
    if (row.cut_within === "unfinished") this.unfinished = row;
    else if (row.cut_within !== undefined) this.cut = row;
    if (row.left_open !== undefined) this.leftOpen ??= row;
    if (row.cause === "gateway") this.made.push(row);
    // What ended the run is in its outcome, what was not recorded in its summary.
    if (row.note !== null && row !== this.cut && ![...ENDS, "unrecorded"].includes(row.cause)) this.noted.push(row);
    for (const n of row.releases ?? []) this.released.set(n, row.n);
    if (isRemarkable(row)) this.remarkable.push(row);
  }
}

/**
 * @param {Map<string, Tally>} tallies
 * @param {import("./api.mjs").Finding[]} findings
 * @param {Row} row
 */
function countFindings(tallies, findings, { n, agent, client, canonical }) {
  for (const { label, help, member } of findings) {
    const tally = tallies.get(label) ?? { label, help, count: 0, n, added: new Set(), agents: new Map() };
    tally.count += 1;
    if (member !== undefined) tally.added.add(member);
    for (const type of [agent?.type ?? "", ...canonical]) if (!tally.agents.has(type)) tally.agents.set(type, n);
    const supplied = SUPPLIES[label];
    for (const { type } of client) if (type !== null && type !== agent?.type && supplied?.test(type)) tally.added.add(type);
    tallies.set(label, tally);
  }
}

/** @param {Row} row */
export function isRemarkable({ cause, repairs, losses, note }) {
  return repairs.length > 0 || losses.length > 0 || note !== null || ["dropped", "gateway", "mark", "unrecorded"].includes(cause);
}

const CAUSES = ["same", "changed", "split", "merged", "held", "dropped", "nothing", "gateway", "end", "disconnect", "mark", "unrecorded"];

/** @type {import("./filter.mjs").FilterLanguage<Row>} */
export const ROW_LANGUAGE = {
  keys: {
    type: { texts: typesOf },
    agent: { texts: ({ agent }) => [agent?.type] },
    client: { texts: ({ client }) => client.map(({ type }) => type) },
    cause: { texts: ({ cause }) => [cause], values: () => CAUSES },
    repair: { texts: ({ repairs }) => repairs.map(({ label }) => label) },
    loss: { texts: ({ losses }) => losses.map(({ label }) => label) },
    is: { words: { remarkable: isRemarkable } },
    row: { number: ({ n }) => n },
    at: { number: ({ at_ms: at }) => at },
  },
  freeTexts: ({ agent, client, note }) => [agent?.data, ...client.map(({ data }) => data), note],
};

/** @param {Row} row */
function typesOf({ agent, client }) {
  return [agent?.type, ...client.map(({ type }) => type)];
}

/**
 * Lists the rows that pass a test, in slices so short that the page stays responsive with any number of rows.
 * @param {Row[]} rows
 * @param {(row: Row) => boolean} test
 * @param {AbortSignal} signal
 * @param {(at: number) => void} take  gets the position of each
 */
export async function filterInSlices(rows, test, signal, take) {
  let began = performance.now();
  for (let at = 0; at < rows.length && !signal.aborted; at += 1) {
    if (test(rows[at])) take(at);
    if (at % 64 !== 0 || performance.now() - began < 8) continue;
    await new Promise((resolve) => setTimeout(resolve, 0));
    began = performance.now();
  }
}
