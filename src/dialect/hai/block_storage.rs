//! Content as a client of output blocks stores it: concatenated blocks, `{…}{…}` (seed §4.1, where the client joins all
//! deltas of a message and parses the result). Requests and snapshots contain this form.
//!
//! An assistant's is read as the stream would be (`block_reader`): text, thinking and other blocks become messages in their order,
//! text behind something else a further part. Their ids match the stream's. Of the other roles that a stream may have, text
//! blocks alone are read. The stored form is carried, and restored if the text is unchanged.

use super::block_activity::{BlockNumbers, OutputBlock};
use super::blocks::{BLOCKS_NOTE, BlockText, DeltaContent, parse_delta, take_text, to_stored_content, to_text};
use super::joined_blocks::text_block;
use super::message_parts::is_part_of;
use super::{joined_blocks, listed_content, user_content};
use crate::codec::json;
use crate::dialect::carry;
use crate::dialect::message_adapter::SurroundingMessages;
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, REASONING, USER, has_role};
use crate::event::kind::TEXT_ROLES;
use crate::event::{Field, IdMap, Json, JsonType, MemberKey, Members, find_member, get, get_owned, remove, set};

/// Stores a message that only has blocks, on the first of them.
const MESSAGE_NOTE: &str = "$message";

/// Stores the text of a message's first part, to which the others were added.
const FIRST_PART: &str = "$content";

struct StoredBlocks {
    items: Vec<StoredItem>,
    is_plain: bool,
}

/// One message for the client.
enum StoredItem {
    /// text with its escapes
    Text(String),
    Thinking {
        text: String,
        is_over: bool,
    },
    Block(OutputBlock<'static>),
}

/// Replaces stored blocks with the text of the first part, and returns the rest as messages.
pub(super) fn read(canonical: &mut Members<'_>, own: &mut Members<'_>, dialect: &str) -> SurroundingMessages {
    let mut surrounding = SurroundingMessages::default();
    if !has_role(canonical, ASSISTANT) {
        read_other_role(canonical, own);
        return surrounding;
    }
    let content = get(canonical, Field::Content).cloned();
    let was_json = find_member(own, carry::AS_JSON_NOTE).is_some();
    let stored = content.as_ref().and_then(|content| parse_blocks(content, was_json));
    let (Some(content), Some(stored)) = (content, stored) else { return surrounding };
    let texts = stored.texts();
    let has_text = !texts.is_empty();
    set(canonical, MemberKey::Known(Field::Content), texts.into_iter().next().unwrap_or(Json::EMPTY_STRING));
    // Content that was not a string must also be restored.
    if !stored.is_plain || was_json {
        own.push((carry::extension_key(BLOCKS_NOTE), content.into_owned()));
    }
    let id = get_owned(canonical, Field::Id).unwrap_or(Json::EMPTY_STRING);
    surrounding.replaces_message = !has_text && !stored.items.is_empty() && get(canonical, Field::ToolCalls).is_none();
    let mut spans = 0;
    let mut parts = 0;
    let mut blocks = BlockNumbers::default();
    for item in stored.items {
        let mut origin = vec![(MemberKey::Known(Field::MessageId), id.clone())];
        let message = match item {
            StoredItem::Text(_) if parts == 0 => {
                parts = 1;
                continue;
            }
            StoredItem::Text(text) => {
                parts += 1;
                to_message(
                    id.with_suffix(&format!(":{parts}")),
                    ASSISTANT,
                    to_string(&text),
                    carry::merge(None, dialect, origin),
                )
            }
            StoredItem::Thinking { text, .. } => {
                spans += 1;
                to_message(
                    id.with_suffix(&format!(":reasoning:{spans}")),
                    REASONING,
                    to_string(&text),
                    carry::merge(None, dialect, origin),
                )
            }
            StoredItem::Block(one) => {
                origin.clear();
                let shown = blocks.read(id.clone(), one, &mut origin, dialect);
                vec![
                    (MemberKey::Known(Field::Id), shown.id),
                    (MemberKey::Known(Field::Role), Json::string(ACTIVITY)),
                    (MemberKey::Known(Field::ActivityType), shown.activity_type),
                    (MemberKey::Known(Field::Content), shown.content),
                    (MemberKey::Known(Field::Metadata), carry::merge(None, dialect, origin)),
                ]
            }
        };
        match parts {
            0 => surrounding.before.push(message),
            _ => surrounding.after.push(message),
        }
    }
    surrounding
}

fn read_other_role(canonical: &mut Members<'_>, own: &mut Members<'_>) {
    if has_streamed_text(canonical) && read_text(canonical, own) {
        return;
    }
    match has_role(canonical, USER) {
        true => user_content::read(canonical, own),
        false => listed_content::read(canonical, own),
    }
}

/// Replaces text blocks with their text; returns false for any other content.
fn read_text(canonical: &mut Members<'_>, own: &mut Members<'_>) -> bool {
    let Some(content) = get_owned(canonical, Field::Content) else { return false };
    let Some(text) = parse_text(&content) else { return false };
    set(canonical, MemberKey::Known(Field::Content), text);
    own.push((carry::extension_key(BLOCKS_NOTE), content));
    true
}

/// Returns true for a role whose streamed text the client stores as blocks, and whose messages are not in parts.
fn has_streamed_text(message: &Members<'_>) -> bool {
    TEXT_ROLES.iter().any(|role| *role != ASSISTANT && has_role(message, role))
}

/// Returns the text of content that is text blocks alone.
fn parse_text(content: &Json<'_>) -> Option<Json<'static>> {
    let whole = content.text().filter(|text| text.starts_with('{'))?;
    let mut all = String::new();
    for value in joined_blocks::parse_values(&whole, false)? {
        let DeltaContent::Block { kind, mut output, .. } = parse_delta(Some(&value)) else { return None };
        let BlockText::Text { text, .. } = take_text(&kind, &mut output) else { return None };
        all.push_str(to_text(text).unquoted());
    }
    Some(to_string(&all))
}

fn to_message(
    id: Json<'static>,
    role: &str,
    content: Json<'static>,
    metadata: Json<'static>,
) -> MessageMembers<'static> {
    vec![
        (MemberKey::Known(Field::Id), id),
        (MemberKey::Known(Field::Role), Json::string(role)),
        (MemberKey::Known(Field::Content), content),
        (MemberKey::Known(Field::Metadata), metadata),
    ]
}

/// Carries a message that only has blocks on the first of the messages that replace it.
pub(super) fn carry_message(message: &Members<'_>, first: &mut MessageMembers<'static>, dialect: &str) {
    let note = vec![(carry::extension_key(MESSAGE_NOTE), json::to_object(message))];
    let metadata = carry::merge(get(first, Field::Metadata), dialect, note);
    set(first, MemberKey::Known(Field::Metadata), metadata);
}

/// Returns the id of the message that only had this block, or this one first.
pub(super) fn stored_id(message: &Members<'_>, dialect: &str) -> Option<Json<'static>> {
    json::parse_member(&carried_member(message, dialect, MESSAGE_NOTE)?, Field::Id.camel())
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
    let mut texts: IdMap<Vec<Json<'static>>> = IdMap::default();
    for message in messages.iter_mut() {
        let Some(id) = get_owned(message, Field::Id).filter(|_| has_role(message, ASSISTANT)) else { continue };
        if part_origin(message, dialect).is_none()
            && let Some(origin) = unnoted_origin(&id, &texts)
        {
            let note = vec![(MemberKey::Known(Field::MessageId), origin)];
            let metadata = carry::merge(get(message, Field::Metadata), dialect, note);
            set(message, MemberKey::Known(Field::Metadata), metadata);
        }
        let text = get_owned(message, Field::Content).filter(|content| content.json_type() == JsonType::String);
        let text = text.unwrap_or(Json::EMPTY_STRING);
        match part_origin(message, dialect) {
            None => {
                texts.insert(id, vec![text]);
            }
            Some(origin) if texts.contains(&origin) => {
                texts.get_mut(&origin).into_iter().for_each(|texts| texts.push(text.clone()));
            }
            // The client no longer has the first part.
            Some(origin) => {
                set(message, MemberKey::Known(Field::Id), origin.clone());
                take_note(message, dialect, Field::MessageId.camel());
                texts.insert(origin, vec![text]);
            }
        }
    }
    let mut intact: IdMap<()> = IdMap::default();
    for message in messages.iter_mut().filter(|message| has_role(message, ASSISTANT)) {
        let Some(id) = get_owned(message, Field::Id) else { continue };
        let Some(texts) = texts.get(&id) else { continue };
        let stored = carried_member(message, dialect, BLOCKS_NOTE);
        let is_intact = stored.as_ref().and_then(parse_stored).is_some_and(|stored| stored.has_texts(texts));
        if is_intact {
            intact.insert(id, ());
        } else if let [first, _, ..] = &texts[..] {
            let whole: String = texts.iter().map(Json::unquoted).collect();
            let note = vec![(carry::extension_key(FIRST_PART), first.clone())];
            let metadata = carry::merge(get(message, Field::Metadata), dialect, note);
            set(message, MemberKey::Known(Field::Metadata), metadata);
            set(message, MemberKey::Known(Field::Content), to_string(&whole));
        }
    }
    if intact.is_empty() {
        return;
    }
    messages.retain(|message| {
        let is_shown = has_role(message, REASONING) || has_role(message, ACTIVITY);
        let origin = match is_shown {
            true => carried_member(message, dialect, Field::MessageId.camel()),
            false => part_origin(message, dialect),
        };
        !origin.is_some_and(|origin| intact.contains(&origin))
    });
}

/// Returns true for a further part of a message, whose text the first part contains now.
pub(super) fn is_joined_part(message: &Members<'_>, dialect: &str) -> bool {
    has_role(message, ASSISTANT) && part_origin(message, dialect).is_some()
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

/// Returns the message of which this is a further part.
pub(super) fn part_origin(message: &Members<'_>, dialect: &str) -> Option<Json<'static>> {
    let origin = carried_member(message, dialect, Field::MessageId.camel())?;
    is_part_of(get(message, Field::Id)?, &origin).then_some(origin)
}

/// Returns the message whose next part has this id. Clients before 0.0.59 do not keep metadata, so only the id shows it.
fn unnoted_origin(id: &Json<'_>, texts: &IdMap<Vec<Json<'static>>>) -> Option<Json<'static>> {
    let id = id.text()?;
    let (origin, number) = id.rsplit_once(':')?;
    let origin = Json::string(origin);
    let number: usize = number.parse().ok()?;
    let is_next = texts.get(&origin).is_some_and(|texts| texts.len() + 1 == number);
    is_next.then_some(origin)
}

pub(super) fn carried_member(message: &Members<'_>, dialect: &str, name: &str) -> Option<Json<'static>> {
    let metadata = get(message, Field::Metadata).filter(|metadata| metadata.as_str().contains(name))?;
    json::parse_member(&json::parse_member(metadata, dialect)?, name)
}

fn take_note(message: &mut MessageMembers<'_>, dialect: &str, name: &str) -> Option<Json<'static>> {
    let (metadata, note) = carry::take_from_metadata(get(message, Field::Metadata)?, dialect, name)?;
    match metadata {
        Some(metadata) => set(message, MemberKey::Known(Field::Metadata), metadata),
        None => drop(remove(message, Field::Metadata)),
    }
    Some(note)
}

fn to_string(escaped: &str) -> Json<'static> {
    Json::from_trusted(format!("\"{escaped}\""))
}

/// Restores text blocks, or carries text that would be read as such; returns false for any other content.
fn write_text(outgoing: &mut Members<'_>, stored: Option<&Json<'_>>, canonical: &mut Members<'_>) -> bool {
    let Some(content) = get_owned(outgoing, Field::Content).filter(|_| get(canonical, Field::Content).is_none()) else {
        return false;
    };
    if let Some(stored) = stored.filter(|stored| parse_text(stored).is_some_and(|text| text.is_same(&content))) {
        set(outgoing, MemberKey::Known(Field::Content), stored.clone().into_owned());
        return true;
    }
    let looks_like_blocks = parse_text(&content).is_some();
    if looks_like_blocks {
        canonical.push((MemberKey::Known(Field::Content), content));
    }
    looks_like_blocks
}

/// Restores the stored form; `own` holds the carried members.
pub(super) fn write(outgoing: &mut Members<'_>, own: &mut Members<'_>, canonical: &mut Members<'_>, blocks: bool) {
    let stored = carry::take(own, BLOCKS_NOTE);
    let first_part = carry::take(own, FIRST_PART).map(Json::into_owned);
    if has_streamed_text(outgoing) && write_text(outgoing, stored.as_ref(), canonical) {
        return;
    }
    if has_role(outgoing, USER) {
        return user_content::write(outgoing, stored.map(Json::into_owned), canonical);
    }
    if !has_role(outgoing, ASSISTANT) {
        return listed_content::write(outgoing, stored.map(Json::into_owned), canonical);
    }
    let Some(content) =
        get(outgoing, Field::Content).filter(|content| content.json_type() == JsonType::String).cloned()
    else {
        return;
    };
    let carried = first_part.clone().unwrap_or_else(|| content.clone().into_owned());
    let has_text = |stored: &Json<'_>| {
        let first = parse_stored(stored).map(|stored| stored.texts().into_iter().next());
        first.is_some_and(|first| first.unwrap_or(Json::EMPTY_STRING).is_same(&content))
    };
    let intact = stored.filter(|stored| first_part.is_none() && has_text(stored));
    match intact {
        Some(stored) => set(outgoing, MemberKey::Known(Field::Content), stored.into_owned()),
        None if blocks && !content.is_str("") => {
            set(outgoing, MemberKey::Known(Field::Content), to_stored_content(&text_block(&content)));
            if first_part.is_some() {
                canonical.push((MemberKey::Known(Field::Content), carried));
            }
        }
        // Reading would mistake this text for stored blocks, or for that of one part.
        None if first_part.is_some() || parse_blocks(&content, false).is_some() => {
            canonical.push((MemberKey::Known(Field::Content), carried));
        }
        None => {}
    }
}

impl StoredBlocks {
    fn texts(&self) -> Vec<Json<'static>> {
        let text = |item: &StoredItem| match item {
            StoredItem::Text(text) => Some(to_string(text)),
            StoredItem::Thinking { .. } | StoredItem::Block(_) => None,
        };
        self.items.iter().filter_map(text).collect()
    }

    /// Returns true if the parts of a message have these texts. A message with blocks alone has an empty one.
    fn has_texts(&self, texts: &[Json<'_>]) -> bool {
        let mut own = self.texts();
        if own.is_empty() {
            own.push(Json::EMPTY_STRING);
        }
        own.len() == texts.len() && own.iter().zip(texts).all(|(own, text)| own.is_same(text))
    }

    fn push_text(&mut self, piece: &str) {
        match self.items.last_mut() {
            Some(StoredItem::Text(text)) => text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => self.items.push(StoredItem::Text(piece.to_owned())),
        }
    }

    fn push_thinking(&mut self, piece: &str, ends: bool) {
        match self.items.last_mut() {
            Some(StoredItem::Thinking { text, is_over }) if !*is_over => {
                text.push_str(piece);
                *is_over = ends;
            }
            _ => self.items.push(StoredItem::Thinking { text: piece.to_owned(), is_over: ends }),
        }
    }
}

/// Parses the content in a note, which was read as blocks.
fn parse_stored(content: &Json<'_>) -> Option<StoredBlocks> {
    parse_blocks(content, true)
}

/// Returns `None` unless the content consists only of blocks. `was_json` means that it was a JSON value.
fn parse_blocks(content: &Json<'_>, was_json: bool) -> Option<StoredBlocks> {
    let whole = content.text()?;
    let mut stored = StoredBlocks { items: Vec::new(), is_plain: whole.starts_with('{') };
    for value in joined_blocks::parse_values(&whole, was_json)? {
        let DeltaContent::Block { kind, mut output, rest } = parse_delta(Some(&value)) else {
            return None;
        };
        if kind.json_type() != JsonType::String {
            return None;
        }
        match take_text(&kind, &mut output) {
            BlockText::Text { text, place } => {
                // Writing divides such braces.
                let is_string = text.json_type() == JsonType::String && !value.as_str().contains("}{");
                stored.is_plain &= is_string && rest.is_empty() && output.is_empty() && place.is_usual_for_text();
                stored.push_text(to_text(text).unquoted());
                continue;
            }
            BlockText::Thinking { text, place } => {
                stored.push_thinking(to_text(text).unquoted(), place.ends_thinking());
            }
            BlockText::None => {
                let members = crate::event::into_owned_members(output);
                let delta_members = crate::event::into_owned_members(rest);
                stored.items.push(StoredItem::Block(OutputBlock { kind: kind.into_owned(), members, delta_members }));
            }
            // A stream sends such a block whole.
            BlockText::Unreadable => {}
        }
        stored.is_plain = false;
    }
    Some(stored)
}
