// What the playground asks of the gateway. The gateway sends its requests through the data plane as those of a client.
import { readLines, request, withJson } from "./api.mjs";

/**
 * @typedef {object} PlaygroundRoute
 * @property {string} name
 * @property {string} path
 * @property {string[]} clients       dialects of its clients, several if the route detects them
 * @property {string} agent
 * @property {string[]} credentials   fields for a credential, none if the route is open
 * @property {boolean} resumable      its runs outlive their clients
 *
 * @typedef {object} Composed   the request of a client, and where the client comes back to its run
 * @property {string} body
 * @property {{ label: string, help: string }[]} losses
 * @property {string | null} events_path
 * @property {string | null} join_path
 * @property {string | null} stop_path
 *
 * @typedef {object} Sent
 * @property {string} route
 * @property {string} client
 * @property {string} method
 * @property {string} path
 * @property {string[][]} headers
 * @property {string} body
 * @property {{ body: string, events: string[] }} [started]  the run to which the client comes back
 *
 * @typedef {{ status: number, headers: string[][] }} Head
 */

/**
 * @param {AbortSignal} signal
 * @returns {Promise<PlaygroundRoute[]>}
 */
export async function readRoutes(signal) {
  return (await request("/playground/v1/routes", { signal })).json();
}

/**
 * Writes the request of a client of the dialect.
 * @param {string} route
 * @param {string} client
 * @param {unknown} input   AG-UI's RunAgentInput
 * @param {AbortSignal} signal
 * @returns {Promise<Composed>}
 */
export async function compose(route, client, input, signal) {
  return (await request("/playground/v1/compose", { ...withJson("POST", { route, client, input }), signal })).json();
}

/**
 * Sends a request, and reads the lines of the answer: a head, rows and ids or a text, an end.
 * @param {Sent} sent
 * @param {AbortSignal} signal
 */
export async function* send(sent, signal) {
  for await (const lines of readLines("/playground/v1/send", signal, withJson("POST", sent))) yield* lines;
}
