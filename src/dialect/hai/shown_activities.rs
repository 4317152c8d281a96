//! The activities that the client shows as blocks, with the content that patches are applied to.
//!
//! ```text
//! ACTIVITY_SNAPSHOT of a new id   ──▶ a block, content kept
//!   … of a shown id               ──▶ the block again; with `replace: false` nothing that is shown
//! ACTIVITY_DELTA of a shown id    ──▶ the block with its new content; carried if it does not apply, or the content is not kept
//! MESSAGES_SNAPSHOT               ──▶ its activities, if it has any, and no others
//! ```
//! The dialect has no changes of blocks, so each change is a whole block with the same block id. Contents are kept within
//! limits, so that the memory of a run and the work for an event are bounded.

use super::members::block;
use super::message_parts::is_part_of;
use crate::codec::json;
use crate::dialect::earlier_messages::{EarlierContent, EarlierMessages};
use crate::dialect::event_parts::OutgoingEvent;
use crate::dialect::memory_limits;
use crate::dialect::patched_json::{PatchNotApplied, PatchedJson};
use crate::event::input::ACTIVITY;
use crate::event::{Event, EventType, Field, IdMap, Json, find_member, get, message_id};

/// Maximum bytes of one activity's content, which is sent again with each change.
const CONTENT_LIMIT: usize = 128 << 10;

/// Bytes of new contents that a byte of a patch may cause, and those that a run may cause besides.
const WRITTEN_PER_BYTE: usize = 64;
const WRITTEN_BESIDES: usize = 16 << 20;

/// Cost of an activity besides its id and its content.
const ENTRY_COST: usize = 512;

/// Maximum bytes of a run's contents together.
const CONTENTS_LIMIT: usize = memory_limits::MIN_BUFFER_LIMIT;

#[derive(Debug)]
pub(super) struct ShownActivities {
    activities: IdMap<ShownActivity>,
    content_bytes: usize,
    id_bytes: usize,
    /// bytes of contents that may still be written for changes
    credit: usize,
}

impl Default for ShownActivities {
    fn default() -> Self {
        ShownActivities { activities: IdMap::default(), content_bytes: 0, id_bytes: 0, credit: WRITTEN_BESIDES }
    }
}

#[derive(Debug, Default)]
struct ShownActivity {
    /// `None` if it is over a limit, or not shown in a block
    content: Option<PatchedJson>,
    content_bytes: usize,
    /// the id of the original block; otherwise the activity's id is used
    block_id: Option<Json<'static>>,
}

impl ShownActivities {
    /// Returns true for a snapshot with `replace: false` whose activity the client already has.
    pub(crate) fn is_ignored_snapshot(&self, event: &Event<'_>) -> bool {
        event.kind == EventType::ActivitySnapshot
            && event.get(Field::Replace).is_some_and(|replace| replace.as_str() == "false")
            && event.get(Field::MessageId).is_some_and(|id| self.activities.contains(id))
    }

    /// Records the activities of earlier runs. A message `A:2` has the activity `A`, as this module's caller writes it.
    pub(crate) fn record_earlier(&mut self, earlier: &EarlierMessages) {
        let ids: IdMap<()> = earlier.messages.iter().map(|message| (message.id.clone(), ())).collect();
        for message in &earlier.messages {
            let EarlierContent::Activity { content, .. } = &message.content else { continue };
            let id = origin_of(&message.id, &ids).unwrap_or_else(|| message.id.clone());
            self.activity(&id);
            self.keep_content(&id, Some(content));
        }
    }

    /// Records an activity that is shown as its `original` block, or as a new one.
    pub(crate) fn record_block(&mut self, event: &Event<'_>, original: Option<&OutgoingEvent<'_>>) {
        let block_id = original.and_then(|outgoing| find_member(&outgoing.extensions, block::BLOCK_ID)).cloned();
        let id = message_id(&event.members);
        if let Some(shown) = self.activity(&id) {
            shown.block_id = block_id.map(Json::into_owned);
        }
        self.keep_content(&id, event.get(Field::Content));
    }

    /// Records an activity that is shown in another form.
    pub(crate) fn record_without_block(&mut self, id: Json<'static>) {
        self.activity(&id);
    }

    /// Records the activities of a snapshot, each a message of its own.
    pub(crate) fn replace(&mut self, snapshot: &Event<'_>) {
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        let messages = list.iter().filter_map(json::parse_message);
        let is_activity = |role: &Json<'_>| role.is_str(ACTIVITY);
        let activities: Vec<_> = messages.filter(|one| get(one, Field::Role).is_some_and(is_activity)).collect();
        // "local activity stays unless the snapshot carries any activity"
        if activities.is_empty() {
            return;
        }
        *self = ShownActivities { credit: self.credit, ..ShownActivities::default() };
        for message in &activities {
            let id = get(message, Field::Id).map_or(Json::EMPTY_STRING, |id| id.clone().into_owned());
            self.activity(&id);
            self.keep_content(&id, get(message, Field::Content));
        }
    }

    /// Applies a patch; returns the new content, or `None` if it does not apply, is unknown, or is too large for a patch of
    /// this size.
    pub(crate) fn apply(&mut self, change: &Event<'_>) -> Option<Json<'static>> {
        let id = change.get(Field::MessageId)?;
        let shown = self.activities.get_mut(id)?;
        let mut content = shown.content.take()?;
        self.content_bytes -= std::mem::take(&mut shown.content_bytes);
        let patch = change.get(Field::Patch)?;
        let applied = content.apply(patch);
        if let Err(PatchNotApplied::Refused(_)) = applied {
            // A client of AG-UI keeps the content, and applies the next patch to it.
            self.keep_tree(id, content);
            return None;
        }
        applied.ok()?;
        let json = content.to_json();
        self.credit = self.credit.saturating_add(patch.as_str().len() * WRITTEN_PER_BYTE);
        let left = self.credit.checked_sub(json.as_str().len());
        if !self.keep_tree(id, content) {
            return None;
        }
        self.credit = left?;
        Some(json)
    }

    /// Returns the content that the client shows; `None` if it is not kept.
    pub(crate) fn content(&self, activity: &Json<'_>) -> Option<Json<'static>> {
        self.activities.get(activity)?.content.as_ref().map(PatchedJson::to_json)
    }

    pub(crate) fn block_id(&self, activity: &Json<'static>) -> Json<'static> {
        let own = self.activities.get(activity).and_then(|shown| shown.block_id.clone());
        own.unwrap_or_else(|| activity.clone())
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.content_bytes + self.id_bytes
    }

    fn activity(&mut self, id: &Json<'static>) -> Option<&mut ShownActivity> {
        if !self.activities.contains(id) {
            self.id_bytes += ENTRY_COST + id.as_str().len();
            self.activities.insert(id.clone(), ShownActivity::default());
        }
        self.activities.get_mut(id)
    }

    fn keep_content(&mut self, id: &Json<'_>, content: Option<&Json<'_>>) {
        if let Some(shown) = self.activities.get_mut(id) {
            shown.content = None;
            self.content_bytes -= std::mem::take(&mut shown.content_bytes);
        }
        if let Some(content) = content.filter(|content| content.as_str().len() <= CONTENT_LIMIT) {
            self.keep_tree(id, PatchedJson::new(content));
        }
    }

    /// Returns false if the content is over a limit.
    fn keep_tree(&mut self, id: &Json<'_>, content: PatchedJson) -> bool {
        let bytes = content.heap_size();
        let fits = bytes <= CONTENT_LIMIT && self.content_bytes + bytes <= CONTENTS_LIMIT;
        if let Some(shown) = self.activities.get_mut(id).filter(|_| fits) {
            shown.content = Some(content);
            shown.content_bytes = bytes;
            self.content_bytes += bytes;
        }
        fits
    }
}

/// Returns the id of which this is a further one, if the client has that.
fn origin_of(id: &Json<'_>, ids: &IdMap<()>) -> Option<Json<'static>> {
    let text = id.text()?;
    let origin = Json::string(text.rsplit_once(':')?.0);
    (is_part_of(id, &origin) && ids.contains(&origin)).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::earlier_messages::EarlierMessage;
    use crate::event::MemberKey;

    fn snapshot(id: &str, text_len: usize) -> Event<'static> {
        let content = format!("{{\"n\":0,\"text\":\"{}\"}}", "x".repeat(text_len));
        let event = Event::new(EventType::ActivitySnapshot).with(Field::MessageId, Json::string(id));
        event.with(Field::Content, Json::from_trusted(content))
    }

    fn change(id: &str, patch: &'static str) -> Event<'static> {
        let event = Event::new(EventType::ActivityDelta).with(Field::MessageId, Json::string(id));
        event.with(Field::Patch, Json::from_trusted(patch))
    }

    const SET: &str = r#"[{"op":"replace","path":"/n","value":1}]"#;

    #[test]
    fn keeps_contents_within_the_limits() {
        let mut shown = ShownActivities::default();
        shown.record_block(&snapshot("large", CONTENT_LIMIT), None);
        assert_eq!((shown.apply(&change("large", SET)), shown.content_bytes), (None, 0));
        // It grows over the limit, and is known again after the next snapshot.
        shown.record_block(&snapshot("a", CONTENT_LIMIT / 2), None);
        let double = r#"[{"op":"copy","from":"/text","path":"/more"}]"#;
        assert_eq!((shown.apply(&change("a", double)), shown.content_bytes), (None, 0));
        shown.record_block(&snapshot("a", 1), None);
        assert_eq!(shown.apply(&change("a", SET)).expect("known").as_str(), r#"{"n":1,"text":"x"}"#);
        let ids: Vec<String> = (0..20).map(|at| at.to_string()).collect();
        ids.iter().for_each(|id| shown.record_block(&snapshot(id, CONTENT_LIMIT / 2), None));
        assert!(shown.content_bytes <= CONTENTS_LIMIT);
        let known = ids.iter().filter(|id| shown.apply(&change(id, SET)).is_some()).count();
        assert!((10..20).contains(&known), "{known}");
    }

    #[test]
    fn keeps_the_content_if_a_patch_does_not_apply() {
        let mut shown = ShownActivities::default();
        shown.record_block(&snapshot("a", 1), None);
        for refused in [r#"[{"op":"remove","path":"/b"}]"#, r#"[{"op":"test","path":"/n","value":7}]"#] {
            assert_eq!(shown.apply(&change("a", refused)), None);
        }
        let wanted = r#"{"n":1,"text":"x"}"#;
        assert_eq!(shown.apply(&change("a", SET)).expect("known").as_str(), wanted);
        assert_eq!(
            shown.apply(&change("a", r#"[{"op":"test","path":"/n","value":1.0}]"#)).expect("same").as_str(),
            wanted
        );
    }

    #[test]
    fn applies_patches_to_the_activities_of_earlier_runs() {
        let earlier = |id: &str, n: u8| EarlierMessage {
            id: Json::string(id),
            content: EarlierContent::Activity {
                activity_type: Json::string("PLAN"),
                content: Json::from_trusted(format!("{{\"n\":{n}}}")),
            },
        };
        let mut shown = ShownActivities::default();
        shown
            .record_earlier(&EarlierMessages { messages: vec![earlier("a", 0), earlier("a:2", 5), earlier("b:2", 7)] });
        let add = r#"[{"op":"add","path":"/m","value":1}]"#;
        assert_eq!(shown.apply(&change("a", add)).expect("known").as_str(), r#"{"n":5,"m":1}"#);
        assert_eq!(shown.apply(&change("b", add)), None);
        assert_eq!(shown.apply(&change("b:2", add)).expect("known").as_str(), r#"{"n":7,"m":1}"#);
    }

    #[test]
    fn a_list_of_messages_replaces_the_activities_only_if_it_has_any() {
        let mut shown = ShownActivities::default();
        shown.record_block(&snapshot("a", 1), None);
        let list = |messages: &'static str| {
            let mut event = Event::new(EventType::MessagesSnapshot);
            event.members.push((MemberKey::Known(Field::Messages), Json::from_trusted(messages)));
            event
        };
        shown.replace(&list(r#"[{"id":"u","role":"user","content":"x"}]"#));
        assert!(shown.apply(&change("a", SET)).is_some());
        shown.replace(&list(r#"[{"id":"b","role":"activity","activityType":"P","content":{"n":0}}]"#));
        assert!(shown.apply(&change("a", SET)).is_none() && shown.apply(&change("b", SET)).is_some());
    }
}
