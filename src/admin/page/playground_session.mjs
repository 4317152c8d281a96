// What the playground holds while the page is open, whatever view is shown: the conversation, the run, credentials.
// Nothing of it is stored.
import { Conversation } from "./conversation.mjs";
import { readJson } from "./json_members.mjs";
import { compose, send } from "./playground_api.mjs";

/** @typedef {import("./playground_api.mjs").PlaygroundRoute} PlaygroundRoute */
/** @typedef {import("./playground_api.mjs").Composed} Composed */
/** @typedef {import("./playground_api.mjs").Head} Head */
/** @typedef {import("./api.mjs").Row} Row */
/** @typedef {{ method: string, path: string, headers: string, body: string }} Draft   a request as a person edits it */

/** More events than anyone reads here; the run's own view has all. */
const MOST_ROWS = 2_000;

export class PlaygroundSession {
  /** @type {PlaygroundRoute | undefined} */
  route;
  client = "";
  /** Credentials by field. @type {Map<string, string>} */
  credentials = new Map();
  conversation = new Conversation();
  /** @type {Draft} */
  draft = { method: "POST", path: "", headers: "", body: "" };
  /** @type {"idle" | "written" | "open" | "lost" | "ended" | "failed"} */
  state = "idle";
  /** Why it failed. */
  failure = "";
  /** @type {Head | undefined} */
  head;
  /** The body of an answer that is no event stream. */
  text = "";
  /** @type {Row[]} */
  rows = [];
  /** @type {Composed | undefined} */
  composed;
  /** The id of the last event, after which a client comes back. */
  lastId = "";
  /** The events of the run as the client read them. @type {string[]} */
  #events = [];
  #startedBy = "";
  #connection = new AbortController();
  #changed = new EventTarget();

  /**
   * @param {() => void} handler
   * @param {AbortSignal} signal
   */
  onChange(handler, signal) {
    this.#changed.addEventListener("change", handler, { signal });
  }

  /** The number of events that came, of which `rows` are the last. */
  get received() {
    return this.#events.length;
  }

  report() {
    this.#changed.dispatchEvent(new Event("change"));
  }

  /** @param {PlaygroundRoute} route */
  choose(route) {
    this.reset();
    this.route = route;
    this.client = route.clients[0];
  }

  /** Begins a new conversation. */
  reset() {
    this.#connection.abort();
    this.conversation = new Conversation();
    this.composed = undefined;
    this.draft = { method: "POST", path: "", headers: "", body: "" };
    this.#clearAnswer();
    this.#events = [];
    this.state = "idle";
    this.report();
  }

  /**
   * Writes the request of the next run.
   * @param {string} text
   * @param {import("./conversation.mjs").Resume[]} [resume]
   */
  async prepare(text, resume) {
    if (this.route === undefined) return false;
    const input = this.conversation.start(text, resume);
    this.#connection = new AbortController();
    try {
      this.composed = await compose(this.route.name, this.client, input, this.#connection.signal);
    } catch (error) {
      this.#fail(error);
      return false;
    }
    const headers = "content-type: application/json\naccept: text/event-stream";
    this.draft = { method: "POST", path: this.route.path, headers, body: this.composed.body };
    this.#clearAnswer();
    this.state = "written";
    this.report();
    return true;
  }

  /**
   * Sends what a person wrote to the route.
   * @param {string} text
   * @param {import("./conversation.mjs").Resume[]} [resume]
   */
  async say(text, resume) {
    if (await this.prepare(text, resume)) await this.sendDraft();
  }

  /**
   * Sends a message again that was not accepted.
   * @param {number} at
   */
  async sayAgain(at) {
    const [text] = this.conversation.unsent.splice(at, 1);
    await this.say(text);
  }

  /** @param {{ id: string, content: string }[]} results  of calls of the client's own tools */
  async answerCalls(results) {
    this.conversation.addResults(results);
    await this.say("");
  }

  /** Sends the request as it stands in the editor. */
  async sendDraft() {
    this.rows = [];
    this.#events = [];
    this.#startedBy = this.draft.body;
    this.lastId = "";
    await this.#exchange(this.draft);
    const isAccepted = this.head !== undefined && this.head.status < 300 && this.rows.length === 0;
    if (this.composed?.events_path && isAccepted && this.state === "ended") await this.#read(this.composed.events_path);
  }

  /** Closes the connection, as a phone in a tunnel does. */
  lose() {
    // What became of the request is not known, and it was sent.
    this.conversation.accept();
    this.state = "lost";
    this.#connection.abort();
    this.report();
  }

  /** Comes back to a run that outlives its client: after the last id, or with a recap. */
  async comeBack() {
    if (!this.composed?.join_path) return;
    if (this.lastId === "") {
      this.conversation.restart();
      this.#events = [];
    }
    await this.#read(this.composed.join_path);
  }

  /** Stops the run: at its path, or by leaving, which ends a run that does not outlive its client. */
  async stop() {
    if (!this.composed?.stop_path) return this.lose();
    const stop = { method: "POST", path: this.composed.stop_path, headers: "", body: "" };
    try {
      for await (const line of send(this.#sent(stop), new AbortController().signal))
        if (line.status >= 400) this.failure = `HTTP ${line.status}`;
    } catch (error) {
      this.failure = /** @type {Error} */ (error).message;
    }
    this.report();
  }

  /** @param {string} path */
  async #read(path) {
    const last = this.lastId === "" ? "" : `\nlast-event-id: ${this.lastId}`;
    await this.#exchange({ method: "GET", path, headers: `accept: text/event-stream${last}`, body: "" }, true);
  }

  /**
   * @param {Draft} draft
   * @param {boolean} [isBack]
   */
  async #exchange(draft, isBack = false) {
    this.#clearAnswer(isBack);
    this.#connection = new AbortController();
    this.state = "open";
    this.report();
    const { signal } = this.#connection;
    const started = isBack ? { body: this.#startedBy, events: [...this.#events] } : undefined;
    try {
      for await (const line of send({ ...this.#sent(draft), started }, signal)) {
        if (signal.aborted) return;
        this.#take(line);
        this.report();
      }
      if (this.state === "open") this.state = "lost";
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
    this.report();
  }

  /** @param {any} line */
  #take(line) {
    if (line.status !== undefined) this.#takeHead(line);
    else if (line.id !== undefined) this.lastId = line.id;
    else if (line.text !== undefined) this.text = line.text;
    else if (line.row !== undefined) this.#takeRow(line.row);
    else if (line.end) {
      this.state = line.failure === null ? "ended" : "lost";
      this.failure = line.failure ?? "";
    }
  }

  /** @param {Head} head */
  #takeHead(head) {
    this.head = head;
    if (head.status < 400) this.conversation.accept();
    else this.conversation.takeBack();
  }

  /** @param {Row} row  the agent's side is what the client read */
  #takeRow(row) {
    if (row.agent === null) return;
    this.rows.push(row);
    this.rows.splice(0, this.rows.length - MOST_ROWS);
    this.#events.push(row.agent.data ?? "");
    const read = this.client === "ag-ui" ? [row.agent] : row.client;
    for (const { data } of read) this.conversation.apply(readJson(data));
  }

  /**
   * @param {Draft} draft
   * @returns {import("./playground_api.mjs").Sent}
   */
  #sent({ method, path, headers, body }) {
    const fields = headers.split("\n").filter((line) => line.trim() !== "").map((line) => {
      const at = line.indexOf(":");
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
    for (const [name, value] of this.credentials)
      if (value !== "" && this.route?.credentials.includes(name))
        fields.push([name, name === "authorization" && !/\s/.test(value) ? `Bearer ${value}` : value]);
    return { route: this.route?.name ?? "", client: this.client, method, path, headers: fields, body };
  }

  #clearAnswer(keepRows = false) {
    this.head = undefined;
    this.text = "";
    this.failure = "";
    if (!keepRows) this.rows = [];
  }

  /** @param {unknown} error */
  #fail(error) {
    this.conversation.takeBack();
    this.state = "failed";
    this.failure = /** @type {Error} */ (error).message;
    this.report();
  }
}
