//! The requirements of all targets, and the report of a violation.

use diglot::codec::sse::{SseDecoder, SseStep};
use diglot::dialect::{AG_UI, PeerDialect};
use diglot::translate::verify::{Rule, RuleSeverity, Verifier};

/// Reports violations of one input.
#[derive(Clone, Copy)]
pub struct Judge<'i> {
    pub target: &'static str,
    pub input: &'i [u8],
}

impl Judge<'_> {
    /// Ends the process, so that libFuzzer keeps the input.
    pub fn fail(&self, why: &str) -> ! {
        panic!("{}: {why}\ninput\n{}", self.target, String::from_utf8_lossy(self.input));
    }

    pub fn require(&self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.fail(&why());
        }
    }

    /// Requires that the work is at most `base`, and `per_byte` for each byte of the input.
    pub fn require_linear(&self, work: u64, base: u64, per_byte: u64) {
        let bytes = self.input.len() as u64;
        if std::env::var_os("DIGLOT_FUZZ_WORK").is_some() {
            eprintln!("work {} bytes {bytes} work {work} per byte {}", self.target, work / bytes.max(1));
        }
        self.require(work <= base + per_byte * bytes, || {
            format!("{work} edges for {bytes} bytes, more than {base} and {per_byte} per byte")
        });
    }

    /// Requires that four times the input causes about four times the work, apart from `base`.
    pub fn require_growth(&self, once: u64, four_times: u64, base: u64) {
        if std::env::var_os("DIGLOT_FUZZ_WORK").is_some() {
            eprintln!("growth {} once {once} four times {four_times}", self.target);
        }
        self.require(four_times <= 6 * once + base, || {
            format!("four times the input causes {four_times} edges instead of {once}: more than linear")
        });
    }
}

/// Returns the data of each frame.
pub fn frames(body: &[u8]) -> Vec<String> {
    let (mut decoder, mut rest, mut found) = (SseDecoder::default(), body, Vec::new());
    while let SseStep::Frame(frame) = decoder.next(&mut rest) {
        found.push(frame.data.into_owned());
    }
    found
}

/// Checks the output for a client: accepted by the verifier of its dialect, one run, one terminal event at the end. Between two peers
/// of one dialect, values come back as they were (L2 of `translation.md`), whatever AG-UI thinks of them.
pub fn accepts(agent: PeerDialect, client: PeerDialect, output: &[u8]) -> Result<(), String> {
    const ONE_RUN: [Rule; 4] = [Rule::Truncated, Rule::SecondTerminal, Rule::NoEvents, Rule::Unterminated];
    let (mut verifier, mut findings) = (Verifier::new(client), Vec::new());
    verifier.push(output, &mut findings);
    verifier.finish(&mut findings);
    // The reader of another dialect repairs what the dialect leaves out, which is no fault of the output.
    findings.retain(|finding| finding.rule.severity() == RuleSeverity::Violation || ONE_RUN.contains(&finding.rule));
    if std::ptr::eq(agent.dialect, client.dialect) && !std::ptr::eq(client.dialect, &AG_UI) {
        findings.retain(|finding| !matches!(finding.rule, Rule::MissingMember | Rule::WrongValue));
    }
    match findings.first() {
        Some(finding) => Err(format!("the client's verifier objects: {finding:?}")),
        None => Ok(()),
    }
}
