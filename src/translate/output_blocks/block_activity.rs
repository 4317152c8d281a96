//! Output blocks that are neither text nor thinking: activities on the other side (`translation.md` §3).
//!
//! ```text
//! content {blockId, delta: {output: {type: T, data}}} of message M ⇄ snapshot M:block:<blockId or n> hai.T data
//! ```
//! `n` counts the blocks of `M` without an id. A block that is no plain `{type, data: {…}}` has all its members in the
//! content, and a note says so. A block whose type is the last part of another activity's stays a block.

use super::{Delta, Writing, delta, is_text, keep, outer, thinking_text};
use crate::codec::json;
use crate::dialect::{Dialect, block, collaboration};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, remove};
use crate::translate::write::Said;
use crate::translate::{carry, noted};
use std::collections::HashMap;

/// Note: the content is the whole block, its type apart.
const WHOLE: &str = "$block";

/// How many blocks without an id each message had so far.
#[derive(Debug, Default)]
pub(in crate::translate) struct Blocks(HashMap<Box<str>, u32>);

/// A block, taken apart.
pub(in crate::translate) struct Block<'a> {
    /// its type
    pub kind: Json<'a>,
    /// its other members
    pub output: Members<'a>,
    /// members of the delta beside it
    pub rest: Members<'a>,
}

/// What a block is called and says as an activity.
pub(in crate::translate) struct Shown {
    pub id: Json<'static>,
    pub activity_type: Json<'static>,
    pub content: Json<'static>,
    /// whether the content is the whole block
    whole: bool,
}

/// Whether a block of this type is an activity.
#[must_use]
pub(in crate::translate) fn takes(kind: &Json<'_>) -> bool {
    let others = [block::TEXT, block::THINKING, collaboration::NAME];
    kind.shape() == Type::String && !others.iter().any(|other| kind.is(other))
}

/// Whether reading makes nothing of content with these members but the event itself.
#[must_use]
pub(in crate::translate) fn refuses(members: &Members<'_>) -> bool {
    let said = get(members, Field::Delta);
    match delta(said) {
        Delta::Plain => said.is_none_or(|delta| delta.shape() != Type::String),
        Delta::Block { kind, output, .. } if kind.is(block::TEXT) => !is_text(&output, block::CONTENT),
        Delta::Block { kind, output, .. } if kind.is(block::THINKING) => thinking_text(&output).is_none(),
        Delta::Block { kind, .. } => !takes(&kind),
    }
}

impl Blocks {
    /// What a block of `message` is as an activity; `own` are the members of the event beside it.
    #[must_use]
    pub fn shown(&self, message: &Json<'_>, one: &Block<'_>, own: &Members<'_>, dialect: &Dialect) -> Shown {
        let inner = |text: &Json<'_>| text.as_str()[1..text.as_str().len() - 1].to_owned();
        let name = match block_id(own) {
            Some(id) if id.shape() == Type::String => inner(id),
            Some(id) => id.as_str().to_owned(),
            None => (self.0.get(&key(message)).copied().unwrap_or_default() + 1).to_string(),
        };
        let plain = match &one.output[..] {
            [(key, data)] if carry::is_named(key, block::DATA) && data.shape() == Type::Object => Some(data),
            _ => None,
        };
        Shown {
            id: message.followed_by(&format!(":block:{name}")),
            activity_type: Json::trusted(format!("\"{}.{}\"", dialect.name, inner(&one.kind))),
            content: plain.map_or_else(|| json::to_object(&one.output), |data| data.clone().into_owned()),
            whole: plain.is_none(),
        }
    }

    /// Takes a block into account.
    pub fn count(&mut self, message: &Json<'_>, own: &Members<'_>) {
        if block_id(own).is_none() {
            let count = self.0.entry(key(message)).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// The activity that a block is, and what has to be carried with it. `own` are the members of the event beside it.
    pub fn read(&mut self, message: Json<'static>, one: Block<'_>, own: &mut Members<'_>, dialect: &Dialect) -> Shown {
        let shown = self.shown(&message, &one, own, dialect);
        self.count(&message, own);
        keep(own, &[block::LAYOUT], &one.rest, super::DELTA);
        own.push((Key::Known(Field::MessageId), message));
        if shown.whole {
            own.push((carry::own(WHOLE), Json::trusted("true")));
        }
        shown
    }
}

impl Shown {
    /// The event that says it.
    pub fn into_event<'a>(self, mut event: Event<'a>, own: Members<'_>, dialect: &Dialect) -> Event<'a> {
        event.kind = Kind::ActivitySnapshot;
        event.set(Field::MessageId, self.id);
        event.set(Field::ActivityType, self.activity_type);
        event.set(Field::Content, self.content);
        carry::pack(&mut event, dialect.name, own);
        event
    }
}

impl Writing {
    /// An activity that reads back as it is when it is written as the block that it was.
    ///
    /// # Errors
    /// The event, when it is none.
    pub fn block<'a>(&mut self, event: Event<'a>, dialect: &Dialect) -> Result<Said<'a>, Event<'a>> {
        self.block_of(&event, dialect).ok_or(event)
    }

    fn block_of<'a>(&mut self, event: &Event<'a>, dialect: &Dialect) -> Option<Said<'a>> {
        let kind = kind_of(event.get(Field::ActivityType)?, dialect).filter(takes)?;
        let content = event.get(Field::Content).filter(|_| event.kind == Kind::ActivitySnapshot)?;
        let mut said = crate::translate::collaboration::split(event, dialect, &[]);
        let message = remove(&mut said.own, Field::MessageId)?;
        if !self.open.iter().any(|(own, _)| own.same(&message)) {
            return None;
        }
        let output = match carry::take(&mut said.own, WHOLE) {
            Some(_) => json::members(content)?,
            None => vec![(carry::own(block::DATA), content.borrowed())],
        };
        if output.iter().any(|(key, _)| carry::is_named(key, json::TYPE)) {
            return None;
        }
        let one = Block { kind, output, rest: Members::new() };
        let shown = self.blocks.shown(&message, &one, &said.own, dialect);
        let noted = crate::translate::collaboration::own_member(event, dialect, WHOLE);
        if event.get(Field::MessageId) != Some(&shown.id)
            || *content != shown.content
            || noted != shown.whole.then(|| Json::trusted("true"))
        {
            return None;
        }
        self.blocks.count(&message, &said.own);
        let output = json::build(|object| {
            object.member(json::TYPE, one.kind.as_str());
            one.output.iter().for_each(|member| object.copy(member, false));
        });
        let delta = outer(&mut said.own, &output);
        said.members.push((Key::Known(Field::MessageId), message));
        said.members.push((Key::Known(Field::Delta), delta));
        Some(said)
    }

    /// An activity as a block that shows it, noted, and whether it needs a message of its own: a client may look at the
    /// last message alone (seed §4.1), so a block goes into the one that is open.
    #[must_use]
    pub fn shown_block<'a>(&self, event: Event<'a>, dialect: &Dialect) -> (Said<'a>, Option<Json<'static>>) {
        let id = crate::event::message_id(&event.members);
        let value = |field| event.get(field).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        let named = value(Field::ActivityType);
        let kind = kind_of(&named, dialect).filter(takes).unwrap_or_else(|| named.clone());
        let output = json::build(|object| {
            object.member(json::TYPE, kind.as_str());
            object.member(block::DATA, value(Field::Content).as_str());
        });
        let delta = json::build(|object| object.member(block::OUTPUT, output.as_str()));
        let open = self.open.last().map(|(message, _)| message.clone());
        let message = open.clone().unwrap_or_else(|| id.clone());
        let members = vec![(Key::Known(Field::MessageId), message), (Key::Known(Field::Delta), delta)];
        let shown = vec![(carry::own(block::BLOCK_ID), id.clone())];
        (noted::write(event, members, shown), open.is_none().then_some(id))
    }
}

/// The type of the block that an activity of this type was.
fn kind_of(activity_type: &Json<'_>, dialect: &Dialect) -> Option<Json<'static>> {
    let inner = activity_type.as_str().strip_prefix('"')?.strip_prefix(dialect.name)?.strip_prefix('.')?;
    Some(Json::trusted(format!("\"{inner}")))
}

/// The id of a block: a text that is not empty, or a number.
fn block_id<'m, 'a>(own: &'m Members<'a>) -> Option<&'m Json<'a>> {
    let named = |(key, _): &&(Key<'a>, Json<'a>)| carry::is_named(key, block::BLOCK_ID);
    let (_, id) = own.iter().find(named)?;
    matches!(id.shape(), Type::String | Type::Number).then_some(id).filter(|id| !id.is(""))
}

/// Ids are the same however their characters are escaped.
fn key(message: &Json<'_>) -> Box<str> {
    message.text().map_or_else(|| message.as_str().into(), |text| Box::from(&*text))
}
