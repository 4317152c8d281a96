// The conversation of the embedded agents of `diglot demo` and `diglot mock-agent` (src/demo/), and the resulting messages
// and state of a client.
//
// First turn, for any text of the user:
//   run started; state {"workflowItems":[{"name":"部署","status":"pending"}]}; step "智能处理" begins;
//   thinking "用户想部署应用，" "需要先确认。"; text "好的，" "我将把应用部署到生产环境，" "请先确认。"
//   (message msg-<runId>; the thinking of AG-UI agents has the id think-<runId>);
//   state: /workflowItems/0/status becomes "running"; tool call call-<runId> confirmAction, its arguments in two
//   pieces, parent msg-<runId>; step ends; run finished.
// A turn whose last message is a tool message:
//   run started; the status becomes "done" if the tool returned true or {"confirmed":true}, else "cancelled";
//   text "部署已完成。" or "已取消部署。" (message msg-<runId>); run finished.

/** The user's first message. */
export const GREETING = { id: "u1", role: "user", content: "帮我部署" };

export const THINKING = "用户想部署应用，需要先确认。";
export const TEXT = "好的，我将把应用部署到生产环境，请先确认。";
export const STEP = "智能处理";
export const TOOL_ARGUMENTS = { action: "部署应用到生产环境", importance: "high" };

/** The frontend tool of seed 000 §3.3.2, as both clients declare it. */
export const CONFIRM_ACTION = {
  name: "confirmAction",
  description: "Ask the user to confirm a specific action before proceeding",
  parameters: {
    type: "object",
    properties: {
      action: { type: "string", description: "The action that needs user confirmation" },
      importance: { type: "string", enum: ["low", "medium", "high", "critical"] },
    },
    required: ["action"],
  },
};

/** The user's possible answers, and the end of the second turn for each. */
export const ANSWERS = [
  { content: "true", status: "done", text: "部署已完成。" },
  { content: '{"confirmed":true}', status: "done", text: "部署已完成。" },
  { content: "false", status: "cancelled", text: "已取消部署。" },
];

/** The shared state with the deployment at `status`. */
export const stateAt = (status) => ({ workflowItems: [{ name: "部署", status }] });

/** The tool message that answers the call of run `runId`. */
export const toolMessage = (runId, content) => ({ id: `result-${runId}`, role: "tool", content, toolCallId: `call-${runId}` });

/**
 * The messages of an AG-UI client after the first turn. The agents differ in the id of their thinking (none without
 * thinking), and in whether the call names its message.
 */
export const messagesAfterFirstTurn = (runId, reasoningId, { callAlone = false } = {}) => {
  const said = { id: `msg-${runId}`, role: "assistant", content: TEXT };
  const call = { id: `call-${runId}`, type: "function", function: { name: "confirmAction", arguments: TOOL_ARGUMENTS } };
  const thought = reasoningId === undefined ? [] : [{ id: reasoningId, role: "reasoning", content: THINKING }];
  const answer = callAlone ? [said, { id: call.id, role: "assistant", toolCalls: [call] }] : [{ ...said, toolCalls: [call] }];
  return [GREETING, ...thought, ...answer];
};
