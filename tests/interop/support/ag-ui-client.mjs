// The real @ag-ui/client as an application uses it, with a record of all its callbacks.
import { HttpAgent } from "@ag-ui/client";
import { mock } from "node:test";
import { CONFIRM_ACTION, GREETING } from "./conversation.mjs";

/** A client with its first message, before its first run. */
export const newClient = (url) => new HttpAgent({ url, threadId: "thread-1", initialMessages: [GREETING] });

/**
 * Runs `agent` once. Resolves with the events in their order, the errors that the run reported, and every warning the
 * client printed meanwhile; rejects when runAgent does. `onEvent` sees each event first.
 */
export async function runOnce(agent, runId, onEvent = () => {}) {
  const warnings = [];
  const spies = ["warn", "error"].map((level) => mock.method(console, level, (...words) => warnings.push(words.map(String).join(" "))));
  const events = [];
  const errors = [];
  try {
    await agent.runAgent(
      { runId, tools: [CONFIRM_ACTION] },
      {
        onEvent: ({ event }) => {
          events.push(event);
          onEvent(event);
        },
        onRunErrorEvent: ({ event }) => void errors.push(event),
      },
    );
  } finally {
    spies.forEach((spy) => spy.mock.restore());
  }
  return { events, types: events.map((event) => event.type), errors, warnings };
}

/** Messages as values to compare: metadata left out, tool arguments parsed. */
export const plain = (messages) =>
  messages.map(({ metadata, toolCalls, ...message }) =>
    toolCalls
      ? {
          ...message,
          toolCalls: toolCalls.map(({ metadata, ...call }) => ({
            ...call,
            function: { ...call.function, arguments: JSON.parse(call.function.arguments) },
          })),
        }
      : message,
  );
