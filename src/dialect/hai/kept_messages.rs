//! The thinking and the blocks that the client shows, for a snapshot of the agent that does not have them.
//!
//! A client of AG-UI keeps them: "absent ids dropped, except local `activity` (unless the snapshot carries any activity)
//! and `reasoning` (unless it carries any reasoning)" (`specs/ag-ui-1.0.md` §3.4). A HAI client has no such rule, so
//! they are added to the snapshot, each before the message that it came before. A note keeps them from coming back. Those of
//! earlier runs are in the request.

use super::part_calls;
use crate::codec::json;
use crate::dialect::earlier_messages::{EarlierContent, EarlierMessages};
use crate::dialect::{carry, memory_limits};
use crate::event::input::{ACTIVITY, MessageMembers, REASONING, USER, has_role};
use crate::event::{Event, EventLoss, Field, IdMap, Json, MemberKey, Members, get, message_id};
use std::collections::BTreeMap;

/// Marks a message that the agent's snapshot did not have.
const KEPT_NOTE: &str = "$kept";

/// Maximum bytes of all that a run keeps here, above which it keeps no more thinking.
pub(super) const TEXTS_LIMIT: usize = memory_limits::MIN_BUFFER_LIMIT;

/// Maximum number of snapshots to which a message is added. Without it, the output would grow with the square of a run's
/// length.
const MAX_SNAPSHOTS: u32 = 16;

/// Cost of a message besides its id and its text.
const ENTRY_COST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct KeptMessages {
    messages: IdMap<KeptMessage>,
    /// thinking and blocks of earlier runs, in their order
    earlier: Vec<KeptEarlierMessage>,
    /// the places of the messages of earlier runs, by the client's id
    earlier_places: IdMap<usize>,
    /// the messages that no other has followed yet
    unplaced: Vec<Json<'static>>,
    bytes: usize,
    losses: Vec<EventLoss>,
}

#[derive(Debug)]
struct KeptMessage {
    content: KeptContent,
    /// another id of the client's message, because one of an earlier run has its own
    other_id: Option<Json<'static>>,
    /// the message that followed it
    next: Option<Json<'static>>,
    /// number of snapshots that lacked it
    snapshots: u32,
}

#[derive(Debug)]
enum KeptContent {
    /// text with its escapes; `None` if it is over the limit
    Reasoning(Option<String>),
    /// an activity of this type, whose content [`ShownActivities`](super::shown_activities::ShownActivities) has
    Activity(Json<'static>),
}

#[derive(Debug)]
struct KeptEarlierMessage {
    /// the client's id
    id: Json<'static>,
    /// its place among the messages of earlier runs
    place: usize,
    /// `None` if it is over the limit
    content: Option<EarlierContent>,
    is_activity: bool,
    /// number of snapshots that lacked it
    snapshots: u32,
}

/// A message that is added to a snapshot, before the one with this index.
struct PlacedMessage {
    index: usize,
    message: Json<'static>,
}

impl KeptMessages {
    /// Records the messages of earlier runs. The limit leaves out the oldest.
    pub(crate) fn record_earlier(&mut self, messages: EarlierMessages) {
        let mut left = TEXTS_LIMIT;
        let places = messages.messages.iter().enumerate().map(|(place, message)| (message.id.clone(), place));
        self.earlier_places = places.collect();
        for (place, message) in messages.messages.into_iter().enumerate().rev() {
            let is_activity = matches!(message.content, EarlierContent::Activity { .. });
            let cost = ENTRY_COST + message.id.as_str().len() + message.content.text_len();
            let content = left.checked_sub(cost).map(|rest| {
                left = rest;
                message.content
            });
            if !matches!(content, Some(EarlierContent::Other)) {
                self.earlier.push(KeptEarlierMessage { id: message.id, place, content, is_activity, snapshots: 0 });
            }
        }
        self.earlier.reverse();
    }

    /// Forgets earlier runs, if the agent speaks the dialect: its snapshots have all that the client shows.
    pub(crate) fn forget_earlier(&mut self) {
        self.earlier = Vec::new();
    }

    /// Records a thought, and the client's message for it.
    pub(crate) fn record_thought(&mut self, id: &Json<'static>, message: &Json<'static>) {
        self.add(id, message, || KeptContent::Reasoning(Some(String::new())));
    }

    /// Adds to a thought. A piece of one that was forgotten is not kept: it would be shown as the whole thought.
    pub(crate) fn append_text(&mut self, id: &Json<'static>, piece: &Json<'_>) {
        let Some(KeptMessage { content: KeptContent::Reasoning(text), .. }) = self.messages.get_mut(id) else { return };
        let piece = piece.unquoted();
        if self.bytes + piece.len() > TEXTS_LIMIT {
            self.bytes -= text.take().map_or(0, |text| text.len());
        } else if let Some(text) = text {
            text.push_str(piece);
            self.bytes += piece.len();
        }
    }

    /// Records an activity, and the client's message for it.
    pub(crate) fn record_activity(&mut self, event: &Event<'_>, message: &Json<'static>) {
        let kind = event.get_or_empty(Field::ActivityType);
        self.add(&message_id(&event.members), message, || KeptContent::Activity(kind));
    }

    /// Records the place of the messages before this one.
    pub(crate) fn record_message(&mut self, id: &Json<'_>) {
        for before in std::mem::take(&mut self.unplaced) {
            if let Some(kept) = self.messages.get_mut(&before) {
                kept.next = Some(id.clone().into_owned());
            }
        }
    }

    /// Adds what the client shows to a snapshot that lacks it, as a client of AG-UI does. `content_of` returns the
    /// content of an activity, unless it is over a limit.
    pub(crate) fn complete(
        &mut self,
        snapshot: &mut Event<'_>,
        dialect: &str,
        content_of: impl Fn(&Json<'_>) -> Option<Json<'static>>,
    ) {
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        let messages: Vec<_> = list.iter().map(|message| json::parse_message(message).unwrap_or_default()).collect();
        self.forget_replaced(&messages);
        let added = self.missing_messages(&messages, dialect, content_of);
        if !added.is_empty() {
            let complete = insert_placed(&list, added);
            snapshot.set(Field::Messages, json::to_array(&complete));
        }
    }

    /// Forgets what a client of AG-UI drops with this snapshot.
    fn forget_replaced(&mut self, messages: &[MessageMembers<'_>]) {
        // "`[]` clears the conversation"
        let replaces = |role: &str| messages.is_empty() || messages.iter().any(|message| has_role(message, role));
        let replaces_reasoning = replaces(REASONING);
        let replaces_activities = replaces(ACTIVITY);
        self.forget_if(|kept| match kept.content {
            KeptContent::Reasoning(_) => replaces_reasoning,
            KeptContent::Activity(_) => replaces_activities,
        });
        self.earlier.retain(|kept| if kept.is_activity { !replaces_activities } else { !replaces_reasoning });
    }

    /// Returns the messages that a snapshot lacks, in the order of their places. Forgets those that it does not get.
    fn missing_messages(
        &mut self,
        messages: &[MessageMembers<'_>],
        dialect: &str,
        content_of: impl Fn(&Json<'_>) -> Option<Json<'static>>,
    ) -> Vec<PlacedMessage> {
        if self.messages.is_empty() && self.earlier.is_empty() {
            return Vec::new();
        }
        let indices: IdMap<usize> = messages
            .iter()
            .enumerate()
            .filter_map(|(index, message)| Some((get(message, Field::Id)?.clone().into_owned(), index)))
            .collect();
        let after_user = messages.iter().rposition(|message| has_role(message, USER)).map_or(0, |user| user + 1);
        let missing: Vec<_> =
            self.messages.iter().map(|(id, _)| id).filter(|id| !indices.contains(id)).cloned().collect();
        let mut added = self.missing_earlier(&indices, messages.len(), dialect);
        for id in missing {
            let Some(kept) = self.messages.get_mut(&id) else { continue };
            kept.snapshots += 1;
            let content = if kept.snapshots > MAX_SNAPSHOTS { None } else { kept.content(&id, &content_of) };
            let Some(content) = content else {
                self.lose(&id);
                continue;
            };
            if content.is_str("") {
                continue;
            }
            let index = match &kept.next {
                Some(next) => indices.get(next).copied().unwrap_or(after_user),
                None => messages.len(),
            };
            added.push(PlacedMessage { index, message: kept.to_message(&id, content, dialect) });
        }
        // Stable: what has the same place stays in order.
        added.sort_by_key(|placed| placed.index);
        added
    }

    /// Returns the messages of earlier runs that a snapshot lacks, each before the first one that the snapshot has of those
    /// behind it.
    fn missing_earlier(&mut self, indices: &IdMap<usize>, end: usize, dialect: &str) -> Vec<PlacedMessage> {
        if self.earlier.is_empty() {
            return Vec::new();
        }
        let found = indices.iter().filter_map(|(id, index)| Some((*self.earlier_places.get(id)?, *index)));
        let found: BTreeMap<usize, usize> = found.collect();
        let losses = &mut self.losses;
        let mut added = Vec::new();
        self.earlier.retain_mut(|kept| {
            if indices.contains(&kept.id) {
                return true;
            }
            kept.snapshots += 1;
            let message = kept.content.as_ref().filter(|_| kept.snapshots <= MAX_SNAPSHOTS);
            let Some(message) = message.and_then(|content| earlier_to_message(&kept.id, content, dialect)) else {
                losses.push(if kept.is_activity { EventLoss::ActivityNotShown } else { EventLoss::ReasoningNotShown });
                return false;
            };
            let index = found.range(kept.place..).next().map_or(end, |(_, index)| *index);
            added.push(PlacedMessage { index, message });
            true
        });
        added
    }

    /// Returns what the client no longer shows, since the last call.
    pub(crate) fn take_losses(&mut self) -> Vec<EventLoss> {
        std::mem::take(&mut self.losses)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, id: &Json<'static>, message: &Json<'static>, content: impl FnOnce() -> KeptContent) {
        if self.messages.contains(id) {
            return;
        }
        self.bytes += ENTRY_COST + id.as_str().len();
        let other_id = self.earlier_places.contains(id).then(|| message.clone());
        self.messages.insert(id.clone(), KeptMessage { content: content(), other_id, next: None, snapshots: 0 });
        self.unplaced.push(id.clone());
    }

    /// Forgets a message, and counts it unless it is empty.
    fn lose(&mut self, id: &Json<'static>) {
        let Some(kept) = self.forget(id) else { return };
        match kept.content {
            KeptContent::Reasoning(Some(text)) if text.is_empty() => {}
            KeptContent::Reasoning(_) => self.losses.push(EventLoss::ReasoningNotShown),
            KeptContent::Activity(_) => self.losses.push(EventLoss::ActivityNotShown),
        }
    }

    fn forget_if(&mut self, is_forgotten: impl Fn(&KeptMessage) -> bool) {
        let ids: Vec<_> =
            self.messages.iter().filter(|(_, kept)| is_forgotten(kept)).map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| drop(self.forget(id)));
    }

    fn forget(&mut self, id: &Json<'static>) -> Option<KeptMessage> {
        let kept = self.messages.remove(id)?;
        let text = match &kept.content {
            KeptContent::Reasoning(text) => text.as_ref().map_or(0, String::len),
            KeptContent::Activity(_) => 0,
        };
        self.bytes -= ENTRY_COST + id.as_str().len() + text;
        Some(kept)
    }
}

impl KeptMessage {
    /// Returns `None` for content over a limit.
    fn content(
        &self,
        id: &Json<'static>,
        content_of: impl Fn(&Json<'_>) -> Option<Json<'static>>,
    ) -> Option<Json<'static>> {
        match &self.content {
            KeptContent::Reasoning(text) => text.as_ref().map(|text| Json::from_trusted(format!("\"{text}\""))),
            KeptContent::Activity(_) => content_of(id),
        }
    }

    fn to_message(&self, id: &Json<'static>, content: Json<'static>, dialect: &str) -> Json<'static> {
        let activity_type = match &self.content {
            KeptContent::Reasoning(_) => None,
            KeptContent::Activity(kind) => Some(kind),
        };
        build_message(self.other_id.as_ref().unwrap_or(id), activity_type, content, dialect)
    }
}

fn earlier_to_message(id: &Json<'static>, content: &EarlierContent, dialect: &str) -> Option<Json<'static>> {
    match content {
        EarlierContent::Reasoning { text } => Some(build_message(id, None, text.clone(), dialect)),
        EarlierContent::Activity { activity_type, content } => {
            Some(build_message(id, Some(activity_type), content.clone(), dialect))
        }
        EarlierContent::Other => None,
    }
}

/// Builds a message of an activity, or of reasoning, with the note.
fn build_message(
    id: &Json<'static>,
    activity_type: Option<&Json<'static>>,
    content: Json<'static>,
    dialect: &str,
) -> Json<'static> {
    let mut note = Members::new();
    carry::add_note(&mut note, KEPT_NOTE);
    let role = if activity_type.is_some() { ACTIVITY } else { REASONING };
    let mut message = vec![(MemberKey::Known(Field::Id), id.clone())];
    message.push((MemberKey::Known(Field::Role), Json::string(role)));
    message.extend(activity_type.map(|kind| (MemberKey::Known(Field::ActivityType), kind.clone())));
    message.push((MemberKey::Known(Field::Content), content));
    message.push((MemberKey::Known(Field::Metadata), carry::merge(None, dialect, note)));
    json::to_object(&message)
}

fn insert_placed(list: &[Json<'_>], added: Vec<PlacedMessage>) -> Vec<Json<'static>> {
    let mut added = added.into_iter().peekable();
    let mut complete = Vec::with_capacity(list.len() + added.len());
    for (index, message) in list.iter().enumerate() {
        while let Some(placed) = added.next_if(|placed| placed.index <= index) {
            complete.push(placed.message);
        }
        complete.push(message.clone().into_owned());
    }
    complete.extend(added.map(|placed| placed.message));
    complete
}

/// Returns true for a message that was added to a snapshot.
pub(super) fn is_kept(message: &Members<'_>, dialect: &str) -> bool {
    part_calls::carried_member(message, dialect, KEPT_NOTE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;

    fn complete_snapshot(kept: &mut KeptMessages) -> String {
        let list = Json::from_trusted(r#"[{"id":"m","role":"assistant","content":"a"}]"#);
        let mut snapshot = Event::new(EventType::MessagesSnapshot).with(Field::Messages, list);
        kept.complete(&mut snapshot, "hai", |_| None);
        snapshot.get_or_empty(Field::Messages).as_str().to_owned()
    }

    #[test]
    fn adds_a_message_to_a_limited_number_of_snapshots() {
        let mut kept = KeptMessages::default();
        let id = Json::string("r");
        kept.record_thought(&id, &id);
        kept.append_text(&id, &Json::string("a thought"));
        kept.record_thought(&Json::string("empty"), &Json::string("empty"));
        let snapshots = (0..2 * MAX_SNAPSHOTS).map(|_| complete_snapshot(&mut kept));
        assert_eq!(snapshots.filter(|list| list.contains("a thought")).count(), MAX_SNAPSHOTS as usize);
        assert_eq!(kept.take_losses(), [EventLoss::ReasoningNotShown]);
        // The client would show a later piece as the whole thought.
        kept.append_text(&id, &Json::string("its end"));
        assert!(!complete_snapshot(&mut kept).contains("its end"));
        assert_eq!(kept.retained_bytes(), 0);
    }

    #[test]
    fn counts_a_message_over_a_limit_once() {
        let mut kept = KeptMessages::default();
        let long = Json::string("r");
        kept.record_thought(&long, &long);
        kept.append_text(&long, &Json::string(&"x".repeat(TEXTS_LIMIT)));
        let activity = Event::new(EventType::ActivitySnapshot).with(Field::MessageId, Json::string("a"));
        kept.record_activity(&activity.with(Field::ActivityType, Json::string("PLAN")), &Json::string("a"));
        (0..2 * MAX_SNAPSHOTS).for_each(|_| drop(complete_snapshot(&mut kept)));
        assert_eq!(kept.take_losses(), [EventLoss::ReasoningNotShown, EventLoss::ActivityNotShown]);
    }
}
