// The real AG-UI client in front of each kind of agent: it must end with the same messages and the same state,
// whatever the agent speaks, and find nothing to warn about.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { newClient, plain, runOnce } from "./support/ag-ui-client.mjs";
import { ANSWERS, messagesAfterFirstTurn, stateAt, STEP, toolMessage } from "./support/conversation.mjs";
import { startDemo } from "./support/diglot.mjs";

const LIMIT = { timeout: 30_000 };

// The thinking of an agent is a separate message in AG-UI; a HAI agent has no id for it, so the gateway derives one.
const ROUTES = [
  { name: "hai-agent", agent: "a HAI agent with string deltas", reasoningId: (runId) => `msg-${runId}:reasoning:1` },
  { name: "hai-agent-blocks", agent: "a HAI agent with block deltas", reasoningId: (runId) => `msg-${runId}:reasoning:1` },
  { name: "pass", agent: "an AG-UI agent", reasoningId: (runId) => `think-${runId}` },
  { name: "ag-ui-0-agent", agent: "an AG-UI 0.x agent", reasoningId: (runId) => `${runId}:reasoning:1` },
  {
    name: "ag-ui-snake-agent",
    agent: "an agent with snake_case ids",
    reasoningId: (runId) => `think-${runId}`,
    // Its arguments are one object.
    pieces: { arguments: 1 },
  },
  // No thinking, arguments in the start of the call, and a call that names no message.
  { name: "cloudbase-agent", agent: "a CloudBase agent", pieces: { thinking: 0, arguments: 1 }, callAlone: true },
  // No thinking, and everything whole: the text in its end, the arguments as an object, each state.
  {
    name: "social-app-agent",
    agent: "an agent that says its text whole",
    pieces: { thinking: 0, text: 1, arguments: 1 },
    step: "worker",
    news: "STATE_SNAPSHOT",
  },
];

let demo;
before(async () => (demo = await startDemo()), LIMIT);
after(() => demo?.stop(), LIMIT);

for (const { name, agent, reasoningId = () => undefined, step = STEP, news = "STATE_DELTA", callAlone, ...more } of ROUTES) {
  const pieces = { thinking: 2, text: 3, arguments: 2, ...more.pieces };
  const afterFirstTurn = messagesAfterFirstTurn("run-1", reasoningId("run-1"), { callAlone });
  describe(`@ag-ui/client with ${agent} (${name})`, () => {
    test("delivers thinking, text, tool call and state in one run", LIMIT, async () => {
      const client = newClient(demo.url(name));
      const run = await runOnce(client, "run-1");

      assert.deepEqual(run.warnings, []);
      assert.deepEqual(run.errors, []);
      assert.deepEqual(plain(client.messages), afterFirstTurn);
      assert.deepEqual(client.state, stateAt("running"));
      assert.deepEqual(client.pendingInterrupts ?? [], []);
    });

    test("keeps the request's ids and the agent's order of events", LIMIT, async () => {
      const { events, types } = await runOnce(newClient(demo.url(name)), "run-1");

      const [first, last] = [events[0], events.at(-1)];
      assert.deepEqual([first.type, first.threadId, first.runId], ["RUN_STARTED", "thread-1", "run-1"]);
      assert.deepEqual([last.type, last.threadId, last.runId], ["RUN_FINISHED", "thread-1", "run-1"]);
      assert.equal(first.protocolVersion, "1.0");
      const inOrder = [
        "STATE_SNAPSHOT", "STEP_STARTED", ...(pieces.thinking ? ["REASONING_MESSAGE_CONTENT"] : []), "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END", ...(news === "STATE_DELTA" ? [news] : []), "TOOL_CALL_START", "TOOL_CALL_END", "STEP_FINISHED",
      ];
      assert.deepEqual(inOrder, [...inOrder].sort((a, b) => types.indexOf(a) - types.indexOf(b)));
      assert.equal(types.filter((type) => type.startsWith("STATE_")).at(-1), news);
      assert.ok(inOrder.every((type) => types.includes(type)), `missing in ${types}`);
      // Each piece the agent sent is a piece of its own here: nothing waited to be put together.
      assert.equal(types.filter((type) => type === "TEXT_MESSAGE_CONTENT").length, pieces.text);
      assert.equal(types.filter((type) => type === "REASONING_MESSAGE_CONTENT").length, pieces.thinking);
      assert.equal(types.filter((type) => type === "TOOL_CALL_ARGS").length, pieces.arguments);
      assert.deepEqual(events.filter((event) => "stepName" in event).map((event) => event.stepName), [step, step]);
    });

    for (const answer of ANSWERS) {
      test(`passes the user's answer ${answer.content} to the agent in the next run`, LIMIT, async () => {
        const client = newClient(demo.url(name));
        await runOnce(client, "run-1");
        client.addMessage(toolMessage("run-1", answer.content));
        const run = await runOnce(client, "run-2");

        assert.deepEqual(run.warnings, []);
        assert.deepEqual(run.errors, []);
        assert.deepEqual(plain(client.messages), [
          ...afterFirstTurn,
          toolMessage("run-1", answer.content),
          { id: "msg-run-2", role: "assistant", content: answer.text },
        ]);
        assert.deepEqual(client.state, stateAt(answer.status));
      });
    }
  });
}
