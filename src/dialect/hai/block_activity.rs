//! Output blocks other than text and thinking, which are activities in canonical AG-UI (`translation.md` §3).
//!
//! ```text
//! content {blockId, delta: {output: {type: T, data}}} of message M ⇄ snapshot M:block:n hai.T data
//! ```
//! `n` counts the blocks of `M`, because stored content (seed §4.1) has no block ids. A block with the id of an earlier one
//! has the number of that, unless one of them is the end of a fold, or the start of the next fold. A block other than a plain `{type, data: {…}}`
//! becomes content with all its members, as recorded in a note. A block stays a block if its type is the last part of
//! another activity's type.

use super::blocks::{BlockText, DELTA, DeltaContent, TextPlace, carry_members, parse_delta, take_text};
use super::collaboration::id_text;
use super::joined_blocks::{parse_joined_blocks, parse_unusual_block};
use super::members::block;
use crate::codec::json;
use crate::dialect::carry;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, find_member, get};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Marks content that is a whole block without its type.
pub(super) const WHOLE_BLOCK: &str = "$block";

/// The position of a fold's second block.
const FOLD_END: &str = "end";

/// The numbers of the blocks of each message.
#[derive(Debug, Default)]
pub(super) struct BlockNumbers(HashMap<Box<str>, MessageBlocks>);

#[derive(Debug, Default)]
struct MessageBlocks {
    count: u32,
    /// the first block with each id, by a hash: the ids may be long
    named: HashMap<u64, u32>,
    /// the pairs of folds with each id, by a hash
    folds: HashMap<u64, FoldPairs>,
}

/// Counts the pairs of blocks that enclose folded content under one id: a start behind an end begins the next.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct FoldPairs {
    count: u32,
    is_ended: bool,
}

pub(super) struct OutputBlock<'a> {
    pub(crate) kind: Json<'a>,
    pub(crate) members: Members<'a>,
    /// other members of the delta
    pub(crate) delta_members: Members<'a>,
}

pub(super) struct BlockActivity {
    pub(crate) id: Json<'static>,
    pub(crate) activity_type: Json<'static>,
    pub(crate) content: Json<'static>,
    pub(crate) is_whole_block: bool,
    pub(crate) replaces_earlier: bool,
    id_hash: Option<u64>,
    fold: Option<(u64, FoldPairs)>,
}

/// Returns true if the content must be carried as a whole.
pub(super) fn is_opaque_content(members: &Members<'_>) -> bool {
    let delta = get(members, Field::Delta);
    match parse_delta(delta) {
        DeltaContent::Plain => delta.is_none_or(|delta| match delta.json_type() {
            JsonType::Object => parse_unusual_block(delta).is_none(),
            JsonType::Array => parse_joined_blocks(delta).is_none(),
            _ => false,
        }),
        DeltaContent::Block { kind, mut output, .. } => {
            match take_text(&kind, &mut output) {
                // Where there is no thinking that it ends.
                BlockText::Thinking { place: TextPlace::Missing(_), .. } => true,
                BlockText::Unreadable => delta.is_none_or(|delta| parse_unusual_block(delta).is_none()),
                BlockText::None | BlockText::Text { .. } | BlockText::Thinking { .. } => false,
            }
        }
    }
}

impl BlockNumbers {
    /// Converts a block of `message`; `own` holds the event's other members.
    pub(crate) fn to_activity(
        &self,
        message: &Json<'_>,
        one: &OutputBlock<'_>,
        own: &Members<'_>,
        dialect: &str,
    ) -> BlockActivity {
        let blocks = self.0.get(&id_text(message));
        let fold = block_id(own).filter(|_| one.kind.is_str(block::FOLD)).map(|id| {
            let fold = stable_hash(&id.unquoted());
            let pairs = blocks.and_then(|blocks| blocks.folds.get(&fold)).copied().unwrap_or_default();
            (fold, pairs.with(is_fold_end(one)))
        });
        // Both ends of a fold may have the same id, and enclose the text between.
        let id_hash = block_id(own).map(|id| stable_hash(&(id.unquoted(), fold.map(|(_, pairs)| pairs))));
        let earlier = blocks.zip(id_hash).and_then(|(blocks, id_hash)| blocks.named.get(&id_hash).copied());
        let number = earlier.unwrap_or_else(|| blocks.map_or(0, |blocks| blocks.count).saturating_add(1));
        let plain = match &one.members[..] {
            [(key, data)] if carry::is_named(key, block::DATA) && data.json_type() == JsonType::Object => Some(data),
            _ => None,
        };
        BlockActivity {
            id: message.with_suffix(&format!(":block:{number}")),
            activity_type: Json::from_trusted(format!("\"{}.{}\"", dialect, one.kind.unquoted())),
            content: plain.map_or_else(|| json::to_object(&one.members), |data| data.clone().into_owned()),
            is_whole_block: plain.is_none(),
            replaces_earlier: earlier.is_some(),
            id_hash,
            fold,
        }
    }

    pub(crate) fn count_block(&mut self, message: &Json<'_>, activity: &BlockActivity) {
        let blocks = self.0.entry(id_text(message)).or_default();
        blocks.count = blocks.count.saturating_add(1);
        blocks.folds.extend(activity.fold);
        if let Some(id_hash) = activity.id_hash.filter(|_| !activity.replaces_earlier) {
            blocks.named.insert(id_hash, blocks.count);
        }
    }

    /// Converts a block, and adds the carried members to `own`.
    pub(crate) fn read(
        &mut self,
        message: Json<'static>,
        one: OutputBlock<'_>,
        own: &mut Members<'_>,
        dialect: &str,
    ) -> BlockActivity {
        let activity = self.to_activity(&message, &one, own, dialect);
        self.count_block(&message, &activity);
        carry_members(own, &[block::LAYOUT], &one.delta_members, DELTA);
        own.push((MemberKey::Known(Field::MessageId), message));
        if activity.is_whole_block {
            carry::add_note(own, WHOLE_BLOCK);
        }
        activity
    }
}

impl FoldPairs {
    fn with(self, is_end: bool) -> Self {
        let is_next = self.is_ended && !is_end;
        FoldPairs { count: self.count.saturating_add(u32::from(is_next)), is_ended: is_end }
    }
}

impl BlockActivity {
    pub(crate) fn into_event<'a>(self, mut event: Event<'a>, own: Members<'_>, dialect: &str) -> Event<'a> {
        event.kind = EventType::ActivitySnapshot;
        event.set(Field::MessageId, self.id);
        event.set(Field::ActivityType, self.activity_type);
        event.set(Field::Content, self.content);
        carry::pack(&mut event, dialect, own);
        event
    }
}

/// Returns the same for the same value in every process.
fn stable_hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns true for the second of the two blocks that enclose folded content (seed §4.2, build_fold_output).
fn is_fold_end(one: &OutputBlock<'_>) -> bool {
    one.kind.is_str(block::FOLD)
        && find_member(&one.members, block::DATA)
            .and_then(|data| json::parse_member(data, block::POSITION))
            .is_some_and(|position| position.is_str(FOLD_END))
}

/// Returns the block id if it is a nonempty string or a number.
fn block_id<'m, 'a>(own: &'m Members<'a>) -> Option<&'m Json<'a>> {
    let id = find_member(own, block::BLOCK_ID)?;
    matches!(id.json_type(), JsonType::String | JsonType::Number).then_some(id).filter(|id| !id.is_str(""))
}
