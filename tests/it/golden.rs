//! The golden corpus: every folder under `tests/golden/` is a case, and a new case needs only files.
//!
//! ```text
//! stream/<agent>-to-<client>/<case>/input.sse      sent by the agent
//!                                  /expected.sse   received by the client; then repairs and losses, as comments
//! request/<client>-to-<agent>/<case>/input.json, expected.json
//! ```
//! A side is a dialect with its options: `hai`, `hai.string`, `hai.snake`, `hai.string.snake`. The run is thread `t1`
//! and run `r1`, the clock is fixed at [`NOW`], and a stream that ends without a terminal event fails as in the data
//! plane. `note.md` explains a case if its name does not; `no-round-trip` has the reason why a stream does not come back
//! from another dialect as it was. `UPDATE=1` rewrites the expectations; a reviewer compares the
//! difference with `translation.md` and the dialect's document.

use super::exact_json::canonical;
use diglot::codec::sse::{SseDecoder, SseLimits, SseStep};
use diglot::dialect::{self, Dialect, EventRow, EventShape, FallbackPolicy, PeerDialect, ToolName};
use diglot::translate::roundtrip::{RoundTrip, RoundTripDifference};
use diglot::translate::{EventLoss, EventRepair, RunIds, Stream, TranslationReport, detect, request};
use std::fs;
use std::path::{Path, PathBuf};

/// ms since the epoch, where a rule needs the time: the first timestamp of the seed's examples.
pub const NOW: i64 = 1_620_000_000_500;

/// Code and text of the error that ends a stream without a terminal event.
const TRUNCATED: (&str, &str) = ("upstream_truncated", "The agent's stream ended before its run did.");

/// The file of a stream case that does not come back from AG-UI as it was; its text is the reason.
const NO_ROUND_TRIP: &str = "no-round-trip";

/// A case: its folder, and the two sides that the folder's name gives.
pub struct Case {
    pub folder: PathBuf,
    pub from: PeerDialect,
    pub to: PeerDialect,
}

impl Case {
    pub fn read(&self, file: &str) -> String {
        let path = self.folder.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Compares `actual` with the expected file, both as lists; rewrites the file if `UPDATE` is set.
    fn compare_with_file(&self, file: &str, actual: &str, listed: fn(&str) -> Vec<String>) -> Option<String> {
        if std::env::var_os("UPDATE").is_some() {
            fs::write(self.folder.join(file), actual).expect("the corpus can be written");
            return None;
        }
        let (expected, actual) = (listed(&self.read(file)), listed(actual));
        let at = (0..expected.len().max(actual.len())).find(|&at| expected.get(at) != actual.get(at))?;
        let show = |list: &[String]| list.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
        let (expected, actual) = (show(&expected), show(&actual));
        Some(format!("{}, entry {at}\n  expected {expected}\n  actual   {actual}\n", self.folder.display()))
    }
}

/// Every case of a kind: `stream` or `request`.
pub fn cases(kind: &str) -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(kind);
    let mut cases = Vec::new();
    for pair in folders(&root) {
        let name = pair.file_name().expect("a name").to_string_lossy().into_owned();
        let (from, to) = name.split_once("-to-").unwrap_or_else(|| panic!("{name} is no <from>-to-<to>"));
        let (from, to) = (side(from), side(to));
        cases.extend(folders(&pair).into_iter().map(|folder| Case { folder, from, to }));
    }
    assert!(!cases.is_empty(), "no cases under {}", root.display());
    cases
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut found: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// A side of a route, as a folder names it.
pub fn side(name: &str) -> PeerDialect {
    let mut words = name.split('.');
    let dialect = words.next().and_then(dialect::find_by_name).unwrap_or_else(|| panic!("{name}: no such dialect"));
    let mut side = PeerDialect::new(dialect);
    for word in words {
        if let Some(tool) = word.strip_prefix("tool=").and_then(ToolName::new) {
            side.interrupt_tool = tool;
            continue;
        }
        // A version has dots of its own: `pin=0-0-45`.
        let (option, word) = word
            .split_once('=')
            .map_or((None, word.to_owned()), |(option, word)| (Some(option), word.replace('-', ".")));
        let choice = dialect::OPTION_CHOICES
            .iter()
            .find(|(owner, own, _)| *own == word && option.is_none_or(|option| *owner == option));
        let (_, _, set) = choice.unwrap_or_else(|| panic!("{name}: no option is called {word}"));
        set(&mut side);
    }
    side
}

/// Translates a stream that arrives in these pieces.
pub fn translate_stream<'p>(
    from: PeerDialect,
    to: PeerDialect,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (String, TranslationReport) {
    let mut stream = Stream::new(from, to, Some(RunIds::new("t1", "r1")), SseLimits::default());
    let mut out = Vec::new();
    for piece in pieces {
        stream.push(piece, NOW, &mut out).expect("no limit is passed");
    }
    if stream.finish(NOW, &mut out).is_err() {
        let (code, message) = TRUNCATED;
        stream.fail(code, message, NOW, &mut out);
    }
    (String::from_utf8(out).expect("UTF-8"), stream.report().clone())
}

/// Returns the client streams of the corpus: the name of each case, its client, and the stream.
pub fn client_streams() -> Vec<(String, PeerDialect, String)> {
    let all = cases("stream").into_iter();
    all.map(|case| (case.folder.display().to_string(), case.to, case.read("expected.sse"))).collect()
}

/// Repairs and losses as comments, one per line, in the order of their tables.
fn report_lines(report: &TranslationReport) -> String {
    let repairs = EventRepair::ALL.iter().map(|one| ("repair", one.label(), report.repairs[*one as usize]));
    let losses = EventLoss::ALL.iter().map(|one| ("loss", one.label(), report.losses[*one as usize]));
    let counted = repairs.chain(losses).filter(|(_, _, count)| *count > 0);
    counted.map(|(what, label, count)| format!(": {what} {label} {count}\n")).collect()
}

/// The events of a stream, each with the other lines of its frame as they are, and its comments; anything else in it shows up
/// as itself.
fn frames(text: &str) -> Vec<String> {
    let parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    let lines = parts.flat_map(|part| if part.starts_with(':') { part.lines().collect() } else { vec![part] });
    let line = |line: &str| line.strip_prefix("data: ").map_or_else(|| line.to_owned(), canonical);
    lines.map(|part| part.lines().map(line).collect::<Vec<_>>().join("\n")).collect()
}

fn assert_no_failures(failures: &[String]) {
    assert!(failures.is_empty(), "{} of the corpus fail:\n\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn translates_streams_as_expected_at_every_split() {
    let mut failures = Vec::new();
    for case in cases("stream") {
        let input = case.read("input.sse").into_bytes();
        let (actual, report) = translate_stream(case.from, case.to, [&input[..]]);
        let expected = format!("{actual}{}", report_lines(&report));
        failures.extend(case.compare_with_file("expected.sse", &expected, frames));
        for at in 1..input.len() {
            let (left, right) = input.split_at(at);
            let (cut, counted) = translate_stream(case.from, case.to, [left, right]);
            if (&cut, report_lines(&counted)) != (&actual, report_lines(&report)) {
                failures.push(format!("{}: another stream when cut at byte {at}\n", case.folder.display()));
                break;
            }
        }
        if translate_stream(case.from, case.to, input.chunks(1)).0 != actual {
            failures.push(format!("{}: another stream byte by byte\n", case.folder.display()));
        }
    }
    assert_no_failures(&failures);
}

#[test]
fn translates_requests_as_expected() {
    let mut failures = Vec::new();
    for case in cases("request") {
        let input = case.read("input.json");
        let actual =
            match request::translate_request(input.as_bytes(), case.from, case.to, &RunIds::new("t-new", "r-new")) {
                Ok(translated) => translated.body,
                Err(refused) => format!("\"refused: {refused}\""),
            };
        failures.extend(case.compare_with_file("expected.json", &format!("{actual}\n"), |text| vec![canonical(text)]));
    }
    assert_no_failures(&failures);
}

/// A case named after a section of seed 003 or 004 is what its document prints: no route is too strict for it.
#[test]
fn seed_examples_break_no_rule() {
    let mut failures = Vec::new();
    for case in cases("stream") {
        let name = case.folder.file_name().expect("a name").to_string_lossy();
        let (_, report) = translate_stream(case.from, case.to, [case.read("input.sse").as_bytes()]);
        if let Some(breach) = report.broken_rule.filter(|_| name.starts_with("003-") || name.starts_with("004-")) {
            failures.push(format!("{}: {}\n", case.folder.display(), breach.rule));
        }
    }
    assert_no_failures(&failures);
}

#[test]
fn corpus_reads_and_writes_every_dialect_row() {
    let mut counts: Vec<_> = dialect::ALL.iter().map(|dialect| vec![(0, 0); dialect.rows.len()]).collect();
    for case in cases("stream") {
        let (_, report) = translate_stream(case.from, case.to, [case.read("input.sse").as_bytes()]);
        let (events_read, events_written) = (report.events_read.to_vec(), report.events_written.to_vec());
        for (dialect, rows) in dialect::ALL.iter().zip(&mut counts) {
            for (at, (read, written)) in rows.iter_mut().enumerate() {
                // A row that the dialect only reads as canonical is never written.
                let row = &dialect.rows[at];
                let wordless = dialect.fallback == FallbackPolicy::PassThrough
                    && matches!(row.shape, EventShape::Unsupported | EventShape::ExpandedChunk);
                let at = if wordless { dialect.label_index(row.kind) } else { at };
                *read += if std::ptr::eq(case.from.dialect, *dialect) { events_read[at] } else { 0 };
                *written += u64::from(wordless);
                let is_client = std::ptr::eq(case.to.dialect, *dialect);
                *written += if is_client { events_written[at] } else { 0 };
            }
        }
    }
    let mut missed = Vec::new();
    for (dialect, rows) in dialect::ALL.iter().zip(counts) {
        // Rows of events that a dialect does not have describe their replacements. They must be covered if they depend
        // on versions.
        let own = |row: &EventRow| {
            dialect.is_versioned() || !matches!(row.shape, EventShape::Unsupported | EventShape::ExpandedChunk)
        };
        for (row, (read, written)) in dialect.rows.iter().zip(rows).filter(|(row, _)| own(row)) {
            for (what, _) in [("reads", read), ("writes", written)].iter().filter(|(_, count)| *count == 0) {
                missed.push(format!("{}: no case {what} {}\n", dialect.name, row.wire));
            }
        }
    }
    assert_no_failures(&missed);
}

/// Nothing of the corpus is lost: every stream comes back from AG-UI as it was, but for what is left out on purpose.
#[test]
fn round_trips_every_stream_of_the_corpus() {
    let mut failures = Vec::new();
    for case in cases("stream").into_iter().filter(|case| !case.folder.join(NO_ROUND_TRIP).exists()) {
        let (input, mut frames, mut events) = (case.read("input.sse"), SseDecoder::default(), Vec::new());
        let mut rest = input.as_bytes();
        while let SseStep::Frame(frame) = frames.next(&mut rest) {
            events.push(frame.data.into_owned());
        }
        // Text comes back in the form of the route, so the route is set to the form of the stream.
        let from = detect::detect_options(case.from, events.iter().map(String::as_str));
        // Repaired content comes back repaired; everything else comes back unchanged. In a dialect with text blocks, content
        // of several comes back as one, and a string among blocks as one of them (its normal form).
        let may_differ = |found: &RoundTripDifference| {
            let is_content = found.path.starts_with("/messages/") && found.path.ends_with("/content");
            has_text_blocks(case.from.dialect) && (is_content || is_string_in_a_block(found))
        };
        // Through AG-UI and the other dialects, except those with whole messages: their texts and arguments are in
        // another place among the events (see `laws`).
        for dialect in dialect::ALL.iter().filter(|dialect| !dialect.has_whole_messages()) {
            let blocks = has_text_blocks(dialect).then(|| format!("{}.blocks", dialect.name));
            for through in [dialect.name.to_owned()].into_iter().chain(blocks) {
                failures.extend(round_trip_failure(&case, from, &through, &events, &may_differ));
            }
        }
    }
    assert_no_failures(&failures);
}

fn has_text_blocks(dialect: &Dialect) -> bool {
    dialect.option_names.contains(&"content")
}

/// Returns true for text that came back in a text block.
fn is_string_in_a_block(found: &RoundTripDifference) -> bool {
    let block = format!(r#"{{"output":{{"type":"text","content":{}}}}}"#, found.before);
    found.path == "/delta" && found.before.starts_with('"') && found.after.as_ref() == Some(&block)
}

/// Returns the first difference of a stream that went through another dialect and back, except repairs and those that
/// are allowed.
fn round_trip_failure(
    case: &Case,
    from: PeerDialect,
    through: &str,
    events: &[String],
    may_differ: &dyn Fn(&RoundTripDifference) -> bool,
) -> Option<String> {
    let mut trip = RoundTrip::new(from, side(through), Some(RunIds::new("t1", "r1")));
    events.iter().for_each(|data| trip.push_event(data));
    let outcome = trip.finish();
    let is_failure = |found: &&RoundTripDifference| found.repairs.is_empty() && !may_differ(found);
    let difference = outcome.differences.iter().find(is_failure)?;
    Some(format!("{} by way of {through}: {difference:?}\n", case.folder.display()))
}
