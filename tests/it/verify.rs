//! `diglot verify` accepts everything that the gateway writes: every expected stream of the golden corpus, in its
//! dialect.
//!
//! The verifier shares no state machine with the run guard, and its verdicts are compared with the real client
//! (tests/interop/verify.test.mjs), so each of them confirms the other.

use diglot::dialect::{self, PeerDialect};
use diglot::translate::verify::{RuleSeverity, Verifier};
use std::fs;
use std::path::{Path, PathBuf};

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).unwrap_or_else(|error| panic!("{}: {error}", of.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.is_dir()).collect()
}

#[test]
fn verifier_accepts_every_expected_stream() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stream");
    let (mut seen, mut wrong) = (0, Vec::new());
    for pair in folders(&root) {
        let name = pair.file_name().expect("a name").to_string_lossy().into_owned();
        let (_, client) = name.split_once("-to-").expect("<from>-to-<to>");
        let spoken = client.split('.').next().expect("a dialect");
        let dialect = dialect::find_by_name(spoken).unwrap_or_else(|| panic!("no dialect {spoken}"));
        for case in folders(&pair) {
            let stream = fs::read(case.join("expected.sse")).expect("a case has its expectation");
            let (mut verifier, mut findings) = (Verifier::new(PeerDialect::new(dialect)), Vec::new());
            verifier.push(&stream, &mut findings);
            verifier.finish(&mut findings);
            seen += 1;
            findings.retain(|finding| finding.rule.severity() == RuleSeverity::Violation);
            wrong.extend(findings.into_iter().map(|finding| format!("{}: {finding:?}", case.display())));
        }
    }
    assert!(seen > 40, "only {seen} streams");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
