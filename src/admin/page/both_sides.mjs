// Computes the messages and the state that each side holds after a row: the client, and the agent by its own account.
// The gateway reads both sides' events as AG-UI, so one reducer folds them; what it repaired for the client is not
// repaired here.
import { readReading } from "./api.mjs";
import { ClientFold } from "./client_fold.mjs";
import { isObject, readJson } from "./json_members.mjs";

/** Rows are folded in pieces of this many, so that the page stays responsive. */
const FOLD_AT_ONCE = 200;

export class BothSides {
  /** @type {import("./api.mjs").ReadRow[]} */
  #rows = [];
  /** @type {import("./api.mjs").ReadRow | undefined} */
  #input;
  #folded = 0;
  client = new ClientFold();
  agent = new ClientFold();

  /** @param {number} id  of the run */
  constructor(id) {
    this.id = id;
  }

  get knowsInput() {
    return this.#input !== undefined;
  }

  /**
   * Folds the rows up to one. Returns false if that was called off.
   * @param {number} n
   * @param {() => boolean} goesOn  whether the result is still wanted
   * @param {AbortSignal} signal
   */
  async foldTo(n, goesOn, signal) {
    if ((this.#rows.at(-1)?.n ?? 0) < n) await this.#read(signal);
    if (this.#folded === 0 || (this.#rows[this.#folded - 1]?.n ?? 0) > n) this.#begin();
    while (this.#folded < this.#rows.length && this.#rows[this.#folded].n <= n) {
      // Before the row is folded, so that no other call folds it again while this one waits.
      this.add(this.#rows[this.#folded++]);
      if (this.#folded % FOLD_AT_ONCE === 0) await new Promise((resolve) => setTimeout(resolve, 0));
      if (!goesOn()) return false;
    }
    return goesOn();
  }

  /** @param {import("./api.mjs").ReadRow} row */
  add({ agent, client }) {
    for (const data of agent) this.agent.apply(readJson(data));
    for (const data of client) this.client.apply(readJson(data));
  }

  #begin() {
    this.#folded = 0;
    [this.agent, this.client] = [this.#input?.agent, this.#input?.client].map((body) => {
      const input = readJson(body?.[0] ?? null);
      return new ClientFold(isObject(input) ? input : {});
    });
  }

  /** @param {AbortSignal} signal */
  async #read(signal) {
    const rows = await readReading(this.id, signal);
    this.#input = rows.find(({ n }) => n === 0);
    this.#rows = rows.filter(({ n }) => n > 0);
  }
}
