// Keeps the summaries of all runs that the gateway keeps, and follows their changes while the page is open.
import { ApiError, readLines } from "./api.mjs";

/** @typedef {import("./api.mjs").RunSummary} RunSummary */

/** A change is reported at most this often, whatever number of runs changed. */
const REPORT_EVERY_MS = 250;
const RETRY_MS = [500, 1_000, 2_000, 5_000];

export class RunStore {
  /** @type {Map<number, RunSummary>} */
  runs = new Map();
  /** @type {"connecting" | "live" | "lost" | "refused"} */
  state = "connecting";
  #changed = new EventTarget();
  #reportDue = false;

  /**
   * @param {() => void} handler
   * @param {AbortSignal} signal
   */
  onChange(handler, signal) {
    this.#changed.addEventListener("change", handler, { signal });
  }

  /**
   * Reads runs until the page is left. A lost connection is opened again, and then all runs come again.
   * @param {AbortSignal} signal
   */
  async follow(signal) {
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        let first = true;
        for await (const lines of readLines("/inspect/v1/runs?follow=1", signal)) {
          if (first) this.runs.clear();
          first = false;
          failures = 0;
          this.#take(lines);
        }
        this.state = "lost";
      } catch (error) {
        this.state = error instanceof ApiError && error.status === 401 ? "refused" : "lost";
      }
      this.#report();
      if (this.state === "refused") return;
      const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /** @param {any[]} lines */
  #take(lines) {
    this.state = "live";
    for (const line of lines) {
      if (line.gone) this.runs.delete(line.id);
      else this.runs.set(line.id, line);
    }
    this.#report();
  }

  #report() {
    if (this.#reportDue) return;
    this.#reportDue = true;
    setTimeout(() => {
      this.#reportDue = false;
      this.#changed.dispatchEvent(new Event("change"));
    }, REPORT_EVERY_MS);
  }
}
