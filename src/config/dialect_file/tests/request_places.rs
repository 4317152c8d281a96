//! Paths of requests that AG-UI's request does not have (`specs/ag-ui-1.0.run-input.schema.json`).

use super::problems;

#[test]
fn a_place_that_no_request_has_is_refused() {
    // The value of `body`, the message, and the way out.
    let rows: &[(&str, &str, &str)] = &[
        ("'{thred}'", "a request has no member `thred`", "use one of: `threadId`, `runId`, `protocolVersion`"),
        ("'{thread_id}'", "a request has no member `thread_id`", "did you mean `threadId`?"),
        ("'{messages[-1].contnt}'", "`messages[-1]` has no member `contnt`", "did you mean `content`?"),
        ("'{messages.content}'", "`messages` is a list, which has no members", "write `messages[-1]` for its last"),
        ("'{threadId[0]}'", "`threadId` is no list", "remove the number"),
        ("'{resume[0].interrupt_id}'", "`resume[0]` has no member `interrupt_id`", "did you mean `interruptId`?"),
        ("{each: threadId, as: 1}", "this is a text, and never a list", "name a list"),
        ("{each: 'messages[0].id', as: 1}", "this is a text, and never a list", "name a list"),
        (
            "{each: messages, as: '{@item.tool_call_id}'}",
            "`@item` has no member `tool_call_id`",
            "did you mean `toolCallId`?",
        ),
        ("{each: '@new_messages', as: '{@item.rle}'}", "`@item` has no member `rle`", "did you mean `role`?"),
        (
            "{each: messages, rules: [{as: {each: '@item.toolCalls', as: '{@item.function.args}'}}]}",
            "`@item.function` has no member `args`",
            "use one of: `name`, `arguments`",
        ),
        (
            "{each: messages, as: {each: '@answered_calls', as: '{@item.fn.name}'}}",
            "`@item` has no member `fn`",
            "use one of: `id`, `type`, `function`",
        ),
        (
            "{each: messages, as: {each: '@item.content', as: '{@item.source.mime_type}'}}",
            "`@item.source` has no member `mime_type`",
            "did you mean `mimeType`?",
        ),
        ("{each: tools, as: '{@item.params}'}", "`@item` has no member `params`", "`parameters`"),
        ("{each: messages, rules: [{when: {'@item.role': tols}, as: 1}]}", "never `tols`", "did you mean `tool`?"),
        ("{each: messages, rules: [{when: {'@item.role': [user, bot]}, as: 1}]}", "never `bot`", "`assistant`"),
        (
            "{each: messages, as: {from: '{@item.role}', table: {usr: human, assistant: bot}}}",
            "never `usr`",
            "did you mean `user`?",
        ),
        (
            "{each: messages, as: {each: '@item.content', rules: [{when: {'@item.type': file}, as: 1}]}}",
            "never `file`",
            "`document`",
        ),
        ("{when: {'resume[0].status': canceled}, as: 1}", "never `canceled`", "did you mean `cancelled`?"),
    ];
    for (body, message, hint) in rows {
        let text = format!("name: acme\nevents: [{{done: true}}]\nrequest: {{body: {body}}}");
        let found = problems(&text);
        assert!(found.contains(message) && found.contains(hint), "{body}\n{found}");
        assert!(found.starts_with("3:") && !found.contains('\n'), "{body}\n{found}");
    }
    let table = "name: acme\nevents: [{done: true}]\nrequest: {body: {from: '{messages[0].role}', table: {usr: a}}}";
    assert!(problems(table).starts_with("3:54: request.body.table.usr: "), "{}", problems(table));
    // Open objects, texts that hold one, and words that only the file knows.
    for body in [
        "'{state.a[0].b}'",
        "'{forwardedProps.inputs}'",
        "{each: state.list, as: '{@item.any}'}",
        "{each: messages, as: ['{@item.metadata.x.y}', '{@item.content.json.in.text}', '{@item.content[0].source.value}']}",
        "{each: messages, as: {each: '@item.toolCalls', as: '{@item.function.arguments.city}'}}",
        "{each: tools, as: '{@item.parameters.properties}'}",
        "{when: {'state.role': bot, 'messages[-1].role': [developer, system, reasoning, activity]}, as: 1}",
        "{when: {'messages[-1].name': bot, 'messages[-1].activityType': form, protocolVersion: '1.0'}, as: 1}",
        "{each: context, as: '{@item.description}: {@item.value}'}",
        "{from: '{state.role|messages[0].role}', table: {bot: 1}}",
    ] {
        let text = format!("name: acme\nevents: [{{done: true}}]\nrequest: {{body: {body}}}");
        assert_eq!(problems(&text), "ok", "{body}");
    }
}
