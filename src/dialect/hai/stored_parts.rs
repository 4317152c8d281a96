//! The parts `M`, `M:2`, … of messages in requests and snapshots, as `block_storage` makes them from stored content and
//! `block_reader` on the stream.
//!
//! An agent may use one id for several messages, as seed §4.2 does in each run (`msgId-001`): a part belongs to the last
//! message with its id before it, other items to the message of the same turn.

use super::block_storage::{parse_stored, to_string};
use super::blocks::{BLOCKS_NOTE, FIRST_PART, MESSAGE_NOTE};
use super::part_calls::{add_calls, carried_member, part_origin};
use crate::codec::json;
use crate::dialect::carry;
use crate::event::input::{ACTIVITY, ASSISTANT, CALL_SUFFIX, MessageMembers, REASONING, TEXT_SUFFIX, USER, has_role};
use crate::event::{Field, IdMap, Json, JsonType, MemberKey, Members, get, get_owned, remove, set};

/// A message of the agent.
struct WholeMessage {
    /// position of its first part
    first: usize,
    /// texts of its parts
    texts: Vec<Json<'static>>,
    is_intact: bool,
}

#[derive(Default)]
struct WholeMessages {
    wholes: Vec<WholeMessage>,
    /// turns and positions in `wholes` of those with each id
    with_ids: IdMap<Vec<(usize, usize)>>,
    /// the whole of each message of the list that is one of its parts
    owners: Vec<Option<usize>>,
    /// the turn of each message of the list; a user's begins the next
    turns: Vec<usize>,
}

impl WholeMessages {
    fn find(messages: &mut [MessageMembers<'_>], dialect: &str) -> Self {
        let mut found = WholeMessages::default();
        let mut turn = 0;
        for (at, message) in messages.iter_mut().enumerate() {
            turn += usize::from(has_role(message, USER));
            found.turns.push(turn);
            let whole = get_owned(message, Field::Id)
                .filter(|_| has_role(message, ASSISTANT))
                .map(|id| found.add(id, at, message, dialect));
            found.owners.push(whole);
        }
        found
    }

    /// Adds an assistant's message to the whole one; returns the position of that.
    fn add(&mut self, id: Json<'static>, at: usize, message: &mut MessageMembers<'_>, dialect: &str) -> usize {
        if part_origin(message, dialect).is_none()
            && let Some(origin) = unnoted_origin(&id, self)
        {
            let note = vec![(MemberKey::Known(Field::MessageId), origin)];
            let metadata = carry::merge(get(message, Field::Metadata), dialect, note);
            set(message, MemberKey::Known(Field::Metadata), metadata);
        }
        let text = get_owned(message, Field::Content).filter(|content| content.json_type() == JsonType::String);
        let text = text.unwrap_or(Json::EMPTY_STRING);
        let origin = part_origin(message, dialect);
        if let Some(whole) = origin.as_ref().and_then(|origin| self.last_with_id(origin)) {
            self.wholes[whole].texts.push(text);
            return whole;
        }
        // The client no longer has the first part of a part.
        if let Some(origin) = &origin {
            set(message, MemberKey::Known(Field::Id), origin.clone());
            take_note(message, dialect, Field::MessageId.camel());
        }
        let whole = self.wholes.len();
        self.wholes.push(WholeMessage { first: at, texts: vec![text], is_intact: false });
        let entry = (self.turns[at], whole);
        let id = origin.unwrap_or(id);
        match self.with_ids.get_mut(&id) {
            Some(list) => list.push(entry),
            None => drop(self.with_ids.insert(id, vec![entry])),
        }
        whole
    }

    fn last_with_id(&self, id: &Json<'_>) -> Option<usize> {
        self.with_ids.get(id)?.last().map(|(_, whole)| *whole)
    }

    /// Returns the message that contained an item of a turn: the first one of that, or the last before.
    fn of_item(&self, id: &Json<'_>, turn: usize) -> Option<usize> {
        let list = self.with_ids.get(id)?;
        let at = list.partition_point(|(own, _)| *own < turn);
        let same_turn = list.get(at).filter(|(own, _)| *own == turn);
        same_turn.or_else(|| list.get(at.checked_sub(1)?)).map(|(_, whole)| *whole)
    }

    /// Returns the position of the intact message that contains this one.
    fn intact_owner(&self, at: usize, message: &Members<'_>, dialect: &str) -> Option<usize> {
        let is_shown = has_role(message, REASONING) || has_role(message, ACTIVITY);
        let whole = match is_shown {
            true => self.of_item(&carried_member(message, dialect, Field::MessageId.camel())?, self.turns[at])?,
            false => self.owners[at]?,
        };
        let whole = &self.wholes[whole];
        (whole.is_intact && whole.first != at).then_some(whole.first)
    }
}

/// Gives a further part, or a message, the next free number if its id is used already, as the stream does.
pub(super) fn separate_parts(messages: &mut [MessageMembers<'static>], dialect: &str) {
    let mut used: IdMap<()> = IdMap::default();
    let mut parts: IdMap<()> = IdMap::default();
    let mut last_numbers: IdMap<u32> = IdMap::default();
    for message in messages.iter_mut().filter(|message| has_role(message, ASSISTANT)) {
        let Some(id) = get_owned(message, Field::Id) else { continue };
        let origin = part_origin(message, dialect);
        let is_part = origin.is_some();
        // Two messages of the agent may have one id.
        let is_taken = used.contains(&id) && (is_part || parts.contains(&id));
        let mut own_id = id.clone();
        if is_taken {
            let origin = origin.unwrap_or_else(|| id.clone());
            let mut number = last_numbers.get(&origin).copied().unwrap_or(1);
            while used.contains(&own_id) {
                number += 1;
                own_id = origin.with_suffix(&format!(":{number}"));
            }
            last_numbers.insert(origin.clone(), number);
            let note = vec![(MemberKey::Known(Field::MessageId), origin)];
            let metadata = carry::merge(get(message, Field::Metadata), dialect, note);
            set(message, MemberKey::Known(Field::Metadata), metadata);
            set(message, MemberKey::Known(Field::Id), own_id.clone());
        }
        if is_part || is_taken {
            parts.insert(own_id.clone(), ());
        }
        used.insert(own_id, ());
    }
}

/// Joins the parts of messages again, and removes what an unchanged message contains as blocks.
pub(super) fn join_parts(messages: &mut Vec<MessageMembers<'_>>, dialect: &str) {
    restore_messages(messages, dialect);
    let mut found = WholeMessages::find(messages, dialect);
    for whole in &mut found.wholes {
        let message = &mut messages[whole.first];
        let stored = carried_member(message, dialect, BLOCKS_NOTE);
        whole.is_intact = stored.as_ref().and_then(parse_stored).is_some_and(|stored| stored.has_texts(&whole.texts));
        if let [first, _, ..] = &whole.texts[..]
            && !whole.is_intact
        {
            let joined: String = whole.texts.iter().map(Json::unquoted).collect();
            let note = vec![(carry::extension_key(FIRST_PART), first.clone())];
            let metadata = carry::merge(get(message, Field::Metadata), dialect, note);
            set(message, MemberKey::Known(Field::Metadata), metadata);
            set(message, MemberKey::Known(Field::Content), to_string(&joined));
        }
    }
    if found.wholes.iter().all(|whole| !whole.is_intact) {
        return;
    }
    let mut owners: Vec<_> =
        messages.iter().enumerate().map(|(at, message)| found.intact_owner(at, message, dialect)).collect();
    for at in 0..messages.len() {
        let Some(owner) = owners[at] else { continue };
        if let Some(calls) = remove(&mut messages[at], Field::ToolCalls).map(Json::into_owned) {
            add_calls(&mut messages[owner], calls);
        }
    }
    let mut owners = owners.drain(..);
    messages.retain(|_| owners.next().flatten().is_none());
}

/// Returns true for a further part of a message, whose text the first part contains now.
pub(super) fn is_joined_part(message: &Members<'_>, dialect: &str) -> bool {
    has_role(message, ASSISTANT) && part_origin(message, dialect).is_some()
}

/// Returns the id of the message that only had this block, or this one first.
pub(super) fn stored_id(message: &Members<'_>, dialect: &str) -> Option<Json<'static>> {
    json::parse_member(&carried_member(message, dialect, MESSAGE_NOTE)?, Field::Id.camel())
}

/// Restores messages that only had blocks.
fn restore_messages(messages: &mut Vec<MessageMembers<'_>>, dialect: &str) {
    let mut at = 0;
    while at < messages.len() {
        let whole = take_note(&mut messages[at], dialect, MESSAGE_NOTE);
        if let Some(whole) = whole.as_ref().and_then(json::parse_message).map(crate::event::into_owned_members)
            && has_role(&whole, ASSISTANT)
        {
            messages.insert(at, whole);
            at += 1;
        }
        at += 1;
    }
}

/// Returns the message whose next part has this id. Clients before 0.0.59 do not keep metadata, so only the id shows it. Ids
/// that were made for messages of later runs have numbers, too.
fn unnoted_origin(id: &Json<'_>, found: &WholeMessages) -> Option<Json<'static>> {
    let id = id.text()?;
    let (origin, number) = id.rsplit_once(':')?;
    if origin.rsplit_once(':').is_some_and(|(_, suffix)| [TEXT_SUFFIX, CALL_SUFFIX].contains(&suffix)) {
        return None;
    }
    let origin = Json::string(origin);
    let number: usize = number.parse().ok()?;
    let is_next = found.last_with_id(&origin).is_some_and(|at| found.wholes[at].texts.len() + 1 == number);
    is_next.then_some(origin)
}

fn take_note(message: &mut MessageMembers<'_>, dialect: &str, name: &str) -> Option<Json<'static>> {
    let (metadata, note) = carry::take_from_metadata(get(message, Field::Metadata)?, dialect, name)?;
    match metadata {
        Some(metadata) => set(message, MemberKey::Known(Field::Metadata), metadata),
        None => drop(remove(message, Field::Metadata)),
    }
    Some(note)
}
