// Events that HAI and AG-UI express differently, received by clients: messages between agents and output blocks with
// the real @ag-ui/client, interrupts with the client that follows the HAI specification (seed 000). The streams are
// those of the golden corpus, translated by `diglot translate`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { BINARY } from "./support/diglot.mjs";
import { HttpAgent as HaiAgent, TaskComponent } from "./support/hai-client.mjs";

const LIMIT = { timeout: 30_000 };

const golden = (name) => readFileSync(new URL(`../golden/stream/${name}/input.sse`, import.meta.url));
const translate = (from, to, input, ...more) =>
  execFileSync(BINARY, ["translate", "--from", from, "--to", to, ...more], { input, stdio: ["pipe", "pipe", "ignore"] }).toString();
const eventsOf = (stream) => stream.split("\n").filter((line) => line.startsWith("data:")).map((line) => JSON.parse(line.slice(5)));

/** The messages that the real client holds after it was answered with `stream`. */
async function heardBy(stream) {
  const server = http.createServer((_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(stream));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    const client = new HttpAgent({ url: `http://127.0.0.1:${server.address().port}/` });
    client.addMessage({ id: "u", role: "user", content: "x" });
    await client.runAgent({});
    return client.messages.slice(1);
  } finally {
    server.close();
  }
}
const activities = (messages) => messages.filter((one) => one.role === "activity").map((one) => [one.id, one.activityType, one.content]);

test("the AG-UI client stores each message between agents as an activity", LIMIT, async () => {
  const messages = await heardBy(translate("hai", "ag-ui", golden("hai-to-ag-ui/4-2-collaboration")));
  assert.deepEqual(activities(messages), [
    ["m:collaboration:1", "hai.collaboration", {
      from: "USER", to: "Agent", status: "done", tasks: [{ id: "1", name: "查天气" }, { id: "2", name: "写回答" }],
    }],
    ["m:collaboration:2", "hai.collaboration", { from: "Agent", to: "USER", status: "done", tasks: [] }],
  ]);
});

test("delivers the task of the specification's ChatAgent as an activity and its text as a message", LIMIT, async () => {
  const messages = await heardBy(translate("hai", "ag-ui", golden("hai-to-ag-ui/4-2-chat-agent")));
  assert.deepEqual(activities(messages), [
    ["msgId-001:collaboration:1", "hai.collaboration", { from: "USER", to: "Agent", status: "done", tasks: ["USER"] }],
  ]);
  assert.equal(messages.find((one) => one.id === "msgId-001").content, "你好，世界");
});

test("the AG-UI client stores each block as an activity and replaces one with the same blockId", LIMIT, async () => {
  const messages = await heardBy(translate("hai", "ag-ui", golden("hai-to-ag-ui/blocks")));
  assert.deepEqual(activities(messages), [
    ["m:block:1", "hai.chart", { points: [] }],
    ["m:block:3", "hai.card", { content: "x", data: { a: 1 } }],
    ["m:block:4", "hai.divider", {}],
  ]);
});

test("the AG-UI client shows pieces under AG-UI's name in their place among the blocks of a HAI message", LIMIT, async () => {
  const messages = await heardBy(translate("hai", "ag-ui", golden("hai-to-ag-ui/chunks-among-blocks")));
  assert.deepEqual(messages.map((one) => [one.role, one.content]), [
    ["assistant", "甲一"],
    ["activity", { r: 1 }],
    ["assistant", "乙"],
    ["reasoning", "想"],
    ["assistant", "丙丁"],
    ["assistant", "戊"],
  ]);
});

test("asks a HAI client about each interrupt and resumes the run with its answers", LIMIT, () => {
  const client = new HaiAgent({ url: "unused", initialMessages: [{ id: "u", role: "user", content: "部署" }] });
  eventsOf(translate("ag-ui", "hai", golden("ag-ui-to-hai/interrupt"))).forEach((event) => client.take(event));
  const asked = client.messages.flatMap((one) => one.toolCalls ?? []).filter((call) => call.function.name === "confirmAction");
  assert.deepEqual(asked.map((call) => [call.id, JSON.parse(call.function.arguments).action]), [
    ["interrupt:i1", "部署到生产环境？"],
    ['interrupt:i"2', "tool_call"],
  ]);
  asked.forEach((call, at) => client.messages.push({ id: `r${at}`, role: "tool", content: at ? "false" : "true", toolCallId: call.id }));
  const request = JSON.stringify({ threadId: "t", runId: "r", messages: client.messages, tools: [], context: [], forwardedProps: {} });
  const input = JSON.parse(translate("hai", "ag-ui", request, "--request"));
  assert.deepEqual(input.resume, [
    { interruptId: "i1", status: "resolved", payload: true },
    { interruptId: 'i"2', status: "resolved", payload: false },
  ]);
  assert.deepEqual(input.messages.map((one) => [one.role, (one.toolCalls ?? []).map((call) => call.id)]), [["user", []], ["assistant", ["c"]]]);
});

/** What the person sees: the outputs of each message in the printed component's dialogue (§4.1). */
function shownBy(component) {
  return component.dialogue.messages.map((one) => [one.id, one.contents.map((block) => block.output)]);
}

/** The printed component after `stream`, and its client. */
function showStream(stream) {
  const [client, component] = [new HaiAgent({ url: "unused" }), new TaskComponent()];
  const update = (data) => component.updateDialogueMessages(data, component.dialogue.messages);
  client.subscribe({ onBusinessDataContentEvent: update, onBusinessDataEndEvent: update });
  eventsOf(stream).forEach((event) => client.take(event));
  return { client, component };
}

test("the specification's component shows an activity as a block beside its message's text", LIMIT, () => {
  const { component } = showStream(translate("ag-ui", "hai", golden("ag-ui-to-hai/activities")));
  assert.deepEqual(shownBy(component), [
    ["a", [{ type: "PLAN", data: { n: 1 } }]],
    ["a:2", [{ type: "PLAN", data: { n: 2 } }]],
    ["m", [{ type: "chart", data: { points: [1.1] } }, { type: "text", content: "好" }]],
  ]);
});

test("the specification's component shows each change of an activity, and nothing that must not overwrite it", LIMIT, () => {
  const { component } = showStream(translate("ag-ui", "hai", golden("ag-ui-to-hai/activity-changes")));
  assert.deepEqual(shownBy(component), [
    ["a", [{ type: "PLAN", data: { steps: [], n: 1.1 } }]],
    ["a:2", [{ type: "PLAN", data: { steps: ["查"], n: 2 } }]],
    ["m", [{ type: "PLAN", data: { steps: ["查"] } }, { type: "text", content: "好" }]],
    ["a:3", [{ type: "PLAN", data: { done: true } }]],
    // The patch before this one applies to nothing, and changes nothing.
    ["a:4", [{ type: "PLAN", data: {} }]],
  ]);
});

test("the specification's component can read every answer of a snapshot, reasoning and activities too", LIMIT, () => {
  const { client, component } = showStream(translate("ag-ui", "hai", golden("ag-ui-to-hai/snapshot")));
  const answers = client.messages.filter((one) => one.role === "assistant");
  assert.deepEqual(answers.map((one) => [one.id, component.parseJsonString(one.content).map((block) => block.output)]), [
    ["2", [{ type: "thinking", data: { content: "想", elapsed: 0, thinking: false, collapse: true } }]],
    ["3", [{ type: "PLAN", data: { n: 1 } }]],
    ["4", [{ type: "chart", data: { points: [1.1] } }]],
    ["5", [{ type: "text", content: "好" }]],
    ["6", [{ type: "thinking", data: { content: "末", elapsed: 0, thinking: false, collapse: true } }]],
    ["3:2", [{ type: "PLAN", data: { n: 2 } }]],
  ]);
  assert.deepEqual(shownBy(component), [["3:2", [{ type: "PLAN", data: { n: 2 } }]]]);
});

test("a HAI client hears that a subagent failed before its message ends", LIMIT, () => {
  const client = new HaiAgent({ url: "unused" });
  const heard = [];
  client.subscribe({
    onAgentCollaborativeMessageContentEvent: ({ event }) => heard.push(event.delta.task),
    onAgentCollaborativeMessageEndEvent: ({ event }) => heard.push(event.messageId),
  });
  eventsOf(translate("ag-ui", "hai", golden("ag-ui-to-hai/subagents"))).forEach((event) => client.take(event));
  assert.deepEqual(heard, [
    { id: "s", name: "研究员" },
    { id: "s2", name: "b" },
    { id: "s2", name: "b: error: bad", status: "error", error: { message: "bad", code: "E1" } },
    "s2",
    "s",
  ]);
});

test("a HAI user's picture is a content part for an AG-UI agent, and for a HAI agent again", LIMIT, () => {
  const picture = [{ type: "text", text: "看图" }, { type: "image", source: { type: "url", value: "https://e.com/a.png" } }];
  const client = new HaiAgent({ url: "unused", initialMessages: [{ id: "u", role: "user", content: picture }] });
  const request = JSON.stringify({ threadId: "t", runId: "r", messages: client.messages, tools: [], context: [], forwardedProps: {} });
  const input = translate("hai", "ag-ui", request, "--request");
  assert.deepEqual(JSON.parse(input).messages, client.messages);
  assert.deepEqual(JSON.parse(translate("ag-ui", "hai", input, "--request")).messages, client.messages);
});

// pydantic-ai begins and ends a message without a word before each tool call; the printed component throws on an END whose
// content is no JSON (parseJsonString, §4.1).
for (const [what, ...said] of [
  ["is begun and ended", { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" }, { type: "TEXT_MESSAGE_END", messageId: "m" }],
  ["is a chunk without a delta", { type: "TEXT_MESSAGE_CHUNK", messageId: "m", role: "assistant" }],
  ["has an empty piece", { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "" }, { type: "TEXT_MESSAGE_END", messageId: "m" }],
]) {
  test(`the specification's component accepts an empty message that ${what}`, LIMIT, () => {
    const run = [{ type: "RUN_STARTED", threadId: "t", runId: "r" }, ...said, { type: "RUN_FINISHED", threadId: "t", runId: "r" }];
    const stream = run.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
    const { component } = showStream(translate("ag-ui", "hai", stream));
    const texts = component.dialogue.messages.flatMap((one) => one.contents.map((block) => block.output.content));
    assert.equal(texts.join(""), "");
  });
}
