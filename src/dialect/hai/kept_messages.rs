//! The thinking and the blocks that the client shows, for a snapshot of the agent that does not have them.
//!
//! A client of AG-UI keeps them: "absent ids dropped, except local `activity` (unless the snapshot carries any activity)
//! and `reasoning` (unless it carries any reasoning)" (`specs/ag-ui-1.0.md` §3.4). A HAI client has no such rule, so
//! they are added to the snapshot, each before the message that it came before. A note keeps them from coming back.

use crate::codec::json;
use crate::dialect::{carry, memory_limits};
use crate::event::input::{ACTIVITY, MessageMembers, REASONING, USER};
use crate::event::{Event, EventLoss, Field, IdMap, Json, MemberKey, Members, find_member, get, message_id};

/// Marks a message that the agent's snapshot did not have.
const KEPT_NOTE: &str = "$kept";

/// Maximum bytes of a run's thinking that is kept.
pub(super) const TEXTS_LIMIT: usize = memory_limits::MIN_BUFFER_LIMIT;

/// Maximum number of snapshots to which a message is added. Without it, the output would grow with the square of a run's length.
const MAX_COPIES: u32 = 16;

/// Cost of a message besides its id and its text.
const ENTRY_COST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct KeptMessages {
    messages: IdMap<KeptMessage>,
    /// the messages that no other has followed yet
    unplaced: Vec<Json<'static>>,
    bytes: usize,
    losses: Vec<EventLoss>,
}

#[derive(Debug)]
struct KeptMessage {
    content: KeptContent,
    /// the message that followed it
    next: Option<Json<'static>>,
    /// number of snapshots without it
    copies: u32,
}

#[derive(Debug)]
enum KeptContent {
    /// text with its escapes; `None` if it is over the limit
    Reasoning(Option<String>),
    /// an activity of this type, whose content [`ShownActivities`](super::shown_activities::ShownActivities) has
    Activity(Json<'static>),
}

impl KeptMessages {
    pub(crate) fn record_text(&mut self, id: &Json<'static>, delta: Option<&Json<'_>>) {
        self.add(id, || KeptContent::Reasoning(Some(String::new())));
        let Some(KeptMessage { content: KeptContent::Reasoning(text), .. }) = self.messages.get_mut(id) else { return };
        let piece = delta.map_or("", |delta| delta.unquoted());
        if self.bytes + piece.len() > TEXTS_LIMIT {
            self.bytes -= text.take().map_or(0, |text| text.len());
        } else if let Some(text) = text {
            text.push_str(piece);
            self.bytes += piece.len();
        }
    }

    pub(crate) fn record_activity(&mut self, event: &Event<'_>) {
        let kind = event.get_or_empty(Field::ActivityType);
        self.add(&message_id(&event.members), || KeptContent::Activity(kind));
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
        let messages: Vec<_> = list.iter().filter_map(json::parse_message).collect();
        let has_role =
            |wanted: &str| messages.iter().any(|one| get(one, Field::Role).is_some_and(|role| role.is_str(wanted)));
        // "`[]` clears the conversation"
        let (drops_reasoning, drops_activities) =
            (messages.is_empty() || has_role(REASONING), messages.is_empty() || has_role(ACTIVITY));
        let is_dropped = |kept: &KeptMessage| match kept.content {
            KeptContent::Reasoning(_) => drops_reasoning,
            KeptContent::Activity(_) => drops_activities,
        };
        let dropped: Vec<_> =
            self.messages.iter().filter(|(_, kept)| is_dropped(kept)).map(|(id, _)| id.clone()).collect();
        dropped.iter().for_each(|id| self.forget(id));
        self.forget_often_added();
        if self.messages.is_empty() {
            return;
        }
        let places: IdMap<usize> = messages
            .iter()
            .enumerate()
            .filter_map(|(at, one)| Some((get(one, Field::Id)?.clone().into_owned(), at)))
            .collect();
        let is_user = |one: &Members<'_>| get(one, Field::Role).is_some_and(|role| role.is_str(USER));
        let after_user = messages.iter().rposition(is_user).map_or(0, |at| at + 1);
        let mut added: Vec<(usize, Json<'static>)> = Vec::new();
        let mut added_ids = Vec::new();
        for (id, kept) in self.messages.iter().filter(|(id, _)| !places.contains(id)) {
            added_ids.push(id.clone());
            if kept.is_empty() {
                continue;
            }
            let place = match &kept.next {
                Some(next) => places.get(next).copied().unwrap_or(after_user),
                None => messages.len(),
            };
            match kept.to_message(id, dialect, &content_of) {
                Ok(message) => added.push((place, json::to_object(&message))),
                Err(loss) => self.losses.push(loss),
            }
        }
        for id in added_ids {
            if let Some(kept) = self.messages.get_mut(&id) {
                kept.copies += 1;
            }
        }
        // Stable: what has the same place stays in order.
        added.sort_by_key(|(place, _)| *place);
        let mut added = added.into_iter().peekable();
        let mut complete = Vec::with_capacity(list.len());
        for (at, message) in list.iter().enumerate() {
            while let Some((_, kept)) = added.next_if(|(place, _)| *place <= at) {
                complete.push(kept);
            }
            complete.push(message.clone().into_owned());
        }
        complete.extend(added.map(|(_, kept)| kept));
        snapshot.set(Field::Messages, json::to_array(&complete));
    }

    fn forget_often_added(&mut self) {
        let forgotten = self.messages.iter().filter(|(_, kept)| kept.copies == MAX_COPIES);
        let forgotten: Vec<_> =
            forgotten.map(|(id, kept)| (id.clone(), (!kept.is_empty()).then(|| kept.loss()))).collect();
        for (id, loss) in forgotten {
            self.forget(&id);
            self.losses.extend(loss);
        }
    }

    /// Returns what the last snapshot took from the client.
    pub(crate) fn take_losses(&mut self) -> Vec<EventLoss> {
        std::mem::take(&mut self.losses)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, id: &Json<'static>, content: impl FnOnce() -> KeptContent) {
        if self.messages.contains(id) {
            return;
        }
        self.bytes += ENTRY_COST + id.as_str().len();
        self.messages.insert(id.clone(), KeptMessage { content: content(), next: None, copies: 0 });
        self.unplaced.push(id.clone());
    }

    fn forget(&mut self, id: &Json<'static>) {
        let Some(kept) = self.messages.remove(id) else { return };
        let text = match &kept.content {
            KeptContent::Reasoning(text) => text.as_ref().map_or(0, String::len),
            KeptContent::Activity(_) => 0,
        };
        self.bytes -= ENTRY_COST + id.as_str().len() + text;
    }
}

impl KeptMessage {
    fn is_empty(&self) -> bool {
        matches!(&self.content, KeptContent::Reasoning(Some(text)) if text.is_empty())
    }

    /// Returns the loss if a snapshot lacks it.
    fn loss(&self) -> EventLoss {
        match self.content {
            KeptContent::Reasoning(_) => EventLoss::ReasoningNotShown,
            KeptContent::Activity(_) => EventLoss::ActivityNotShown,
        }
    }

    fn to_message(
        &self,
        id: &Json<'static>,
        dialect: &str,
        content_of: impl Fn(&Json<'_>) -> Option<Json<'static>>,
    ) -> Result<MessageMembers<'static>, EventLoss> {
        let (role, kind, content) = match &self.content {
            KeptContent::Reasoning(text) => {
                let text = text.as_ref().ok_or(self.loss())?;
                (REASONING, None, Json::from_trusted(format!("\"{text}\"")))
            }
            KeptContent::Activity(kind) => (ACTIVITY, Some(kind), content_of(id).ok_or(self.loss())?),
        };
        let mut note = Members::new();
        carry::add_note(&mut note, KEPT_NOTE);
        let mut message = vec![(MemberKey::Known(Field::Id), id.clone())];
        message.push((MemberKey::Known(Field::Role), Json::string(role)));
        message.extend(kind.map(|kind| (MemberKey::Known(Field::ActivityType), kind.clone())));
        message.push((MemberKey::Known(Field::Content), content));
        message.push((MemberKey::Known(Field::Metadata), carry::merge(None, dialect, note)));
        Ok(message)
    }
}

/// Returns true for a message that was added to a snapshot.
pub(super) fn is_kept(message: &Members<'_>, dialect: &str) -> bool {
    let metadata = get(message, Field::Metadata).filter(|metadata| metadata.as_str().contains(KEPT_NOTE));
    let own = metadata.and_then(|metadata| json::parse_member(metadata, dialect));
    own.as_ref().and_then(json::parse_members).is_some_and(|own| find_member(&own, KEPT_NOTE).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;

    #[test]
    fn adds_a_message_to_a_limited_number_of_snapshots() {
        let mut kept = KeptMessages::default();
        kept.record_text(&Json::string("r"), Some(&Json::string("a thought")));
        kept.record_text(&Json::string("empty"), None);
        let snapshots = (0..2 * MAX_COPIES).map(|_| {
            let list = Json::from_trusted(r#"[{"id":"m","role":"assistant","content":"a"}]"#);
            let mut snapshot = Event::new(EventType::MessagesSnapshot).with(Field::Messages, list);
            kept.complete(&mut snapshot, "hai", |_| None);
            snapshot.get(Field::Messages).is_some_and(|list| list.as_str().contains("a thought"))
        });
        let with_it = snapshots.filter(|has_it| *has_it).count();
        assert_eq!(with_it, MAX_COPIES as usize);
        assert_eq!(kept.take_losses(), [EventLoss::ReasoningNotShown]);
        assert_eq!(kept.retained_bytes(), 0);
    }
}
