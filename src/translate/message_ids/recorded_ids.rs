//! The map as JSON, for recordings: what it knows before a run begins is part of the run's input.

use super::{IdClaim, MessageIdMap, MessageKind};
use crate::codec::json;
use crate::event::input::{ACTIVITY, REASONING, TOOL};
use serde_json::{Value, json};

const TEXT: &str = "text";

impl MessageIdMap {
    /// Returns a list of `[id, kind or null, is generated, is of an earlier run, [[kind, new id as JSON], …]]`.
    pub(in super::super) fn to_recorded(&self) -> Value {
        let claims = self.claims.iter().map(|(id, claim)| {
            let renamed = claim.renamed_kinds.iter().map(|(kind, name)| json!([kind.suffix(), name.as_str()]));
            let renamed: Vec<Value> = renamed.collect();
            json!([id, claim.first_kind.map(MessageKind::suffix), claim.is_generated, claim.is_earlier, renamed])
        });
        json!({"repeats_ids": self.repeats_ids, "ids": claims.collect::<Vec<Value>>()})
    }

    /// Reads what [`MessageIdMap::to_recorded`] returned.
    pub(in super::super) fn from_recorded(recorded: &Value) -> Option<MessageIdMap> {
        let mut map = MessageIdMap { repeats_ids: recorded["repeats_ids"].as_bool()?, ..MessageIdMap::default() };
        for claim in recorded["ids"].as_array()? {
            let first_kind = match &claim[1] {
                Value::Null => None,
                kind => Some(find_kind(kind)?),
            };
            let mut renamed_kinds = Vec::new();
            for renamed in claim[4].as_array()? {
                let name = json::parse_value(renamed[1].as_str()?)?.into_owned();
                renamed_kinds.push((find_kind(&renamed[0])?, name));
            }
            map.has_renames |= !renamed_kinds.is_empty();
            let claimed = IdClaim {
                is_generated: claim[2].as_bool()?,
                first_kind,
                is_earlier: claim[3].as_bool()?,
                renamed_kinds,
            };
            map.claims.insert(Box::from(claim[0].as_str()?), claimed);
        }
        Some(map)
    }
}

fn find_kind(recorded: &Value) -> Option<MessageKind> {
    match recorded.as_str()? {
        TEXT => Some(MessageKind::Text),
        REASONING | ACTIVITY | TOOL => recorded.as_str().map(MessageKind::from_role),
        _ => None,
    }
}
