//! Content as a client of output blocks stores it: the blocks one behind the other, `{…}{…}` (seed §4.1, where the client
//! joins every delta of a message and takes the sum apart again). It comes back in requests and in snapshots.
//!
//! Text blocks are the message's content; thinking becomes reasoning messages, and every other block an activity message, with
//! the ids that the stream gives them as far as content tells (the id of a block is said beside it, and not stored). When the
//! blocks say more than text, they are carried whole, and written again while the message still says the same.

use super::carry;
use super::output_blocks::{BlockCounts, DeltaContent, OutputBlock, is_activity_block, parse_delta};
use crate::codec::json;
use crate::dialect::{Dialect, block};
use crate::event::input::ASSISTANT;
use crate::event::input::{ACTIVITY, MessageMembers, REASONING};
use crate::event::{Field, Json, JsonType, MemberKey, Members, get, set};
use std::borrow::Cow;

/// Note: the content as it was stored.
const BLOCKS_NOTE: &str = "$blocks";

/// Stored content, taken apart.
struct StoredBlocks {
    /// all text blocks, joined
    text: Json<'static>,
    /// what stands around it, and whether it stands behind the start of the text
    non_text: Vec<(NonTextBlock, bool)>,
    /// whether there is nothing but text
    is_plain: bool,
}

/// What is no text.
enum NonTextBlock {
    Thinking(Json<'static>),
    Block(OutputBlock<'static>),
}

/// Takes the content of a message apart, if it is stored blocks: changes the message, and gives what stands before
/// and after it.
pub(super) fn read(
    canonical: &mut Members<'_>,
    own: &mut Members<'_>,
    dialect: &Dialect,
) -> (Vec<MessageMembers<'static>>, Vec<MessageMembers<'static>>) {
    let none = (Vec::new(), Vec::new());
    if !get(canonical, Field::Role).is_some_and(|role| role.is_str(ASSISTANT)) {
        return none;
    }
    let Some(content) = get(canonical, Field::Content).cloned() else {
        return none;
    };
    let Some(StoredBlocks { text, non_text: around, is_plain: plain }) = parse_blocks(&content) else {
        return none;
    };
    set(canonical, MemberKey::Known(Field::Content), text);
    // What was no text has to be written as what it was, too.
    if !plain || own.iter().any(|(key, _)| carry::is_named(key, carry::AS_JSON_NOTE)) {
        own.push((carry::extension_key(BLOCKS_NOTE), content.into_owned()));
    }
    let id = get(canonical, Field::Id).cloned().map_or_else(|| Json::string(""), Json::into_owned);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let (mut spans, mut blocks) = (0, BlockCounts::default());
    for (one, behind) in around {
        let message = match one {
            NonTextBlock::Thinking(text) => {
                spans += 1;
                let home = vec![(MemberKey::Known(Field::MessageId), id.clone())];
                vec![
                    (MemberKey::Known(Field::Id), id.with_suffix(&format!(":reasoning:{spans}"))),
                    (MemberKey::Known(Field::Role), Json::string(REASONING)),
                    (MemberKey::Known(Field::Content), text),
                    (MemberKey::Known(Field::Metadata), carry::merge(None, dialect.name, home)),
                ]
            }
            NonTextBlock::Block(one) => {
                let mut home = Members::new();
                let shown = blocks.read(id.clone(), one, &mut home, dialect);
                vec![
                    (MemberKey::Known(Field::Id), shown.id),
                    (MemberKey::Known(Field::Role), Json::string(ACTIVITY)),
                    (MemberKey::Known(Field::ActivityType), shown.activity_type),
                    (MemberKey::Known(Field::Content), shown.content),
                    (MemberKey::Known(Field::Metadata), carry::merge(None, dialect.name, home)),
                ]
            }
        };
        if behind { after.push(message) } else { before.push(message) }
    }
    (before, after)
}

/// The messages whose stored blocks still say what the message says: their reasoning and activities are in there.
pub(super) fn intact_message_ids(messages: &[MessageMembers<'_>], dialect: &str) -> Vec<Json<'static>> {
    messages
        .iter()
        .filter(|message| stored_blocks(message, dialect).is_some())
        .filter_map(|message| get(message, Field::Id).cloned().map(Json::into_owned))
        .collect()
}

/// Whether this is reasoning or an activity that one of `intact` holds.
pub(super) fn is_in_stored_blocks(message: &MessageMembers<'_>, dialect: &str, intact: &[Json<'static>]) -> bool {
    let shown = get(message, Field::Role).is_some_and(|role| role.is_str(REASONING) || role.is_str(ACTIVITY));
    if intact.is_empty() || !shown {
        return false;
    }
    let own = carried_members(message, dialect);
    own.and_then(|own| get(&own, Field::MessageId).cloned())
        .is_some_and(|home| intact.iter().any(|message| message.is_same(&home)))
}

/// The stored blocks of a message, if they still say what it says.
fn stored_blocks(message: &MessageMembers<'_>, dialect: &str) -> Option<Json<'static>> {
    let stored = carry::take(&mut carried_members(message, dialect)?, BLOCKS_NOTE)?;
    let content = get(message, Field::Content)?;
    parse_blocks(&stored)?.text.is_same(content).then_some(stored)
}

fn carried_members(message: &MessageMembers<'_>, dialect: &str) -> Option<Members<'static>> {
    let metadata = json::parse_members(get(message, Field::Metadata)?).map(crate::event::into_owned_members)?;
    let (_, own) = metadata.into_iter().find(|(key, _)| carry::is_named(key, dialect))?;
    json::parse_members(&own).map(crate::event::into_owned_members)
}

/// Whether content was stored blocks, and more than text.
pub(super) fn has_blocks_note(own: &Members<'_>) -> bool {
    own.iter().any(|(key, _)| carry::is_named(key, BLOCKS_NOTE))
}

/// Puts the content of a message into the form in which it is stored over there. `own` is what was carried for it.
pub(super) fn write(outgoing: &mut Members<'_>, own: &mut Members<'_>, canonical: &mut Members<'_>, blocks: bool) {
    let stored = carry::take(own, BLOCKS_NOTE);
    if !get(outgoing, Field::Role).is_some_and(|role| role.is_str(ASSISTANT)) {
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
        // A text that looks like stored blocks must not be taken for them on the way back.
        None if parse_blocks(&content).is_some() => {
            canonical.push((MemberKey::Known(Field::Content), content.into_owned()));
        }
        None => {}
    }
}

/// Takes stored content apart. `None` when it is anything else than blocks from end to end.
fn parse_blocks(content: &Json<'_>) -> Option<StoredBlocks> {
    let whole = content.text().filter(|text| text.starts_with('{'))?;
    let mut text = String::from("\"");
    let mut stored = StoredBlocks { text: Json::NULL, non_text: Vec::new(), is_plain: true };
    let (mut said_text, mut thinks) = (false, false);
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
            text.push_str(&piece.as_str()[1..piece.as_str().len() - 1]);
            (said_text, thinks) = (true, false);
        } else if kind.is_str(block::THINKING)
            && let Some(data) = carry::take(&mut output, block::DATA)
            && let Some(piece) = json::parse_members(&data)
                .and_then(|mut data| take_string(&mut data, block::CONTENT).map(Json::into_owned))
        {
            stored.is_plain = false;
            match stored.non_text.last_mut().filter(|_| thinks) {
                Some((NonTextBlock::Thinking(all), _)) => {
                    *all = all.with_suffix(&piece.as_str()[1..piece.as_str().len() - 1]);
                }
                _ => stored.non_text.push((NonTextBlock::Thinking(piece), said_text)),
            }
            thinks = true;
        } else {
            if is_activity_block(&kind) {
                let (output, rest) = (crate::event::into_owned_members(output), crate::event::into_owned_members(rest));
                stored.non_text.push((
                    NonTextBlock::Block(OutputBlock { kind: kind.into_owned(), members: output, delta_members: rest }),
                    true,
                ));
            }
            // On the stream, too, the text starts before such a block.
            (stored.is_plain, thinks, said_text) = (false, false, true);
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
