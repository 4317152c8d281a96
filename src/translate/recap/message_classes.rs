//! The messages of the list that a snapshot drops (`specs/ag-ui-1.0.md` §3.4), found without a look at the others.

use super::recap_message::RecapMessage;
use crate::codec::json;
use crate::event::heap_size::tree_size;
use crate::event::input::{ACTIVITY, REASONING};
use crate::event::{Event, Field, IdMap, Json, JsonType, get_owned};
use std::collections::BTreeSet;

/// Metadata keys of the activity history and its list of types.
const HISTORY_KEYS: [&str; 2] = ["@ag-ui/client", "authoritativeActivityTypes"];

/// The messages by what a snapshot without them does: it drops only some.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageClasses {
    /// by type
    activities: IdMap<BTreeSet<usize>>,
    reasoning: BTreeSet<usize>,
    others: BTreeSet<usize>,
}

impl MessageClasses {
    /// Returns the messages of the same class.
    pub(crate) fn class_of(&mut self, message: &RecapMessage) -> &mut BTreeSet<usize> {
        match &*message.role {
            ACTIVITY => {
                let own = get_owned(&message.rest, Field::ActivityType).unwrap_or(Json::NULL);
                if !self.activities.contains(&own) {
                    self.activities.insert(own.clone(), BTreeSet::new());
                }
                self.activities.get_mut(&own).unwrap_or(&mut self.others)
            }
            REASONING => &mut self.reasoning,
            _ => &mut self.others,
        }
    }

    /// Returns the messages that a snapshot drops unless it contains them: "absent ids dropped, except local `activity`
    /// (unless the snapshot carries any activity) and `reasoning` (unless it carries any reasoning)."
    pub(crate) fn dropped_by(&self, new: &[RecapMessage], event: &Event<'_>) -> BTreeSet<usize> {
        let has = |role: &str| new.iter().any(|entry| entry.role == role);
        let MessageClasses { activities, reasoning, others } = self;
        let mut dropped = others.clone();
        if has(REASONING) {
            dropped.extend(reasoning);
        }
        let all = || activities.iter().flat_map(|(_, activities)| activities);
        match owned_activities(event) {
            ActivityOwnership::Unspecified if !has(ACTIVITY) => {}
            ActivityOwnership::Unspecified | ActivityOwnership::All => dropped.extend(all()),
            ActivityOwnership::Types(types) => {
                dropped.extend(types.iter().filter_map(|(own, ())| activities.get(own)).flatten());
            }
        }
        dropped
    }

    pub(crate) fn heap_size(&self) -> usize {
        let numbers = |numbers: &BTreeSet<usize>| tree_size::<usize>(numbers.len());
        self.activities.heap_size(numbers) + numbers(&self.reasoning) + numbers(&self.others)
    }
}

/// Determines which activities a snapshot deletes by omitting them.
enum ActivityOwnership {
    Unspecified,
    All,
    Types(IdMap<()>),
}

fn owned_activities(event: &Event<'_>) -> ActivityOwnership {
    let [outer, inner] = HISTORY_KEYS;
    let Some(history) = event.get(Field::Metadata).and_then(|metadata| json::parse_member(metadata, outer)) else {
        return ActivityOwnership::Unspecified;
    };
    if history.json_type() != JsonType::Object {
        return ActivityOwnership::Types(IdMap::default());
    }
    match json::parse_member(&history, inner) {
        None => ActivityOwnership::Unspecified,
        Some(types) if types.is_null() => ActivityOwnership::All,
        Some(types) => {
            let types = json::parse_elements(&types).unwrap_or_default();
            ActivityOwnership::Types(types.into_iter().map(|one| (one.into_owned(), ())).collect())
        }
    }
}
