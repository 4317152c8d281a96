//! Values that AG-UI's schema does not allow, and texts that are meant as paths.

use super::typos::{assert_no_warning, assert_one_each, file};

const FRAME: &str =
    "tests:\n  - stream: |\n      data: {\"end\":1,\"id\":\"a\",\"t\":{\"label\":\"x\"}}\n    events: []\n";

#[test]
fn values_that_no_client_accepts_are_refused() {
    let finish = |members: &str| file(&format!("  - has: a\n    finish: {{{members}}}\n"));
    let emit = |event: &str| file(&format!("  - has: a\n    emit: {{{event}}}\n"));
    let patch = |delta: &str| emit(&format!("type: STATE_DELTA, delta: {delta}"));
    let number = "must be a whole number";
    let path_alone = "write `\"{PATH}\"` with the path of one";
    assert_one_each(&[
        (
            finish("outcome: {type: canceled}"),
            "4:30: events[0].finish.outcome.type: `canceled` does not exist here",
            "did you mean `cancelled`?",
        ),
        (
            finish("outcome: cancelled"),
            "4:23: events[0].finish.outcome: must be an object",
            "write `{type: cancelled}`",
        ),
        (
            finish("outcome: {type: interrupt}"),
            "4:23: events[0].finish.outcome: `interrupt` lacks its member `interrupts`",
            "add `interrupts:`",
        ),
        (
            finish("outcome: {kind: success}"),
            "4:23: events[0].finish.outcome: the key `type` is missing",
            "add `type:` with one of: success, interrupt, cancelled",
        ),
        (
            finish("usage: [{inputTokens: \"{n} tokens\"}]"),
            &format!("4:36: events[0].finish.usage[0].inputTokens: {number}"),
            path_alone,
        ),
        (
            finish("usage: [{inputTokens: -1}]"),
            &format!("4:36: events[0].finish.usage[0].inputTokens: {number}"),
            path_alone,
        ),
        (finish("usage: many"), "4:21: events[0].finish.usage: must be a list", "write a list with one entry"),
        (
            emit("type: TEXT_MESSAGE_CHUNK, timestamp: now, delta: \"{d}\""),
            &format!("4:49: events[0].emit.timestamp: {number}"),
            path_alone,
        ),
        (patch("{a: 1}"), "4:38: events[0].emit.delta: must be a list", "write the operations of a JSON Patch"),
        (
            patch("[{op: set, path: /a, value: 1}]"),
            "4:44: events[0].emit.delta[0].op: `set` does not exist here",
            "use one of: `add`, `remove`, `replace`",
        ),
        (
            patch("[{phase: \"{p}\"}]"),
            "4:39: events[0].emit.delta[0]: the key `op` is missing",
            "add `op:` with one of: add, remove",
        ),
        (
            patch("[{op: add, path: /a}]"),
            "4:39: events[0].emit.delta[0]: `add` lacks its member `value`",
            "add `value:`",
        ),
        (
            emit("type: ACTIVITY_SNAPSHOT, messageId: m, activityType: t, content: done"),
            "4:77: events[0].emit.content: must be an object",
            "write its members",
        ),
        (
            emit("type: ACTIVITY_SNAPSHOT, messageId: m, activityType: t, content: {x: 1}, replace: \"yes\""),
            "4:94: events[0].emit.replace: must be true or false",
            "write `true`, `false`",
        ),
    ]);
    // The frame decides, or the gateway mends it.
    for accepted in [
        finish("outcome: \"{outcome}\""),
        finish("outcome: {type: \"{kind}\"}"),
        finish("outcome: {type: interrupt, interrupts: \"{list}\"}"),
        finish("outcome: {type: success}, usage: [{inputTokens: \"{n}\", outputTokens: 0, model: m}]"),
        finish("usage: \"{usage}\""),
        finish("usage: [{inputTokens: \"0{n}\"}]"),
        patch("\"{patch}\""),
        patch("[{op: remove, path: /a, value: 1}, {op: replace, path: a, value: \"{v}\"}]"),
        emit("type: ACTIVITY_SNAPSHOT, messageId: m, activityType: t, content: \"{content}\""),
        emit("type: MESSAGES_SNAPSHOT, messages: [{role: user, content: [{type: binary, url: \"{u}\"}]}]"),
        emit("type: CUSTOM, name: n, value: done"),
    ] {
        assert_no_warning(&accepted);
    }
}

#[test]
fn ids_that_never_change_are_warnings() {
    let emit = |event: &str| file(&format!("  - has: a\n    emit: {{{event}}}\n"));
    let hint = "write the path of the agent's id";
    assert_one_each(&[
        (
            emit("type: TEXT_MESSAGE_CHUNK, messageId: msg, delta: \"{d}\""),
            "4:49: warning: events[0].emit.messageId: all messages of a run have this id",
            hint,
        ),
        (
            emit("type: REASONING_MESSAGE_CHUNK, messageId: msg, delta: \"{d}\""),
            "4:54: warning: events[0].emit.messageId: all thoughts of a run have this id",
            hint,
        ),
        (
            emit("type: TOOL_CALL_CHUNK, key: \"{k}\", toolCallId: call, toolCallName: \"{n}\""),
            "4:59: warning: events[0].emit.toolCallId: all calls of a run have this id",
            hint,
        ),
        (
            emit("type: TOOL_CALL_CHUNK, key: call, toolCallId: \"{i}\", toolCallName: \"{n}\""),
            "4:40: warning: events[0].emit.key: all calls of a run have this key, so that pieces and results",
            "write the path of what the frames of one call have in common",
        ),
    ]);
    // An agent that never has two calls may have no id.
    assert_no_warning(&emit("type: TOOL_CALL_CHUNK, key: call, toolCallName: \"{n}\""));
    assert_no_warning(&emit("type: TEXT_MESSAGE_CHUNK, messageId: \"m-{n}\", delta: \"{d}\""));
    assert_no_warning(&emit("type: ACTIVITY_SNAPSHOT, messageId: plan, activityType: plan, content: {x: 1}"));
}

#[test]
fn names_of_members_without_braces_are_warnings() {
    let emit = |event: &str| file(&format!("  - has: end\n    emit: {{{event}}}\n")) + FRAME;
    let call = |members: &str| emit(&format!("type: TOOL_CALL_CHUNK, {members}, delta: \"{{t}}\""));
    let activity = |content: &str| {
        emit(&format!("type: ACTIVITY_SNAPSHOT, messageId: label, activityType: label, content: {content}"))
    };
    assert_one_each(&[
        (
            call("key: id, toolCallName: \"{end}\""),
            "4:40: warning: events[0].emit.key: `id` is always this text, although frames of the examples have `id`",
            "write `\"{id}\"` for its value",
        ),
        (
            call("key: \"{id}\", toolCallId: id, toolCallName: \"{end}\""),
            "4:60: warning: events[0].emit.toolCallId: `id` is always this text",
            "write `\"{id}\"`",
        ),
        (
            call("key: \"{id}\", toolCallName: t.label"),
            "4:62: warning: events[0].emit.toolCallName: `t.label` is always this text",
            "write `\"{t.label}\"`",
        ),
        (
            activity("{label: label, x: \"{t.label}{label}\"}"),
            "4:93: warning: events[0].emit.content.label: `label` is always this text",
            "write `\"{label}\"`",
        ),
        (
            emit("type: TEXT_MESSAGE_CHUNK, delta: \"{{ label }}\""),
            "4:45: warning: events[0].emit.delta: `label` is always this text",
            "write `\"{label}\"`",
        ),
    ]);
    // The rule reads the member, so that the text is a name.
    assert_no_warning(&call("key: \"{id}\", toolCallName: t"));
    assert_no_warning(&call("key: label, toolCallName: \"{$.t.label.name}\""));
    assert_no_warning(&emit("type: CUSTOM, name: label, value: {kind: label}"));
}
