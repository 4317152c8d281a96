// Computes the messages and the state that an AG-UI 1.0 client holds after some events, by the rules of the reducer in
// @ag-ui/client 1.0.0; tests/page compares both over the golden streams.
import { applyPatch } from "./json_patch.mjs";

/**
 * @typedef {Record<string, unknown>} Metadata   what events carry for a message; the client sends it back with it
 *
 * @typedef {object} ToolCall
 * @property {string} id
 * @property {"function"} type
 * @property {{ name: string, arguments: string }} function
 * @property {Metadata} [metadata]
 * @property {string} [encryptedValue]
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string} role
 * @property {unknown} [content]
 * @property {ToolCall[]} [toolCalls]
 * @property {string} [toolCallId]
 * @property {string} [activityType]
 * @property {string} [name]
 * @property {string | null} [subagentRunId]
 * @property {Metadata} [metadata]
 * @property {string} [encryptedValue]
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
   * @param {any} event
   * @param {string} role
   */
  open(event, role) {
    const { type, messageId, name, subagentRunId } = event;
    const known = this.find(messageId);
    if (known?.role === "activity") {
      this.problems.push(`${type}: ${messageId}`);
      return;
    }
    /** @type {Message} */
    const message = known ?? { id: messageId, role, content: "", ...(name !== undefined && { name }), ...subagentOf(subagentRunId) };
    if (known === undefined) this.messages.push(message);
    keepMetadata(message, event);
  }

  /** @param {any} event  of a message that is open: what it adds, or its end */
  append(event) {
    const { type, messageId, delta } = event;
    const message = this.find(messageId);
    if (message === undefined || message.role === "activity") {
      this.problems.push(`${type}: ${messageId}`);
      return;
    }
    if (delta !== undefined) message.content = `${typeof message.content === "string" ? message.content : ""}${delta}`;
    keepMetadata(message, event);
  }

  /** @param {any} event  of a call that is open: its arguments, or its end */
  appendArguments(event) {
    const { type, toolCallId, delta = "" } = event;
    const call = this.findCall(toolCallId);
    if (call === undefined) {
      this.problems.push(`${type}: ${toolCallId}`);
      return;
    }
    call.function.arguments += delta;
    keepMetadata(call, event);
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
    for (const message of input?.messages ?? [])
      if (fold.find(message.id) === undefined) fold.messages.push(withoutNoOwner(message));
  },
  TEXT_MESSAGE_START: (fold, event) => fold.open(event, event.role ?? "assistant"),
  TEXT_MESSAGE_CONTENT: (fold, event) => fold.append(event),
  TEXT_MESSAGE_END: (fold, event) => fold.append(event),
  REASONING_MESSAGE_START: (fold, { name, ...event }) => fold.open(event, "reasoning"),
  REASONING_MESSAGE_CONTENT: (fold, event) => fold.append(event),
  REASONING_MESSAGE_END: (fold, event) => fold.append(event),
  REASONING_ENCRYPTED_VALUE: (fold, { subtype, entityId, encryptedValue }) => {
    const target = subtype === "tool-call" ? fold.findCall(entityId) : fold.find(entityId);
    if (target !== undefined && !("role" in target && target.role === "activity")) target.encryptedValue = encryptedValue;
  },
  TEXT_MESSAGE_CHUNK: giveUp,
  REASONING_MESSAGE_CHUNK: giveUp,
  TOOL_CALL_CHUNK: giveUp,
  TOOL_CALL_START: startCall,
  TOOL_CALL_ARGS: (fold, event) => fold.appendArguments(event),
  TOOL_CALL_END: (fold, event) => fold.appendArguments(event),
  TOOL_CALL_RESULT: addResult,
  STATE_SNAPSHOT: (fold, { snapshot }) => {
    fold.state = snapshot;
  },
  STATE_DELTA: (fold, { delta }) => {
    fold.state = fold.patched(fold.state, delta);
  },
  MESSAGES_SNAPSHOT: replaceMessages,
  ACTIVITY_SNAPSHOT: (fold, event) => {
    const { messageId, activityType, content, replace = true, subagentRunId } = event;
    const at = fold.messages.findIndex(({ id }) => id === messageId);
    const known = fold.messages[at];
    /** @type {Message} */
    let activity = { id: messageId, role: "activity", activityType, content: structuredClone(content), ...subagentOf(subagentRunId) };
    if (known !== undefined && !replace && known.role !== "activity") return;
    if (known?.role === "activity") activity = replace ? { ...activity, ...(known.metadata && { metadata: known.metadata }) } : known;
    if (at < 0) fold.messages.push(activity);
    else fold.messages[at] = activity;
    keepMetadata(activity, event);
  },
  ACTIVITY_DELTA: (fold, event) => {
    const message = fold.find(event.messageId);
    if (message?.role !== "activity") return;
    keepMetadata(message, event);
    message.content = fold.patched(message.content ?? {}, event.patch ?? []);
    message.activityType = event.activityType;
  },
};

/**
 * @param {{ metadata?: Metadata }} target
 * @param {{ metadata?: Metadata }} event
 */
function keepMetadata(target, { metadata }) {
  if (metadata !== undefined) target.metadata = { ...target.metadata, ...structuredClone(metadata) };
}

/** @param {string | null | undefined} subagentRunId  null where the run itself is the owner */
function subagentOf(subagentRunId) {
  return subagentRunId != null && { subagentRunId };
}

/** @param {Message} message */
function withoutNoOwner(message) {
  const { subagentRunId, ...others } = message;
  return subagentRunId === null ? others : message;
}

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
 * @param {any} event
 */
function startCall(fold, event) {
  const { toolCallId, toolCallName, parentMessageId, subagentRunId } = event;
  const known = fold.findCall(toolCallId);
  if (known !== undefined) {
    known.function.name = toolCallName;
    keepMetadata(known, event);
    return;
  }
  const parent = parentMessageId ? fold.find(parentMessageId) : undefined;
  let owner = parent;
  if (owner?.role !== "assistant") {
    // A parent of another role cannot hold calls: the message gets the call's id.
    const id = parent === undefined && parentMessageId ? parentMessageId : toolCallId;
    owner = { id, role: "assistant", ...subagentOf(subagentRunId) };
    fold.messages.push(owner);
  }
  /** @type {ToolCall} */
  const call = { id: toolCallId, type: "function", function: { name: toolCallName, arguments: "" } };
  owner.toolCalls = [...(owner.toolCalls ?? []), call];
  keepMetadata(call, event);
}

/**
 * A result stands behind its call and the results that are already there, not at the end.
 * @param {ClientFold} fold
 * @param {any} event
 */
function addResult(fold, event) {
  const { messageId, toolCallId, content, role, subagentRunId } = event;
  /** @type {Message} */
  const message = { id: messageId, role: role || "tool", toolCallId, content, ...subagentOf(subagentRunId) };
  keepMetadata(message, event);
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
  const given = new Map(messages.map((message) => [message.id, withoutNoOwner(message)]));
  const has = (/** @type {string} */ role) => messages.some((message) => message.role === role);
  const stays = (/** @type {Message} */ { role }) => (role === "activity" || role === "reasoning") && !has(role);
  const kept = fold.messages.filter((message) => given.has(message.id) || stays(message));
  const ids = new Set(kept.map(({ id }) => id));
  fold.messages = [
    ...kept.map((message) => given.get(message.id) ?? message),
    ...messages.filter(({ id }) => !ids.has(id)).map(withoutNoOwner),
  ].map((message) => structuredClone(message));
}
