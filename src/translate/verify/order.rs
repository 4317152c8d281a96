//! Order: which event may come when, and whose it is, check by check as `verifyEvents` of the real client makes them.
//!
//! The run guard asks [`Run`](crate::event::run::Run) and [`Owners`](crate::event::owner::Owners) for the same rules, which
//! are a little stricter, because what they refuse is mended. Here a refusal is a verdict, so nothing may be stricter than
//! the client; the vocabulary ([`Item`], [`Move`]) is shared. After a violation the state goes on as if the event had been
//! the one that was meant, so that one mistake is reported once.

use super::finding::shown;
use super::rule::Rule;
use super::value::Problem;
use crate::codec::json;
use crate::event::run::{Item, Move};
use crate::event::{Event, Field, Json, Kind, get, input};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many open things a finding names.
const NAMED: usize = 5;

/// Who speaks; nobody for the agent itself.
type Owner = Option<String>;

/// Where the stream stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// nothing came yet
    #[default]
    Waiting,
    Active,
    Finished,
    Failed,
    /// something came after the end, and that was said
    Stray,
}

/// What owners are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    Message,
    ToolCall,
    Activity,
    Reasoning,
}

/// One open thing.
#[derive(Debug)]
struct Opened {
    /// its place in the order of opening
    at: u64,
    /// it was used without having been opened, which was said: nobody has to close it
    forgiven: bool,
}

/// Watches over the order of one stream.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// the dialect may begin without a start
    start_optional: bool,
    phase: Phase,
    /// by what it is, its id, and for a step who started it
    open: BTreeMap<(Item, String, Owner), Opened>,
    opened: u64,
    ended: HashSet<String>,
    owners: HashMap<(Space, String), Owner>,
}

impl Order {
    /// For a dialect that may begin without a start, or may not.
    pub fn new(start_optional: bool) -> Self {
        Order { start_optional, ..Order::default() }
    }

    /// Takes an event into account, whose values were checked, and says what is wrong with its coming now.
    pub fn event(&mut self, event: &Event<'_>, problems: &mut Vec<Problem>) {
        if let Err((rule, found)) = self.phase(event.kind) {
            problems.push(problem(rule, found));
        }
        let said = match event.kind {
            Kind::RunStarted => {
                let list = event.get(Field::Input).and_then(json::members);
                self.seed(list.as_deref().and_then(|members| get(members, Field::Messages)), false);
                Ok(())
            }
            Kind::MessagesSnapshot => {
                self.seed(event.get(Field::Messages), true);
                Ok(())
            }
            Kind::RunFinished => self.finish(),
            Kind::ActivitySnapshot | Kind::ToolCallResult => {
                self.claim(event);
                Ok(())
            }
            Kind::ActivityDelta => self.owned(Space::Activity, event, Field::MessageId),
            Kind::ReasoningEncryptedValue => self.encrypted(event),
            _ => match Item::touched_by(event.kind) {
                Some((item, step, field)) => self.item(item, step, field, event),
                None => Ok(()),
            },
        };
        if let Err((rule, found)) = said {
            problems.push(problem(rule, found));
        }
    }

    /// Whether the terminal event of the last run came.
    pub fn is_over(&self) -> bool {
        !matches!(self.phase, Phase::Waiting | Phase::Active)
    }

    fn phase(&mut self, kind: Kind) -> Result<(), (Rule, String)> {
        let before = self.phase;
        match (before, kind) {
            (Phase::Waiting, Kind::RunStarted) => self.phase = Phase::Active,
            (Phase::Active, Kind::RunStarted) => {
                self.reset();
                return Err((Rule::AlreadyActive, "the run before has not ended".to_owned()));
            }
            (_, Kind::RunStarted) => self.reset(),
            (Phase::Failed, Kind::RunError) => {
                return Err((Rule::AfterError, "the run has already errored".to_owned()));
            }
            (Phase::Finished, Kind::RunError) => {
                self.phase = Phase::Failed;
                return Err((Rule::SecondTerminal, "the run has already finished".to_owned()));
            }
            (_, Kind::RunError) => self.phase = Phase::Failed,
            (Phase::Waiting, _) => {
                self.phase = Phase::Active;
                if !self.start_optional {
                    return Err((Rule::NotStarted, "no run was started".to_owned()));
                }
            }
            (Phase::Finished, _) => {
                self.phase = Phase::Stray;
                let found = "the run has already finished (what follows is not checked for order)";
                return Err((Rule::AfterFinish, found.to_owned()));
            }
            (Phase::Failed, _) => {
                self.phase = Phase::Stray;
                let found = "the run has already errored (what follows is not checked for order)";
                return Err((Rule::AfterError, found.to_owned()));
            }
            (Phase::Active | Phase::Stray, _) => {}
        }
        Ok(())
    }

    fn reset(&mut self) {
        *self = Order { phase: Phase::Active, ..Order::new(self.start_optional) };
    }

    fn finish(&mut self) -> Result<(), (Rule, String)> {
        if self.phase == Phase::Active {
            self.phase = Phase::Finished;
        } else {
            return Ok(());
        }
        let mut open: Vec<_> =
            std::mem::take(&mut self.open).into_iter().filter(|(_, opened)| !opened.forgiven).collect();
        if open.is_empty() {
            return Ok(());
        }
        open.sort_by_key(|((item, ..), opened)| (*item, opened.at));
        let names: Vec<String> = open
            .iter()
            .take(NAMED)
            .map(|((item, id, _), _)| format!("the {} \"{}\"", noun(*item), shown(id)))
            .collect();
        let more = if open.len() > NAMED { format!(" and {} more", open.len() - NAMED) } else { String::new() };
        Err((Rule::StillOpen, format!("still open: {}{more}", names.join(", "))))
    }

    fn item(&mut self, item: Item, step: Move, field: Field, event: &Event<'_>) -> Result<(), (Rule, String)> {
        if self.phase == Phase::Stray {
            return Ok(());
        }
        let Some(id) = text(event, field) else {
            // Its value is wrong, which was said.
            return Ok(());
        };
        let tag = tag(event);
        let key = (item, id.clone(), tag.clone().filter(|_| item == Item::Step));
        let what = || format!("the {} \"{}\"", noun(item), shown(&id));
        match (step, self.open.contains_key(&key)) {
            (Move::Open, true) => Err((Rule::AlreadyOpen, format!("{} is open", what()))),
            (Move::Open, false) => {
                let said = self.may_open(item, &id, event);
                self.insert(key, false);
                said
            }
            (Move::Use, false) => {
                self.insert(key, true);
                Err((Rule::NotOpen, format!("{} is not open", what())))
            }
            (Move::Close, false) => {
                let other = self.step_of_another(item, &id);
                match other {
                    Some(owner) => {
                        let found = format!("{} was started by {}, not {}", what(), whose(&owner), whose(&tag));
                        Err((Rule::OtherOwner, found))
                    }
                    None => Err((Rule::NotOpen, format!("{} is not open", what()))),
                }
            }
            (Move::Use | Move::Close, true) => {
                let said = match space(item) {
                    Some(space) => self.agrees(space, &id, &tag),
                    None => Ok(()),
                };
                if step == Move::Close {
                    self.open.remove(&key);
                    if item == Item::Subagent {
                        self.ended.insert(id);
                    }
                }
                said
            }
        }
    }

    /// Checks an opener, and notes whose the opened thing is.
    fn may_open(&mut self, item: Item, id: &str, event: &Event<'_>) -> Result<(), (Rule, String)> {
        let tag = tag(event);
        match item {
            Item::Step => Ok(()),
            Item::Text => self.settle(Space::Message, id, tag),
            Item::ReasoningMessage | Item::ReasoningSpan => self.settle(Space::Reasoning, id, tag),
            Item::ToolCall => self.call(id, tag, text(event, Field::ParentMessageId)),
            Item::Subagent => {
                if self.ended.contains(id) {
                    let found = format!("the subagent \"{}\" has ended in this run", shown(id));
                    return Err((Rule::SubagentReused, found));
                }
                let parent = text(event, Field::ParentSubagentRunId);
                let unknown = |parent: &String| {
                    !self.ended.contains(parent) && !self.open.contains_key(&(Item::Subagent, parent.clone(), None))
                };
                match parent.filter(unknown) {
                    Some(parent) => {
                        Err((Rule::UnknownParent, format!("the subagent \"{}\" was not started", shown(&parent))))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// The first opener settles the owner, and every later one has to agree.
    fn settle(&mut self, space: Space, id: &str, tag: Owner) -> Result<(), (Rule, String)> {
        let said = self.agrees(space, id, &tag);
        self.owners.entry((space, id.to_owned())).or_insert(tag);
        said
    }

    /// "A tool call belongs to the message that carries it."
    fn call(&mut self, id: &str, tag: Owner, parent: Option<String>) -> Result<(), (Rule, String)> {
        let carrier = parent.as_ref().and_then(|parent| self.owners.get(&(Space::Message, parent.clone()))).cloned();
        if let (Some(owner), Some(_), Some(parent)) = (&carrier, &tag, &parent)
            && *owner != tag
        {
            let found =
                format!("{}, while its parent message \"{}\" is {}'s", whose(&tag), shown(parent), whose(owner));
            return Err((Rule::OtherOwner, found));
        }
        self.agrees(Space::ToolCall, id, &tag)?;
        let key = (Space::ToolCall, id.to_owned());
        match (self.owners.get(&key), carrier) {
            (Some(own), Some(owner)) if tag.is_none() && *own != owner => {
                let found = format!("the call is {}'s, its parent message {}'s", whose(own), whose(&owner));
                return Err((Rule::OtherOwner, found));
            }
            (Some(_), _) => {}
            (None, carrier) => {
                self.owners.insert(key, tag.or(carrier.flatten()));
            }
        }
        Ok(())
    }

    fn encrypted(&self, event: &Event<'_>) -> Result<(), (Rule, String)> {
        let Some(id) = text(event, Field::EntityId) else {
            return Ok(());
        };
        let known = |space| self.owners.contains_key(&(space, id.clone()));
        let space = match event.text(Field::Subtype).as_deref() {
            Some("tool-call") => Space::ToolCall,
            _ if known(Space::Message) => Space::Message,
            _ => Space::Reasoning,
        };
        self.agrees(space, &id, &tag(event))
    }

    fn owned(&self, space: Space, event: &Event<'_>, field: Field) -> Result<(), (Rule, String)> {
        match text(event, field) {
            Some(id) => self.agrees(space, &id, &tag(event)),
            None => Ok(()),
        }
    }

    /// "Untagged is always fine."
    fn agrees(&self, space: Space, id: &str, tag: &Owner) -> Result<(), (Rule, String)> {
        match self.owners.get(&(space, id.to_owned())) {
            Some(owner) if tag.is_some() && owner != tag && self.phase != Phase::Stray => {
                Err((Rule::OtherOwner, format!("{}, while \"{}\" is {}'s", whose(tag), shown(id), whose(owner))))
            }
            _ => Ok(()),
        }
    }

    /// Activities and results say whose they are, and are believed.
    fn claim(&mut self, event: &Event<'_>) {
        let Some(id) = text(event, Field::MessageId) else {
            return;
        };
        if event.kind == Kind::ToolCallResult {
            self.owners.insert((Space::Message, id), tag(event));
            return;
        }
        let keeps = event.get(Field::Replace).is_some_and(|replace| replace.as_str() == "false");
        let key = (Space::Activity, id);
        if !keeps || !self.owners.contains_key(&key) {
            self.owners.insert(key, tag(event));
        }
    }

    /// "Owners are seeded by the snapshot (authoritative) and the echo of the input (if unclaimed)."
    fn seed(&mut self, messages: Option<&Json<'_>>, authoritative: bool) {
        for message in messages.and_then(json::elements).unwrap_or_default() {
            let Some(members) = json::members(&message) else { continue };
            let said = |field| get(&members, field).and_then(Json::text);
            let space = match said(Field::Role).as_deref() {
                Some(input::REASONING) => Space::Reasoning,
                Some(input::ACTIVITY) => Space::Activity,
                Some(role) if input::ROLES.contains(&role) => Space::Message,
                // "An unknown role is taken out of the list."
                _ => continue,
            };
            let owner: Owner = said(Field::SubagentRunId).map(|text| text.into_owned());
            let assistant = said(Field::Role).as_deref() == Some("assistant");
            let calls = get(&members, Field::ToolCalls).filter(|_| assistant).and_then(json::elements);
            let calls = calls.unwrap_or_default().into_iter().filter_map(|call| {
                let id = json::members(&call).and_then(|members| get(&members, Field::Id)?.text().map(String::from));
                Some((Space::ToolCall, id?))
            });
            let own = said(Field::Id).map(|id| (space, id.into_owned()));
            for key in own.into_iter().chain(calls) {
                if authoritative {
                    self.owners.insert(key, owner.clone());
                } else {
                    self.owners.entry(key).or_insert_with(|| owner.clone());
                }
            }
        }
    }

    fn insert(&mut self, key: (Item, String, Owner), forgiven: bool) {
        self.opened += 1;
        self.open.insert(key, Opened { at: self.opened, forgiven });
    }

    /// Who started this step, if somebody else did; the step is taken for finished.
    fn step_of_another(&mut self, item: Item, id: &str) -> Option<Owner> {
        if item != Item::Step {
            return None;
        }
        // Keys stand in order, and nobody comes before somebody.
        let from = (Item::Step, id.to_owned(), None);
        let found = self
            .open
            .range(from..)
            .next()
            .map(|(key, _)| key.clone())
            .filter(|(item, own, _)| (*item, own.as_str()) == (Item::Step, id))?;
        self.open.remove(&found);
        Some(found.2)
    }
}

const fn space(item: Item) -> Option<Space> {
    match item {
        Item::Text => Some(Space::Message),
        Item::ReasoningMessage | Item::ReasoningSpan => Some(Space::Reasoning),
        Item::ToolCall => Some(Space::ToolCall),
        Item::Step | Item::Subagent => None,
    }
}

const fn noun(item: Item) -> &'static str {
    match item {
        Item::Step => "step",
        Item::Text => "text message",
        Item::ReasoningMessage => "reasoning message",
        Item::ReasoningSpan => "reasoning span",
        Item::ToolCall => "tool call",
        Item::Subagent => "subagent",
    }
}

fn whose(owner: &Owner) -> String {
    owner.as_ref().map_or_else(|| "the agent itself".to_owned(), |name| format!("subagent \"{}\"", shown(name)))
}

fn text(event: &Event<'_>, field: Field) -> Option<String> {
    event.text(field).map(|text| text.into_owned())
}

fn tag(event: &Event<'_>) -> Owner {
    text(event, Field::SubagentRunId)
}

fn problem(rule: Rule, found: String) -> Problem {
    Problem { rule, path: String::new(), found }
}
