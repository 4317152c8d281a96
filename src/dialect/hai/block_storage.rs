//! Content as a client of output blocks stores it: concatenated blocks, `{…}{…}` (seed §4.1, where the client joins all
//! deltas of a message and parses the result). Requests and snapshots contain this form.
//!
//! Text blocks become the message's content, thinking becomes reasoning messages, and every other block becomes an
//! activity message. Their ids match the stream's where the content determines them (block ids are not stored). Blocks
//! with more than text are carried whole, and restored if the message is unchanged.

use super::block_activity::{BlockCounts, OutputBlock, is_activity_block};
use super::blocks::{BLOCKS_NOTE, DeltaContent, parse_delta};
use super::members::block;
use super::user_content;
use crate::codec::json;
use crate::dialect::carry;
use crate::dialect::message_adapter::SurroundingMessages;
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, REASONING, USER};
use crate::event::{Field, IdMap, Json, JsonType, MemberKey, Members, find_member, get, get_owned, set};
use std::borrow::Cow;

struct StoredBlocks {
    text: Json<'static>,
    /// the other blocks; true if the block comes after the start of the text
    non_text: Vec<(NonTextBlock, bool)>,
    is_plain: bool,
}

enum NonTextBlock {
    /// text with its escapes
    Thinking(String),
    Block(OutputBlock<'static>),
}

/// Replaces stored blocks with their text, and returns the other blocks as messages.
pub(super) fn read(canonical: &mut Members<'_>, own: &mut Members<'_>, dialect: &str) -> SurroundingMessages {
    let mut surrounding = SurroundingMessages::default();
    let role = get(canonical, Field::Role);
    if role.is_some_and(|role| role.is_str(USER)) {
        user_content::read(canonical, own);
        return surrounding;
    }
    if !role.is_some_and(|role| role.is_str(ASSISTANT)) {
        return surrounding;
    }
    let Some(content) = get(canonical, Field::Content).cloned() else {
        return surrounding;
    };
    let Some(StoredBlocks { text, non_text: around, is_plain: plain }) = parse_blocks(&content) else {
        return surrounding;
    };
    set(canonical, MemberKey::Known(Field::Content), text);
    // Content that was not a string must also be restored.
    if !plain || find_member(own, carry::AS_JSON_NOTE).is_some() {
        own.push((carry::extension_key(BLOCKS_NOTE), content.into_owned()));
    }
    let id = get_owned(canonical, Field::Id).unwrap_or(Json::EMPTY_STRING);
    let mut spans = 0;
    let mut blocks = BlockCounts::default();
    for (one, behind) in around {
        let message = match one {
            NonTextBlock::Thinking(text) => {
                spans += 1;
                let own_members = vec![(MemberKey::Known(Field::MessageId), id.clone())];
                vec![
                    (MemberKey::Known(Field::Id), id.with_suffix(&format!(":reasoning:{spans}"))),
                    (MemberKey::Known(Field::Role), Json::string(REASONING)),
                    (MemberKey::Known(Field::Content), Json::from_trusted(format!("\"{text}\""))),
                    (MemberKey::Known(Field::Metadata), carry::merge(None, dialect, own_members)),
                ]
            }
            NonTextBlock::Block(one) => {
                let mut own_members = Members::new();
                let shown = blocks.read(id.clone(), one, &mut own_members, dialect);
                vec![
                    (MemberKey::Known(Field::Id), shown.id),
                    (MemberKey::Known(Field::Role), Json::string(ACTIVITY)),
                    (MemberKey::Known(Field::ActivityType), shown.activity_type),
                    (MemberKey::Known(Field::Content), shown.content),
                    (MemberKey::Known(Field::Metadata), carry::merge(None, dialect, own_members)),
                ]
            }
        };
        match behind {
            true => surrounding.after.push(message),
            false => surrounding.before.push(message),
        }
    }
    surrounding
}

/// Removes reasoning and activities that an unchanged message already contains as blocks.
pub(super) fn remove_repeated(messages: &mut Vec<MessageMembers<'_>>, dialect: &str) {
    let intact = messages.iter().filter(|message| stored_blocks(message, dialect).is_some());
    let intact: IdMap<()> = intact.filter_map(|message| Some((get_owned(message, Field::Id)?, ()))).collect();
    if intact.is_empty() {
        return;
    }
    messages.retain(|message| {
        let is_shown = get(message, Field::Role).is_some_and(|role| role.is_str(REASONING) || role.is_str(ACTIVITY));
        let carried = if is_shown { carried_members(message, dialect) } else { None };
        let origin = carried.as_ref().and_then(|carried| get(carried, Field::MessageId));
        !origin.is_some_and(|origin| intact.contains(origin))
    });
}

fn stored_blocks(message: &MessageMembers<'_>, dialect: &str) -> Option<Json<'static>> {
    let stored = carry::take(&mut carried_members(message, dialect)?, BLOCKS_NOTE)?;
    let content = get(message, Field::Content)?;
    parse_blocks(&stored)?.text.is_same(content).then_some(stored)
}

fn carried_members(message: &MessageMembers<'_>, dialect: &str) -> Option<Members<'static>> {
    json::parse_owned_members(&json::parse_member(get(message, Field::Metadata)?, dialect)?)
}

/// Restores the stored form; `own` holds the carried members.
pub(super) fn write(outgoing: &mut Members<'_>, own: &mut Members<'_>, canonical: &mut Members<'_>, blocks: bool) {
    let stored = carry::take(own, BLOCKS_NOTE);
    let role = get(outgoing, Field::Role);
    if role.is_some_and(|role| role.is_str(USER)) {
        return user_content::write(outgoing, stored.map(Json::into_owned), canonical);
    }
    if !role.is_some_and(|role| role.is_str(ASSISTANT)) {
        return;
    }
    let Some(content) =
        get(outgoing, Field::Content).filter(|content| content.json_type() == JsonType::String).cloned()
    else {
        return;
    };
    let intact = stored.filter(|stored| parse_blocks(stored).is_some_and(|whole| whole.text.is_same(&content)));
    match intact {
        Some(stored) => set(outgoing, MemberKey::Known(Field::Content), stored.into_owned()),
        None if blocks && !content.is_str("") => {
            let output = json::build_object(|object| {
                object.string_member(json::TYPE, block::TEXT);
                object.member(block::CONTENT, content.as_str());
            });
            let whole = json::build_object(|object| object.member(block::OUTPUT, output.as_str()));
            set(outgoing, MemberKey::Known(Field::Content), Json::string(whole.as_str()));
        }
        // Reading would mistake this text for stored blocks.
        None if parse_blocks(&content).is_some() => {
            canonical.push((MemberKey::Known(Field::Content), content.into_owned()));
        }
        None => {}
    }
}

/// Returns `None` unless the content consists only of blocks.
fn parse_blocks(content: &Json<'_>) -> Option<StoredBlocks> {
    let whole = content.text().filter(|text| text.starts_with('{'))?;
    let mut text = String::from("\"");
    let mut stored = StoredBlocks { text: Json::NULL, non_text: Vec::new(), is_plain: true };
    let mut has_text = false;
    let mut thinks = false;
    for value in json::parse_sequence(&whole)? {
        let DeltaContent::Block { kind, mut output, rest } = parse_delta(Some(&value)) else {
            return None;
        };
        if kind.json_type() != JsonType::String {
            return None;
        }
        if kind.is_str(block::TEXT)
            && let Some(piece) = take_string(&mut output, block::CONTENT)
        {
            stored.is_plain &= rest.is_empty() && output.is_empty();
            text.push_str(piece.unquoted());
            (has_text, thinks) = (true, false);
        } else if kind.is_str(block::THINKING)
            && let Some(data) = carry::take(&mut output, block::DATA)
            && let Some(piece) = json::parse_members(&data)
                .and_then(|mut data| take_string(&mut data, block::CONTENT).map(Json::into_owned))
        {
            stored.is_plain = false;
            match stored.non_text.last_mut().filter(|_| thinks) {
                Some((NonTextBlock::Thinking(all), _)) => all.push_str(piece.unquoted()),
                _ => stored.non_text.push((NonTextBlock::Thinking(piece.unquoted().to_owned()), has_text)),
            }
            thinks = true;
        } else {
            if is_activity_block(&kind) {
                let members = crate::event::into_owned_members(output);
                let delta_members = crate::event::into_owned_members(rest);
                stored
                    .non_text
                    .push((NonTextBlock::Block(OutputBlock { kind: kind.into_owned(), members, delta_members }), true));
            }
            // In a stream, too, the text starts before such a block.
            (stored.is_plain, thinks, has_text) = (false, false, true);
        }
    }
    text.push('"');
    stored.text = Json::from_trusted(Cow::Owned(text));
    Some(stored)
}

fn take_string<'a>(members: &mut Members<'a>, name: &str) -> Option<Json<'a>> {
    let at =
        members.iter().position(|(key, value)| carry::is_named(key, name) && value.json_type() == JsonType::String)?;
    Some(members.remove(at).1)
}
