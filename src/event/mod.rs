//! The canonical vocabulary: AG-UI 1.0 as tables, one event, one run input, and the state machine of a run.
//!
//! Everything else in the crate is described against this module; it depends on nothing.

pub(crate) mod field;
pub(crate) mod input;
pub mod kind;
pub(crate) mod lane;
pub(crate) mod owner;
pub(crate) mod retired;
pub mod run;
pub(crate) mod schema;
pub(crate) mod value;

pub use field::Field;
pub(crate) use input::RunAgentInput;
pub use kind::EventType;
pub(crate) use value::{Json, JsonType};

use std::borrow::Cow;

/// The version of AG-UI that the gateway speaks to whoever speaks the canonical dialect.
pub(crate) const PROTOCOL_VERSION: &str = "1.0";

/// The name of an object's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberKey<'a> {
    /// a name that AG-UI 1.0 defines
    Known(Field),
    /// any other name, as it was written
    Other(Cow<'a, str>),
}

impl MemberKey<'_> {
    /// Returns the canonical spelling of the name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        match self {
            MemberKey::Known(field) => field.camel(),
            MemberKey::Other(name) => name,
        }
    }
}

pub(crate) type Member<'a> = (MemberKey<'a>, Json<'a>);

/// The members of one object in the order of the wire.
pub(crate) type Members<'a> = Vec<Member<'a>>;

/// One canonical event: a kind, and members that are still JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Event<'a> {
    /// what happened
    pub(crate) kind: EventType,
    /// everything but `type`
    pub(crate) members: Members<'a>,
    /// The frame that this event was read from, while the event still says exactly that in the canonical dialect: a
    /// writer of that dialect then passes the bytes through. Every change of the event clears it.
    pub(crate) source: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// An event without members.
    #[must_use]
    pub(crate) fn new(kind: EventType) -> Self {
        Event { kind, members: Members::new(), source: None }
    }

    /// The same event with `field` added.
    #[must_use]
    pub(crate) fn with(mut self, field: Field, value: Json<'a>) -> Self {
        self.set(field, value);
        self
    }

    /// The value of `field`.
    #[must_use]
    pub(crate) fn get(&self, field: Field) -> Option<&Json<'a>> {
        get(&self.members, field)
    }

    /// The text of `field`, when it is a string.
    #[must_use]
    pub(crate) fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        self.get(field).and_then(Json::text)
    }

    #[must_use]
    pub(crate) fn owned_text(&self, field: Field) -> Option<String> {
        self.text(field).map(Cow::into_owned)
    }

    /// Sets `field`, in place when it stands already, at the end otherwise.
    pub(crate) fn set(&mut self, field: Field, value: Json<'a>) {
        self.source = None;
        set(&mut self.members, MemberKey::Known(field), value);
    }

    /// Takes `field` out.
    pub(crate) fn remove(&mut self, field: Field) -> Option<Json<'a>> {
        let taken = remove(&mut self.members, field);
        if taken.is_some() {
            self.source = None;
        }
        taken
    }

    /// The same event with its own text, for keeping beyond the frame.
    #[must_use]
    pub(crate) fn into_owned(self) -> Event<'static> {
        Event { kind: self.kind, members: into_owned_members(self.members), source: None }
    }
}

/// The id of the message that these members belong to; the empty text where they name none.
#[must_use]
pub(crate) fn message_id(members: &[Member<'_>]) -> Json<'static> {
    get(members, Field::MessageId).cloned().map_or_else(|| Json::string(""), Json::into_owned)
}

/// The value of `field` among `members`.
#[must_use]
pub(crate) fn get<'m, 'a>(members: &'m [Member<'a>], field: Field) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| *key == MemberKey::Known(field)).map(|(_, value)| value)
}

/// Returns the value of the member with this canonical name.
#[must_use]
pub(crate) fn find_member<'m, 'a>(members: &'m [Member<'a>], name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| key.name() == name).map(|(_, value)| value)
}

/// Sets the member `key`, in place when it stands already, at the end otherwise.
pub(crate) fn set<'a>(members: &mut Vec<Member<'a>>, key: MemberKey<'a>, value: Json<'a>) {
    match members.iter_mut().find(|(own, _)| *own == key) {
        Some((_, old)) => *old = value,
        None => members.push((key, value)),
    }
}

/// Takes `field` out of `members`, keeping the order of the others.
pub(crate) fn remove<'a>(members: &mut Vec<Member<'a>>, field: Field) -> Option<Json<'a>> {
    let at = members.iter().position(|(key, _)| *key == MemberKey::Known(field))?;
    Some(members.remove(at).1)
}

/// The members with their own text.
#[must_use]
pub(crate) fn into_owned_members(members: Members<'_>) -> Members<'static> {
    members
        .into_iter()
        .map(|(key, value)| {
            let key = match key {
                MemberKey::Known(field) => MemberKey::Known(field),
                MemberKey::Other(name) => MemberKey::Other(Cow::Owned(name.into_owned())),
            };
            (key, value.into_owned())
        })
        .collect()
}
