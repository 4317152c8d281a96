//! One row of a run: an event of the agent, and what the client was sent because of it.

use crate::event::{EventLoss, EventType};
use serde::Serialize;
use std::borrow::Cow;

/// Parts of a row that are kept for a list of runs: characters of a text, and items that were left open.
const SHOWN_CHARACTERS: usize = 400;
const SHOWN_ITEMS: usize = 3;

/// The reason for what the client was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowCause {
    /// one event, unchanged
    Same,
    /// one event, with other members or another name
    Changed,
    /// one event of the agent is several of the client
    Split,
    /// nothing yet, or nothing of its own: it is part of a later event
    Held,
    /// nothing, and counted as a loss
    Dropped,
    /// nothing, as the rules of a dialect file have it
    Nothing,
    /// the gateway's own, such as RUN_ERROR
    Gateway,
    /// the agent's body ended
    End,
    /// the client left before the run ended
    Disconnect,
    /// nothing that either side sent
    Mark,
    /// the rest of the run, of which nothing is kept
    Unrecorded,
}

/// An event of one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RowEvent {
    /// the value of `type`, if it has one, or the name by which a dialect file reads it
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// the `event:` line, if the agent's dialect is read by it
    #[serde(rename = "event", skip_serializing_if = "Option::is_none")]
    pub(crate) event_line: Option<String>,
    /// the text of the frame; `None` for protobuf
    pub(crate) data: Option<String>,
}

/// Members that are carried in a place of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CarriedNames {
    pub(crate) names: Vec<String>,
    #[serde(rename = "in")]
    pub(crate) location: String,
}

/// A repair or a loss, with the label that metrics use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RowCount {
    pub(crate) label: &'static str,
    pub(crate) help: &'static str,
    /// what the agent broke; `None` if it was permitted
    pub(crate) rule: Option<&'static str>,
    /// name of the member that was added
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<&'static str>,
}

/// An id that the agent probably gave to an item that has another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct IdChange {
    /// of the open item
    pub(crate) before: String,
    /// without a start
    pub(crate) after: String,
}

/// An item that the agent did not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LeftOpen {
    pub(crate) item: &'static str,
    /// the name of a step
    pub(crate) id: String,
    /// of the tool
    pub(crate) name: Option<String>,
    /// `end`, or `result` of a call that has its end
    pub(crate) lacks: &'static str,
    /// the row that opened it
    pub(crate) n: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AlignedRow {
    /// from 1
    pub(crate) n: u64,
    /// milliseconds since the run began
    pub(crate) at_ms: u64,
    pub(crate) agent: Option<RowEvent>,
    pub(crate) client: Vec<RowEvent>,
    /// types of the canonical events between them
    pub(crate) canonical: Vec<&'static str>,
    pub(crate) cause: RowCause,
    /// section of the document of the agent's dialect, or rules of its file
    pub(crate) seed: Option<Cow<'static, str>>,
    pub(crate) carried: Vec<CarriedNames>,
    /// values that later runs of the thread get, each as `name = value`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept: Vec<String>,
    pub(crate) repairs: Vec<RowCount>,
    pub(crate) losses: Vec<RowCount>,
    pub(crate) note: Option<String>,
    /// `event` or `character` within which the agent's stream was cut, or `unfinished` if the run ended before it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cut_within: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id_change: Option<IdChange>,
    /// items whose ends the gateway adds here, or that are open where the run is cut
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_open: Vec<LeftOpen>,
    /// rows that were held, and whose events the client gets here
    pub(crate) releases: Vec<u64>,
}

/// The reason for which a run went wrong, or is not what it seems, as far as its rows have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunCause {
    /// the row that has it
    n: u64,
    cause: RowCause,
    /// of the agent's event
    #[serde(rename = "type")]
    kind: Option<String>,
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_within: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_change: Option<IdChange>,
    /// the first of them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_open: Vec<LeftOpen>,
}

impl RunCause {
    /// Returns what a row has, and how little it tells.
    pub(super) fn from_row(row: &AlignedRow) -> Option<(u8, RunCause)> {
        let agent = row.agent.as_ref();
        let has_note = row.note.is_some() && agent.is_some_and(|agent| agent.data.is_some());
        let rank = match row {
            AlignedRow { cut_within: Some(_), .. } => 0,
            AlignedRow { id_change: Some(_), .. } => 1,
            AlignedRow { left_open, .. } if !left_open.is_empty() => 2,
            // The summary of a run counts the bytes that were not recorded.
            AlignedRow { cause, .. } if has_note && *cause != RowCause::Unrecorded => 3,
            _ => return None,
        };
        let shorten = |text: &String| text.chars().take(SHOWN_CHARACTERS).collect();
        let cause = RunCause {
            n: row.n,
            cause: row.cause,
            kind: agent.and_then(|agent| agent.kind.as_ref()).map(shorten),
            note: row.note.as_ref().map(shorten),
            cut_within: row.cut_within,
            id_change: row.id_change.clone(),
            left_open: row.left_open.iter().take(SHOWN_ITEMS).cloned().collect(),
        };
        Some((rank, cause))
    }
}

impl AlignedRow {
    /// Narrows the help of a loss that has several reasons, where the row's events have the reason.
    pub(super) fn narrow_losses(&mut self) {
        if self.canonical.contains(&EventType::Raw.wire()) {
            let label = EventLoss::EventNotShown.label();
            let reason = "a frame is no event of the agent's dialect: it is sent as RAW, and not shown";
            self.losses.iter_mut().filter(|loss| loss.label == label).for_each(|loss| loss.help = reason);
        }
    }
}
