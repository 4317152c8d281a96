// A conversation as an AG-UI client holds it. The gateway translates its requests for clients of other dialects, and
// their events back.
import { ClientFold } from "./client_fold.mjs";

/** @typedef {import("./client_fold.mjs").Message} Message */
/** @typedef {{ id: string, reason: string, message?: string, toolCallId?: string, responseSchema?: object }} Interrupt */
/** @typedef {{ interruptId: string, status: "resolved" | "cancelled", payload?: unknown }} Resume */

export class Conversation {
  threadId = crypto.randomUUID();
  runId = "";
  fold = new ClientFold();
  /**
   * Questions of the last run, which the next one answers.
   * @type {Interrupt[]}
   */
  interrupts = [];
  /** The error with which the last run ended. */
  error = "";
  isEnded = true;
  /** Messages of the user that the gateway did not accept: no part of the conversation. @type {string[]} */
  unsent = [];
  /** What was there before the user said something. */
  #before = { fold: new ClientFold(), interrupts: this.interrupts };
  /** What the run began with. */
  #beginning = new ClientFold();
  /** Results that the next run sends. @type {Message[]} */
  #results = [];
  /** @type {"accepted" | "written" | "refused"} */
  #request = "accepted";
  #text = "";

  /**
   * Starts a run: adds what the user says, and returns the request. Without a text, answers alone are sent.
   * @param {string} text
   * @param {Resume[]} [resume]
   */
  start(text, resume = []) {
    if (this.#request === "written") this.takeBack();
    this.#before = { fold: new ClientFold(this.fold), interrupts: this.interrupts };
    this.#request = "written";
    this.#text = text;
    this.runId = crypto.randomUUID();
    this.error = "";
    this.isEnded = false;
    this.interrupts = [];
    this.fold.messages.push(...this.#results.splice(0));
    if (text !== "") this.fold.messages.push({ id: crypto.randomUUID(), role: "user", content: text });
    this.#beginning = new ClientFold(this.fold);
    return {
      protocolVersion: "1.0",
      threadId: this.threadId,
      runId: this.runId,
      state: this.fold.state,
      // An activity is shown to the user, and no part of what an agent reads.
      messages: this.fold.messages.filter(({ role }) => role !== "activity"),
      tools: [],
      context: [],
      forwardedProps: {},
      ...(resume.length > 0 && { resume }),
    };
  }

  /** The request was accepted, perhaps after it had been refused: what the user said is part of the conversation. */
  accept() {
    if (this.#request === "refused") {
      this.restart();
      this.interrupts = [];
      if (this.#text !== "") this.unsent.splice(this.unsent.lastIndexOf(this.#text), 1);
    }
    this.#request = "accepted";
  }

  /** The request was not accepted: all is as before, and the message is kept apart. */
  takeBack() {
    if (this.#request !== "written") return;
    this.#request = "refused";
    this.fold = new ClientFold(this.#before.fold);
    this.interrupts = this.#before.interrupts;
    this.isEnded = true;
    if (this.#text !== "") this.unsent.push(this.#text);
  }

  /** Calls without a result: those of tools that the client itself has. */
  get openCalls() {
    const answered = new Set(this.fold.messages.map(({ toolCallId }) => toolCallId));
    return this.fold.messages.flatMap(({ toolCalls = [] }) => toolCalls).filter(({ id }) => !answered.has(id));
  }

  /** @param {{ id: string, content: string }[]} results  by the ids of calls */
  addResults(results) {
    this.#results = results.map(({ id, content }) => ({
      id: crypto.randomUUID(),
      role: "tool",
      toolCallId: id,
      content,
    }));
  }

  /** Takes back what came of the run: a recap repeats it. */
  restart() {
    this.fold = new ClientFold(this.#beginning);
    this.isEnded = false;
  }

  /** @param {any} event */
  apply(event) {
    if (event?.type === "RUN_FINISHED" || event?.type === "RUN_ERROR") this.isEnded = true;
    if (event?.type === "RUN_ERROR") this.error = `${event.code ?? ""} ${event.message ?? ""}`.trim();
    if (event?.type === "RUN_FINISHED" && event.outcome?.type === "interrupt")
      this.interrupts = event.outcome.interrupts ?? [];
    try {
      this.fold.apply(event);
    } catch (error) {
      // An event without a member that its type needs.
      this.fold.problems.push(`${event?.type}: ${/** @type {Error} */ (error).message}`);
    }
  }
}
