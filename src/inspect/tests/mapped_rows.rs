//! Rows of agents whose dialect is that of a file: several events of one frame.

use super::{STARTED_MS, settings};
use crate::config::intern_file_dialect;
use crate::config::load::compile_dialect_file;
use crate::dialect::PeerDialect;
use crate::event::EventLoss;
use crate::inspect::aligner::RunAligner;
use crate::inspect::capture_step::CaptureStep;
use crate::inspect::row::{AlignedRow, LeftOpen};
use crate::inspect::stream_settings::StreamSettings;
use crate::translate::{ConversationState, RunIds};
use std::path::Path;

/// An agent that ends no call: a result does, or another call.
const FILE: &str = r#"
name: mapped-rows
events:
  - has: call
    emit: {type: TOOL_CALL_CHUNK, toolCallId: "{call}", toolCallName: "{fn}", delta: "{in}"}
  - has: whole
    emit: {type: TOOL_CALL_CHUNK, toolCallId: "{of}", content: "{whole}"}
  - has: result
    emit: {type: TOOL_CALL_RESULT, toolCallId: "{of}", content: "{result}"}
  - has: over
    done: true
"#;

fn rows_of(frames: &[&str]) -> Vec<AlignedRow> {
    let file = compile_dialect_file(Path::new("mapped-rows.yaml"), FILE.as_bytes()).expect("a dialect file");
    let agent = PeerDialect::new(intern_file_dialect(file.dialect));
    let settings = StreamSettings { agent, tools: None, ..settings("ag-ui", "ag-ui", RunIds::new("t", "r")) };
    let mut aligner = RunAligner::new(&settings, ConversationState::default());
    let body: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let mut rows = Vec::new();
    aligner.apply(STARTED_MS, 0, &CaptureStep::Read(body.len()), body.as_bytes(), &mut rows);
    aligner.apply(STARTED_MS, 0, &CaptureStep::Cancelled, &[], &mut rows);
    rows
}

/// The result ends its call, and so both are of one row.
#[test]
fn a_call_that_ends_with_its_result_is_answered() {
    let call = |id: &str| format!(r#"{{"call":"{id}","fn":"f","in":"{{}}"}}"#);
    let (one, other) = (call("c1"), call("c2"));
    let result = r#"{"of":"c1","result":"sun"}"#;
    for (frames, expected) in [(vec![one.as_str(), result], None), (vec![&one, result, &other], Some(3))] {
        let rows = rows_of(&frames);
        let left: Vec<_> = rows.iter().flat_map(|row| &row.left_open).collect();
        let open = expected.map(|n| LeftOpen {
            item: "call",
            id: "c2".to_owned(),
            name: Some("f".to_owned()),
            lacks: "end",
            n,
        });
        assert_eq!(left, open.iter().collect::<Vec<_>>(), "{frames:?}");
    }
}

/// The help has several reasons: only a frame that is sent as RAW has one for sure.
#[test]
fn a_loss_has_one_reason_only_where_it_is_certain() {
    let start = r#"{"call":"c1","fn":"f","in":"{\"a\""}"#;
    let other = r#"{"of":"c1","whole":"{\"b\":1}"}"#;
    let unnamed = r#"{"call":"c1","in":"{}"}"#;
    let over = r#"{"over":true}"#;
    let raw = "a frame is no event of the agent's dialect: it is sent as RAW, and not shown";
    for (frames, expected) in [
        (vec![start, r#"{"unknown":1}"#], raw),
        (vec![start, other], EventLoss::EventNotShown.description()),
        (vec![unnamed, over], EventLoss::EventNotShown.description()),
    ] {
        let rows = rows_of(&frames);
        let losses: Vec<_> = rows.iter().flat_map(|row| row.losses.iter().map(|loss| (row.n, loss.help))).collect();
        assert_eq!(losses, [(2, expected)], "{frames:?}");
    }
}
