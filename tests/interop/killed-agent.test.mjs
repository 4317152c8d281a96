// An agent that dies in the middle of a run: the real AG-UI client must learn that the run failed, keep the events so
// far, and never get a successful end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newClient, runOnce } from "./support/ag-ui-client.mjs";
import { TEXT } from "./support/conversation.mjs";
import { startAgent, startGateway } from "./support/diglot.mjs";

// Long enough between two events that the agent is gone before the next one, short enough not to be felt.
const PACE_MS = 150;

for (const dialect of ["hai", "ag-ui"]) {
  test(`ends the client's run with an error when a ${dialect} agent is killed`, { timeout: 60_000 }, async (t) => {
    const agent = await startAgent(dialect, PACE_MS);
    t.after(() => agent.crash());
    const gateway = await startGateway({ client: "ag-ui", agent: dialect, upstream: agent.url });
    t.after(() => gateway.stop());

    const client = newClient(gateway.url);
    let killed;
    const run = await runOnce(client, "run-1", (event) => {
      if (event.type === "TEXT_MESSAGE_CONTENT") killed ??= agent.crash();
    });

    assert.ok(killed, `no text arrived: ${run.types}`);
    assert.equal(run.errors.length, 1, `events: ${run.types}`);
    assert.match(run.errors[0].code, /^upstream_(reset|truncated)$/);
    assert.equal(run.types.at(-1), "RUN_ERROR");
    assert.ok(!run.types.includes("RUN_FINISHED"));
    assert.deepEqual(run.warnings, []);
    const text = client.messages.at(-1).content;
    assert.ok(text.length > 0 && TEXT.startsWith(text), `kept: ${text}`);
  });
}
