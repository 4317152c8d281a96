// Agents that use the id of a call in every run, as seed 000 §3.3.2 prints one (`tool-123`), or that of an interrupt. Every
// client adds arguments to the call with their id; so each run's call has an id of its own there, the person is asked
// in every run, and the answer finds the agent's call.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, describe, test } from "node:test";
import { serve } from "./support/diglot.mjs";
import { HttpAgent as HaiAgent } from "./support/hai-client.mjs";
import { clientOf } from "./support/old-clients.mjs";

const LIMIT = { timeout: 60_000 };
const TOOL = { name: "confirmAction", description: "d", parameters: { type: "object", properties: {} } };
const PARENTS = { "without a parent": {}, "of one message": { parentMessageId: "msg-456" } };

/** What an agent of each dialect says in run `n`. */
const RUNS = {
  "ag-ui": (n, parent, { threadId, runId }) => [{ type: "RUN_STARTED", threadId, runId }, ...call(n, parent), { type: "RUN_FINISHED", threadId, runId }],
  hai: (n, parent) => [{ type: "RUN_STARTED", messageId: "msg-456", role: "assistant" }, ...call(n, parent), { type: "RUN_FINISHED", messageId: "msg-456", role: "assistant" }],
  interrupts: (n, _, { threadId, runId }) => [
    { type: "RUN_STARTED", threadId, runId },
    { type: "RUN_FINISHED", threadId, runId, outcome: { type: "interrupt", interrupts: [{ id: "i", reason: "confirm", message: `D${n}` }] } },
  ],
};

function call(n, parent) {
  const toolCallId = "tool-123";
  return [
    { type: "TOOL_CALL_START", toolCallId, toolCallName: "confirmAction", ...parent },
    { type: "TOOL_CALL_ARGS", toolCallId, delta: '{"action":' },
    { type: "TOOL_CALL_ARGS", toolCallId, delta: `"D${n}"}` },
    { type: "TOOL_CALL_END", toolCallId },
  ];
}

const CLIENTS = {
  hai: "hai",
  "ag-ui": "1.0.0",
  "ag-ui-0": "0.0.53",
  "{dialect: ag-ui-0, pin: 0.0.42}": "0.0.42",
  "{dialect: ag-ui-0, pin: 0.0.35}": "0.0.35",
};

let agent;
let gateway;
const requests = [];
let say;

before(async () => {
  agent = http.createServer((request, response) => {
    let body = "";
    request.on("data", (text) => (body += text));
    request.on("end", () => {
      requests.push(JSON.parse(body));
      const events = say(requests.length, requests.at(-1));
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
    });
  });
  await new Promise((ready) => agent.listen(0, "127.0.0.1", ready));
  const upstream = `http://127.0.0.1:${agent.address().port}/`;
  const routes = Object.keys(CLIENTS).flatMap((client, at) =>
    ["ag-ui", "hai"].map((dialect) => `\n  - {path: /${at}/${dialect}, client: ${client}, agent: ${dialect}, upstream: "${upstream}"}`),
  );
  gateway = await serve(`routes:${routes.join("")}\n`);
}, LIMIT);

after(async () => {
  await gateway?.stop();
  agent?.closeAllConnections();
  agent?.close();
}, LIMIT);

const callsOf = (messages) => messages.flatMap((message) => message.toolCalls ?? []);
const said = (messages) => messages.map((one) => (one.toolCalls ? JSON.parse(one.toolCalls[0].function.arguments).action : one.content));
const answersOf = (messages) => messages.filter((message) => message.role === "tool");

/** Four runs that ask the person, who writes before each of them or only answers; returns the client, and what it asked. */
async function converse(url, version, writes = true) {
  const client = version === "hai" ? new HaiAgent({ url }) : new (clientOf(version))({ url, initialMessages: [] });
  const asked = [];
  requests.length = 0;
  for (let run = 1; run <= 4; run++) {
    if (writes || run === 1) client.messages.push({ id: `u${run}`, role: "user", content: `问${run}` });
    const before = new Set(callsOf(client.messages).map((one) => one.id));
    await client.runAgent({ tools: [TOOL] }, {});
    const open = callsOf(client.messages).filter((one) => !before.has(one.id));
    asked.push(open.map((one) => JSON.parse(one.function.arguments).action));
    // A person who is asked answers.
    open.forEach((one) => client.messages.push({ id: `a${run}`, role: "tool", toolCallId: one.id, content: `答${run}` }));
  }
  return { client, asked };
}

const quiet = { warn: console.warn, error: console.error };
for (const [at, [client, version]] of Object.entries(CLIENTS).entries()) {
  describe(`client ${client}`, () => {
    before(() => (console.warn = console.error = () => {}));
    after(() => Object.assign(console, quiet));
    for (const dialect of ["ag-ui", "hai"]) {
      for (const [what, parent] of Object.entries(PARENTS)) {
        test(`asks for each call ${what} from a ${dialect} agent`, LIMIT, async () => {
          say = (n, input) => RUNS[dialect](n, parent, input);
          const { client: own, asked } = await converse(`${gateway.url}/${at}/${dialect}`, version);
          assert.deepEqual(asked, [["D1"], ["D2"], ["D3"], ["D4"]]);
          const ids = callsOf(own.messages).map((one) => one.id);
          assert.equal(new Set(ids).size, 4, `${ids}`);
          // The agent has its own id again, and the person's answers in their order.
          const { messages } = requests.at(-1);
          assert.deepEqual(callsOf(messages).map((one) => [one.id, JSON.parse(one.function.arguments).action]), [["tool-123", "D1"], ["tool-123", "D2"], ["tool-123", "D3"]]);
          assert.deepEqual(answersOf(messages).map((one) => [one.toolCallId, one.content]), [["tool-123", "答1"], ["tool-123", "答2"], ["tool-123", "答3"]]);
          assert.equal(messages.at(-1).content, "问4");
          // A client of the agent's kind puts the call in the message that the agent names.
          if (what === "without a parent" || dialect.startsWith("hai") !== (version === "hai")) {
            assert.deepEqual(said(messages), ["问1", "D1", "答1", "问2", "D2", "答2", "问3", "D3", "答3", "问4"]);
          }
        });
      }
    }
    test("asks for each of two calls that a hai agent makes in one run", LIMIT, async () => {
      const parent = { parentMessageId: "msg-456" };
      say = (n, input) => RUNS.hai(n, parent, input).toSpliced(-1, 0, ...(n === 1 ? call(2, parent) : []));
      requests.length = 0;
      const url = `${gateway.url}/${at}/hai`;
      const own = version === "hai" ? new HaiAgent({ url }) : new (clientOf(version))({ url, initialMessages: [] });
      await own.runAgent({ tools: [TOOL] }, {});
      const calls = callsOf(own.messages);
      assert.deepEqual(calls.map((one) => JSON.parse(one.function.arguments).action), ["D1", "D2"]);
      calls.forEach((one, index) => own.messages.push({ id: `a${index}`, role: "tool", toolCallId: one.id, content: `答${index + 1}` }));
      await own.runAgent({ tools: [TOOL] }, {});
      const answers = answersOf(requests.at(-1).messages);
      assert.deepEqual(answers.map((one) => [one.toolCallId, one.content]), [["tool-123", "答1"], ["tool-123", "答2"]]);
    });
    for (const dialect of ["ag-ui", "hai"]) {
      test(`asks a ${dialect} agent's next question after each answer`, LIMIT, async () => {
        say = (n, input) => RUNS[dialect](n, {}, input);
        const { asked } = await converse(`${gateway.url}/${at}/${dialect}`, version, false);
        assert.deepEqual(asked, [["D1"], ["D2"], ["D3"], ["D4"]]);
        assert.deepEqual(said(requests.at(-1).messages), ["问1", "D1", "答1", "D2", "答2", "D3", "答3"]);
      });
    }
    if (version !== "1.0.0") {
      test("asks for an interrupt whose id an earlier run had", LIMIT, async () => {
        say = (n, input) => RUNS.interrupts(n, {}, input);
        const { asked } = await converse(`${gateway.url}/${at}/ag-ui`, version);
        assert.deepEqual(asked, [["D1"], ["D2"], ["D3"], ["D4"]]);
        assert.deepEqual(requests.at(-1).resume, [{ interruptId: "i", status: "resolved", payload: "答3" }]);
        assert.deepEqual(requests.at(-1).messages.map((one) => one.content), ["问1", "问2", "问3", "问4"]);
      });
    }
  });
}
