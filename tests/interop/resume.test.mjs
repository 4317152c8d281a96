// The real AG-UI client on a route whose runs outlive their clients: a client that comes back, wherever its connection
// broke, ends with the messages and the state of a client that received the whole run.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { plain, runOnce } from "./support/ag-ui-client.mjs";
import { GREETING } from "./support/conversation.mjs";
import { serve, startAgent } from "./support/diglot.mjs";

const LIMIT = { timeout: 60_000 };

// Time enough to come back while the run goes on.
const PACE_MS = 20;

const AGENTS = ["hai", "ag-ui"];

let agents;
let gateway;

before(async () => {
  agents = await Promise.all(AGENTS.map((dialect) => startAgent(dialect, PACE_MS)));
  const routes = AGENTS.map(
    (dialect, index) => `
  - {path: /${dialect}, client: ag-ui, agent: ${dialect}, upstream: "${agents[index].url}", on_disconnect: continue for 1m}
  - {path: /${dialect}-whole, client: ag-ui, agent: ${dialect}, upstream: "${agents[index].url}"}`,
  );
  gateway = await serve(`routes:${routes.join("")}\n`);
}, LIMIT);

after(async () => {
  await gateway?.stop();
  await Promise.all((agents ?? []).map((agent) => agent.stop()));
}, LIMIT);

const options = (path) => ({ url: gateway.url + path, threadId: "thread-1", initialMessages: [GREETING] });

/** A client that joins a run by its id. */
class Joining extends HttpAgent {
  requestInit(input) {
    const { headers, signal } = super.requestInit(input);
    return { method: "GET", headers: { accept: headers.Accept }, signal };
  }
}

/** A body that breaks off behind so many frames. */
function brokenOff(body, frames) {
  let text = "";
  return body.pipeThrough(new TextDecoderStream()).pipeThrough(
    new TransformStream({
      transform(chunk, out) {
        text += chunk;
        const parts = text.split("\n\n");
        if (parts.length <= frames) return;
        out.enqueue(parts.slice(0, frames).map((part) => `${part}\n\n`).join(""));
        out.terminate();
      },
      flush: (out) => out.enqueue(text),
    }),
  );
}

/** Acts like an application whose connection breaks after so many frames: requests the run again after the last id. */
function mending(frames, seen) {
  return async (url, init) => {
    const first = await fetch(url, init);
    const body = new ReadableStream({
      async start(out) {
        let last;
        const pass = async (part) => {
          for await (const chunk of part) {
            last = [...chunk.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? last;
            out.enqueue(new TextEncoder().encode(chunk));
          }
        };
        await pass(brokenOff(first.body, frames));
        seen.push(last);
        const again = await fetch(url, { ...init, headers: { ...init.headers, "Last-Event-ID": last } });
        assert.equal(again.status, 200);
        await pass(again.body.pipeThrough(new TextDecoderStream()));
        out.close();
      },
    });
    return new Response(body, { status: first.status, headers: first.headers });
  };
}

/** Starts a run and leaves it behind so many events. */
async function leave(path, runId, events) {
  const client = new HttpAgent(options(path));
  let heard = 0;
  await runOnce(client, runId, () => {
    heard += 1;
    if (heard === events) client.abortRun();
  }).catch(() => {});
  assert.ok(heard >= events, `${heard} events`);
}

for (const dialect of AGENTS) {
  describe(`@ag-ui/client rejoins a run of a ${dialect} agent`, () => {
    for (const events of [1, 5, 8, 12, 15]) {
      test(`replays the run to a client that left after ${events} events`, LIMIT, async () => {
        const runId = `run-${events}`;
        const whole = new HttpAgent(options(`/${dialect}-whole`));
        await runOnce(whole, runId);
        await leave(`/${dialect}`, runId, events);

        const clients = [
          new HttpAgent(options(`/${dialect}`)),
          new Joining({ ...options(`/${dialect}`), url: `${gateway.url}/${dialect}/runs/${runId}/events` }),
        ];
        const runs = await Promise.all(clients.map((client) => runOnce(client, runId)));
        // Once more, now that it has ended.
        clients.push(new HttpAgent(options(`/${dialect}`)));
        runs.push(await runOnce(clients.at(-1), runId));
        for (const [index, { types, errors, warnings }] of runs.entries()) {
          assert.deepEqual([errors, warnings], [[], []]);
          assert.deepEqual([types[0], types.at(-1)], ["RUN_STARTED", "RUN_FINISHED"]);
          assert.deepEqual(plain(clients[index].messages), plain(whole.messages));
          assert.deepEqual(clients[index].state, whole.state);
        }
      });

      test(`resumes with Last-Event-ID after ${events} events`, LIMIT, async () => {
        const runId = `mended-${events}`;
        const whole = new HttpAgent(options(`/${dialect}-whole`));
        const heard = await runOnce(whole, runId);
        const seen = [];
        const client = new HttpAgent({ ...options(`/${dialect}`), fetch: mending(events, seen) });
        const run = await runOnce(client, runId);
        assert.match(seen[0], new RegExp(`^[a-z2-7]{10}-${events}$`));
        assert.deepEqual([run.errors, run.warnings], [[], []]);
        assert.deepEqual(run.types, heard.types);
        assert.deepEqual(plain(client.messages), plain(whole.messages));
        assert.deepEqual(client.state, whole.state);
      });
    }
  });
}

test("finishes a stopped run as cancelled", LIMIT, async () => {
  const client = new HttpAgent(options("/hai"));
  let stopped;
  const run = await runOnce(client, "stopped", () => {
    stopped ??= fetch(`${gateway.url}/hai/runs/stopped/stop`, { method: "POST" });
  });
  assert.equal((await stopped).status, 204);
  assert.deepEqual([run.errors, run.warnings], [[], []]);
  assert.equal(run.types.at(-1), "RUN_FINISHED");
  assert.equal(run.events.at(-1).outcome.type, "cancelled");
});
