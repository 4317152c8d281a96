//! Messages between agents: one activity, told in three events (`translation.md` §3).
//!
//! ```text
//! start {from, to}          ⇄ snapshot M:collaboration:n {from, to, tasks: [], status: "running"}
//! content {delta: {task}}   ⇄ delta    add /tasks/- task            one without a start: a snapshot that has the task alone
//! end                       ⇄ delta    replace /status "done"       one without a start travels whole
//! ```
//! `n` counts within the run, per `M`. Reading and writing keep the same counts ([`Talks`]), so that writing knows what reading
//! would make of an event: one that reads back as it was is written as it is, any other of this form with the canonical event
//! noted beside it.

use super::carry;
use super::read::Parts;
use super::write::Said;
use crate::codec::json;
use crate::dialect::{Dialect, Step, collaboration as words};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, remove};
use std::collections::HashMap;

/// Note: members of the delta beside its task.
const DELTA: &str = "$delta";

/// The place in the content of the activity that a task is added to, and the one of its status.
const NEXT_TASK: &str = "/tasks/-";
const STATUS: &str = "/status";

/// The messages between agents that a run has told so far.
#[derive(Debug, Default)]
pub(super) struct Talks {
    /// how many each `M` had
    counts: HashMap<Box<str>, u32>,
    /// those that go on, the latest last: `M` and the id of the activity
    open: Vec<(Json<'static>, Json<'static>)>,
}

/// What reading makes of an event.
#[derive(Debug)]
pub(super) struct Meaning {
    kind: Kind,
    id: Json<'static>,
    /// content of a snapshot, patch of a delta
    value: Json<'static>,
    /// members of the delta beside its task
    rest: Option<Json<'static>>,
}

/// The type of the activity that such a message is.
#[must_use]
pub(super) fn activity_type(dialect: &Dialect) -> Json<'static> {
    Json::string(&format!("{}.{}", dialect.name, words::NAME))
}

impl Talks {
    /// What an event with these members says. `None` when it says nothing of this form.
    #[must_use]
    pub fn meaning(&self, step: Step, members: &Members<'_>) -> Option<Meaning> {
        let message = crate::event::message_id(members);
        let mine = || self.open.iter().rev().find(|(own, _)| own.same(&message));
        match step {
            Step::Start => {
                let content = content(named(members, words::FROM), named(members, words::TO), &[]);
                Some(Meaning { kind: Kind::ActivitySnapshot, id: self.next(&message), value: content, rest: None })
            }
            Step::Content => {
                let mut delta = json::members(get(members, Field::Delta)?)?;
                let task = carry::take(&mut delta, words::TASK)?.into_owned();
                let rest = (!delta.is_empty()).then(|| json::to_object(&delta));
                // The document's own agent says another message id here than in the start (§4.2).
                Some(match mine().or(self.open.last()) {
                    Some((_, id)) => Meaning { kind: Kind::ActivityDelta, id: id.clone(), value: add(&task), rest },
                    None => {
                        let (id, value) = (self.next(&message), content(None, None, &[task]));
                        Meaning { kind: Kind::ActivitySnapshot, id, value, rest }
                    }
                })
            }
            Step::End => mine().map(|(_, id)| {
                let value = json::to_array(&[operation("replace", STATUS, &Json::string(words::DONE))]);
                Meaning { kind: Kind::ActivityDelta, id: id.clone(), value, rest: None }
            }),
        }
    }

    fn next(&self, message: &Json<'_>) -> Json<'static> {
        let count = self.counts.get(&key(message)).copied().unwrap_or_default().saturating_add(1);
        message.followed_by(&format!(":{}:{count}", words::NAME))
    }

    /// Takes into account what was understood.
    fn heard(&mut self, step: Step, message: &Json<'_>, meaning: &Meaning) {
        if meaning.kind == Kind::ActivitySnapshot {
            *self.counts.entry(key(message)).or_default() += 1;
        }
        if step != Step::Content || meaning.kind == Kind::ActivitySnapshot {
            self.open.retain(|(own, _)| !own.same(message));
        }
        if meaning.kind == Kind::ActivitySnapshot {
            self.open.push((message.clone().into_owned(), meaning.id.clone()));
        }
    }

    /// Reads one of the three events. `false`: it is nothing of this form, and has to travel whole.
    pub fn read(&mut self, step: Step, parts: &mut Parts<'_>, dialect: &Dialect) -> bool {
        let Some(meaning) = self.meaning(step, &parts.own) else {
            return false;
        };
        self.heard(step, &crate::event::message_id(&parts.own), &meaning);
        let Meaning { kind, id, value, rest } = meaning;
        match step {
            Step::Start => {
                carry::take(&mut parts.own, words::FROM);
                carry::take(&mut parts.own, words::TO);
            }
            Step::Content => drop(remove(&mut parts.own, Field::Delta)),
            Step::End => {}
        }
        parts.own.extend(rest.map(|rest| (carry::own(DELTA), rest)));
        keep_odd_time(parts);
        parts.event.kind = kind;
        let said = [(Field::MessageId, id), (Field::ActivityType, activity_type(dialect)), (value_of(kind), value)];
        for (field, value) in said {
            if !parts.restored.contains(&field) {
                parts.event.set(field, value);
            }
        }
        true
    }

    /// What writes an activity of this type: the events, the first of which says or notes it. Nothing when it is of no form
    /// that the dialect has a word for.
    pub fn write<'a>(&mut self, event: Event<'a>, dialect: &Dialect) -> Result<Vec<(Step, Said<'a>)>, Event<'a>> {
        let Some(form) = form(&event).filter(|_| event.get(Field::ActivityType) == Some(&activity_type(dialect)))
        else {
            return Err(event);
        };
        let (step, mut told) = form.first();
        let mut said = split(&event, dialect, &[words::FROM, words::TO]);
        if step == Step::Content {
            let rest = carry::take(&mut said.own, DELTA);
            set_task(&mut told, rest.as_ref());
        }
        said.own.extend(told.iter().cloned());
        let meaning = self.meaning(step, &said.own).filter(|_| get(&said.own, Field::MessageId).is_some());
        let reads_back = |meaning: &Meaning| {
            meaning.kind == event.kind
                && event.get(Field::MessageId) == Some(&meaning.id)
                && event.get(value_of(event.kind)) == Some(&meaning.value)
        };
        match meaning.filter(reads_back) {
            Some(meaning) => {
                self.heard(step, &crate::event::message_id(&said.own), &meaning);
                Ok(vec![(step, said)])
            }
            None => {
                let message = message_of(&event);
                let of = |mut told: Members<'static>| {
                    told.push((Key::Known(Field::MessageId), message.clone()));
                    told
                };
                let mut all = vec![(step, super::noted::write(event, Members::new(), of(told)))];
                all.extend(form.others().map(|(step, told)| (step, super::noted::show(Members::new(), of(told)))));
                Ok(all)
            }
        }
    }
}

/// An activity that the three events can tell.
#[derive(Debug)]
enum Form {
    Snapshot { from: Option<Json<'static>>, to: Option<Json<'static>>, tasks: Vec<Json<'static>>, done: bool },
    Task(Json<'static>),
    Done,
}

impl Form {
    /// The event that says or notes it.
    fn first(&self) -> (Step, Members<'static>) {
        match self {
            // Nobody asks nobody: a task that came without a start.
            Form::Snapshot { from: None, to: None, tasks, done: false } if tasks.len() == 1 => {
                (Step::Content, task(&tasks[0]))
            }
            Form::Snapshot { from, to, .. } => {
                let told = [(words::FROM, from), (words::TO, to)];
                (
                    Step::Start,
                    told.into_iter().filter_map(|(name, who)| Some((carry::own(name), who.clone()?))).collect(),
                )
            }
            Form::Task(one) => (Step::Content, task(one)),
            Form::Done => (Step::End, Members::new()),
        }
    }

    /// What has to be shown besides: a snapshot may tell at once what three events tell.
    fn others(self) -> impl Iterator<Item = (Step, Members<'static>)> {
        let alone = matches!(self.first().0, Step::Content);
        let (tasks, done) = match self {
            Form::Snapshot { tasks, done, .. } if !alone => (tasks, done),
            _ => (Vec::new(), false),
        };
        let end = done.then(|| (Step::End, Members::new()));
        tasks.into_iter().map(|one| (Step::Content, task(&one))).chain(end)
    }
}

/// Reads an activity as what the three events tell. `None` when it says anything else.
fn form(event: &Event<'_>) -> Option<Form> {
    match event.kind {
        Kind::ActivitySnapshot => {
            let mut content = json::members(event.get(Field::Content)?)?;
            let [from, to, tasks, status] = [words::FROM, words::TO, words::TASKS, words::STATUS]
                .map(|name| carry::take(&mut content, name).map(Json::into_owned));
            let tasks: Vec<_> = json::elements(&tasks?)?.into_iter().map(Json::into_owned).collect();
            let status = status?;
            let done = status.is(words::DONE);
            (content.is_empty() && (done || status.is(words::RUNNING))).then_some(Form::Snapshot {
                from,
                to,
                tasks,
                done,
            })
        }
        _ => {
            let patch = json::elements(event.get(Field::Patch)?)?;
            let [one] = &patch[..] else { return None };
            let mut members = json::members(one)?;
            let (op, path) = (carry::take(&mut members, "op")?, carry::take(&mut members, "path")?);
            let value = carry::take(&mut members, "value")?.into_owned();
            match (members.is_empty(), op.text()?.as_ref(), path.text()?.as_ref()) {
                (true, "add", NEXT_TASK) => Some(Form::Task(value)),
                (true, "replace", STATUS) if value.is(words::DONE) => Some(Form::Done),
                _ => None,
            }
        }
    }
}

/// Sorts the members of an activity: what the dialect said beside it, and what only canonical AG-UI has. Members called as
/// in `told` are said otherwise, so what was carried under such a name cannot stand beside them.
pub(super) fn split<'a>(event: &Event<'a>, dialect: &Dialect, told: &[&str]) -> Said<'a> {
    let mut said = Said { members: Members::new(), own: Members::new(), canonical: Members::new(), stands_for: None };
    let timed = event.get(Field::Timestamp).is_some();
    for (key, value) in event.members.iter().cloned() {
        match &key {
            Key::Known(Field::Timestamp) => said.members.push((key, value)),
            Key::Known(Field::MessageId | Field::ActivityType) => {}
            Key::Known(field) if *field == value_of(event.kind) => {}
            Key::Known(Field::Metadata) => {
                let (own, rest) = carry::unpack(value, dialect.name, |_| true);
                let (own, stay): (Members<'static>, _) = own.into_iter().partition(|(key, value)| match key {
                    Key::Known(Field::Timestamp) => !timed && !is_time(value),
                    Key::Known(field) => *field != Field::Delta,
                    Key::Other(name) => !told.contains(&&**name),
                });
                said.own = own;
                let rest = match (stay.is_empty(), rest) {
                    (true, rest) => rest,
                    (false, rest) => Some(carry::merge(rest.as_ref(), dialect.name, stay)),
                };
                said.canonical.extend(rest.map(|rest| (Key::Known(Field::Metadata), rest)));
            }
            _ => said.canonical.push((key, value)),
        }
    }
    said
}

/// What was carried with an activity under this name.
#[must_use]
pub(super) fn own_member(event: &Event<'_>, dialect: &Dialect, name: &str) -> Option<Json<'static>> {
    let mut metadata = json::members(event.get(Field::Metadata)?)?;
    let own = carry::take(&mut metadata, dialect.name)?;
    carry::take(&mut json::members(&own)?, name).map(Json::into_owned)
}

/// `M`, as far as the id of an activity tells it.
fn message_of(event: &Event<'_>) -> Json<'static> {
    let id = crate::event::message_id(&event.members);
    let text = id.text().unwrap_or_default();
    let is_number = |count: &str| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let name = format!(":{}:", words::NAME);
    match text.rsplit_once(&name).filter(|(_, count)| is_number(count)) {
        Some((message, _)) => Json::string(message),
        None => id.clone(),
    }
}

/// A timestamp that is no number of milliseconds is the dialect's own: the document's agent puts a message id there (§4.2).
fn keep_odd_time(parts: &mut Parts<'_>) {
    if !parts.restored.contains(&Field::Timestamp)
        && parts.event.get(Field::Timestamp).is_some_and(|time| !is_time(time))
        && let Some(time) = parts.event.remove(Field::Timestamp)
    {
        parts.own.push((Key::Known(Field::Timestamp), time));
    }
}

fn is_time(value: &Json<'_>) -> bool {
    value.shape() == Type::Number
}

const fn value_of(kind: Kind) -> Field {
    match kind {
        Kind::ActivityDelta => Field::Patch,
        _ => Field::Content,
    }
}

fn named<'m, 'a>(members: &'m Members<'a>, name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value)
}

/// Ids are the same however their characters are escaped.
fn key(message: &Json<'_>) -> Box<str> {
    message.text().map_or_else(|| message.as_str().into(), |text| Box::from(&*text))
}

fn content(from: Option<&Json<'_>>, to: Option<&Json<'_>>, tasks: &[Json<'_>]) -> Json<'static> {
    json::build(|object| {
        for (name, value) in [(words::FROM, from), (words::TO, to)] {
            value.into_iter().for_each(|value| object.member(name, value.as_str()));
        }
        object.member(words::TASKS, json::to_array(tasks).as_str());
        object.word(words::STATUS, words::RUNNING);
    })
}

fn add(task: &Json<'_>) -> Json<'static> {
    json::to_array(&[operation("add", NEXT_TASK, task)])
}

fn operation(op: &str, path: &str, value: &Json<'_>) -> Json<'static> {
    json::build(|object| {
        object.word("op", op);
        object.word("path", path);
        object.member("value", value.as_str());
    })
}

/// The delta that says a task.
fn task(task: &Json<'_>) -> Members<'static> {
    vec![(Key::Known(Field::Delta), json::build(|object| object.member(words::TASK, task.as_str())))]
}

/// Puts what stood beside the task back into its delta.
fn set_task(told: &mut Members<'static>, rest: Option<&Json<'_>>) {
    let Some(rest) = rest.and_then(json::members) else {
        return;
    };
    for (_, delta) in told.iter_mut() {
        let mut members = json::members(delta).map(crate::event::owned).unwrap_or_default();
        members.extend(crate::event::owned(rest.clone()));
        *delta = json::to_object(&members);
    }
}
