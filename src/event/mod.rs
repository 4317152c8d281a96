//! The canonical vocabulary: AG-UI 1.0 as tables, an event, a run input, and a run's state machine.
//!
//! The rest of the crate builds on this module; it depends on no other.

pub(crate) mod field;
#[cfg(test)]
pub(crate) mod work;
mod role;
pub mod kind;
pub(crate) mod heap_size;
pub(crate) mod value;
mod id_map;
mod small_map;
pub(crate) mod input;
pub(crate) mod owner;
pub mod run;
pub(crate) mod lane;
pub(crate) mod retired;
pub(crate) mod schema;
mod repair;

pub use field::Field;
pub(crate) use id_map::IdMap;
pub(crate) use input::RunAgentInput;
pub use kind::EventType;
pub use repair::{EventLoss, EventRepair, LossCounts};
pub(crate) use small_map::SmallMap;
pub(crate) use value::{Json, JsonType, needs_no_escape};

use std::borrow::Cow;

/// Number of items up to which a search from one to the next is faster than an index. Most runs have one or two.
const FEW: usize = 8;

/// Appends an item. Most lists of a run have one item or two, and one that grows by itself begins with room for four.
pub(crate) fn push_tight<T>(list: &mut Vec<T>, item: T) {
    if list.len() < 2 {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// The version announced to peers that speak the canonical dialect.
pub(crate) const PROTOCOL_VERSION: &str = "1.0";

/// The `metadata` key for values that the gateway removed.
pub(crate) const GATEWAY_KEY: &str = "diglot";

#[derive(Clone, Debug, Eq)]
pub(crate) enum MemberKey<'a> {
    /// a name that AG-UI 1.0 defines
    Known(Field),
    /// any other name, as received
    Other(Cow<'a, str>),
}

impl PartialEq for MemberKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        work::count_step();
        match (self, other) {
            (MemberKey::Known(own), MemberKey::Known(other)) => own == other,
            (MemberKey::Other(own), MemberKey::Other(other)) => own == other,
            _ => false,
        }
    }
}

impl MemberKey<'_> {
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        match self {
            MemberKey::Known(field) => field.camel(),
            MemberKey::Other(name) => name,
        }
    }

    /// Returns the key of the member that AG-UI readers find under this name, in either spelling.
    #[must_use]
    pub(crate) fn into_canonical(self) -> Self {
        let known = Field::from_wire(self.name());
        known.map_or(self, MemberKey::Known)
    }

    fn heap_size(&self) -> usize {
        match self {
            MemberKey::Known(_) => 0,
            MemberKey::Other(name) => heap_size::allocation_size(name.len()),
        }
    }

    #[must_use]
    pub(crate) fn into_owned(self) -> MemberKey<'static> {
        match self {
            MemberKey::Known(field) => MemberKey::Known(field),
            MemberKey::Other(name) => MemberKey::Other(Cow::Owned(name.into_owned())),
        }
    }
}

pub(crate) type Member<'a> = (MemberKey<'a>, Json<'a>);

pub(crate) type Members<'a> = Vec<Member<'a>>;

/// A canonical event whose members are JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventType,
    /// without `type`
    pub(crate) members: Members<'a>,
    /// The original frame, until the event changes, so that the canonical dialect can copy it.
    pub(crate) source: Option<&'a str>,
}

impl<'a> Event<'a> {
    #[must_use]
    pub(crate) fn new(kind: EventType) -> Self {
        Event { kind, members: Members::new(), source: None }
    }

    #[must_use]
    pub(crate) fn with(mut self, field: Field, value: Json<'a>) -> Self {
        self.set(field, value);
        self
    }

    #[must_use]
    pub(crate) fn get(&self, field: Field) -> Option<&Json<'a>> {
        get(&self.members, field)
    }

    #[must_use]
    pub(crate) fn get_owned(&self, field: Field) -> Option<Json<'static>> {
        get_owned(&self.members, field)
    }

    #[must_use]
    pub(crate) fn get_or_empty(&self, field: Field) -> Json<'static> {
        self.get_owned(field).unwrap_or(Json::EMPTY_STRING)
    }

    #[must_use]
    pub(crate) fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        self.get(field).and_then(Json::text)
    }

    #[must_use]
    pub(crate) fn owned_text(&self, field: Field) -> Option<String> {
        self.text(field).map(Cow::into_owned)
    }

    pub(crate) fn set(&mut self, field: Field, value: Json<'a>) {
        self.source = None;
        set(&mut self.members, MemberKey::Known(field), value);
    }

    pub(crate) fn remove(&mut self, field: Field) -> Option<Json<'a>> {
        let taken = remove(&mut self.members, field);
        if taken.is_some() {
            self.source = None;
        }
        taken
    }

    #[must_use]
    pub(crate) fn into_owned(self) -> Event<'static> {
        Event { kind: self.kind, members: into_owned_members(self.members), source: None }
    }
}

/// Returns the message id, or an empty string.
#[must_use]
pub(crate) fn message_id(members: &[Member<'_>]) -> Json<'static> {
    get_owned(members, Field::MessageId).unwrap_or(Json::EMPTY_STRING)
}

#[must_use]
pub(crate) fn get<'m, 'a>(members: &'m [Member<'a>], field: Field) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| *key == MemberKey::Known(field)).map(|(_, value)| value)
}

#[must_use]
pub(crate) fn get_owned(members: &[Member<'_>], field: Field) -> Option<Json<'static>> {
    get(members, field).cloned().map(Json::into_owned)
}

#[must_use]
pub(crate) fn find_member<'m, 'a>(members: &'m [Member<'a>], name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| key.name() == name).map(|(_, value)| value)
}

pub(crate) fn set<'a>(members: &mut Vec<Member<'a>>, key: MemberKey<'a>, value: Json<'a>) {
    match members.iter_mut().find(|(own, _)| *own == key) {
        Some((_, old)) => *old = value,
        None => members.push((key, value)),
    }
}

pub(crate) fn remove<'a>(members: &mut Vec<Member<'a>>, field: Field) -> Option<Json<'a>> {
    let at = members.iter().position(|(key, _)| *key == MemberKey::Known(field))?;
    Some(members.remove(at).1)
}

#[must_use]
/// Returns the memory of a list of members, with their names and values.
pub(crate) fn members_size(members: &Members<'_>) -> usize {
    let texts = members.iter().map(|(key, value)| key.heap_size() + value.heap_size());
    heap_size::list_size::<Member<'_>>(members.capacity()) + texts.sum::<usize>()
}

pub(crate) fn optional_size(value: Option<&Json<'_>>) -> usize {
    value.map_or(0, Json::heap_size)
}

pub(crate) fn into_owned_members(members: Members<'_>) -> Members<'static> {
    members.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}
