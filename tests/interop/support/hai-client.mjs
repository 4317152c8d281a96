// A HAI client that follows the HAI specification (seed 000) exactly, since none is published: the HttpAgent that §4.1
// imports, and the component that §4.1 prints.
//
// It has only what the specification describes of HttpAgent: it wraps the user's text into a RunAgentInput and POSTs it
// (§3.3.1), reads server-sent events (§3.2.3), joins the deltas of each messageId (§3.3.1, §4.1 "HAI会自动拼接事件内容"),
// applies state deltas as JSON Patch (§4.1), and calls on<EventName>Event of each subscriber with { agent, event,
// messages }.
import { randomUUID } from "node:crypto";
import jsonPatch from "fast-json-patch";

/** `hai-client`'s HttpAgent. */
export class HttpAgent {
  constructor({ url, threadId = randomUUID(), initialMessages = [], initialState = {} }) {
    this.url = url;
    this.threadId = threadId;
    this.messages = structuredClone(initialMessages);
    this.state = structuredClone(initialState);
    this.subscribers = [];
  }

  subscribe(subscriber) {
    this.subscribers.push(subscriber);
    return { unsubscribe: () => (this.subscribers = this.subscribers.filter((one) => one !== subscriber)) };
  }

  /** One run; resolves with the events when the stream ends. */
  async runAgent({ runId = randomUUID(), tools = [], context = [], forwardedProps = {} } = {}) {
    const response = await fetch(this.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify({ threadId: this.threadId, runId, messages: this.messages, tools, context, forwardedProps }),
    });
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    const events = [];
    for await (const event of eventsOf(response.body)) {
      events.push(event);
      this.take(event);
    }
    return events;
  }

  /** Applies one event, then calls the subscribers. */
  take(event) {
    switch (event.type) {
      case "BUSINESS_DATA_START":
        this.messages.push({ id: event.messageId, role: event.role ?? "assistant", content: "" });
        break;
      case "BUSINESS_DATA_CONTENT":
        this.find(event.messageId).content += asText(event.delta);
        break;
      case "TOOL_CALL_START":
        this.parentOf(event).toolCalls.push({
          id: event.toolCallId,
          type: "function",
          function: { name: event.toolCallName, arguments: "" },
        });
        break;
      case "TOOL_CALL_ARGS":
        this.toolCall(event.toolCallId).function.arguments += asText(event.delta);
        break;
      case "TOOL_CALL_RESULT":
        this.messages.push({ id: event.messageId, role: "tool", toolCallId: event.toolCallId, content: event.content });
        break;
      case "STATE_SNAPSHOT":
        this.state = structuredClone(event.snapshot);
        break;
      case "STATE_DELTA":
        this.state = jsonPatch.applyPatch(this.state, structuredClone(event.delta), false, false).newDocument;
        break;
      case "MESSAGE_SNAPSHOT":
        this.messages = structuredClone(event.messages);
        break;
      default: // The others change nothing here; subscribers still hear of them.
    }
    const callback = `on${event.type.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase())}Event`;
    for (const subscriber of this.subscribers) subscriber[callback]?.({ agent: this, event, messages: this.messages });
  }

  find(messageId) {
    const message = this.messages.find((one) => one.id === messageId);
    if (!message) throw new Error(`content for message ${messageId}, which never started`);
    return message;
  }

  // "可选，关联的消息ID" (§3.3.2): a call may name no message, then it makes one.
  parentOf({ parentMessageId, toolCallId }) {
    let parent = this.messages.find((one) => one.id === parentMessageId);
    if (!parent) this.messages.push((parent = { id: parentMessageId ?? toolCallId, role: "assistant", content: "" }));
    parent.toolCalls ??= [];
    return parent;
  }

  toolCall(toolCallId) {
    const call = this.messages.flatMap((message) => message.toolCalls ?? []).find((one) => one.id === toolCallId);
    if (!call) throw new Error(`arguments for tool call ${toolCallId}, which never started`);
    return call;
  }
}

// A delta is a string (§3.3.1) or an object (§4.2); objects are joined as their JSON, which parseJsonString takes apart.
const asText = (delta) => (typeof delta === "string" ? delta : JSON.stringify(delta));

/** The JSON events of a server-sent event stream: frames end with an empty line, `data:` lines hold the JSON. */
async function* eventsOf(body) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    const frames = rest.split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").filter((line) => line.startsWith("data:"));
      if (data.length > 0) yield JSON.parse(data.map((line) => line.slice("data:".length)).join("\n"));
    }
  }
  if (rest.trim() !== "") throw new Error(`the stream ended inside a frame: ${rest}`);
}

/**
 * The component that §4.1 prints, without its framework. updateDialogueMessages and parseJsonString do what is printed
 * there, shortcomings included: the message taken is always the last one, its content must be a sequence of JSON
 * objects and not empty, and no text may hold "}{".
 */
export class TaskComponent {
  dialogue = { messages: [] };

  /** onSend of §4.1, with the agent handed in: it subscribes, runs, and keeps the dialogue up to date. */
  async onSend(agent, parameters) {
    const dialogueMessages = this.dialogue.messages;
    const subscription = agent.subscribe({
      onBusinessDataContentEvent: (eventData) => this.updateDialogueMessages(eventData, dialogueMessages),
      onBusinessDataEndEvent: (eventData) => this.updateDialogueMessages(eventData, dialogueMessages),
    });
    try {
      return await agent.runAgent(parameters);
    } finally {
      subscription.unsubscribe();
    }
  }

  updateDialogueMessages(eventData, dialogueMessages) {
    const { event, messages } = eventData;
    const newAssistantMessage = messages[messages.length - 1];
    const { id, role, content } = newAssistantMessage || {};
    const contents = this.parseJsonString(content);
    let newDialogueMessage = dialogueMessages.find((message) => message.id === id);
    if (newDialogueMessage) {
      newDialogueMessage.contents = contents;
    } else {
      newDialogueMessage = {
        id,
        role,
        avatar: "assets/img/avatar.png",
        name: "智能体名称",
        contents,
        timestamp: event.timestamp,
      };
      dialogueMessages.push(newDialogueMessage);
    }
    this.dialogue = { ...this.dialogue, messages: dialogueMessages };
  }

  parseJsonString(jsonString) {
    if (!jsonString || typeof jsonString !== "string") {
      throw new Error("输入必须是有效的字符串");
    }
    try {
      const legalJsonArrayStr = `[${jsonString.replace(/}{/g, "},{")}]`;
      return JSON.parse(legalJsonArrayStr);
    } catch (error) {
      throw new Error(`JSON解析失败: ${error.message}`);
    }
  }
}
