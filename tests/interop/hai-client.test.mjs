// A HAI client in front of an AG-UI agent: by default the component that the HAI specification prints (§4.1 of
// seed 000) must be able to show the answer; with content=string the plain client of §3.3.1 must.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ANSWERS, CONFIRM_ACTION, GREETING, stateAt, STEP, TEXT, THINKING, TOOL_ARGUMENTS, toolMessage } from "./support/conversation.mjs";
import { startDemo } from "./support/diglot.mjs";
import { HttpAgent, TaskComponent } from "./support/hai-client.mjs";

const LIMIT = { timeout: 30_000 };

let demo;
before(async () => (demo = await startDemo()), LIMIT);
after(() => demo?.stop(), LIMIT);

const newClient = (route) => new HttpAgent({ url: demo.url(route), threadId: "thread-1", initialMessages: [GREETING] });
const firstRun = { runId: "run-1", tools: [CONFIRM_ACTION] };
const secondRun = { runId: "run-2", tools: [CONFIRM_ACTION] };

/** The blocks of every answer in the dialogue, in their order. */
const blocksOf = (component) => component.dialogue.messages.flatMap((message) => message.contents.map((block) => block.output));
const thoughts = (blocks) => blocks.filter((output) => output.type === "thinking").map((output) => output.data);
const textOf = (blocks) => blocks.filter((output) => output.type === "text").map((output) => output.content).join("");

/** The common result of both forms of content after the first run. */
function assertToolCallAndState(client, events) {
  const types = events.map((event) => event.type);
  assert.equal(types[0], "RUN_STARTED");
  assert.equal(types.at(-1), "RUN_FINISHED");
  assert.deepEqual(events.filter((event) => "stepName" in event).map((event) => [event.type, event.stepName]), [
    ["STEP_STARTED", STEP],
    ["STEP_FINISHED", STEP],
  ]);
  const calls = client.messages.find((message) => message.id === "msg-run-1").toolCalls;
  assert.deepEqual(calls.map((call) => [call.id, call.function.name]), [["call-run-1", "confirmAction"]]);
  assert.deepEqual(JSON.parse(calls[0].function.arguments), TOOL_ARGUMENTS);
  assert.deepEqual(client.state, stateAt("running"));
}

describe("HAI client with an AG-UI agent, content=blocks (the default)", () => {
  test("the specification's component shows thinking, then text, calls the tool and keeps the state", LIMIT, async () => {
    const [client, component] = [newClient("ag-ui-agent"), new TaskComponent()];
    const events = await component.onSend(client, firstRun);

    const blocks = blocksOf(component);
    assert.equal(thoughts(blocks).map((data) => data.content).join(""), THINKING);
    assert.equal(textOf(blocks), TEXT);
    const types = blocks.map((output) => output.type);
    assert.ok(types.lastIndexOf("thinking") < types.indexOf("text"), `thinking stands first: ${types}`);
    assert.deepEqual([...new Set(types)], ["thinking", "text"]);
    assert.equal(thoughts(blocks).at(-1).thinking, false, "the thinking is over when the text begins");
    assert.ok(thoughts(blocks).every((data) => Number.isInteger(data.elapsed)), "elapsed is in whole seconds");
    assertToolCallAndState(client, events);
  });

  for (const answer of ANSWERS) {
    test(`passes the user's answer ${answer.content} to the agent in the next run`, LIMIT, async () => {
      const client = newClient("ag-ui-agent");
      await new TaskComponent().onSend(client, firstRun);
      client.messages.push(toolMessage("run-1", answer.content));
      const component = new TaskComponent();
      const events = await component.onSend(client, secondRun);

      assert.equal(textOf(blocksOf(component)), answer.text);
      assert.deepEqual(client.state, stateAt(answer.status));
      assert.equal(events.at(-1).type, "RUN_FINISHED");
    });
  }
});

describe("HAI client with an AG-UI agent, content=string", () => {
  test("delivers plain text, calls the tool and keeps the state", LIMIT, async () => {
    const client = newClient("ag-ui-agent-string");
    const events = await client.runAgent(firstRun);

    assert.equal(client.messages.find((message) => message.id === "msg-run-1").content, TEXT);
    assert.ok(events.filter((event) => event.type === "BUSINESS_DATA_CONTENT").every((event) => typeof event.delta === "string"));
    // §3.3.1 has no word for thinking: it must not show up as text, and must not be lost either.
    assert.ok(events.some((event) => event.type === "CUSTOM" && /^ag-ui\.REASONING_/.test(event.name)));
    assertToolCallAndState(client, events);
  });

  for (const answer of ANSWERS) {
    test(`passes the user's answer ${answer.content} to the agent in the next run`, LIMIT, async () => {
      const client = newClient("ag-ui-agent-string");
      await client.runAgent(firstRun);
      client.messages.push(toolMessage("run-1", answer.content));
      await client.runAgent(secondRun);

      assert.equal(client.messages.find((message) => message.id === "msg-run-2").content, answer.text);
      assert.deepEqual(client.state, stateAt(answer.status));
    });
  }
});

test("the test client handles the specification's examples as the specification says", () => {
  const client = new HttpAgent({ url: "unused" });
  const component = new TaskComponent();
  client.subscribe({ onBusinessDataEndEvent: (data) => component.updateDialogueMessages(data, component.dialogue.messages) });
  const block = (output) => ({ type: "BUSINESS_DATA_CONTENT", messageId: "msg-2", delta: { output } });
  const outputs = [
    { type: "thinking", data: { content: "想", elapsed: 10, thinking: true, collapse: true } },
    { type: "text", content: "HAI是一套事件驱动的" },
    { type: "fold", data: { title: "t", fold: false, position: "start" } },
  ];
  client.take({ type: "BUSINESS_DATA_START", messageId: "msg-2", role: "assistant", timestamp: 1620000000500 });
  outputs.forEach((output) => client.take(block(output)));
  client.take({ type: "BUSINESS_DATA_END", messageId: "msg-2", timestamp: 1620000002500 });
  assert.deepEqual(blocksOf(component), outputs);
  assert.throws(() => component.parseJsonString(""), /输入必须是有效的字符串/);
  assert.throws(() => component.parseJsonString("plain text"), /JSON解析失败/);
});
