// The gateway's inspector API, version 1: its types, and the only code of the page that speaks to the network.

/**
 * @typedef {object} RunSummary
 * @property {number} id
 * @property {string} route
 * @property {string | null} caller
 * @property {string} client   the client's dialect
 * @property {string} agent    the agent's dialect
 * @property {string} thread_id
 * @property {string} run_id
 * @property {string} request_id
 * @property {"events" | "full"} mode
 * @property {number} started_ms
 * @property {"running" | "ended"} state
 * @property {string | null} outcome   a label of `diglot_streams_total`
 * @property {string | null} code
 * @property {string | null} message
 * @property {string | null} [explanation]   what the gateway's code means in general
 * @property {number} events_in
 * @property {number} events_out
 * @property {number} bytes_in
 * @property {number} bytes_out
 * @property {number | null} first_event_ms
 * @property {number} duration_ms
 * @property {number} repairs
 * @property {number} losses
 * @property {string[]} [repair_names]   their kinds
 * @property {string[]} [loss_names]
 * @property {string | null} [refusal]   status, fields and words with which the agent refused the request
 * @property {string | null} [looks_like]   the dialect of the agent's events that are of another than `agent`
 * @property {string | null} [body_form]   what is unusual about the form of the agent's stream
 * @property {string[]} types   of both sides' events, as rows name them
 * @property {number} kept_bytes
 * @property {number} missed_bytes
 * @property {boolean} [withheld]  they are protobuf, which cannot be redacted
 * @property {string | null} [limit]   the setting for which they were not
 * @property {{ from_ms: number, until_ms: number }[]} [client_waits]  when the gateway waited for the client to read
 * @property {{ from_ms: number, until_ms: number } | null} [silence]   the agent's longest
 * @property {RunCause | null} [cause]   what its rows have of why it went wrong
 *
 * @typedef {object} Moment
 * @property {number} at_ms
 * @property {string} name
 * @property {"passed" | "refused"} [verdict]   of a check
 * @property {string} [code]   of a check that refused
 * @property {string | null} [detail]   of a check, what it requires
 * @property {number} [times]
 * @property {number} [until_ms]
 *
 * @typedef {RunSummary & {
 *   settings: Record<string, unknown>,
 *   requests: RequestTexts,
 *   timeline: Moment[],
 * }} RunDetail
 *
 * @typedef {object} RequestTexts   heads without secrets; null if they are not recorded
 * @property {string | null} client_head
 * @property {string | null} client
 * @property {string | null} agent_head
 * @property {string | null} agent
 *
 * @typedef {{ n: number, agent: string[], client: string[] }} ReadRow   the events of both sides, read as AG-UI
 *
 * @typedef {"same" | "changed" | "split" | "merged" | "held" | "dropped" | "nothing" | "gateway" | "end" | "disconnect" | "mark" | "unrecorded"} Cause
 * @typedef {{ type: string | null, event?: string, data: string | null }} Side   no data if only events are recorded; the
 *   `event:` line if the agent's dialect is read by it
 * @typedef {{ label: string, help: string, rule?: string | null, member?: string }} Finding   `member` was added
 *
 * @typedef {{ item: string, id: string, name: string | null, lacks?: "end" | "result", n: number }} LeftOpen   `name` is a
 *   tool's, `n` the row that opened it
 *
 * @typedef {object} Row
 * @property {number} n
 * @property {number} at_ms
 * @property {Side | null} agent   what came
 * @property {Side[]} client       what was written because of it
 * @property {string[]} canonical
 * @property {Cause} cause
 * @property {string | null} seed
 * @property {{ names: string[], in: string }[]} carried
 * @property {string[]} [kept]
 * @property {Finding[]} repairs
 * @property {Finding[]} losses
 * @property {string | null} note
 * @property {"event" | "character" | "unfinished"} [cut_within]   what of the agent's event its stream was cut in, or that
 *   the run ended before it
 * @property {{ before: string, after: string }} [id_change]   of an item that probably goes on under another id
 * @property {LeftOpen[]} [left_open]   items that the agent did not end, where the run ends
 * @property {number[]} [releases]   held rows whose events the client gets here
 *
 * @typedef {Pick<Row, "n" | "cause" | "note" | "cut_within" | "id_change" | "left_open"> & { type: string | null }} RunCause
 *   `type` is that of the agent's event
 *
 * @typedef {{ route: string, configured: string, mode: string, until_ms: number | null }} RouteMode
 */

const TOKEN_KEY = "diglot.token";

/** The gateway answered with an error. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Takes the token out of the address, where it would stay in the history and in shared screens.
 * @returns {boolean} whether there was one
 */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return false;
  sessionStorage.setItem(TOKEN_KEY, token);
  history.replaceState(null, "", location.pathname);
  return true;
}

/** Returns whether the page has a token to send, be it a good one or not. */
export function hasToken() {
  return Boolean(sessionStorage.getItem(TOKEN_KEY));
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function request(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  const headers = { ...options.headers, ...(token === null ? {} : { authorization: `Bearer ${token}` }) };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new ApiError(response.status, String(problem.detail ?? problem.title ?? `HTTP ${response.status}`));
}

/**
 * Reads the JSON lines of a response as they come, all complete lines of one read at once. The first batch is empty and
 * means that the connection stands. A line can have millions of characters: its pieces are joined once.
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {RequestInit} [options]
 * @returns {AsyncGenerator<any[]>}
 */
export async function* readLines(path, signal, options) {
  const { body } = await request(path, { ...options, signal });
  yield [];
  if (body === null) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  /** @type {string[]} */
  let unfinished = [];
  for (;;) {
    const { done, value } = await reader.read();
    const end = done ? 0 : value.lastIndexOf("\n");
    if (end < 0) {
      unfinished.push(value ?? "");
      continue;
    }
    const text = unfinished.join("") + (value ?? "").slice(0, end);
    unfinished = [(value ?? "").slice(end + 1)];
    const lines = text.split("\n").filter((line) => line !== "");
    if (lines.length > 0) yield lines.map((line) => JSON.parse(line));
    if (done) return;
  }
}

/**
 * @param {number} id
 * @param {AbortSignal} signal
 * @returns {Promise<RunDetail>}
 */
export async function readRun(id, signal) {
  return (await request(`/inspect/v1/runs/${id}`, { signal })).json();
}

/**
 * Returns the options of a request that sends a value as JSON.
 * @param {string} method
 * @param {unknown} value
 * @returns {RequestInit}
 */
export function withJson(method, value) {
  return { method, headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}

/**
 * Reads both sides of a run as AG-UI, as far as it has come.
 * @param {number} id
 * @param {AbortSignal} signal
 * @returns {Promise<ReadRow[]>}
 */
export async function readReading(id, signal) {
  const rows = [];
  for await (const lines of readLines(`/inspect/v1/runs/${id}/reading`, signal)) rows.push(...lines);
  return rows;
}

/**
 * Reads how the routes are recorded, or changes it first.
 * @param {{ route: string, mode: string | null, seconds?: number }} [change]
 * @returns {Promise<RouteMode[]>}
 */
export async function captureModes(change) {
  const options = change && withJson("PUT", change);
  return (await (await request("/inspect/v1/mode", options)).json()).routes;
}
