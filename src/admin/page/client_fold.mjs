// Computes the messages and the state that an AG-UI 1.0 client holds after some events, by the rules of the reducer in
// @ag-ui/client 1.0.0; tests/page compares both over the golden streams. Metadata of messages is left out.
import { applyPatch } from "./json_patch.mjs";

/** @typedef {{ id: string, function: { name: string, arguments: string } }} ToolCall */
/**
 * @typedef {object} Message
 * @property {string} id
 * @property {string} role
 * @property {unknown} [content]
 * @property {ToolCall[]} [toolCalls]
 * @property {string} [toolCallId]
 * @property {string} [activityType]
 */

export class ClientFold {
  /** @type {Message[]} */
  messages;
  /** @type {unknown} */
  state;
  /**
   * What the client could not apply, and events that this fold does not know.
   * @type {string[]}
   */
  problems = [];

  /** @param {{ messages?: Message[], state?: unknown }} [input]  of the request: what the client starts with */
  constructor({ messages = [], state = {} } = {}) {
    this.messages = structuredClone(messages);
    this.state = structuredClone(state);
  }

  /** @param {any} event */
  apply(event) {
    const known = typeof event?.type === "string" && Object.hasOwn(REDUCERS, event.type);
    if (known) REDUCERS[event.type](this, event);
  }

  /** @param {string} id */
  find(id) {
    return this.messages.find((message) => message.id === id);
  }

  /** @param {string} callId */
  ownerOf(callId) {
    return this.messages.find(({ toolCalls }) => toolCalls?.some(({ id }) => id === callId));
  }

  /** @param {string} callId */
  findCall(callId) {
    return this.ownerOf(callId)?.toolCalls?.find(({ id }) => id === callId);
  }

  /**
   * @param {string} messageId
   * @param {string} role
   */
  open(messageId, role) {
    if (this.find(messageId) === undefined) this.messages.push({ id: messageId, role, content: "" });
  }

  /** @param {{ type: string, messageId: string, delta: string }} event */
  append({ type, messageId, delta }) {
    const message = this.find(messageId);
    if (message === undefined || message.role === "activity") this.problems.push(`${type}: ${messageId}`);
    else message.content = `${typeof message.content === "string" ? message.content : ""}${delta}`;
  }

  /**
   * @param {unknown} document
   * @param {any} operations
   */
  patched(document, operations) {
    try {
      return applyPatch(document, operations);
    } catch (error) {
      this.problems.push(`JSON Patch: ${/** @type {Error} */ (error).message}`);
      return document;
    }
  }
}

/** @type {Record<string, (fold: ClientFold, event: any) => void>} */
const REDUCERS = {
  RUN_STARTED: (fold, { input }) => {
    for (const message of input?.messages ?? []) if (fold.find(message.id) === undefined) fold.messages.push(message);
  },
  TEXT_MESSAGE_START: (fold, { messageId, role = "assistant" }) => fold.open(messageId, role),
  TEXT_MESSAGE_CONTENT: (fold, event) => fold.append(event),
  REASONING_MESSAGE_START: (fold, { messageId }) => fold.open(messageId, "reasoning"),
  REASONING_MESSAGE_CONTENT: (fold, event) => fold.append(event),
  TEXT_MESSAGE_CHUNK: giveUp,
  REASONING_MESSAGE_CHUNK: giveUp,
  TOOL_CALL_CHUNK: giveUp,
  TOOL_CALL_START: startCall,
  TOOL_CALL_ARGS: (fold, { type, toolCallId, delta }) => {
    const call = fold.findCall(toolCallId);
    if (call === undefined) fold.problems.push(`${type}: ${toolCallId}`);
    else call.function.arguments += delta;
  },
  TOOL_CALL_RESULT: addResult,
  STATE_SNAPSHOT: (fold, { snapshot }) => {
    fold.state = snapshot;
  },
  STATE_DELTA: (fold, { delta }) => {
    fold.state = fold.patched(fold.state, delta);
  },
  MESSAGES_SNAPSHOT: replaceMessages,
  ACTIVITY_SNAPSHOT: (fold, { messageId, activityType, content, replace = true }) => {
    const activity = { id: messageId, role: "activity", activityType, content };
    const at = fold.messages.findIndex(({ id }) => id === messageId);
    if (at < 0) fold.messages.push(activity);
    else if (replace) fold.messages[at] = activity;
  },
  ACTIVITY_DELTA: (fold, { messageId, activityType, patch }) => {
    const message = fold.find(messageId);
    if (message?.role !== "activity") return;
    message.content = fold.patched(message.content ?? {}, patch ?? []);
    message.activityType = activityType;
  },
};

/**
 * The client expands chunks by rules of their own, which are not repeated here.
 * @param {ClientFold} fold
 * @param {{ type: string }} event
 */
function giveUp(fold, { type }) {
  fold.problems.push(type);
}

/**
 * @param {ClientFold} fold
 * @param {{ toolCallId: string, toolCallName: string, parentMessageId?: string }} event
 */
function startCall(fold, { toolCallId, toolCallName, parentMessageId }) {
  const known = fold.findCall(toolCallId);
  if (known !== undefined) {
    known.function.name = toolCallName;
    return;
  }
  const parent = parentMessageId ? fold.find(parentMessageId) : undefined;
  let owner = parent;
  if (owner?.role !== "assistant") {
    // A parent of another role cannot hold calls: the message gets the call's id.
    owner = { id: parent === undefined && parentMessageId ? parentMessageId : toolCallId, role: "assistant" };
    fold.messages.push(owner);
  }
  owner.toolCalls = [...(owner.toolCalls ?? []), { id: toolCallId, function: { name: toolCallName, arguments: "" } }];
}

/**
 * A result stands behind its call and the results that are already there, not at the end.
 * @param {ClientFold} fold
 * @param {{ messageId: string, toolCallId: string, content: unknown, role?: string }} event
 */
function addResult(fold, { messageId, toolCallId, content, role }) {
  const message = { id: messageId, role: role || "tool", toolCallId, content };
  const owner = fold.ownerOf(toolCallId);
  if (owner === undefined) {
    fold.messages.push(message);
    return;
  }
  let at = fold.messages.indexOf(owner) + 1;
  while (fold.messages[at]?.role === "tool") at += 1;
  fold.messages.splice(at, 0, message);
}

/**
 * Activities and reasoning that a snapshot does not mention stay, unless it has others of their kind.
 * @param {ClientFold} fold
 * @param {{ type: string, messages: Message[], metadata?: Record<string, unknown> }} event
 */
function replaceMessages(fold, { type, messages, metadata }) {
  // A convention of the client about who owns activities, which the gateway does not use.
  if (metadata?.["@ag-ui/client"] !== undefined) giveUp(fold, { type });
  const given = new Map(messages.map((message) => [message.id, message]));
  const has = (/** @type {string} */ role) => messages.some((message) => message.role === role);
  const stays = (/** @type {Message} */ { role }) => (role === "activity" || role === "reasoning") && !has(role);
  const kept = fold.messages.filter((message) => given.has(message.id) || stays(message));
  const ids = new Set(kept.map(({ id }) => id));
  fold.messages = [
    ...kept.map((message) => given.get(message.id) ?? message),
    ...messages.filter(({ id }) => !ids.has(id)),
  ].map((message) => structuredClone(message));
}
