//! The text of rows and ends, and agents that try to draw on the terminal.

use super::super::super::run_cause::{IdChangeLine, LeftOpenLine};
use super::super::super::run_line::WaitLine;
use super::super::run_counts::{LARGE_BYTES, LONG_WAIT_MS};
use super::super::tap_line::CarriedLine;
use super::*;

fn event(kind: &str, data: &str) -> EventLine {
    EventLine { kind: Some(kind.to_owned()), data: Some(data.to_owned()), ..EventLine::default() }
}

fn format_with(columns: usize, row: &RowLine) -> String {
    PairText { columns, colored: false, side: TapSide::Both }.format_row(7, row, &RunCounts::default()).join("\n")
}

#[test]
fn pairs_stand_on_one_line() {
    let row = RowLine {
        at_ms: 1204,
        agent: Some(event("SAY", r#"{"type":"SAY","text":"你好"}"#)),
        client: vec![event("BEGIN", r#"{"type":"BEGIN","id":"m1"}"#), event("TEXT", r#"{"type":"TEXT","id":"m1"}"#)],
        cause: "split".to_owned(),
        ..RowLine::default()
    };
    assert_eq!(
        format_with(62, &row),
        "\
#7      1.20s SAY                 split    BEGIN
                text=\"你好\"                  id=\"m1\"
                                           TEXT
                                             id=\"m1\""
    );
}

#[test]
fn reasons_stand_below_their_row() {
    let count = |label: &str| CountLine { label: label.to_owned(), help: "Why.".to_owned(), ..CountLine::default() };
    let row = RowLine {
        at_ms: 9,
        cause: "changed".to_owned(),
        carried: vec![CarriedLine { names: vec!["a".to_owned(), "b".to_owned()], location: "metadata".to_owned() }],
        repairs: vec![count("closed"), count("closed")],
        losses: vec![count("unknown")],
        note: Some("3 bytes".to_owned()),
        ..RowLine::default()
    };
    assert_eq!(
        format_with(80, &row),
        "\
#7        9ms                              changed
              + repaired closed ×2: Why.
              - lost unknown: Why.
              = a, b carried in metadata
              . 3 bytes"
    );
}

#[test]
fn a_repair_names_its_rule_and_a_held_event_the_row_that_writes_it() {
    let mut counts = RunCounts::default();
    let held =
        RowLine { n: 2, at_ms: 8, agent: Some(event("BEGIN", "{}")), cause: "held".to_owned(), ..RowLine::default() };
    counts.add(&held);
    let rule = Some("all ends".to_owned());
    let repair = CountLine { label: "closed".to_owned(), help: "Why.".to_owned(), rule, member: None };
    let row = RowLine { cause: "changed".to_owned(), repairs: vec![repair], releases: vec![2], ..RowLine::default() };
    let text = PairText { columns: 90, colored: false, side: TapSide::Both }.format_row(7, &row, &counts).join("\n");
    assert!(text.contains("+ repaired closed: Why. (broken rule: all ends)"), "{text}");
    assert!(text.contains("^ with BEGIN of 8ms, which was held until here"), "{text}");
}

#[test]
fn repairs_name_the_members_that_they_add() {
    let added = |name: &str| {
        let (label, help) = ("added".to_owned(), "Why.".to_owned());
        CountLine { label, help, rule: None, member: Some(name.to_owned()) }
    };
    let row = RowLine { repairs: vec![added("threadId"), added("runId")], ..RowLine::default() };
    let text = PairText { columns: 90, colored: false, side: TapSide::Both };
    let text = text.format_row(7, &row, &RunCounts::default()).join("\n");
    assert!(text.contains("+ repaired added ×2 (threadId, runId): Why."), "{text}");
}

#[test]
fn rows_name_what_is_kept() {
    let kept = vec!["session = \"s-1\"".to_owned(), "flow = 2".to_owned()];
    let row = RowLine { cause: "nothing".to_owned(), kept, ..RowLine::default() };
    let text = PairText { columns: 90, colored: false, side: TapSide::Both };
    let text = text.format_row(7, &row, &RunCounts::default()).join("\n");
    assert!(text.contains("= kept for the thread: session = \"s-1\", flow = 2"), "{text}");
}

#[test]
fn the_end_names_a_large_event_and_an_unusual_form() {
    let mut counts = RunCounts::default();
    let text = "x".repeat(952_000);
    counts.add(&RowLine { agent: Some(event("STATE", &text)), ..RowLine::default() });
    let run =
        RunLine { outcome: Some("finished".to_owned()), body_form: Some("is odd".to_owned()), ..RunLine::default() };
    let text = PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&run, &counts).join("\n");
    assert_eq!(text, "#0 finished after 0ms: the largest event STATE with 952 kB\n     the agent's stream is odd");
    // As on the page; of an event that was not kept, the row has the beginning.
    let mut counts = RunCounts::default();
    counts.add(&RowLine { agent: Some(event("STATE", &"x".repeat(8_349_000))), ..RowLine::default() });
    let run = RunLine { missed_bytes: 358_049, ..run };
    let text = PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&run, &counts).join("\n");
    assert!(text.contains("the largest event STATE with at least 8.3 MB\n"), "{text}");
    // Not beside the limit that it has reached.
    let run = RunLine { code: Some("frame_too_large".to_owned()), ..run };
    let text = PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&run, &counts).join("\n");
    assert!(!text.contains("8.3 MB"), "{text}");
}

#[test]
fn the_end_names_the_party_that_was_slow() {
    let end_with = |client_waits: &[(u64, u64)], silence: Option<(u64, u64)>| {
        let mut counts = RunCounts::default();
        for (at_ms, kind) in [(20, "A"), (900, "B"), (6_900, "C"), (9_000, "D")] {
            counts.add(&RowLine { at_ms, agent: Some(event(kind, "{}")), ..RowLine::default() });
        }
        let client_waits = client_waits.iter().map(|&(from_ms, until_ms)| WaitLine { from_ms, until_ms }).collect();
        let silence = silence.map(|(from_ms, until_ms)| WaitLine { from_ms, until_ms });
        let run = RunLine { outcome: Some("finished".to_owned()), client_waits, silence, ..RunLine::default() };
        PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&run, &counts).join("\n")
    };
    let end = |client_waits: &[(u64, u64)]| end_with(client_waits, Some((900, 6_900)));
    let agent = "#0 finished after 0ms: the agent sent nothing for 6.00s before C";
    assert!(end(&[]).contains(agent) && end(&[(7_000, 9_000)]).contains(agent), "{}", end(&[]));
    // Bytes came, but no whole event.
    let parts = "no event came for 6.00s before C: the agent sent comments, or parts of a large event";
    assert!(end_with(&[], None).contains(parts) && end_with(&[], Some((900, 2_000))).contains(parts));
    let client = "the client did not read for 6.00s before C";
    assert!(end(&[(1_000, 6_800)]).contains(client), "{}", end(&[(1_000, 6_800)]));
    assert!(end(&[(900, 3_000), (3_500, 6_800)]).contains(client));
    // The gateway's own event is not what the agent sent.
    let mut counts = RunCounts::default();
    let client = vec![event("ERROR", "{}")];
    counts.add(&RowLine { at_ms: 8_000, cause: "gateway".to_owned(), client, ..RowLine::default() });
    let text = PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&RunLine::default(), &counts);
    let ended = "the agent sent nothing for 8.00s, then the gateway ended the run";
    assert!(text.iter().any(|line| line.trim() == ended), "{text:?}");
}

/// The causes that a person would not find in what follows from them.
#[test]
fn the_end_names_a_byte_order_mark_and_a_second_run_before_what_follows_from_them() {
    let lost = |n: u64, kind: &str, loss: &str| {
        let loss = CountLine { label: loss.to_owned(), help: "Why.".to_owned(), ..CountLine::default() };
        RowLine { n, agent: Some(event(kind, "{}")), losses: vec![loss], ..RowLine::default() }
    };
    let texts = PairText { columns: 300, colored: false, side: TapSide::Both };
    let end = |rows: &[RowLine], code: Option<&str>| {
        let mut counts = RunCounts::default();
        rows.iter().for_each(|row| counts.add(row));
        let outcome = Some(if code.is_some() { "upstream_error" } else { "finished" }.to_owned());
        let message =
            code.map(|_| "The agent's stream ended before its run did. Run it again; see its log.".to_owned());
        let body_form = code.map(|_| "begins with a byte order mark".to_owned()).filter(|_| rows.len() > 1);
        let run = RunLine { outcome, code: code.map(str::to_owned), message, body_form, ..RunLine::default() };
        texts.format_end(&run, &counts)
    };
    let (text, finished) = (lost(3, "TEXT", "marked_line"), lost(5, "RUN_FINISHED", "marked_line"));
    let lines = end(&[text.clone(), finished], Some("upstream_truncated"));
    assert_eq!(
        lines,
        [
            "#0 upstream_error after 0ms: upstream_truncated: the agent sent RUN_FINISHED in a line with a byte order mark, \
             which is lost (row 5)",
            "     2 lines of the agent with a byte order mark (U+FEFF), which only the first may have: the client got nothing \
             of it; remove the mark from what writes the agent's lines",
        ]
    );
    let lines = end(&[text], Some("upstream_truncated"));
    assert_eq!(
        lines[0],
        "#0 upstream_error after 0ms: upstream_truncated: The agent's stream ended before its run did."
    );
    // Another cause keeps its advice.
    let lines = end(&[lost(3, "TEXT", "marked_line")], Some("upstream_reset"));
    assert!(lines[0].ends_with("Run it again; see its log."), "{lines:?}");
    let late = [lost(6, "RUN_STARTED", "after_terminal"), lost(7, "TEXT", "after_terminal")];
    let another = "#0 finished after 0ms: the agent began another run after RUN_FINISHED (row 6): the client got nothing of it; let the agent send one run in each answer";
    assert_eq!(end(&late, None), [another, "     lost after_terminal ×2: Why."]);
    let late_text = "#0 finished after 0ms: the agent went on after its end of the run, with 1 event from row 7 on: the client got nothing of it; let the agent send its last event at the end";
    assert_eq!(end(&late[1..], None), [late_text, "     lost after_terminal ×1: Why."]);
    // Other losses follow the outcome, except those that are carried.
    let start = "#0 finished after 0ms: lost second_start ×1: Why.";
    assert_eq!(end(&[lost(4, "RUN_STARTED", "second_start")], None)[0], start);
    assert_eq!(end(&[lost(4, "TEXT", "text_not_shown")], None)[0], "#0 finished after 0ms");
}

#[test]
fn the_first_line_names_where_the_stream_was_cut() {
    let texts = PairText { columns: 300, colored: false, side: TapSide::Both };
    let end = |cut: Option<&str>, code: &str, bytes_in: u64| {
        let mut counts = RunCounts::default();
        let (agent, cut_within) = (Some(event("TEXT", "{")), cut.map(str::to_owned));
        let note = cut.map(|_| "the agent's stream was cut within this event".to_owned());
        counts.add(&RowLine { n: 4, agent, cut_within, note, cause: "dropped".to_owned(), ..RowLine::default() });
        let message = Some("It ended. Run it again.".to_owned());
        let code = Some(code.to_owned());
        let run = RunLine { outcome: Some("upstream_error".to_owned()), code, message, bytes_in, ..RunLine::default() };
        texts.format_end(&run, &counts).join("\n")
    };
    let start = "#0 upstream_error after 0ms: ";
    for (cut, code, bytes_in, expected) in [
        (
            Some("character"),
            "upstream_truncated",
            9,
            "upstream_truncated: the agent's stream was cut within a character of TEXT (row 4)",
        ),
        (Some("event"), "upstream_reset", 9, "upstream_reset: the agent's stream was cut within TEXT (row 4)"),
        (None, "upstream_truncated", 9, "upstream_truncated: It ended. Run it again."),
        (
            None,
            "upstream_truncated",
            0,
            "upstream_truncated: the agent accepted the request, and ended its answer without a single event",
        ),
        (None, "upstream_reset", 0, "upstream_reset: It ended. Run it again."),
    ] {
        assert_eq!(end(cut, code, bytes_in), format!("{start}{expected}"));
    }
}

#[test]
fn the_end_names_the_silence_after_which_the_client_left() {
    let texts = PairText { columns: 300, colored: false, side: TapSide::Both };
    let end = |at_ms: u64, client_waits: &[(u64, u64)]| {
        let mut counts = RunCounts::default();
        counts.add(&RowLine { n: 1, at_ms: 20, agent: Some(event("A", "{}")), ..RowLine::default() });
        let open = |id: &str, lacks: &str| LeftOpenLine {
            item: "call".to_owned(),
            id: id.to_owned(),
            name: Some("weather".to_owned()),
            lacks: lacks.to_owned(),
        };
        let left_open = vec![open("c1", "end"), open("c2", "result")];
        counts.add(&RowLine { n: 2, at_ms, cause: "disconnect".to_owned(), left_open, ..RowLine::default() });
        let client_waits = client_waits.iter().map(|&(from_ms, until_ms)| WaitLine { from_ms, until_ms }).collect();
        let run = RunLine { outcome: Some("client_gone".to_owned()), client_waits, ..RunLine::default() };
        texts.format_end(&run, &counts)
    };
    let open =
        "     still open when the client left: the call `c1` (weather), the call `c2` (weather) without a result";
    let silent =
        "#0 client_gone after 0ms: the client closed the connection after the agent had sent nothing for 42.00s";
    assert_eq!(end(42_020, &[]), [silent, open]);
    let left = "#0 client_gone after 0ms: the client closed the connection before the run ended";
    assert_eq!(end(900, &[]), [left, open]);
    // Its last event had begun.
    let mut counts = RunCounts::default();
    let (agent, cut_within) = (Some(event("TEXT", "{")), Some("unfinished".to_owned()));
    counts.add(&RowLine { n: 1, agent, cut_within, cause: "dropped".to_owned(), ..RowLine::default() });
    counts.add(&RowLine { n: 2, at_ms: 9_000, cause: "disconnect".to_owned(), ..RowLine::default() });
    let run = RunLine { outcome: Some("client_gone".to_owned()), ..RunLine::default() };
    let within = "#0 client_gone after 0ms: the client closed the connection after the agent had sent nothing for 9.00s, in the middle of TEXT (row 1)";
    assert_eq!(texts.format_end(&run, &counts), [within]);
    let slow = "     the client did not read for 42.00s before the end";
    assert_eq!(end(42_020, &[(100, 42_000)]), [left, open, slow]);
}

#[test]
fn the_end_repeats_the_first_notes_of_rows() {
    let mut counts = RunCounts::default();
    let note = |text: &str, cause: &str| RowLine {
        at_ms: 196,
        agent: (cause == "dropped").then(|| event("TEXT", "{}")),
        cause: cause.to_owned(),
        note: Some(text.to_owned()),
        ..RowLine::default()
    };
    for row in [note("cut within it", "dropped"), note("another connection", "mark"), note("third", "mark")] {
        counts.add(&row);
    }
    counts.add(&note("the gateway ended the run", "gateway"));
    let lines = PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&RunLine::default(), &counts);
    assert_eq!(lines[1..], ["     TEXT at 196ms: cut within it", "     a row at 196ms: another connection"]);
}

#[test]
fn the_end_names_a_late_first_event_as_such() {
    let mut counts = RunCounts::default();
    counts.add(&RowLine { n: 1, at_ms: 6_001, agent: Some(event("A", "{}")), ..RowLine::default() });
    let run = RunLine { outcome: Some("finished".to_owned()), ..RunLine::default() };
    let lines = PairText { columns: 90, colored: false, side: TapSide::Both }.format_end(&run, &counts);
    assert_eq!(lines, ["#0 finished after 0ms: the agent took 6.00s to its first event"]);
}

#[test]
fn nothing_of_a_lost_row_is_carried() {
    let format = |label: &str| {
        let losses = vec![CountLine { label: label.to_owned(), ..CountLine::default() }];
        let carried = vec![CarriedLine { names: vec!["a".to_owned()], location: "metadata".to_owned() }];
        format_with(80, &RowLine { cause: "dropped".to_owned(), losses, carried, ..RowLine::default() })
    };
    assert!(!format("after_terminal").contains("carried"), "{}", format("after_terminal"));
    assert!(format("activity_not_shown").contains("= a carried in metadata"));
}

#[test]
fn the_end_says_that_ids_change_only_if_started_items_are_left_open() {
    let found = |label: &str| CountLine { label: label.to_owned(), ..CountLine::default() };
    let end = |repairs: &[&str], losses: &[&str]| {
        let mut counts = RunCounts::default();
        let [repairs, losses] = [repairs, losses].map(|labels| labels.iter().map(|label| found(label)).collect());
        counts.add(&RowLine { repairs, losses, ..RowLine::default() });
        let text = PairText { columns: 90, colored: false, side: TapSide::Both };
        text.format_end(&RunLine::default(), &counts).join("\n").contains("gives one several ids")
    };
    assert!(end(&["opener_supplied", "closer_supplied", "closer_supplied"], &[]));
    assert!(end(&["opener_supplied"], &["stray_boundary"]));
    // An agent that sends neither starts nor ends, or no ends.
    assert!(!end(&["opener_supplied", "closer_supplied"], &[]));
    assert!(!end(&["closer_supplied"], &["stray_boundary"]));
    // Where the gateway names the ids, they are in place of that.
    let mut counts = RunCounts::default();
    let change = "the agent probably changed the id from `a` to `b`: `b` has no start, and `a` was open";
    let repairs = ["opener_supplied", "closer_supplied", "closer_supplied"].map(found).into();
    let ids = IdChangeLine { before: "a".to_owned(), after: "b".to_owned() };
    let row = RowLine { repairs, id_change: Some(ids), ..RowLine::default() };
    let texts = PairText { columns: 120, colored: false, side: TapSide::Both };
    assert!(texts.format_row(7, &row, &counts).join("\n").contains(&format!(". {change}")), "{row:?}");
    counts.add(&row);
    let text = texts.format_end(&RunLine::default(), &counts);
    assert!(text[1].contains(change) && !text.join("").contains("several ids"), "{text:?}");
    // A new one with each event.
    for (before, after) in [("b", "c"), ("c", "d"), ("d", "e")] {
        let ids = IdChangeLine { before: before.to_owned(), after: after.to_owned() };
        counts.add(&RowLine { id_change: Some(ids), ..RowLine::default() });
    }
    let text = texts.format_end(&RunLine::default(), &counts);
    let change = "the agent probably changed the id 4 times: `a` → `b` → `c` → `d` …; no new id has a start";
    assert!(text.join(" ").replace("      ", " ").contains(change), "{text:?}");
}

#[test]
fn the_end_has_the_words_with_which_the_agent_refused() {
    let refusal = Some("429 Too Many Requests (Retry-After: 20): quota \x1b[2J".to_owned());
    let message = Some("The agent answered with status 429. See its log.".to_owned());
    let code = Some("upstream_status".to_owned());
    let run = RunLine { outcome: Some("upstream_error".to_owned()), code, message, refusal, ..RunLine::default() };
    let texts = PairText { columns: 100, colored: false, side: TapSide::Both };
    let lines = texts.format_end(&run, &RunCounts::default());
    let answer = "the agent's answer: 429 Too Many Requests (Retry-After: 20): quota ␛[2J";
    assert_eq!(lines[0], format!("#0 upstream_error after 0ms: upstream_status: {answer}"));
    assert_eq!(lines[1], "     The agent answered with status 429. See its log.");
}

#[test]
fn the_end_names_what_the_agent_left_open_before_how_much_it_sent() {
    let mut counts = RunCounts::default();
    let open = |id: &str, name: Option<&str>| LeftOpenLine {
        item: if name.is_some() { "call" } else { "message" }.to_owned(),
        id: id.to_owned(),
        name: name.map(str::to_owned),
        lacks: "end".to_owned(),
    };
    let row = RowLine { left_open: vec![open("c7", Some("weather")), open("m1", None)], ..RowLine::default() };
    let texts = PairText { columns: 90, colored: false, side: TapSide::Both };
    let call = "the agent never ended the call `c7` (weather)";
    assert!(texts.format_row(7, &row, &counts).join("\n").contains(&format!(". {call}")), "{row:?}");
    counts.add(&row);
    let lines = texts.format_end(&RunLine::default(), &counts);
    assert_eq!(lines[1], format!("     {call}, the message `m1`"));
    // A message that goes on under another id is named once, with both.
    let ids = IdChangeLine { before: "m1".to_owned(), after: "m2".to_owned() };
    counts.add(&RowLine { id_change: Some(ids), ..RowLine::default() });
    let text = texts.format_end(&RunLine::default(), &counts).join("\n");
    assert!(text.ends_with(call), "{text}");
    let mut counts = RunCounts::default();
    let left_open = ["a", "b", "c", "d", "e"].map(|id| open(id, None)).into();
    counts.add(&RowLine { left_open, cause: "gateway".to_owned(), ..RowLine::default() });
    let cut = "still open when the run was cut: the message `a`, the message `b`, the message `c`, and 2 more";
    assert_eq!(
        texts.format_end(&RunLine::default(), &counts)[1..3].join(" ").replace("      ", " "),
        format!("     {cut}")
    );
}

#[test]
fn the_end_names_a_wrong_dialect_if_many_events_are_of_another() {
    let found = |label: &str| CountLine { label: label.to_owned(), ..CountLine::default() };
    let format = |repairs: &[&str], looks_like: Option<&str>| {
        let mut counts = RunCounts::default();
        let repairs = repairs.iter().map(|label| found(label)).collect();
        counts.add(&RowLine { repairs, ..RowLine::default() });
        let looks_like = looks_like.map(str::to_owned);
        let run = RunLine { agent: "hai".to_owned(), events_in: 5, looks_like, ..RunLine::default() };
        PairText { columns: 140, colored: false, side: TapSide::Both }.format_end(&run, &counts).join("\n")
    };
    let end = |repairs: &[&str]| {
        format(repairs, None)
            .contains("many events of another dialect than hai: `agent` of the route is probably wrong")
    };
    let named = format(&["ag_ui_name", "ag_ui_name"], Some("ag-ui"));
    let cause = "many events of another dialect than hai, they look like ag-ui: `agent` of the route is probably wrong";
    assert_eq!(named.lines().nth(1).map(str::trim), Some(cause), "{named}");
    assert!(end(&["foreign_type", "foreign_type"]));
    // AG-UI's names are understood, and are of another dialect all the same.
    assert!(end(&["ag_ui_name", "ag_ui_name"]) && end(&["ag_ui_name", "foreign_type"]));
    assert!(!end(&["ag_ui_name"]) && !end(&["unknown_type", "unknown_type"]) && !end(&[]));
}

#[test]
fn what_was_evicted_is_named_with_its_number() {
    let text = PairText { columns: 90, colored: false, side: TapSide::Both };
    let why = "the gateway evicted what tap had not read yet; read faster, or raise `inspect.bytes` or `inspect.runs`";
    assert_eq!(text.format_missed(1), format!("-    missed 1 run: {why}"));
    assert_eq!(text.format_missed(3), format!("-    missed 3 runs: {why}"));
    assert_eq!(text.format_gone(7, 1), format!("#7 is cut after 1 row: {why}"));
}

#[test]
fn reasons_are_explained_once_and_wrapped() {
    let row = RowLine {
        cause: "changed".to_owned(),
        losses: vec![CountLine {
            label: "unknown".to_owned(),
            help: "nobody knows what this event means".to_owned(),
            ..CountLine::default()
        }],
        ..RowLine::default()
    };
    let text = PairText { columns: 40, colored: false, side: TapSide::Agent };
    let mut counts = RunCounts::default();
    let lines = text.format_row(1, &row, &counts);
    assert_eq!(
        lines[1..],
        ["              - lost unknown: nobody", "                knows what this event", "                means"]
    );
    counts.add(&row);
    assert_eq!(text.format_row(1, &row, &counts)[1..], ["              - lost unknown"]);
}

/// Lines fit the terminal and contain no control sequence, for any event of an agent.
#[test]
fn hostile_rows_stay_in_their_columns() {
    let hostile = "\x1b[2J\x1b[H\u{202e}\u{9b}5A\r\n\t你好".repeat(500);
    let data = serde_json::json!({"type": &hostile, &hostile: &hostile}).to_string();
    let row = RowLine {
        agent: Some(event(&hostile, &data)),
        client: vec![event("A", &hostile), event(&hostile, "{}"), EventLine::default()],
        cause: "changed".to_owned(),
        note: Some(hostile.clone()),
        kept: vec!["a \x1b[2J \u{202e} b".to_owned()],
        ..RowLine::default()
    };
    let run =
        RunLine { route: "chat".to_owned(), thread_id: hostile.clone(), caller: Some(hostile), ..RunLine::default() };
    for columns in [60, 80, 81, 200] {
        let text = PairText { columns, colored: false, side: TapSide::Both };
        let mut lines = text.format_row(1, &row, &RunCounts::default());
        lines.push(text.format_begin(&run));
        for line in lines {
            assert!(text_width(&line) <= columns, "{columns}: {line}");
            assert!(!line.chars().any(char::is_control) && !line.contains('\u{202e}'), "{line}");
        }
    }
}

#[test]
fn hostile_ends_and_refusals_draw_nothing() {
    let hostile = "a \x1b[2J\x1b]0;x\x07 \u{202e}\u{9b}5A";
    let text = PairText { columns: 80, colored: false, side: TapSide::Both };
    let mut counts = RunCounts::default();
    let large = "x".repeat(LARGE_BYTES + 1);
    counts.add(&RowLine { at_ms: 2 * LONG_WAIT_MS, agent: Some(event(hostile, &large)), ..RowLine::default() });
    let own = || Some(hostile.to_owned());
    let open = LeftOpenLine { item: "call".to_owned(), id: hostile.to_owned(), name: own(), lacks: String::new() };
    counts.add(&RowLine { left_open: vec![open], ..RowLine::default() });
    let run = RunLine { outcome: own(), code: own(), message: own(), body_form: own(), ..RunLine::default() };
    let mut lines = text.format_end(&run, &counts);
    assert!(lines.len() > 4, "{lines:?}");
    lines.push(text.format_refusals(hostile, 1));
    assert!(lines.iter().filter(|line| line.contains('␛')).count() >= 5, "{lines:?}");
    for line in lines {
        assert!(!line.chars().any(char::is_control) && !line.contains('\u{202e}'), "{line}");
    }
}

#[test]
fn ends_name_the_cause_and_the_way_out() {
    let run = RunLine {
        id: 7,
        outcome: Some("upstream_error".to_owned()),
        code: Some("upstream_truncated".to_owned()),
        message: Some(
            "The agent's stream ended before its run did. Run it again; see the agent's own log for why it stopped."
                .to_owned(),
        ),
        events_in: 12,
        events_out: 13,
        first_event_ms: Some(14),
        duration_ms: 120,
        ..RunLine::default()
    };
    let text = PairText { columns: 80, colored: false, side: TapSide::Both };
    let mut counts = RunCounts::default();
    let repair = CountLine { label: "closed".to_owned(), help: "its end is added".to_owned(), ..CountLine::default() };
    counts.add(&RowLine { repairs: vec![repair.clone(), repair], ..RowLine::default() });
    assert_eq!(
        text.format_end(&run, &counts).join("\n"),
        "\
#7 upstream_error after 120ms: upstream_truncated: The agent's stream ended before its run did. Run it again; see the \
agent's own log for why it stopped.
     12 events of the agent, 13 for the client, the first after 14ms
     repaired closed ×2: its end is added"
    );
    let refused = RunLine {
        outcome: Some("refused".to_owned()),
        code: Some("token_expired".to_owned()),
        message: Some("The credential has expired. Get a new one and send the request again.".to_owned()),
        ..RunLine::default()
    };
    assert_eq!(
        text.format_end(&refused, &RunCounts::default()),
        ["#0 refused after 0ms: token_expired: The credential has expired. Get a new one and send the request again."]
    );
    let left = RunLine { outcome: Some("client_gone".to_owned()), ..RunLine::default() };
    let lines = text.format_end(&left, &RunCounts::default());
    assert_eq!(lines[0], "#0 client_gone after 0ms: the client closed the connection before the run ended");
}

#[test]
fn times_keep_their_columns() {
    for (millis, text) in [
        (0, "0ms"),
        (999, "999ms"),
        (1_000, "1.00s"),
        (6_125, "6.13s"),
        (99_949, "99.95s"),
        (99_950, "1m40s"),
        (3_600_000, "60m00s"),
    ] {
        assert_eq!(format_millis(millis), text);
    }
    assert_eq!(format_time_of_day(1_732_658_531_000), "22:02:11Z");
}
