//! Every byte of every stream, in process.

use super::super::golden::{Case, cases, translate_stream};
use super::{BodyEnd, TRUNCATED, TruncatedRun, UNKNOWN, frame_data, is_terminal, run_truncated};
use diglot::codec::Framing;
use diglot::codec::sse::{SseDecoder, SseLimits, SseStep};
use diglot::dialect::{AG_UI, HAI, PeerDialect};
use diglot::event::EventLoss;
use diglot::event::run::RunEnding;
use diglot::translate::roundtrip::{RoundTrip, RoundTripDifference};
use diglot::translate::verify::{RuleSeverity, Verifier};
use diglot::translate::{GuardMode, RunIds, Stream, StreamError, detect};
use std::collections::HashSet;
use std::sync::Mutex;

/// Threads that cut.
const THREADS: usize = 2;

/// One stream of an agent, and its client.
struct AgentStream {
    name: String,
    from: PeerDialect,
    to: PeerDialect,
    framing: Framing,
    bytes: Vec<u8>,
}

impl AgentStream {
    fn from_case(case: &Case) -> AgentStream {
        let name = case.folder.display().to_string();
        let bytes = case.read("input.sse").into_bytes();
        AgentStream { name, from: case.from, to: case.to, framing: Framing::Sse, bytes }
    }

    /// Returns the whole output, and the part of it that each byte adds.
    fn translate_all(&self) -> (Vec<u8>, Vec<usize>) {
        let mut stream = Stream::new(self.from, self.to, Some(RunIds::new("t1", "r1")), SseLimits::default());
        stream.read_as(self.framing);
        let (mut output, mut lengths) = (Vec::new(), vec![0]);
        for byte in &self.bytes {
            stream.push(&[*byte], super::NOW, &mut output).expect("no limit is passed");
            lengths.push(output.len());
        }
        (output, lengths)
    }

    /// Returns the number of bytes up to the last frame that may be the successful end of the run, if any is complete
    /// at `at`. It looks only at text, so that the gateway does not judge itself.
    fn may_have_finished(&self, at: usize, stop: BodyEnd) -> bool {
        if self.framing == Framing::Proto {
            return at == self.bytes.len();
        }
        let text = String::from_utf8_lossy(&self.bytes[..at]).replace("\r\n", "\n").replace('\r', "\n");
        let frames: Vec<&str> = text.split("\n\n").collect();
        let (last, whole) = frames.split_last().expect("one at least");
        // The last event of an ended body may lack its blank line.
        let last = Some(last).filter(|last| stop == BodyEnd::Ended && last.trim_end().ends_with('}'));
        whole.iter().chain(last).any(|frame| frame.contains("RUN_FINISHED"))
    }

    /// Checks the output for a cut at `at`.
    fn check_cut(
        &self,
        at: usize,
        stop: BodyEnd,
        (whole, lengths): &(Vec<u8>, Vec<usize>),
        seen: &mut HashSet<Vec<u8>>,
    ) -> Option<String> {
        let TruncatedRun { output, before, agent_ending } =
            run_truncated(self.from, self.to, "r1", self.framing, &self.bytes[..at], stop, TRUNCATED);
        if output[..before] != whole[..lengths[at]] {
            return Some("the output before the cut differs from that of the whole run".to_owned());
        }
        if agent_ending == Some(RunEnding::Finished) && !self.may_have_finished(at, stop) {
            return Some("it is taken for a success".to_owned());
        }
        // The output does not change within an event, so most of it was checked before.
        if !seen.insert(output.clone()) {
            return None;
        }
        let text = String::from_utf8(output).expect("UTF-8");
        if !text.ends_with("\n\n") {
            return Some(format!("its last frame is not whole: {text:?}"));
        }
        let events = frame_data(&text);
        let terminal = events.iter().filter(|event| is_terminal(event)).count();
        let last = events.last().expect("an event");
        if terminal != 1 || !is_terminal(last) {
            return Some(format!("{terminal} terminal events, at the end {last}"));
        }
        let ours = [TRUNCATED, UNKNOWN].iter().any(|(code, _)| last.contains(code)) && last.contains("RUN_ERROR");
        if agent_ending.is_none() != ours {
            return Some(format!("the agent sent {agent_ending:?}, and the client receives {last}"));
        }
        let (mut verifier, mut findings) = (Verifier::new(PeerDialect::new(self.to.dialect)), Vec::new());
        verifier.push(text.as_bytes(), &mut findings);
        verifier.finish(&mut findings);
        let finding = findings.iter().find(|finding| finding.rule.severity() == RuleSeverity::Violation)?;
        Some(format!("its client refuses it: {finding:?}\n{text}"))
    }

    /// The first thing that is wrong at any byte.
    fn first_fault(&self) -> Option<String> {
        let (whole, mut seen) = (self.translate_all(), HashSet::new());
        for at in 0..=self.bytes.len() {
            for stop in [BodyEnd::Ended, BodyEnd::Broke] {
                if let Some(wrong) = self.check_cut(at, stop, &whole, &mut seen) {
                    return Some(format!("{}, cut at byte {at}, {stop:?}: {wrong}\n", self.name));
                }
            }
        }
        None
    }
}

#[track_caller]
fn assert_streams(streams: &[AgentStream]) {
    let wrong = Mutex::new(Vec::new());
    // By turns, because folders are of very different sizes.
    std::thread::scope(|scope| {
        for turn in 0..THREADS {
            let mine = streams.iter().skip(turn).step_by(THREADS);
            let verdicts = || wrong.lock().expect("whole").extend(mine.filter_map(AgentStream::first_fault));
            scope.spawn(verdicts);
        }
    });
    let wrong = wrong.into_inner().expect("whole");
    assert!(wrong.is_empty(), "{} of {} streams:\n{}", wrong.len(), streams.len(), wrong.join("\n"));
}

/// One terminal event, the last one; success only if the agent reported it; all events that were complete before the
/// cut; and nothing that the client's rules reject.
#[test]
fn ends_a_stream_cut_at_any_byte_exactly_once() {
    assert_streams(&cases("stream").iter().map(AgentStream::from_case).collect::<Vec<_>>());
}

/// The same for protobuf agents: the streams of the corpus that become AG-UI, in protobuf.
#[test]
fn ends_a_protobuf_stream_cut_at_any_byte_exactly_once() {
    let is_canonical = |case: &&Case| std::ptr::eq(case.to.dialect, &raw const AG_UI);
    let stream_of = |case: &Case| {
        let mut stream = Stream::new(case.from, case.to, Some(RunIds::new("t1", "r1")), SseLimits::default());
        stream.write_as(Framing::Proto);
        let mut bytes = Vec::new();
        stream.push(case.read("input.sse").as_bytes(), super::NOW, &mut bytes).expect("no limit is passed");
        let _ = stream.finish(super::NOW, &mut bytes);
        AgentStream {
            name: case.folder.display().to_string(),
            from: case.to,
            to: case.to,
            framing: Framing::Proto,
            bytes,
        }
    };
    assert_streams(&cases("stream").iter().filter(is_canonical).map(stream_of).collect::<Vec<_>>());
}

/// An agent that stopped has broken no rule, however strict the route is: its client gets the truncation error.
#[test]
fn does_not_report_truncation_as_a_violation() {
    let mut wrong = Vec::new();
    for case in cases("stream") {
        let input = case.read("input.sse").into_bytes();
        let strict = |sent: &[u8]| {
            let stream = Stream::new(case.from, case.to, Some(RunIds::new("t1", "r1")), SseLimits::default());
            let (mut stream, mut output) = (stream.with_guard_mode(GuardMode::Strict), Vec::new());
            stream.push(sent, super::NOW, &mut output)?;
            stream.finish(super::NOW, &mut output)
        };
        // Many cases are about rules that are broken.
        let is_violation = |input: &[u8]| matches!(strict(input), Err(StreamError::Violation(_)));
        if is_violation(&input) {
            continue;
        }
        // An odd stride, so that every part of an event is met in some case.
        let violation = (0..input.len()).step_by(3).find(|at| is_violation(&input[..*at]));
        wrong.extend(violation.map(|at| format!("{}, cut at byte {at}\n", case.folder.display())));
    }
    assert!(wrong.is_empty(), "{} streams:\n{}", wrong.len(), wrong.join("\n"));
}

/// Events before a cut survive a round trip: they come back from the client's dialect unchanged.
#[test]
fn keeps_all_events_before_a_cut() {
    let mut wrong = Vec::new();
    for case in cases("stream") {
        let (input, mut frames, mut events) = (case.read("input.sse"), SseDecoder::default(), Vec::new());
        let mut rest = input.as_bytes();
        while let SseStep::Frame(frame) = frames.next(&mut rest) {
            events.push(frame.data.into_owned());
        }
        let differences = |from: PeerDialect, count: usize| {
            let mut trip = RoundTrip::new(from, case.to, Some(RunIds::new("t1", "r1")));
            events[..count].iter().for_each(|event| trip.push_event(event));
            // The end that the gateway adds. It need not come back.
            trip.push_event(r#"{"type":"RUN_ERROR","message":"cut"}"#);
            let mut differences = trip.finish().differences;
            differences.retain(|one| one.event < count);
            differences
        };
        let whole = differences(case.from, events.len());
        // Differences of the complete stream are covered by `golden`.
        let is_new =
            |one: &RoundTripDifference| !whole.iter().any(|known| known.event == one.event) && !is_not_yet_written(one);
        // Text comes back in the form of the route, which may be that of what was sent.
        let cut = |count: usize| {
            let sent_form = detect::detect_options(case.from, events[..count].iter().map(String::as_str));
            let mut new: Vec<_> = differences(case.from, count).into_iter().filter(is_new).collect();
            if !new.is_empty() {
                let in_sent_form = differences(sent_form, count);
                new.retain(|one| in_sent_form.iter().any(|other| other.event == one.event));
            }
            Some((count, new.into_iter().next()?))
        };
        if let Some((count, new)) = (0..events.len()).find_map(cut) {
            wrong.push(format!("{}, cut behind event {count}: {new:?}\n", case.folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{} streams:\n{}", wrong.len(), wrong.join("\n"));
}

/// Content that was deliberately not written yet at the cut: peers before AG-UI 1.0 get an incomplete call only as
/// carried data; a span of thinking begins with its first thought; and the spelling of arguments is written with them.
fn is_not_yet_written(one: &RoundTripDifference) -> bool {
    let unwritten = [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "TEXT_MESSAGE_START",
        r#"{"$open":true}"#,
    ];
    let is_unsaid_event = unwritten.iter().any(|kind| one.before.contains(kind));
    one.after.is_none() && (one.path.is_empty() && is_unsaid_event || one.before == r#"{"cloudbase":{"$args":true}}"#)
}

/// The verdict on a complete recording agrees: the corpus has streams of every ending.
#[test]
fn corpus_covers_every_ending() {
    let mut endings = HashSet::new();
    for case in cases("stream") {
        let (output, _) = translate_stream(case.from, case.to, [case.read("input.sse").as_bytes()]);
        let last = frame_data(&output).pop().expect("an event");
        endings.insert((last.contains("RUN_FINISHED"), last.contains(TRUNCATED.0)));
    }
    assert_eq!(endings.len(), 3, "{endings:?}");
}

/// The standard takes a byte order mark from the beginning of a body alone.
#[test]
fn a_last_line_behind_a_byte_order_mark_is_counted_without_its_end() {
    let started = "data: {\"type\":\"RUN_STARTED\",\"messageId\":\"m\"}\n\n";
    let finished = "\u{feff}data: {\"type\":\"RUN_FINISHED\",\"messageId\":\"m\"}";
    for end in ["", "\n", "\n\n"] {
        let [agent, client] = [&HAI, &AG_UI].map(PeerDialect::new);
        let mut stream = Stream::new(agent, client, Some(RunIds::new("t1", "r1")), SseLimits::default());
        let mut out = Vec::new();
        stream.push(format!("{started}{finished}{end}").as_bytes(), super::NOW, &mut out).expect("within limits");
        assert!(matches!(stream.finish(super::NOW, &mut out), Err(StreamError::Truncated { .. })), "{end:?}");
        assert_eq!(stream.report().losses[EventLoss::MarkedLine as usize], 1, "{end:?}");
    }
}
