//! What a run of the load does: its route, what its agent sends and how the agent fails, and what its client must get.

use super::super::golden::side;
use super::super::laws;
use super::super::laws::dice::Dice;
use diglot::codec::Framing;
use diglot::codec::sse::SseLimits;
use diglot::dialect::PeerDialect;
use diglot::translate::{RunIds, Stream, request};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The dialects of both sides.
pub const DIALECTS: [&str; 6] = ["ag-ui", "ag-ui-0", "ag-ui-snake", "hai", "cloudbase", "social-app"];

/// The time of every expected event, which a received one replaces by its own.
pub const NOW: i64 = 1_700_000_000_000;

/// A kind of route. Each is a folder of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    /// one request; the run ends with its client
    Plain,
    /// the run outlives its client, and every replica serves it
    Kept,
    /// the agent takes two requests
    AgentTwoSteps,
    /// the client sends two requests
    ClientTwoSteps,
}

impl RouteKind {
    pub const ALL: [RouteKind; 4] =
        [RouteKind::Plain, RouteKind::Kept, RouteKind::AgentTwoSteps, RouteKind::ClientTwoSteps];

    pub fn folder(self) -> &'static str {
        match self {
            RouteKind::Plain => "plain",
            RouteKind::Kept => "kept",
            RouteKind::AgentTwoSteps => "agent2",
            RouteKind::ClientTwoSteps => "client2",
        }
    }

    /// The pairs of client and agent with a route of this kind.
    pub fn pairs(self) -> Vec<(&'static str, &'static str)> {
        let all = DIALECTS.iter().flat_map(|client| DIALECTS.iter().map(move |agent| (*client, *agent)));
        match self {
            RouteKind::Plain | RouteKind::Kept => all.collect(),
            RouteKind::AgentTwoSteps => all.filter(|(_, agent)| *agent == "social-app").collect(),
            RouteKind::ClientTwoSteps => all.filter(|(client, _)| *client == "social-app").collect(),
        }
    }
}

/// The way in which an agent fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFault {
    None,
    /// closes the connection behind so many bytes of the body
    Cut(usize),
    /// breaks it there
    Reset(usize),
    /// sends nothing more from there on
    Stall(usize),
    /// answers with this status
    Status(u16),
    /// answers with a page
    Page,
    /// closes the connection in place of an answer
    HangUp,
    /// never answers
    Silent,
}

/// The body of an agent's response, as it is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    Chunked,
    Length,
    Close,
}

/// A run of the load.
#[derive(Debug)]
pub struct RunPlan {
    pub number: u64,
    pub kind: RouteKind,
    pub client: &'static str,
    pub agent: &'static str,
    /// the body of the agent's response
    pub wire: Vec<u8>,
    pub agent_framing: Framing,
    pub client_framing: Framing,
    pub body_end: BodyEnd,
    pub fault: AgentFault,
    /// the largest piece of the body, and the time between two
    pub piece: usize,
    pub pause_ms: u64,
    pub body: String,
    /// what the agent must receive
    pub expected_body: String,
    /// starts at the agent, and what was wrong with them
    pub starts: AtomicUsize,
    pub problem: Mutex<Option<String>>,
}

impl RunPlan {
    pub fn thread(&self) -> String {
        format!("soak-{}-t", self.number)
    }

    pub fn run(&self) -> String {
        format!("soak-{}-r", self.number)
    }

    pub fn path(&self) -> String {
        format!("/{}/{}/{}", self.kind.folder(), self.client, self.agent)
    }

    pub fn client_side(&self) -> PeerDialect {
        side(self.client)
    }

    pub fn started(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// The run of this number. A `large` one has a body that no socket buffer holds.
    pub fn new(seed: u64, number: u64, kind: RouteKind, large: bool) -> RunPlan {
        let mut dice = Dice::new(seed ^ number.wrapping_mul(0x1_0001));
        (0..8).for_each(|_| _ = dice.below(2));
        let pairs = kind.pairs();
        let (client, agent) = pairs[dice.below(pairs.len())];
        let events = agent_events(&mut dice, agent, large);
        let text: String = events.iter().map(|event| frame_text(&mut dice, event)).collect();
        let proto = agent == "ag-ui" && !large && kind != RouteKind::AgentTwoSteps && dice.one_in(3);
        let agent_framing = if proto { Framing::Proto } else { Framing::Sse };
        let wire = if proto { to_proto(&text) } else { text.into_bytes() };
        let accepts_proto = client == "ag-ui" && kind == RouteKind::Plain && dice.one_in(4);
        let client_framing = if accepts_proto { Framing::Proto } else { Framing::Sse };
        let body_end = [BodyEnd::Chunked, BodyEnd::Length, BodyEnd::Close][dice.below(3)];
        let fault = if large { AgentFault::None } else { random_fault(&mut dice, wire.len()) };
        let piece = [wire.len(), 1 + dice.below(40), 200, 1000, 4000][dice.below(5)].max(1 + wire.len() / 200);
        let pause_ms = if large { 0 } else { [0, 1, 5, 20][dice.below(4)] };
        let (thread, run) = (format!("soak-{number}-t"), format!("soak-{number}-r"));
        let sizes = if dice.one_in(8) { 5 } else { 3 };
        let padding = "甲".repeat([0, 1, 700, 21_000, 100_000][dice.below(sizes)]);
        let state = if dice.one_in(2) { "{}" } else { r#"{"cart":[1,2]}"# };
        let body = format!(
            r#"{{"threadId":"{thread}","runId":"{run}","state":{state},"messages":[{{"id":"u1","role":"user","content":"{padding}"}}],"tools":[],"context":[],"forwardedProps":{{}}}}"#
        );
        let ids = RunIds::new(&thread, &run);
        let there = request::translate_request(body.as_bytes(), side(client), side(agent), &ids);
        let expected_body = there.expect("a good request").body;
        let (starts, problem) = (AtomicUsize::new(0), Mutex::new(None));
        RunPlan {
            number,
            kind,
            client,
            agent,
            wire,
            agent_framing,
            client_framing,
            body_end,
            fault,
            piece,
            pause_ms,
            body,
            expected_body,
            starts,
            problem,
        }
    }

    /// Returns what the client gets of a part of the agent's body, and whether the run has ended with it. A run that broke
    /// off ends with `failure`: a code and a message.
    pub fn expected_output(&self, sent: SentPart, failure: Option<(&str, &str)>) -> (Vec<u8>, bool) {
        let ids = RunIds::new(&self.thread(), &self.run());
        let (client, agent) = (side(self.client), side(self.agent));
        let request = request::translate_request(self.body.as_bytes(), client, agent, &ids).expect("a good request");
        let mut stream =
            Stream::new(agent, client, Some(ids), SseLimits::default()).with_conversation(request.conversation);
        stream.read_as(self.agent_framing);
        stream.write_as(self.client_framing);
        let mut out = Vec::new();
        stream.push(&self.wire[..sent.bytes.min(self.wire.len())], NOW, &mut out).expect("no limit is near");
        if sent.closed {
            // A run without an end is the failure that follows.
            let _ = stream.finish(NOW, &mut out);
        }
        let ended = stream.ending().is_some();
        if let Some((code, message)) = failure.filter(|_| !ended) {
            stream.fail(code, message, NOW, &mut out);
        }
        (out, ended)
    }
}

/// The part of the agent's body that the gateway received.
#[derive(Clone, Copy, Debug)]
pub struct SentPart {
    pub bytes: usize,
    /// whether the gateway received the end of the body behind it: an event may then lack its blank line
    pub closed: bool,
}

/// The events of an agent, with the number of the run in a text of their own.
fn agent_events(dice: &mut Dice, agent: &str, large: bool) -> Vec<String> {
    if large {
        let text = "长".repeat(2_000);
        let piece = format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"{text}"}}"#);
        let mut events = translate_from_ag_ui(
            &[
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#.to_owned(),
                r#"{"type":"TEXT_MESSAGE_START","messageId":"a1","role":"assistant"}"#.to_owned(),
            ],
            &vec![piece; 40 + dice.below(60)],
            agent,
        );
        events.retain(|event| !event.is_empty());
        return events;
    }
    laws::agent_stream(agent, dice.below(1 << 30) as u64)
}

/// The events of an AG-UI agent, and the end of its run, in the words of another.
fn translate_from_ag_ui(first: &[String], middle: &[String], agent: &str) -> Vec<String> {
    let last = [
        r#"{"type":"TEXT_MESSAGE_END","messageId":"a1"}"#.to_owned(),
        r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#.to_owned(),
    ];
    let wire: String = [first, middle, &last].concat().iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut stream = Stream::new(side("ag-ui"), side(agent), None, SseLimits::default());
    let mut out = Vec::new();
    stream.push(wire.as_bytes(), NOW, &mut out).expect("no limit is near");
    let out = String::from_utf8(out).expect("UTF-8");
    out.split("\n\n").filter_map(|frame| frame.split_once("data: ").map(|(_, data)| data.to_owned())).collect()
}

/// An event as a frame, in one of the ways of writing it.
fn frame_text(dice: &mut Dice, event: &str) -> String {
    match dice.below(8) {
        0 => format!("data:{event}\r\n\r\n"),
        1 => format!(": a comment\ndata: {event}\n\n"),
        _ => format!("data: {event}\n\n"),
    }
}

fn to_proto(text: &str) -> Vec<u8> {
    let mut stream = Stream::new(side("ag-ui"), side("ag-ui"), None, SseLimits::default());
    stream.write_as(Framing::Proto);
    let mut out = Vec::new();
    stream.push(text.as_bytes(), NOW, &mut out).expect("no limit is near");
    out
}

fn random_fault(dice: &mut Dice, length: usize) -> AgentFault {
    // An agent that closes the connection behind a whole response races with the next request on it.
    let at = dice.below(length);
    match dice.below(100) {
        0..6 => AgentFault::Cut(at),
        6..11 => AgentFault::Reset(at),
        11 => AgentFault::Stall(at),
        12..16 => AgentFault::Status([400, 422, 500, 503][dice.below(4)]),
        16 | 17 => AgentFault::Page,
        18 | 19 => AgentFault::HangUp,
        20 => AgentFault::Silent,
        _ => AgentFault::None,
    }
}
