// Nine published versions of @ag-ui/client, loaded side by side from tests/interop/versions, and what one of them makes
// of a body.
import { createRequire } from "node:module";
import http from "node:http";

export const VERSIONS = ["0.0.35", "0.0.39", "0.0.42", "0.0.45", "0.0.47", "0.0.53", "0.0.57", "0.0.59", "1.0.0"];

// The CommonJS builds: the ES modules of 0.0.45 and 0.0.47 import fast-json-patch wrongly and apply no patch under node.
const require = createRequire(new URL("../versions/package.json", import.meta.url));
const HttpAgent = Object.fromEntries(VERSIONS.map((version) => [version, require(`client-${version}`).HttpAgent]));

/** The HttpAgent of a version. */
export const clientOf = (version) => HttpAgent[version];

/** A server that answers every POST with the body stored under its path. */
export async function startBodies() {
  const bodies = new Map();
  const server = http.createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(bodies.get(request.url.slice(1)));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    /** Stores a body; gives its address. */
    add(body) {
      const key = String(bodies.size);
      bodies.set(key, body);
      return `http://127.0.0.1:${server.address().port}/${key}`;
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/**
 * Runs the client of `version` with `url`, these messages, this state and these tools. `refused` is the reason if it
 * did not accept the run: it rejected, or it received no end. The rest is its state afterwards.
 */
export async function hear(version, url, client = {}) {
  const agent = new HttpAgent[version]({
    url,
    threadId: client.threadId ?? "th",
    initialMessages: client.messages ?? [],
    initialState: client.state ?? {},
  });
  const events = [];
  const failures = [];
  let refused;
  try {
    await agent.runAgent(
      { runId: "r", tools: client.tools ?? [] },
      {
        onEvent: ({ event }) => void events.push(event),
        onRunFailed: ({ error }) => void failures.push(String(error?.message ?? error)),
      },
    );
  } catch (error) {
    refused = String(error?.message ?? error);
  }
  const [first, last] = [events[0]?.type, events.at(-1)?.type];
  if (!refused && failures.length > 0) refused = failures.join("; ");
  if (!refused && !(first === "RUN_STARTED" || first === "RUN_ERROR")) refused = `its first event is ${first}`;
  if (!refused && !(last === "RUN_FINISHED" || last === "RUN_ERROR")) refused = `its last event is ${last}`;
  return { refused, events, messages: agent.messages, state: agent.state };
}
