//! Content as a client of output blocks stores it: concatenated blocks, `{…}{…}` (seed §4.1, where the client joins all
//! deltas of a message and parses the result). Requests and snapshots contain this form.
//!
//! An assistant's is read as the stream would be (`block_reader`): text, thinking and other blocks become messages in their order,
//! text behind something else a further part. Their ids match the stream's. Of the other roles that a stream may have, text
//! blocks alone are read. The stored form is carried, and restored if the text is unchanged.

use super::block_activity::{BlockNumbers, OutputBlock};
use super::blocks::{
    BLOCKS_NOTE, BlockText, DeltaContent, FIRST_PART, MESSAGE_NOTE, parse_delta, take_text, to_stored_content, to_text,
};
use super::joined_blocks::text_block;
use super::part_calls::add_calls;
use super::{joined_blocks, listed_content, user_content};
use crate::codec::json;
use crate::dialect::carry;
use crate::dialect::message_adapter::SurroundingMessages;
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, REASONING, USER, has_role};
use crate::event::kind::TEXT_ROLES;
use crate::event::{Field, Json, JsonType, MemberKey, Members, find_member, get, get_owned, remove, set};

pub(super) struct StoredBlocks {
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
    move_calls(canonical, &mut surrounding.after, parts, dialect);
    surrounding
}

/// Moves the calls to the last part of the message, behind which their results stand, or to the next one if that is not
/// last.
fn move_calls(first: &mut Members<'_>, after: &mut Vec<MessageMembers<'static>>, parts: usize, dialect: &str) {
    let has_calls = get(first, Field::ToolCalls).and_then(json::parse_elements).is_some_and(|calls| !calls.is_empty());
    if !has_calls || after.is_empty() {
        return;
    }
    if let (Some(calls), Some(id)) = (remove(first, Field::ToolCalls), get_owned(first, Field::Id)) {
        if !after.last().is_some_and(|last| has_role(last, ASSISTANT)) {
            let origin = vec![(MemberKey::Known(Field::MessageId), id.clone())];
            after.push(vec![
                (MemberKey::Known(Field::Id), id.with_suffix(&format!(":{}", parts + 1))),
                (MemberKey::Known(Field::Role), Json::string(ASSISTANT)),
                (MemberKey::Known(Field::Metadata), carry::merge(None, dialect, origin)),
            ]);
        }
        after.last_mut().into_iter().for_each(|part| add_calls(part, calls.clone().into_owned()));
    }
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

pub(super) fn to_string(escaped: &str) -> Json<'static> {
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

    /// Returns true if the parts of a message have these texts. Parts of calls alone, and blocks, have none.
    pub(super) fn has_texts(&self, texts: &[Json<'_>]) -> bool {
        let own = self.texts();
        let texts: Vec<_> = texts.iter().filter(|text| !text.is_str("")).collect();
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
pub(super) fn parse_stored(content: &Json<'_>) -> Option<StoredBlocks> {
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
