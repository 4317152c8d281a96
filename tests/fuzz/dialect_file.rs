//! Target `dialect-file`: a file that describes an agent's dialect.
//!
//! The laws: compiling again gives the same; whatever the rules do with the file's own examples, the client's verifier accepts it,
//! it does not depend on pieces or on the shortcut, and a request is JSON or refused; the work is at most that of each rule on each
//! byte.

use crate::judge::{Judge, accepts};
use crate::sides::{Sides, cut, ids, side};
use crate::work;
use diglot::dialect::PeerDialect;
use diglot::fuzzing::config::CompiledDialect;
use diglot::translate::request::translate_request;
use std::sync::atomic::{AtomicUsize, Ordering};

const BASE_WORK: u64 = 2_000_000;
const WORK_PER_BYTE: u64 = 10_000;

/// Work of one rule on one byte of an example, when a rule has some 32 bytes.
const WORK_PER_PAIR: u64 = 60;

/// Files that are run: a dialect lives as long as the process.
const MAX_RUNS: usize = 5_000;

static RUNS: AtomicUsize = AtomicUsize::new(0);

pub fn run(input: &[u8]) {
    // A reference to a variable is a mistake here, which is quoted.
    let judge = Judge { target: "dialect-file", input };
    let (compiled, work) = work::measure(|| CompiledDialect::compile(input));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    let again = CompiledDialect::compile(input);
    judge
        .require(format!("{again:?}") == format!("{compiled:?}"), || "compiling again gives another result".to_owned());
    let Ok(compiled) = compiled else { return };
    if RUNS.fetch_add(1, Ordering::Relaxed) > MAX_RUNS {
        return;
    }
    let agent = compiled.agent();
    let (bodies, requests) = compiled.examples();
    for body in bodies {
        run_body(&judge, agent, body.as_bytes());
    }
    for request in requests {
        run_request(&judge, agent, &request);
    }
}

fn run_body(judge: &Judge<'_>, agent: PeerDialect, body: &[u8]) {
    for client in ["ag-ui", "hai"] {
        let Some(to) = side(client) else { continue };
        let sides = Sides { from: agent, to, is_strict: false, is_small: false };
        let (whole, work) = work::measure(|| sides.translate([body]));
        let allowed = BASE_WORK + WORK_PER_PAIR * (judge.input.len() as u64 / 32 + 8) * body.len() as u64;
        judge.require(work <= allowed, || {
            format!("{work} edges for a body of {} bytes, more than {allowed}", body.len())
        });
        judge.require(sides.translate(cut(body, 0)) == whole, || "the output depends on the pieces".to_owned());
        judge.require(sides.translate_in_full(body) == whole, || {
            format!("the shortcut translates in another way\n{}", String::from_utf8_lossy(&whole))
        });
        if let Err(why) = accepts(agent, to, &whole) {
            judge.fail(&format!("{why}\noutput\n{}", String::from_utf8_lossy(&whole)));
        }
    }
}

fn run_request(judge: &Judge<'_>, agent: PeerDialect, request: &str) {
    let Some(client) = side("ag-ui") else { return };
    if let Ok(made) = translate_request(request.as_bytes(), client, agent, &ids()) {
        let body: Result<serde_json::Value, _> = serde_json::from_str(&made.body);
        judge.require(body.is_ok(), || format!("the request is no JSON\n{}", made.body));
    }
}
