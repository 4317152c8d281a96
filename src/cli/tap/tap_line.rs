//! The lines of the gateway's tap, and the choice among them.

use super::super::run_cause::{IdChangeLine, LeftOpenLine};
use super::super::run_line::RunLine;
use crate::event::EventType;
use crate::inspect::matches_glob;
use serde::Deserialize;

/// One line: a run that began or ended, a row of a run, the eviction of a run that was read, or the number of runs that
/// were evicted before.
#[derive(Debug, Deserialize)]
pub(super) struct TapLine {
    pub(super) run: Option<RunLine>,
    #[serde(default)]
    pub(super) id: u64,
    pub(super) row: Option<RowLine>,
    #[serde(default)]
    pub(super) gone: bool,
    /// the last row that was read of a run that is gone
    #[serde(default)]
    pub(super) last_row: u64,
    #[serde(default)]
    pub(super) missed_runs: u64,
}

/// An event of the agent, and what the client was sent because of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RowLine {
    /// milliseconds since the run began
    pub(super) at_ms: u64,
    pub(super) agent: Option<EventLine>,
    pub(super) client: Vec<EventLine>,
    /// types of the canonical events between them
    #[serde(default)]
    pub(super) canonical: Vec<String>,
    pub(super) cause: String,
    #[serde(default)]
    pub(super) carried: Vec<CarriedLine>,
    /// values that later runs of the thread get
    #[serde(default)]
    pub(super) kept: Vec<String>,
    #[serde(default)]
    pub(super) repairs: Vec<CountLine>,
    #[serde(default)]
    pub(super) losses: Vec<CountLine>,
    pub(super) note: Option<String>,
    /// `event` or `character` within which the agent's stream was cut
    pub(super) cut_within: Option<String>,
    #[serde(default)]
    pub(super) id_change: Option<IdChangeLine>,
    /// items that the agent did not end
    #[serde(default)]
    pub(super) left_open: Vec<LeftOpenLine>,
    #[serde(default)]
    pub(super) n: u64,
    /// held rows whose events the client gets here
    #[serde(default)]
    pub(super) releases: Vec<u64>,
}

impl RowLine {
    /// Returns whether the agent's event is of this type, by its own or its canonical name.
    pub(super) fn has_type(&self, kind: EventType) -> bool {
        let own = self.agent.iter().filter_map(|event| event.kind.as_deref());
        own.chain(self.canonical.iter().map(String::as_str)).any(|own| own == kind.wire())
    }

    /// Returns whether nothing carries what the agent's event has.
    pub(super) fn is_lost(&self) -> bool {
        self.cause == "dropped" && !self.losses.iter().any(|loss| loss.label.ends_with("_not_shown"))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct EventLine {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    /// the `event:` line
    #[serde(rename = "event")]
    pub(super) event_line: Option<String>,
    pub(super) data: Option<String>,
}

/// Members that are carried in a place of their own.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CarriedLine {
    pub(super) names: Vec<String>,
    #[serde(rename = "in")]
    pub(super) location: String,
}

/// A repair or a loss.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct CountLine {
    pub(super) label: String,
    pub(super) help: String,
    /// what the agent broke
    #[serde(default)]
    pub(super) rule: Option<String>,
    /// name of the member that was added
    #[serde(default)]
    pub(super) member: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum TapSide {
    /// what the agent sent
    Agent,
    /// what the client was sent
    Client,
    /// both
    Both,
}

/// Selects runs and rows.
#[derive(Debug)]
pub(super) struct TapFilter {
    /// patterns of types, in lower case
    pub(super) kinds: Vec<String>,
    pub(super) side: TapSide,
    pub(super) caller: Option<String>,
}

impl TapFilter {
    pub(super) fn accepts_run(&self, run: &RunLine) -> bool {
        self.caller.is_none() || self.caller == run.caller
    }

    /// Returns whether every row of an accepted run is shown.
    pub(super) fn accepts_all_rows(&self) -> bool {
        self.kinds.is_empty() && self.side == TapSide::Both
    }

    /// Returns whether the row has an event of the side, with a matching type.
    pub(super) fn accepts_row(&self, row: &RowLine) -> bool {
        let is_match = |event: &EventLine| {
            let own = event.kind.as_ref().map(|own| own.to_lowercase());
            let matches_one = |own: String| self.kinds.iter().any(|kind| matches_glob(kind, &own));
            self.kinds.is_empty() || own.is_some_and(matches_one)
        };
        let is_agent_match = self.side != TapSide::Client && row.agent.iter().any(is_match);
        let is_client_match = self.side != TapSide::Agent && row.client.iter().any(is_match);
        is_agent_match || is_client_match || self.accepts_all_rows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_selected_by_the_types_of_a_side() {
        let event = |kind: &str| EventLine { kind: Some(kind.to_owned()), ..EventLine::default() };
        let row =
            RowLine { agent: Some(event("A_ONE")), client: vec![event("B_ONE"), event("B_TWO")], ..RowLine::default() };
        let end = RowLine::default();
        for (kind, side, is_row, is_end) in [
            (None, TapSide::Both, true, true),
            (None, TapSide::Client, true, false),
            (Some("A_*"), TapSide::Both, true, false),
            (Some("a_one"), TapSide::Both, true, false),
            (Some("A_*"), TapSide::Client, false, false),
            (Some("*_TWO"), TapSide::Client, true, false),
            (Some("*_TWO"), TapSide::Agent, false, false),
        ] {
            let filter = TapFilter { kinds: kind.map(str::to_lowercase).into_iter().collect(), side, caller: None };
            assert_eq!((filter.accepts_row(&row), filter.accepts_row(&end)), (is_row, is_end), "{filter:?}");
        }
    }
}
