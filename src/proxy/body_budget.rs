//! Bounds the memory of all request bodies together.
//!
//! A body, and the head of its request, count from their first byte until the agent has received them; a request whose
//! body has not arrived counts for its task, too. One caller, or one network without a credential, may use a quarter,
//! so that a few slow clients cannot lock out all others.

use crate::error::{Rejection, RejectionKind};
use crate::replay::ReplayKey;
use crate::sync::Mutex;
use crate::telemetry::Metrics;
use http::request::Parts;
use std::collections::HashMap;
use std::sync::Arc;

/// One caller's part of the budget; never less than one body.
const CALLER_SHARE: usize = 4;

/// Memory of a request's fields, as a multiple of their size (measured over HTTP/2: they are held decoded and encoded).
const HEAD_COPIES: usize = 2;

/// Maximum length of the body that the agent gets, as a multiple of the longest that a client may send: text that is
/// escaped once more takes twice its length, and may be carried beside that as it was.
const MAX_BODY_GROWTH: usize = 3;

/// The least that counts as the longest body of a client: what an agent's dialect adds does not depend on the client's
/// limit.
const LEAST_GROWING_BODY: usize = 1 << 20;

/// Memory of one field besides its text: its slots in maps.
const FIELD_SLOT: usize = 128;

/// Memory of a request that waits for its body (measured: HTTP/2 stream, task, buffers).
const AWAITED_BODY: usize = 16 << 10;

pub(super) struct BodyBudget {
    usage: Mutex<BodyUsage>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct BodyUsage {
    bounds: BodyBounds,
    total: usize,
    callers: HashMap<ReplayKey, usize>,
}

/// Limits in bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct BodyBounds {
    pub(super) one: usize,
    pub(super) all: usize,
}

/// The memory of one body, returned to the budget when dropped.
pub(super) struct BodyPermit {
    budget: Arc<BodyBudget>,
    caller: ReplayKey,
    /// memory of the request besides its body
    head: usize,
    /// the part of it that ends when the body has arrived
    awaited: usize,
    bytes: usize,
}

impl BodyBudget {
    pub(super) fn new(bounds: BodyBounds, metrics: Arc<Metrics>) -> Arc<Self> {
        let usage = BodyUsage { bounds, ..BodyUsage::default() };
        Arc::new(BodyBudget { usage: Mutex::new(usage), metrics })
    }

    /// Changes the limits. Bodies that are already in memory stay.
    pub(super) fn set_bounds(&self, bounds: BodyBounds) {
        self.usage.lock().bounds = bounds;
    }

    /// Counts a request whose body is still to come: one HTTP/2 connection may send a hundred with large heads.
    pub(super) fn start_body(self: &Arc<Self>, caller: ReplayKey, request: &Parts) -> Result<BodyPermit, Rejection> {
        let target = request.uri.path_and_query().map_or(0, |target| target.as_str().len());
        let text: usize = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let head = HEAD_COPIES * (target + text) + FIELD_SLOT * request.headers.len();
        self.start(caller, head, AWAITED_BODY)
    }

    fn start(self: &Arc<Self>, caller: ReplayKey, head: usize, awaited: usize) -> Result<BodyPermit, Rejection> {
        let mut permit = BodyPermit { budget: Arc::clone(self), caller, head: head + awaited, awaited, bytes: 0 };
        permit.grow_to(0)?;
        Ok(permit)
    }

    /// Counts nothing but the body.
    #[cfg(test)]
    pub(super) fn start_without_head(self: &Arc<Self>, caller: ReplayKey) -> BodyPermit {
        self.start(caller, 0, 0).expect("it takes nothing")
    }

    fn give_back(&self, caller: ReplayKey, bytes: usize) {
        let mut usage = self.usage.lock();
        usage.total -= bytes;
        self.metrics.process.body_bytes.set_count(usage.total);
        if let Some(callers_bytes) = usage.callers.get_mut(&caller) {
            *callers_bytes -= bytes;
            if *callers_bytes == 0 {
                usage.callers.remove(&caller);
            }
        }
    }
}

impl BodyPermit {
    /// Counts the body that the agent gets.
    pub(super) fn count_rewritten(&mut self, bytes: usize) -> Result<(), Rejection> {
        let one = self.budget.usage.lock().bounds.one;
        let limit = MAX_BODY_GROWTH * one.max(LEAST_GROWING_BODY);
        if bytes > limit {
            let detail = format!(
                "The request has {bytes} bytes in the agent's form, of which at most {limit} are sent (three times `limits.request_body`)."
            );
            return Err(Rejection::from(RejectionKind::BodyTooLarge).with_detail(detail));
        }
        self.grow(bytes, Some(bytes.max(one)))
    }

    /// Returns the memory of waiting for the body: from now on it is that of a run.
    pub(super) fn end_wait(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited > 0 {
            self.head -= awaited;
            self.bytes -= awaited;
            self.budget.give_back(self.caller, awaited);
        }
    }

    /// Counts a body that now takes `bytes` of memory.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), Rejection> {
        self.grow(bytes, None)
    }

    /// Counts a body; the longest has `one` bytes, or as many as a client may send.
    fn grow(&mut self, bytes: usize, one: Option<usize>) -> Result<(), Rejection> {
        let bytes = self.head + bytes;
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let mut usage = self.budget.usage.lock();
        // A body of the largest size fits even alone with its head.
        let one = one.unwrap_or(usage.bounds.one) + self.head;
        let all = usage.bounds.all.max(one);
        if usage.total + more > all {
            return Err(RejectionKind::BodiesFull.into());
        }
        let callers_bytes = usage.callers.get(&self.caller).copied().unwrap_or_default() + more;
        if callers_bytes > one.max(all / CALLER_SHARE) {
            let detail = "The bodies of this caller's requests take all the memory that one caller may use.";
            return Err(Rejection::from(RejectionKind::BodiesFull).with_detail(detail));
        }
        usage.callers.insert(self.caller, callers_bytes);
        usage.total += more;
        self.bytes = bytes;
        self.budget.metrics.process.body_bytes.set_count(usage.total);
        Ok(())
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.caller, self.bytes);
        }
    }
}

#[cfg(test)]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ReplayKey = [1; 32];

    fn budget(one: usize, all: usize) -> Arc<BodyBudget> {
        BodyBudget::new(BodyBounds { one, all }, Arc::new(Metrics::new().expect("metrics")))
    }

    fn start(budget: &Arc<BodyBudget>, caller: ReplayKey) -> BodyPermit {
        budget.start_without_head(caller)
    }

    #[test]
    fn counts_requests_whose_bodies_are_awaited() {
        let request = http::Request::post("/run").header(http::header::COOKIE, "x".repeat(14)).body(());
        let (parts, ()) = request.expect("a request").into_parts();
        let one = AWAITED_BODY + FIELD_SLOT + 2 * ("/run".len() + "cookie".len() + 14);
        let budget = budget(10, 4 * one);
        let mut permits: Vec<_> = (0..4).map(|caller| budget.start_body([caller; 32], &parts).expect("room")).collect();
        assert_eq!(budget.start_body([9; 32], &parts).err().map(|full| full.kind), Some(RejectionKind::BodiesFull));
        assert_eq!(budget.usage.lock().total, 4 * one);
        permits[0].end_wait();
        assert_eq!(budget.usage.lock().total, 4 * one - AWAITED_BODY);
        drop(permits);
        assert_eq!(budget.usage.lock().total, 0);
        assert!(budget.usage.lock().callers.is_empty());
    }

    #[test]
    fn refuses_bodies_beyond_the_total_until_others_are_dropped() {
        let budget = budget(10, 40);
        let mut permits: Vec<_> = (0..4).map(|caller| start(&budget, [caller; 32])).collect();
        for permit in &mut permits {
            permit.grow_to(10).expect("room");
        }
        let mut late = start(&budget, [9; 32]);
        assert_eq!(late.grow_to(1).expect_err("full").kind, RejectionKind::BodiesFull);
        assert_eq!(budget.usage.lock().total, 40);
        permits.pop();
        late.grow_to(10).expect("room");
        drop((late, permits));
        assert_eq!(budget.usage.lock().total, 0);
        assert!(budget.usage.lock().callers.is_empty());
    }

    #[test]
    fn counts_what_the_agent_gets_and_refuses_a_body_that_grew_too_much() {
        let one = LEAST_GROWING_BODY;
        let budget = budget(one, 3 * one);
        let mut first = start(&budget, ADA);
        first.grow_to(one).expect("room");
        // Alone, a body may have any length that is sent.
        first.count_rewritten(3 * one).expect("room");
        assert_eq!(budget.usage.lock().total, 3 * one);
        assert_eq!(start(&budget, [2; 32]).grow_to(1).expect_err("full").kind, RejectionKind::BodiesFull);
        let refused = first.count_rewritten(3 * one + 1).expect_err("too long");
        assert_eq!((refused.kind, refused.message().contains("3145729 bytes")), (RejectionKind::BodyTooLarge, true));
        drop(first);
        assert_eq!(budget.usage.lock().total, 0);
    }

    #[test]
    fn leaves_room_for_other_callers() {
        let budget = budget(10, 80);
        let mut first = start(&budget, ADA);
        let mut second = start(&budget, ADA);
        first.grow_to(10).expect("room");
        second.grow_to(10).expect("room");
        assert_eq!(start(&budget, ADA).grow_to(1).expect_err("share").kind, RejectionKind::BodiesFull);
        start(&budget, [2; 32]).grow_to(10).expect("room for others");
        // One body is always within the share.
        budget.set_bounds(BodyBounds { one: 10, all: 30 });
        drop((first, second));
        start(&budget, ADA).grow_to(10).expect("room");
    }
}
