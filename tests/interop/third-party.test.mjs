// Third-party agents, served to a HAI client through the gateway: pydantic-ai (its current AG-UI application and that
// of its 1.0, which speaks AG-UI 0.1) and LangGraph (ag-ui-langgraph), each a real server behind `diglot serve`. Their
// models are functions (python/agents/), so the expected output of the HAI client is known.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { CONFIRM_ACTION } from "./support/conversation.mjs";
import { startGateway } from "./support/diglot.mjs";
import { HttpAgent, TaskComponent } from "./support/hai-client.mjs";
import { hear, VERSIONS } from "./support/old-clients.mjs";
import { startServer } from "./support/python.mjs";

// The first run on a machine installs the packages.
const START = { timeout: 600_000 };
const LIMIT = { timeout: 60_000 };

/** A third-party server and gateways in front of it: for each shape of a HAI client's content, and for older AG-UI clients. */
function behindTheGateway({ script, packages, agent }) {
  const it = {};
  before(async () => {
    it.server = await startServer(`agents/${script}`, [packages]);
    it.string = await startGateway({ client: "{dialect: hai, content: string}", agent, upstream: it.server.url });
    it.blocks = await startGateway({ client: "{dialect: hai, content: blocks}", agent, upstream: it.server.url });
    it.older = await startGateway({ client: "ag-ui-0", agent, upstream: it.server.url });
    it.oldest = await startGateway({ client: "{dialect: ag-ui-0, pin: 0.0.35}", agent, upstream: it.server.url });
  }, START);
  after(async () => {
    await it.string?.stop();
    await it.blocks?.stop();
    await it.older?.stop();
    await it.oldest?.stop();
    await it.server?.stop();
  }, LIMIT);
  return it;
}

const newClient = (gateway, text) =>
  new HttpAgent({ url: gateway.url, threadId: "thread-1", initialMessages: [{ id: "u1", role: "user", content: text }] });

const run = (runId) => ({ runId, tools: [CONFIRM_ACTION] });
const answerTo = (toolCallId, content) => ({ id: `answer-${toolCallId}`, role: "tool", content, toolCallId });

/** Every tool call that the client holds, as [id, name, arguments]. */
const callsOf = (client) =>
  client.messages
    .flatMap((message) => message.toolCalls ?? [])
    .map((call) => [call.id, call.function.name, JSON.parse(call.function.arguments)]);

const resultsIn = (events) =>
  Object.fromEntries(events.filter((event) => event.type === "TOOL_CALL_RESULT").map((event) => [event.toolCallId, event.content]));
const blocksOf = (component) => component.dialogue.messages.flatMap((message) => message.contents.map((block) => block.output));
const textIn = (blocks) => blocks.filter((block) => block.type === "text").map((block) => block.content).join("");
const textOf = (client) => client.messages.filter((message) => message.role === "assistant").map((message) => message.content ?? "").join("");

/** Lets every published AG-UI client ask the agent; gives what each shows, or why it refused the run. */
async function askedByAll({ older, oldest }, text) {
  const quiet = { warn: console.warn, error: console.error };
  console.warn = console.error = () => {};
  try {
    const answers = [];
    for (const version of VERSIONS) {
      const messages = [{ id: "u1", role: "user", content: text }];
      const heard = await hear(version, (version === "0.0.35" ? oldest : older).url, { messages, tools: [CONFIRM_ACTION], threadId: `thread-${version}` });
      answers.push([version, heard.refused ?? { text: textOf(heard), calls: callsOf(heard), state: heard.state }]);
    }
    return Object.fromEntries(answers);
  } finally {
    Object.assign(console, quiet);
  }
}

/** Both ends of a run carry its ids, and there is one of each. */
function assertWholeRun(events, runId) {
  const ends = events.filter((event) => /^RUN_/.test(event.type));
  assert.deepEqual(ends.map((event) => event.type), ["RUN_STARTED", "RUN_FINISHED"]);
  assert.equal(events[0], ends[0]);
  assert.equal(events.at(-1), ends[1]);
  for (const end of ends) assert.deepEqual([end.threadId, end.runId], ["thread-1", runId]);
}

const PYDANTIC_AI = [
  { name: "pydantic-ai 2.68, ag-ui-protocol 1.0", packages: "pydantic-ai-2.68", agent: "ag-ui", tellsFailures: true },
  { name: "pydantic-ai 1.0, ag-ui-protocol 0.1.8", packages: "pydantic-ai-1.0", agent: "ag-ui-0", tellsFailures: false },
];

for (const { name, packages, agent, tellsFailures } of PYDANTIC_AI) {
  describe(name, () => {
    const it = behindTheGateway({ script: "pydantic_ai_agent.py", packages, agent });

    const calls = [
      ["call-weather", "weather", { city: "北京" }],
      ["call-unreliable", "unreliable", {}],
      ["call-confirm", "confirmAction", { action: "预订", importance: "high" }],
    ];

    test("plain text: delivers the answer, tool calls with results, and state", LIMIT, async () => {
      const client = newClient(it.string, "北京天气？");
      const events = await client.runAgent(run("run-1"));

      assertWholeRun(events, "run-1");
      assert.equal(textOf(client), "北京晴，22 度。");
      assert.deepEqual(callsOf(client), calls);
      assert.deepEqual(JSON.parse(resultsIn(events)["call-weather"]), { city: "北京", sky: "晴" });
      // pydantic-ai 1.0 sends nothing about a tool that requests a retry.
      if (tellsFailures) assert.equal(resultsIn(events)["call-unreliable"], "the service is down");
      assert.deepEqual(client.state, { city: "北京", days: [1, 2] });
      // §3.3.1 has no word for thinking: it goes as CUSTOM, and never as text.
      assert.ok(events.some((event) => event.type === "CUSTOM" && event.name === "ag-ui.REASONING_MESSAGE_CONTENT"));
    });

    // pydantic-ai 2 opens and closes a message without content before each tool call; the component cannot show that.
    test("blocks: the specification's component shows thinking, then the answer", LIMIT, async () => {
      const [client, component] = [newClient(it.blocks, "北京天气？"), new TaskComponent()];
      assertWholeRun(await component.onSend(client, run("run-1")), "run-1");

      const blocks = blocksOf(component);
      const thoughts = blocks.filter((block) => block.type === "thinking").map((block) => block.data);
      assert.equal(thoughts.map((data) => data.content).join(""), "用户想知道天气，先查询。");
      assert.equal(thoughts.at(-1).thinking, false);
      assert.equal(textIn(blocks), "北京晴，22 度。");
      assert.equal(blocks[0].type, "thinking");
      assert.deepEqual(callsOf(client), calls);
      assert.deepEqual(client.state, { city: "北京", days: [1, 2] });
    });

    for (const [answer, text] of [["true", "已确认。"], ['{"confirmed":false}', "已取消。"]]) {
      test(`the user's answer ${answer} reaches the model in the next run`, LIMIT, async () => {
        const client = newClient(it.string, "北京天气？");
        await client.runAgent(run("run-1"));
        client.messages.push(...(tellsFailures ? [] : [answerTo("call-unreliable", "the service is down")]));
        client.messages.push(answerTo("call-confirm", answer));
        const before = textOf(client);
        const events = await client.runAgent(run("run-2"));

        assertWholeRun(events, "run-2");
        assert.equal(textOf(client), before + text);
      });
    }

    // The oldest client knows no THINKING_*, and is what `pin: 0.0.35` is for.
    test("every AG-UI client version shows the answer, the calls and the state", LIMIT, async () => {
      const expected = { text: "北京晴，22 度。", calls, state: { city: "北京", days: [1, 2] } };
      const answers = await askedByAll(it, "北京天气？");
      assert.deepEqual(answers, Object.fromEntries(VERSIONS.map((version) => [version, expected])));
    });

    test("ends the run in one error when a tool crashes", LIMIT, async () => {
      const client = newClient(it.string, "崩溃");
      const events = await client.runAgent(run("run-1"));

      assert.equal(events.at(-1).type, "RUN_ERROR");
      assert.equal(events.filter((event) => /^RUN_(ERROR|FINISHED)$/.test(event.type)).length, 1);
      assert.equal(typeof events.at(-1).message, "string");
      assert.deepEqual(callsOf(client), [["call-crash", "crash", {}]]);
    });

    for (const shape of ["string", "blocks"]) {
      test(`a second user message continues the conversation, ${shape}`, LIMIT, async () => {
        const client = newClient(it[shape], "北京天气？");
        await client.runAgent(run("run-1"));
        client.messages.push(...(tellsFailures ? [] : [answerTo("call-unreliable", "the service is down")]));
        client.messages.push(answerTo("call-confirm", "true"), { id: "u2", role: "user", content: "谢谢" });
        const component = new TaskComponent();
        const events = shape === "blocks" ? await component.onSend(client, run("run-2")) : await client.runAgent(run("run-2"));

        assertWholeRun(events, "run-2");
        const answer = shape === "blocks" ? textIn(blocksOf(component)) : client.messages.at(-1).content;
        assert.equal(answer, "不客气。我说过：北京晴，22 度。");
      });
    }
  });
}

describe("LangGraph, ag-ui-langgraph 0.0.47", () => {
  const it = behindTheGateway({ script: "langgraph_agent.py", packages: "ag-ui-langgraph-0.0.47", agent: "ag-ui" });

  test("blocks: delivers text around a tool call, its result, steps and state", LIMIT, async () => {
    const [client, component] = [newClient(it.blocks, "重启？"), new TaskComponent()];
    client.threadId = "thread-blocks";
    const events = await component.onSend(client, run("run-1"));

    assert.deepEqual([events[0].type, events.at(-1).type], ["RUN_STARTED", "RUN_FINISHED"]);
    assert.equal(textIn(blocksOf(component)), "我先查一下。查到 3 台主机。");
    assert.deepEqual(callsOf(client).slice(0, 1), [["call-lookup", "lookup", { kind: "主机" }]]);
    const steps = events.filter((event) => event.type === "STEP_STARTED").map((event) => event.stepName);
    assert.deepEqual(steps, ["ask", "lookup", "ask", "approve"]);
    assert.equal(client.state.hosts, 3);
    // LangGraph sends the conversation as it knows it: the tool's result is a message of it.
    assert.equal(client.messages.find((message) => message.id === "result-lookup")?.content, '{"hosts": 3}');
  });

  test("every AG-UI client version shows the answer and the calls", LIMIT, async () => {
    const answers = await askedByAll(it, "重启？");
    for (const version of VERSIONS) {
      assert.equal(answers[version].text, "我先查一下。查到 3 台主机。", `${version}: ${JSON.stringify(answers[version])}`);
      const [lookup, question, ...others] = answers[version].calls;
      assert.deepEqual([lookup, others], [["call-lookup", "lookup", { kind: "主机" }], []], version);
      assert.deepEqual([question[1], question[2].message], ["confirmAction", "重启 3 台主机？"], version);
      assert.equal(answers[version].state.hosts, 3, version);
    }
  });

  test("turns an interrupt into a tool call and resumes the graph with the user's answer", LIMIT, async () => {
    const client = newClient(it.string, "重启？");
    client.threadId = "thread-interrupt";
    await client.runAgent(run("run-1"));
    const asked = callsOf(client).find(([id]) => id.startsWith("interrupt:"));
    assert.ok(asked, `no question among ${JSON.stringify(callsOf(client))}`);
    assert.equal(asked[1], "confirmAction");
    assert.match(JSON.stringify(asked[2]), /重启 3 台主机？/);

    client.messages.push(answerTo(asked[0], "true"));
    const events = await client.runAgent(run("run-2"));
    assert.equal(events.at(-1).type, "RUN_FINISHED");
    assert.equal(client.state.verdict, "True");
  });
});
