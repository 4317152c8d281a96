//! Messages between agents: one activity in three events (`translation.md` §3).
//!
//! ```text
//! start {from, to}          ⇄ snapshot M:collaboration:n {from, to, tasks: [], status: "running"}
//! content {delta: {task}}   ⇄ delta    add /tasks/- task            one without a start: a snapshot that has the task alone
//! end                       ⇄ delta    replace /status "done"       one without a start travels whole
//! ```
//! `M` is the message id; `n` counts per run and `M`. Reading and writing keep the same counts, so that writing can
//! predict how an event reads back. If the result would differ, the event is written with the canonical event in a
//! note.

use super::members::collaboration as words;
use super::own_shapes::{COLLABORATION_CONTENT, COLLABORATION_END, COLLABORATION_START};
use super::placeholder;
use crate::codec::json;
use crate::dialect::adapter::UnreadableEvent;
use crate::dialect::carry;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::row::EventShape;
use crate::event::{Event, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, find_member, get, remove};
use std::collections::HashMap;

/// Stores members of the delta other than `task`, or marks a delta that is the task.
const DELTA_NOTE: &str = "$delta";

/// Patch paths in an activity: the end of the task list, and the status.
const NEXT_TASK: &str = "/tasks/-";
const STATUS: &str = "/status";

/// The three events of a message between agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollaborationStep {
    Start,
    Content,
    End,
}

impl CollaborationStep {
    pub(crate) fn from_shape(shape: EventShape) -> Option<Self> {
        [CollaborationStep::Start, CollaborationStep::Content, CollaborationStep::End]
            .into_iter()
            .find(|step| step.shape() == shape)
    }

    pub(crate) fn shape(self) -> EventShape {
        EventShape::Own(match self {
            CollaborationStep::Start => &COLLABORATION_START,
            CollaborationStep::Content => &COLLABORATION_CONTENT,
            CollaborationStep::End => &COLLABORATION_END,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct CollaborationState {
    /// number of activities by message id
    id_counts: HashMap<Box<str>, u32>,
    /// the id of each message's open activity, newest last
    open: IdMap<Json<'static>>,
}

/// The activity that an event creates or changes.
#[derive(Debug)]
pub(super) struct CollaborationActivity {
    kind: EventType,
    id: Json<'static>,
    /// snapshot content, or a patch
    value: Json<'static>,
    rest: Option<Json<'static>>,
}

pub(super) fn activity_type(dialect: &str) -> Json<'static> {
    Json::string(&format!("{}.{}", dialect, words::NAME))
}

impl CollaborationState {
    /// Returns `None` if the members do not have the expected form.
    pub(crate) fn interpret(&self, step: CollaborationStep, members: &Members<'_>) -> Option<CollaborationActivity> {
        let message = crate::event::message_id(members);
        let mine = || self.open.get(&message);
        match step {
            CollaborationStep::Start => {
                let id = self.next_id(&message);
                let value = snapshot_content(find_member(members, words::FROM), find_member(members, words::TO), &[]);
                Some(CollaborationActivity { kind: EventType::ActivitySnapshot, id, value, rest: None })
            }
            CollaborationStep::Content => {
                let (task, rest) = split_task(get(members, Field::Delta)?)?;
                // The document's own agent uses a different message id here than in the start (§4.2).
                Some(match mine().or(self.open.last().map(|(_, id)| id)) {
                    Some(id) => {
                        let value = json::to_array(&[patch_operation("add", NEXT_TASK, &task)]);
                        CollaborationActivity { kind: EventType::ActivityDelta, id: id.clone(), value, rest }
                    }
                    None => {
                        let id = self.next_id(&message);
                        let value = snapshot_content(None, None, &[task]);
                        CollaborationActivity { kind: EventType::ActivitySnapshot, id, value, rest }
                    }
                })
            }
            CollaborationStep::End => mine().map(|id| {
                let value = json::to_array(&[patch_operation("replace", STATUS, &Json::string(words::DONE))]);
                CollaborationActivity { kind: EventType::ActivityDelta, id: id.clone(), value, rest: None }
            }),
        }
    }

    fn next_id(&self, message: &Json<'_>) -> Json<'static> {
        let count = self.id_counts.get(&id_text(message)).copied().unwrap_or_default().saturating_add(1);
        message.with_suffix(&format!(":{}:{count}", words::NAME))
    }

    fn observe(&mut self, step: CollaborationStep, message: &Json<'_>, meaning: &CollaborationActivity) {
        if meaning.kind == EventType::ActivitySnapshot {
            *self.id_counts.entry(id_text(message)).or_default() += 1;
        }
        if step != CollaborationStep::Content || meaning.kind == EventType::ActivitySnapshot {
            self.open.remove(message);
        }
        if meaning.kind == EventType::ActivitySnapshot {
            self.open.insert(message.clone().into_owned(), meaning.id.clone());
        }
    }

    /// Fails if the event does not have the expected form.
    pub(crate) fn read(
        &mut self,
        step: CollaborationStep,
        parts: &mut IncomingEvent<'_>,
        dialect: &str,
    ) -> Result<(), UnreadableEvent> {
        let meaning = self.interpret(step, &parts.extensions).ok_or(UnreadableEvent)?;
        self.observe(step, &crate::event::message_id(&parts.extensions), &meaning);
        let CollaborationActivity { kind, id, value, rest } = meaning;
        match step {
            CollaborationStep::Start => {
                carry::take(&mut parts.extensions, words::FROM);
                carry::take(&mut parts.extensions, words::TO);
            }
            CollaborationStep::Content => drop(remove(&mut parts.extensions, Field::Delta)),
            CollaborationStep::End => {}
        }
        parts.extensions.extend(rest.map(|rest| (carry::extension_key(DELTA_NOTE), rest)));
        keep_foreign_timestamp(parts);
        parts.event.kind = kind;
        let outgoing =
            [(Field::MessageId, id), (Field::ActivityType, activity_type(dialect)), (value_field(kind), value)];
        for (field, value) in outgoing {
            if !parts.restored_fields.contains(&field) {
                parts.event.set(field, value);
            }
        }
        Ok(())
    }

    /// Returns the events for an activity, or none if the dialect cannot express it. The first event has a note if
    /// reading needs one.
    pub(crate) fn write<'a>(
        &mut self,
        event: Event<'a>,
        dialect: &str,
    ) -> Result<Vec<(CollaborationStep, OutgoingEvent<'a>)>, Event<'a>> {
        let Some(form) =
            parse_change(&event).filter(|_| event.get(Field::ActivityType) == Some(&activity_type(dialect)))
        else {
            return Err(event);
        };
        let (step, mut first) = form.first_event();
        let mut outgoing = split_activity(&event, dialect, &[words::FROM, words::TO]);
        if step == CollaborationStep::Content {
            let rest = carry::take(&mut outgoing.extensions, DELTA_NOTE);
            restore_delta(&mut first, rest.as_ref());
        }
        outgoing.extensions.extend(first.iter().cloned());
        let meaning = self
            .interpret(step, &outgoing.extensions)
            .filter(|_| get(&outgoing.extensions, Field::MessageId).is_some());
        let reads_back = |meaning: &CollaborationActivity| {
            meaning.kind == event.kind
                && event.get(Field::MessageId) == Some(&meaning.id)
                && event.get(value_field(event.kind)) == Some(&meaning.value)
        };
        match meaning.filter(reads_back) {
            Some(meaning) => {
                self.observe(step, &crate::event::message_id(&outgoing.extensions), &meaning);
                Ok(vec![(step, outgoing)])
            }
            None => {
                let message = message_id_of(&event);
                let with_message = |mut members: Members<'static>| {
                    members.push((MemberKey::Known(Field::MessageId), message.clone()));
                    members
                };
                let mut all = vec![(step, placeholder::write_placeholder(event, Members::new(), with_message(first)))];
                all.extend(
                    form.into_remaining_events()
                        .map(|(step, members)| (step, placeholder::write_display_only(with_message(members)))),
                );
                Ok(all)
            }
        }
    }
}

/// A change that the three events can express.
#[derive(Debug)]
enum CollaborationChange {
    Snapshot { from: Option<Json<'static>>, to: Option<Json<'static>>, tasks: Vec<Json<'static>>, done: bool },
    Task(Json<'static>),
    Done,
}

impl CollaborationChange {
    fn first_event(&self) -> (CollaborationStep, Members<'static>) {
        match self {
            // A task without a start has no sender or receiver.
            CollaborationChange::Snapshot { from: None, to: None, tasks, done: false } if tasks.len() == 1 => {
                (CollaborationStep::Content, task_delta(&tasks[0]))
            }
            CollaborationChange::Snapshot { from, to, .. } => {
                let agents = [(words::FROM, from), (words::TO, to)];
                (
                    CollaborationStep::Start,
                    agents
                        .into_iter()
                        .filter_map(|(name, agent)| Some((carry::extension_key(name), agent.clone()?)))
                        .collect(),
                )
            }
            CollaborationChange::Task(one) => (CollaborationStep::Content, task_delta(one)),
            CollaborationChange::Done => (CollaborationStep::End, Members::new()),
        }
    }

    /// Returns the events after the first. A snapshot may become three events.
    fn into_remaining_events(self) -> impl Iterator<Item = (CollaborationStep, Members<'static>)> {
        let alone = matches!(self.first_event().0, CollaborationStep::Content);
        let (tasks, done) = match self {
            CollaborationChange::Snapshot { tasks, done, .. } if !alone => (tasks, done),
            _ => (Vec::new(), false),
        };
        let end = done.then(|| (CollaborationStep::End, Members::new()));
        tasks.into_iter().map(|one| (CollaborationStep::Content, task_delta(&one))).chain(end)
    }
}

/// Returns `None` if the three events cannot express the activity.
fn parse_change(event: &Event<'_>) -> Option<CollaborationChange> {
    match event.kind {
        EventType::ActivitySnapshot => {
            let mut content = json::parse_members(event.get(Field::Content)?)?;
            let [from, to, tasks, status] = [words::FROM, words::TO, words::TASKS, words::STATUS]
                .map(|name| carry::take(&mut content, name).map(Json::into_owned));
            let tasks: Vec<_> = json::parse_elements(&tasks?)?.into_iter().map(Json::into_owned).collect();
            let status = status?;
            let done = status.is_str(words::DONE);
            (content.is_empty() && (done || status.is_str(words::RUNNING))).then_some(CollaborationChange::Snapshot {
                from,
                to,
                tasks,
                done,
            })
        }
        _ => {
            let patch = json::parse_elements(event.get(Field::Patch)?)?;
            let [one] = &patch[..] else { return None };
            let mut members = json::parse_members(one)?;
            let op = carry::take(&mut members, "op")?;
            let path = carry::take(&mut members, "path")?;
            let value = carry::take(&mut members, "value")?.into_owned();
            match (members.is_empty(), op.text()?.as_ref(), path.text()?.as_ref()) {
                (true, "add", NEXT_TASK) => Some(CollaborationChange::Task(value)),
                (true, "replace", STATUS) if value.is_str(words::DONE) => Some(CollaborationChange::Done),
                _ => None,
            }
        }
    }
}

/// Separates an activity's dialect members from its canonical ones. Members in `excluded` stay in the metadata, because
/// the event uses those names.
pub(super) fn split_activity<'a>(event: &Event<'a>, dialect: &str, excluded: &[&str]) -> OutgoingEvent<'a> {
    let mut outgoing = OutgoingEvent::default();
    let timed = event.get(Field::Timestamp).is_some();
    for (key, value) in event.members.iter().cloned() {
        match &key {
            MemberKey::Known(Field::Timestamp) => outgoing.members.push((key, value)),
            MemberKey::Known(Field::MessageId | Field::ActivityType) => {}
            MemberKey::Known(field) if *field == value_field(event.kind) => {}
            MemberKey::Known(Field::Metadata) => {
                let (own, rest) = carry::unpack(value, dialect, |_| true);
                let (own, stay): (Members<'static>, _) = own.into_iter().partition(|(key, value)| match key {
                    MemberKey::Known(Field::Timestamp) => !timed && !is_timestamp(value),
                    MemberKey::Known(field) => *field != Field::Delta,
                    MemberKey::Other(name) => !excluded.contains(&&**name),
                });
                outgoing.extensions = own;
                let rest = match (stay.is_empty(), rest) {
                    (true, rest) => rest,
                    (false, rest) => Some(carry::merge(rest.as_ref(), dialect, stay)),
                };
                outgoing.canonical.extend(rest.map(|rest| (MemberKey::Known(Field::Metadata), rest)));
            }
            _ => outgoing.canonical.push((key, value)),
        }
    }
    outgoing
}

fn message_id_of(event: &Event<'_>) -> Json<'static> {
    let id = crate::event::message_id(&event.members);
    let text = id.text().unwrap_or_default();
    let is_number = |count: &str| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let name = format!(":{}:", words::NAME);
    match text.rsplit_once(&name).filter(|(_, count)| is_number(count)) {
        Some((message, _)) => Json::string(message),
        None => id.clone(),
    }
}

/// Preserves a timestamp that is not in milliseconds, such as the message id that the document's agent sends (§4.2).
fn keep_foreign_timestamp(parts: &mut IncomingEvent<'_>) {
    if !parts.restored_fields.contains(&Field::Timestamp)
        && parts.event.get(Field::Timestamp).is_some_and(|time| !is_timestamp(time))
        && let Some(time) = parts.event.remove(Field::Timestamp)
    {
        parts.extensions.push((MemberKey::Known(Field::Timestamp), time));
    }
}

fn is_timestamp(value: &Json<'_>) -> bool {
    value.json_type() == JsonType::Number
}

const fn value_field(kind: EventType) -> Field {
    match kind {
        EventType::ActivityDelta => Field::Patch,
        _ => Field::Content,
    }
}

/// Normalizes escapes so that equal ids compare equal.
pub(super) fn id_text(message: &Json<'_>) -> Box<str> {
    message.text().map_or_else(|| message.as_str().into(), |text| Box::from(&*text))
}

fn snapshot_content(from: Option<&Json<'_>>, to: Option<&Json<'_>>, tasks: &[Json<'_>]) -> Json<'static> {
    json::build_object(|object| {
        for (name, value) in [(words::FROM, from), (words::TO, to)] {
            value.into_iter().for_each(|value| object.member(name, value.as_str()));
        }
        object.member(words::TASKS, json::to_array(tasks).as_str());
        object.string_member(words::STATUS, words::RUNNING);
    })
}

fn patch_operation(op: &str, path: &str, value: &Json<'_>) -> Json<'static> {
    json::build_object(|object| {
        object.string_member("op", op);
        object.string_member("path", path);
        object.member("value", value.as_str());
    })
}

fn task_delta(task: &Json<'_>) -> Members<'static> {
    vec![(MemberKey::Known(Field::Delta), json::build_object(|object| object.member(words::TASK, task.as_str())))]
}

/// Returns the task of a delta, and the note that restores the delta. A delta that is the task is a guess.
fn split_task(delta: &Json<'_>) -> Option<(Json<'static>, Option<Json<'static>>)> {
    match delta.json_type() {
        JsonType::Null | JsonType::Array => None,
        JsonType::Object => {
            let mut members = json::parse_members(delta)?;
            let task = carry::take(&mut members, words::TASK)?.into_owned();
            Some((task, (!members.is_empty()).then(|| json::to_object(&members))))
        }
        _ => Some((delta.clone().into_owned(), Some(Json::from_trusted("true")))),
    }
}

fn restore_delta(task: &mut Members<'static>, rest: Option<&Json<'_>>) {
    let Some(rest) = rest else { return };
    for (_, delta) in task.iter_mut() {
        let mut members = json::parse_owned_members(delta).unwrap_or_default();
        match json::parse_owned_members(rest) {
            Some(rest) => {
                members.extend(rest);
                *delta = json::to_object(&members);
            }
            None => *delta = carry::take(&mut members, words::TASK).unwrap_or_else(|| delta.clone()),
        }
    }
}
