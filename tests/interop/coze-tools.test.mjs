// The real AG-UI client in front of config/dialects/coze-chat.yaml, behind which is a server as strict as Coze's documents:
// results only for a chat that waits, all of one action, in a conversation that is saved, and one chat at a time.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { HttpAgent } from "@ag-ui/client";
import { serve } from "./support/diglot.mjs";

const LIMIT = { timeout: 60_000 };
const FILE = fileURLToPath(new URL("../../config/dialects/coze-chat.yaml", import.meta.url));

/** The calls of one action: Coze's ids have characters that a URL does not. */
const CALLS = ["BUJJF0dA+/=1", "BUJJF0dA+/=2"];

class Coze {
  waiting = new Map();
  count = 0;

  /** Returns the events of a response, or Coze's `code` and `msg`. */
  answer(url, body) {
    const query = Object.fromEntries(url.searchParams);
    if (url.pathname === "/v3/chat/submit_tool_outputs") {
      const chat = this.waiting.get(query.chat_id);
      if (chat?.conversation_id !== query.conversation_id) return { code: 4000, msg: "no such chat" };
      if (!chat.saved) return { code: 5000, msg: "the conversation is not saved" };
      const ids = body.tool_outputs.map((output) => output.tool_call_id);
      if (ids.join() !== CALLS.join()) return { code: 4000, msg: `results of ${ids}` };
      this.waiting.delete(query.chat_id);
      const repeated = { id: "t1", role: "assistant", type: "tool_response", content: "…", content_type: "text" };
      const text = `Rain: ${body.tool_outputs.map((output) => output.output).join(", ")}`;
      return [["conversation.chat.in_progress", chat], ["conversation.message.completed", repeated], ...this.end(chat, text)];
    }
    const question = body.additional_messages.at(-1);
    if (question?.role !== "user") return { code: 4000, msg: "the last message is not the user's" };
    const inUse = [...this.waiting.values()].some((chat) => chat.conversation_id === query.conversation_id);
    if (inUse) return { code: 4016, msg: "the conversation has a chat" };
    const conversation_id = query.conversation_id ?? `conversation-${++this.count}`;
    const chat = { id: `chat-${++this.count}`, conversation_id, status: "created", saved: body.auto_save_history };
    const begin = ["conversation.chat.created", chat];
    if (!question.content.includes("rain")) {
      return [begin, ...this.end(chat, `${conversation_id} has ${body.additional_messages.length} more`)];
    }
    this.waiting.set(chat.id, chat);
    const call = (id) => ({ id, type: "function", function: { name: "rain", arguments: '{"city":"Oslo"}' } });
    const required_action = { type: "submit_tool_outputs", submit_tool_outputs: { tool_calls: CALLS.map(call) } };
    return [begin, ["conversation.chat.requires_action", { ...chat, status: "requires_action", required_action }], ["done", "[DONE]"]];
  }

  end(chat, text) {
    const message = { id: `answer-${++this.count}`, role: "assistant", type: "answer", content: text, content_type: "text" };
    return [["conversation.message.delta", message], ["conversation.chat.completed", { ...chat, status: "completed" }], ["done", "[DONE]"]];
  }
}

let server;
let gateway;

before(async () => {
  const coze = new Coze();
  server = createServer(async (request, response) => {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    const answer = coze.answer(new URL(request.url, "http://coze"), body);
    const isStream = Array.isArray(answer);
    response.setHeader("content-type", isStream ? "text/event-stream" : "application/json");
    const frames = () => answer.map(([event, data]) => `event:${event}\ndata:${JSON.stringify(data)}\n\n`).join("");
    response.end(isStream ? frames() : JSON.stringify(answer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}/v3/chat`;
  gateway = await serve(`dialect_files: [${FILE}]
routes: [{path: /coze, client: ag-ui, agent: coze-chat, agent_errors: pass, upstream: "${url}"}]
`);
}, LIMIT);

after(async () => {
  await gateway?.stop();
  server?.close();
}, LIMIT);

const start = (text) => new HttpAgent({ url: `${gateway.url}/coze`, initialMessages: [{ id: "u1", role: "user", content: text }] });
const addResult = (agent, id) => agent.addMessage({ id: `result of ${id}`, role: "tool", toolCallId: id, content: `${id.at(-1)} %` });
const last = (agent) => agent.messages.at(-1).content;

describe("plugins of the client", LIMIT, () => {
  test("are called and answered, and later questions go on in the conversation", async () => {
    const agent = start("Is there rain in Oslo?");
    await agent.runAgent();
    const calls = agent.messages.at(-1).toolCalls;
    assert.deepEqual(calls.map((call) => call.id), CALLS, "one message has the calls of an action");
    for (const id of CALLS) addResult(agent, id);
    await agent.runAgent();
    assert.equal(last(agent), "Rain: 1 %, 2 %");
    agent.addMessage({ id: "u2", role: "user", content: "And tomorrow?" });
    await agent.runAgent();
    assert.equal(last(agent), "conversation-1 has 1 more");
  });

  test("may stay without an answer: the next question begins a conversation with the history", async () => {
    const agent = start("Is there rain in Oslo?");
    await agent.runAgent();
    agent.addMessage({ id: "u2", role: "user", content: "Never mind. Hello!" });
    await agent.runAgent();
    assert.match(last(agent), /^conversation-\d+ has 2 more$/);
  });

  test("are answered together: the client gets the code and the text with which Coze refuses", async () => {
    const agent = start("Is there rain in Oslo?");
    await agent.runAgent();
    addResult(agent, CALLS[0]);
    await assert.rejects(agent.runAgent(), /results of BUJJF0dA\+\/=1 \(4000\)/);
  });
});
