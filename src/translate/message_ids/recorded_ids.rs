//! The map as JSON, for recordings: what it knows before a run begins is part of the run's input.

use super::{IdClaim, IdKind, IdUse, MessageIdMap, NamedMessages};
use crate::codec::json;
use crate::event::Json;
use crate::event::input::{ACTIVITY, CALL_SUFFIX, REASONING, TEXT_SUFFIX, TOOL};
use serde_json::{Value, json};

impl MessageIdMap {
    /// Returns how ids are used, and a list of `[id, kind or null, is made of another, [messages of a kind, …]]`.
    pub(in super::super) fn to_recorded(&self) -> Value {
        let claims = self.claims.iter().map(|(id, claim)| {
            let messages: Vec<Value> = claim.messages.iter().map(NamedMessages::to_recorded).collect();
            json!([id, claim.first_kind.map(IdKind::suffix), claim.made_of.is_some(), messages])
        });
        let ids: Vec<Value> = claims.collect();
        json!({"use": self.id_use.to_recorded(), "results": self.result_count, "renames": self.has_renames, "ids": ids})
    }

    /// Reads what [`MessageIdMap::to_recorded`] returned.
    pub(in super::super) fn from_recorded(recorded: &Value) -> Option<MessageIdMap> {
        let mut map = MessageIdMap {
            id_use: IdUse::from_recorded(&recorded["use"])?,
            result_count: recorded["results"].as_u64()?.try_into().ok()?,
            has_renames: recorded["renames"].as_bool()?,
            ..MessageIdMap::default()
        };
        let mut made = Vec::new();
        for claim in recorded["ids"].as_array()? {
            let first_kind = match &claim[1] {
                Value::Null => None,
                kind => Some(find_kind(kind)?),
            };
            let messages = claim[3].as_array()?.iter().map(NamedMessages::from_recorded);
            let messages = messages.collect::<Option<Vec<_>>>()?;
            let id: Box<str> = claim[0].as_str()?.into();
            let names = messages.iter().flat_map(|messages| &messages.names).filter_map(Json::text);
            made.extend(names.map(|name| (Box::<str>::from(&*name), id.clone())));
            map.claims.insert(id, IdClaim { made_of: None, first_kind, messages });
        }
        // A name that is not the id itself was made of it.
        for (name, id) in made.into_iter().filter(|(name, id)| name != id) {
            map.claims.update(name, |claim| claim.made_of = Some(id));
        }
        Some(map)
    }
}

impl NamedMessages {
    fn to_recorded(&self) -> Value {
        let names: Vec<&str> = self.names.iter().map(Json::as_str).collect();
        json!([self.kind.suffix(), names, self.last_number, self.has_begun, self.call])
    }

    fn from_recorded(recorded: &Value) -> Option<NamedMessages> {
        let name = |text: &Value| Some(json::parse_value(text.as_str()?)?.into_owned());
        Some(NamedMessages {
            kind: find_kind(&recorded[0])?,
            names: recorded[1].as_array()?.iter().map(name).collect::<Option<_>>()?,
            last_number: recorded[2].as_u64()?.try_into().ok()?,
            has_begun: recorded[3].as_bool()?,
            call: match &recorded[4] {
                Value::Null => None,
                count => Some(count.as_u64()?.try_into().ok()?),
            },
        })
    }
}

impl IdUse {
    fn to_recorded(&self) -> Value {
        match self {
            IdUse::Once => Value::Null,
            IdUse::Repeated { may_be_ag_ui, activity_suffix } => json!([may_be_ag_ui, activity_suffix]),
        }
    }

    fn from_recorded(recorded: &Value) -> Option<IdUse> {
        if recorded.is_null() {
            return Some(IdUse::Once);
        }
        let activity_suffix = match &recorded[1] {
            Value::Null => None,
            suffix => Some(suffix.as_str()?.into()),
        };
        Some(IdUse::Repeated { may_be_ag_ui: recorded[0].as_bool()?, activity_suffix })
    }
}

fn find_kind(recorded: &Value) -> Option<IdKind> {
    match recorded.as_str()? {
        TEXT_SUFFIX => Some(IdKind::Text),
        CALL_SUFFIX => Some(IdKind::Call),
        REASONING | ACTIVITY | TOOL => recorded.as_str().map(IdKind::from_role),
        _ => None,
    }
}
