//! Content as a client of output blocks stores it: the blocks one behind the other, `{…}{…}` (seed §4.1, where the client
//! joins every delta of a message and takes the sum apart again). It comes back in requests and in snapshots.
//!
//! Text blocks are the message's content; thinking becomes reasoning messages, and every other block an activity message, with
//! the ids that the stream gives them as far as content tells (the id of a block is said beside it, and not stored). When the
//! blocks say more than text, they are carried whole, and written again while the message still says the same.

use super::carry;
use super::text::{Block, Blocks, Delta, delta, takes};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Dialect, block};
use crate::event::input::{ACTIVITY, Message, REASONING};
use crate::event::{Field, Json, Key, Members, Type, get, set};
use std::borrow::Cow;

/// Note: the content as it was stored.
const BLOCKS: &str = "$blocks";

/// Stored content, taken apart.
struct Stored {
    /// all text blocks, joined
    text: Json<'static>,
    /// what stands around it, and whether it stands behind the start of the text
    around: Vec<(Around, bool)>,
    /// whether there is nothing but text
    plain: bool,
}

/// What is no text.
enum Around {
    Thinking(Json<'static>),
    Block(Block<'static>),
}

/// Takes the content of a message apart, if it is stored blocks: changes the message, and gives what stands before
/// and after it.
pub(super) fn read(
    canonical: &mut Members<'_>,
    own: &mut Members<'_>,
    dialect: &Dialect,
) -> (Vec<Message<'static>>, Vec<Message<'static>>) {
    let none = (Vec::new(), Vec::new());
    if !get(canonical, Field::Role).is_some_and(|role| role.is(ASSISTANT)) {
        return none;
    }
    let Some(content) = get(canonical, Field::Content).cloned() else {
        return none;
    };
    let Some(Stored { text, around, plain }) = split(&content) else {
        return none;
    };
    set(canonical, Key::Known(Field::Content), text);
    // What was no text has to be written as what it was, too.
    if !plain || own.iter().any(|(key, _)| carry::is_named(key, carry::AS_JSON)) {
        own.push((carry::own(BLOCKS), content.into_owned()));
    }
    let id = get(canonical, Field::Id).cloned().map_or_else(|| Json::string(""), Json::into_owned);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let (mut spans, mut blocks) = (0, Blocks::default());
    for (one, behind) in around {
        let message = match one {
            Around::Thinking(text) => {
                spans += 1;
                let home = vec![(Key::Known(Field::MessageId), id.clone())];
                vec![
                    (Key::Known(Field::Id), id.followed_by(&format!(":reasoning:{spans}"))),
                    (Key::Known(Field::Role), Json::string(REASONING)),
                    (Key::Known(Field::Content), text),
                    (Key::Known(Field::Metadata), carry::merge(None, dialect.name, home)),
                ]
            }
            Around::Block(one) => {
                let mut home = Members::new();
                let shown = blocks.read(id.clone(), one, &mut home, dialect);
                vec![
                    (Key::Known(Field::Id), shown.id),
                    (Key::Known(Field::Role), Json::string(ACTIVITY)),
                    (Key::Known(Field::ActivityType), shown.activity_type),
                    (Key::Known(Field::Content), shown.content),
                    (Key::Known(Field::Metadata), carry::merge(None, dialect.name, home)),
                ]
            }
        };
        if behind { after.push(message) } else { before.push(message) }
    }
    (before, after)
}

/// The messages whose stored blocks still say what the message says: their reasoning and activities are in there.
pub(super) fn intact(messages: &[Message<'_>], dialect: &str) -> Vec<Json<'static>> {
    messages
        .iter()
        .filter(|message| stored_of(message, dialect).is_some())
        .filter_map(|message| get(message, Field::Id).cloned().map(Json::into_owned))
        .collect()
}

/// Whether this is reasoning or an activity that one of `intact` holds.
pub(super) fn is_held(message: &Message<'_>, dialect: &str, intact: &[Json<'static>]) -> bool {
    let shown = get(message, Field::Role).is_some_and(|role| role.is(REASONING) || role.is(ACTIVITY));
    if intact.is_empty() || !shown {
        return false;
    }
    let own = own_of(message, dialect);
    own.and_then(|own| get(&own, Field::MessageId).cloned())
        .is_some_and(|home| intact.iter().any(|message| message.same(&home)))
}

/// The stored blocks of a message, if they still say what it says.
fn stored_of(message: &Message<'_>, dialect: &str) -> Option<Json<'static>> {
    let stored = carry::take(&mut own_of(message, dialect)?, BLOCKS)?;
    let content = get(message, Field::Content)?;
    split(&stored)?.text.same(content).then_some(stored)
}

fn own_of(message: &Message<'_>, dialect: &str) -> Option<Members<'static>> {
    let metadata = json::members(get(message, Field::Metadata)?).map(crate::event::owned)?;
    let (_, own) = metadata.into_iter().find(|(key, _)| carry::is_named(key, dialect))?;
    json::members(&own).map(crate::event::owned)
}

/// Whether content was stored blocks, and more than text.
pub(super) fn is_noted(own: &Members<'_>) -> bool {
    own.iter().any(|(key, _)| carry::is_named(key, BLOCKS))
}

/// Puts the content of a message into the form in which it is stored over there. `own` is what was carried for it.
pub(super) fn write(said: &mut Members<'_>, own: &mut Members<'_>, canonical: &mut Members<'_>, blocks: bool) {
    let stored = carry::take(own, BLOCKS);
    if !get(said, Field::Role).is_some_and(|role| role.is(ASSISTANT)) {
        return;
    }
    let Some(content) = get(said, Field::Content).filter(|content| content.shape() == Type::String).cloned() else {
        return;
    };
    let intact = stored.filter(|stored| split(stored).is_some_and(|whole| whole.text.same(&content)));
    match intact {
        Some(stored) => set(said, Key::Known(Field::Content), stored.into_owned()),
        None if blocks && !content.is("") => {
            let output = json::build(|object| {
                object.word(json::TYPE, block::TEXT);
                object.member(block::CONTENT, content.as_str());
            });
            let whole = json::build(|object| object.member(block::OUTPUT, output.as_str()));
            set(said, Key::Known(Field::Content), Json::string(whole.as_str()));
        }
        // A text that looks like stored blocks must not be taken for them on the way back.
        None if split(&content).is_some() => canonical.push((Key::Known(Field::Content), content.into_owned())),
        None => {}
    }
}

/// Takes stored content apart. `None` when it is anything else than blocks from end to end.
fn split(content: &Json<'_>) -> Option<Stored> {
    let whole = content.text().filter(|text| text.starts_with('{'))?;
    let mut text = String::from("\"");
    let mut stored = Stored { text: Json::NULL, around: Vec::new(), plain: true };
    let (mut said_text, mut thinks) = (false, false);
    for value in json::sequence(&whole)? {
        let Delta::Block { kind, mut output, rest } = delta(Some(&value)) else {
            return None;
        };
        if kind.shape() != Type::String {
            return None;
        }
        if kind.is(block::TEXT)
            && let Some(piece) = string(&mut output, block::CONTENT)
        {
            stored.plain &= rest.is_empty() && output.is_empty();
            text.push_str(&piece.as_str()[1..piece.as_str().len() - 1]);
            (said_text, thinks) = (true, false);
        } else if kind.is(block::THINKING)
            && let Some(data) = carry::take(&mut output, block::DATA)
            && let Some(piece) =
                json::members(&data).and_then(|mut data| string(&mut data, block::CONTENT).map(Json::into_owned))
        {
            stored.plain = false;
            match stored.around.last_mut().filter(|_| thinks) {
                Some((Around::Thinking(all), _)) => {
                    *all = all.followed_by(&piece.as_str()[1..piece.as_str().len() - 1]);
                }
                _ => stored.around.push((Around::Thinking(piece), said_text)),
            }
            thinks = true;
        } else {
            if takes(&kind) {
                let (output, rest) = (crate::event::owned(output), crate::event::owned(rest));
                stored.around.push((Around::Block(Block { kind: kind.into_owned(), output, rest }), true));
            }
            // On the stream, too, the text starts before such a block.
            (stored.plain, thinks, said_text) = (false, false, true);
        }
    }
    text.push('"');
    stored.text = Json::trusted(Cow::Owned(text));
    Some(stored)
}

fn string<'a>(members: &mut Members<'a>, name: &str) -> Option<Json<'a>> {
    let at = members.iter().position(|(key, value)| carry::is_named(key, name) && value.shape() == Type::String)?;
    Some(members.remove(at).1)
}
