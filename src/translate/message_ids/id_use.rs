//! The use of message ids by an agent, which depends on its dialect and on the run.

use crate::dialect::{PeerDialect, find_by_name};
use crate::event::input::{ACTIVITY, DEVELOPER, MessageMembers, SYSTEM, USER, has_role};
use crate::event::{Event, Field, Json};

/// Maximum length of the run's id in that of an activity.
const RUN_ID_CHARS: usize = 64;

/// The use of message ids by an agent.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) enum IdUse {
    /// once in a thread, as AG-UI requires
    #[default]
    Once,
    /// maybe in each run again
    Repeated {
        /// whether the agent may be of AG-UI, and update its activities of earlier runs
        may_be_ag_ui: bool,
        /// what follows the id of an activity; none in the first run
        activity_suffix: Option<Box<str>>,
    },
}

impl IdUse {
    pub(super) const REPEATED: IdUse = IdUse::Repeated { may_be_ag_ui: false, activity_suffix: None };

    /// Returns the use of an agent in the first run of a thread.
    pub(crate) fn of_agent(agent: PeerDialect) -> Self {
        let is_of_ag_ui = agent.dialect.is_canonical() || agent.dialect.is_versioned();
        match agent.is_auto || !is_of_ag_ui {
            true => IdUse::Repeated { may_be_ag_ui: agent.is_auto, activity_suffix: None },
            false => IdUse::Once,
        }
    }

    /// Returns the use of an agent in a run after these messages.
    pub(crate) fn in_run(agent: PeerDialect, messages: &[MessageMembers<'_>], run_id: &Json<'_>) -> Self {
        let IdUse::Repeated { may_be_ag_ui, .. } = IdUse::of_agent(agent) else { return IdUse::Once };
        let count = |role: &str| messages.iter().filter(|message| has_role(message, role)).count();
        // A client keeps activities to itself, so an earlier run may have left none of its messages here.
        let is_first = count(USER) == 1 && count(SYSTEM) + count(DEVELOPER) + 1 == messages.len();
        let run: String = run_id.text().unwrap_or_default().chars().take(RUN_ID_CHARS).collect();
        let activity_suffix = (!is_first).then(|| format!("{ACTIVITY}:{}", Json::string(&run).unquoted()).into());
        IdUse::Repeated { may_be_ag_ui, activity_suffix }
    }

    pub(super) fn may_repeat(&self) -> bool {
        matches!(self, IdUse::Repeated { .. })
    }

    /// Returns what follows the id of an activity that starts in this run.
    pub(super) fn activity_suffix(&self, event: &Event<'_>) -> Option<&str> {
        let IdUse::Repeated { may_be_ag_ui, activity_suffix: Some(suffix) } = self else { return None };
        (!may_be_ag_ui || is_derived_activity(event)).then_some(suffix)
    }
}

/// Returns true for an activity that an adapter made of another event.
fn is_derived_activity(event: &Event<'_>) -> bool {
    let Some(activity_type) = event.get(Field::ActivityType).and_then(Json::text) else { return false };
    let dialect = activity_type.split_once('.').and_then(|(dialect, _)| find_by_name(dialect));
    dialect.is_some_and(|dialect| !dialect.is_canonical())
}
