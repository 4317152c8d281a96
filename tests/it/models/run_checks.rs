//! Searches the life of a resumable run: as it is, and without each guard.

use super::resumable_run::{
    Guard, NEVER_404, NOT_LOST, ONE_END, ONE_ORDER, ONE_OWNER, ONLY_ITS_CALLER, READ_TO_END, STOP_KEPT, Scenario,
};
use super::search::{Violation, search};

/// More states than any scenario has.
const LIMIT: usize = 150_000;

/// Two clients of one caller, each with two requests, and nothing that fails.
const QUIET: Scenario = Scenario {
    removed: None,
    second_starts_with: None,
    crashes: 0,
    panics: 0,
    link_failures: 0,
    lost_answers: 0,
    data_losses: 0,
    failovers: 0,
    trims: 0,
    stops: 0,
    requests: [2, 2],
    events: 1,
};

const ONE_REQUEST: Scenario = Scenario { requests: [1, 1], ..QUIET };
const TWO_STARTS: Scenario = Scenario { second_starts_with: Some(0), requests: [1, 2], lost_answers: 1, ..QUIET };
const TWO_STARTS_WITHOUT_REDIS: Scenario =
    Scenario { second_starts_with: Some(0), link_failures: 1, events: 0, ..ONE_REQUEST };
const ANOTHER_BODY: Scenario = Scenario { second_starts_with: Some(1), requests: [1, 2], crashes: 1, ..QUIET };
const CRASH: Scenario = Scenario { crashes: 1, trims: 1, ..QUIET };
const CRASH_AND_LOST_ANSWER: Scenario = Scenario { crashes: 1, lost_answers: 1, requests: [2, 1], ..QUIET };
const CUT_OFF: Scenario = Scenario { link_failures: 1, requests: [1, 2], ..QUIET };
const CUT_OFF_AND_TRIMMED: Scenario = Scenario { trims: 1, link_failures: 1, ..ONE_REQUEST };
const DATA_LOSS: Scenario = Scenario { data_losses: 1, requests: [1, 2], ..QUIET };
const DATA_LOSS_OF_A_LONGER_RUN: Scenario = Scenario { data_losses: 1, events: 2, ..ONE_REQUEST };
const DATA_LOSS_WHILE_CUT_OFF: Scenario = Scenario { data_losses: 1, link_failures: 1, events: 0, ..ONE_REQUEST };
const FAILOVER: Scenario = Scenario { failovers: 1, requests: [1, 2], ..QUIET };
const FAILOVER_AND_CRASH: Scenario = Scenario { failovers: 1, crashes: 1, ..ONE_REQUEST };
const STOP: Scenario = Scenario { stops: 1, link_failures: 1, events: 0, ..ONE_REQUEST };
const STOP_AND_PANIC: Scenario = Scenario { stops: 1, lost_answers: 1, panics: 1, requests: [1, 2], ..QUIET };

fn assert_holds(scenario: Scenario) {
    if let Err(violation) = search(&scenario, LIMIT) {
        panic!("{violation}");
    }
}

/// Searches without the guard, and returns what is violated.
fn search_without(guard: Guard, scenario: Scenario) -> Violation {
    match search(&Scenario { removed: Some(guard), ..scenario }, LIMIT) {
        Ok(states) => panic!("{guard:?} is not needed in {states} states"),
        Err(violation) => violation,
    }
}

macro_rules! holds {
    ($($name:ident: $scenario:expr;)+) => { $(#[test] fn $name() { assert_holds($scenario); })+ };
}

holds! {
    holds_when_two_replicas_get_the_same_request_at_once: TWO_STARTS;
    holds_when_two_replicas_start_the_run_without_redis: TWO_STARTS_WITHOUT_REDIS;
    holds_when_the_owner_dies_and_another_request_has_the_id: ANOTHER_BODY;
    holds_when_a_replica_dies: CRASH;
    holds_when_a_replica_dies_and_an_answer_is_lost: CRASH_AND_LOST_ANSWER;
    holds_when_a_replica_is_cut_off_from_redis: CUT_OFF;
    holds_when_a_replica_is_cut_off_and_the_log_is_trimmed: CUT_OFF_AND_TRIMMED;
    holds_when_redis_loses_its_data: DATA_LOSS;
    holds_when_redis_loses_its_data_and_a_replica_is_cut_off: DATA_LOSS_WHILE_CUT_OFF;
    holds_when_redis_fails_over_to_an_older_copy: FAILOVER;
    holds_when_redis_fails_over_and_a_replica_dies: FAILOVER_AND_CRASH;
    holds_when_a_client_stops_the_run: STOP;
    holds_when_a_run_is_stopped_or_fails: STOP_AND_PANIC;
}

/// Each guard, a scenario that needs it, and the property that fails without it.
#[rustfmt::skip]
const GUARDS: &[(Guard, Scenario, &str)] = &[
    (Guard::CallerInKey, QUIET, ONLY_ITS_CALLER),
    (Guard::ClaimBeforeStart, TWO_STARTS, ONE_OWNER),
    (Guard::LeaseBeforeReplacing, ANOTHER_BODY, ONE_OWNER),
    (Guard::ClaimIsIdempotent, TWO_STARTS, READ_TO_END),
    (Guard::NumberInEnd, FAILOVER, ONE_END),
    (Guard::NoErrorBehindEnd, CRASH, ONE_END),
    (Guard::FillersBeforeError, CRASH, ONE_END),
    (Guard::OwnerLostAfter, DATA_LOSS, NOT_LOST),
    (Guard::SettleTime, DATA_LOSS, NEVER_404),
    (Guard::VerifyAfterLoss, DATA_LOSS, NEVER_404),
    (Guard::CopyAfterEnd, CUT_OFF, READ_TO_END),
    (Guard::SendStopFirst, STOP, STOP_KEPT),
    (Guard::SkipKnownFrames, DATA_LOSS_OF_A_LONGER_RUN, ONE_ORDER),
    (Guard::DetectGap, CUT_OFF_AND_TRIMMED, ONE_ORDER),
    (Guard::TokenInCursor, ANOTHER_BODY, ONE_ORDER),
];

#[test]
fn every_guard_is_needed() {
    for (guard, scenario, property) in GUARDS {
        let found = search_without(*guard, *scenario);
        assert_eq!(found.property, *property, "without {guard:?}: {found}");
    }
}
