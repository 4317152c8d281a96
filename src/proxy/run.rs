//! One run: a task that is fed by the agent and read by the client.
//!
//! ```text
//!   Asking ── head of an event stream ──▶ Streaming ── terminal event, end, failure ──▶ Ended
//!     │ refusal, no event stream                │ the client left, the gateway ends
//!     │                                         ╰ a stream of an agent of two steps broke: it is asked to go on
//!     └──▶ refused (problem document, or RUN_ERROR when the client was answered already)
//! ```
//! While it waits for the agent it also waits for the client to leave (or, on a route whose runs outlive their clients, for
//! nobody to have listened for long, or for its being stopped), for the gateway's end, and for its own clock, which sends
//! keep-alives and ends an agent that fell silent.

use super::audience::Audience;
use super::clock::{Clock, Over, now};
use super::end::{End, Interrupt, put_away};
use super::lifecycle::Watch;
use super::plan::{Plan, Question};
use super::steps::{Call, Events, Tries, is_break, may_come_back};
use super::upstream::Session;
use crate::config::access::{Errors, OnExpiry};
use crate::error::{Kind, Rejection};
use crate::event::run::Ending;
use crate::replay::Lost;
use crate::telemetry::label::Outcome;
use crate::telemetry::occurrence;
use crate::translate::{Fault, Stream};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Bytes for the client that are gathered before they are handed over, when the agent has more ready.
const BATCH: usize = 32 << 10;

/// What the client is answered with, as soon as it is known.
pub(super) type Head = Result<(), Rejection>;

pub(super) struct Run {
    plan: Plan,
    stream: Stream,
    /// where an agent of two steps has its events, and how often it was asked to go on
    events: Option<Box<(Arc<Events>, Tries)>>,
    audience: Audience,
    head: Option<oneshot::Sender<Head>>,
    clock: Clock,
    out: Vec<u8>,
    /// since when the client has what was said, once something was
    said: Option<Instant>,
}

impl Run {
    pub(super) fn new(plan: Plan, stream: Stream, audience: Audience, head: oneshot::Sender<Head>) -> Self {
        let clock = plan.clock();
        Run { plan, stream, events: None, audience, head: Some(head), clock, out: Vec::new(), said: None }
    }

    /// Runs to the end and says how it was.
    ///
    /// Boxed, because a future keeps two places for what it is given by value.
    pub(super) async fn go(mut self: Box<Self>, question: Box<Question>) {
        // Boxed are what comes before the long part of the run, what ends it, and an end that is kept through it: a run
        // that waits for its agent shall be small.
        let end = match self.ask(question).boxed().await.map_err(Box::new) {
            Ok(session) => self.relay(session).await,
            Err(end) => *end,
        };
        let (audience, mut lifecycle) = self.close(end).boxed().await;
        // Nothing is left of the run but what its client has not read, and what is held for it.
        tokio::select! {
            // First, because its body ends only once that was begun.
            biased;
            () = audience.finish() => {}
            () = lifecycle.cut() => {}
        }
    }

    /// Sends the request and reads the head of the response that is the stream.
    async fn ask(&mut self, question: Box<Question>) -> Result<Box<Session>, End> {
        let Question { fields, calls, body, framings } = *question;
        let cluster = Arc::clone(&self.plan.cluster);
        let call = Call {
            cluster: Arc::clone(&cluster),
            connector: Arc::clone(&self.plan.connector),
            request_id: self.plan.account.request_id.clone(),
            calls,
            fields: Arc::new(fields),
        };
        // From here on it is the agent's time.
        self.clock.listen(cluster.first_byte());
        let Some(template) = cluster.events().cloned() else {
            let (session, framing) = self.answer(call.run(body, framings).boxed()).await?;
            self.stream.read_as(framing);
            return Ok(session);
        };
        let ids = self.plan.account.ids.clone();
        let events = self.answer(async move { call.start(body, &ids, &template).await }.boxed()).await?;
        self.stream.follow(events.run_id.as_deref());
        let events = Arc::new(events);
        self.events = Some(Box::new((Arc::clone(&events), Tries::default())));
        // Each step has the whole time.
        self.clock.listen(cluster.first_byte());
        self.answer(async move { events.open(None).await }.boxed()).await
    }

    /// Waits for the agent's answer to one request.
    ///
    /// Boxed: connecting is a large future, and it is over before the long part of the run begins.
    async fn answer<T>(&mut self, asking: BoxFuture<'static, Result<T, Rejection>>) -> Result<T, End> {
        match self.attend(asking).await {
            Ok(answer) => answer.map_err(End::Failed),
            Err(Interrupt::Over(Over::Silent)) => Err(End::Failed(Kind::UpstreamTimeout.into())),
            Err(interrupt) => Err(End::of_interrupt(interrupt, &self.plan)),
        }
    }

    /// Passes the stream on until it ends.
    async fn relay(&mut self, mut session: Box<Session>) -> End {
        if let Some(head) = self.head.take() {
            // The client may have been answered already, while the agent took its time.
            let _ = head.send(Ok(()));
        }
        self.clock.listen(self.plan.cluster.idle());
        self.plan.account.upstream = Some(session.upstream());
        loop {
            match self.read(&mut session).await {
                Ok(true) if self.stream.ending().is_none() => {}
                // Boxed: it comes once, and is larger than what waits for the next piece.
                last => match self.after(last).boxed().await {
                    Ok(next) => {
                        session.over(Some(&Kind::UpstreamReset.into()));
                        session = next;
                        continue;
                    }
                    Err(end) => {
                        // Of every other end the agent is not the cause: the span says that nobody waits for it any more.
                        if matches!(end, End::Said(_) | End::Failed(_)) {
                            session.over(end.failure());
                        }
                        if matches!(end, End::Said(_)) {
                            let (cluster, connector) =
                                (Arc::clone(&self.plan.cluster), Arc::clone(&self.plan.connector));
                            tokio::spawn(async move { put_away(session, &cluster, &connector).await });
                        }
                        return end;
                    }
                },
            }
            if let Err(lost) = self.hand_over().await {
                return lost.into();
            }
            // An agent that floods never lets the run wait, so the gateway's end and the run's bounds are looked for here
            // as well.
            if self.plan.lifecycle.is_cut() {
                return End::Drained;
            }
            if let Some(over) = self.clock.passed() {
                return End::over(over, &self.plan);
            }
        }
    }

    /// What follows the last read of a body: another body that goes on from there, or the end.
    async fn after(&mut self, last: Result<bool, End>) -> Result<Box<Session>, End> {
        let broke = match &last {
            Ok(more) => !more,
            Err(End::Failed(why)) => is_break(why),
            Err(_) => false,
        };
        let mut silence = None;
        if broke && self.events.is_some() && self.stream.ending().is_none() {
            match self.go_on().await? {
                Ok(next) => return Ok(next),
                Err(why) => silence = why,
            }
        }
        let end = match (last, self.stream.ending()) {
            (Ok(true), Some(ending)) => End::Said(ending),
            (Ok(_), _) => self.finish(),
            (Err(end), _) => end,
        };
        let end = end.because(silence);
        // The terminal event is the end, whatever came behind it.
        let end = self.stream.ending().map_or(end, End::Said);
        self.hand_over().await?;
        Err(end)
    }

    /// Asks an agent whose stream broke for what is behind the last event that came. Otherwise says why it does not go on,
    /// if it was asked.
    async fn go_on(&mut self) -> Result<Result<Box<Session>, Option<Rejection>>, End> {
        // What came is heard first: the agent may take its time.
        self.hand_over().await?;
        let mut failure = None;
        while let (Some(state), Some(id)) = (&mut self.events, self.stream.last_id()) {
            let (events, tries) = &mut **state;
            let Some(wait) = tries.next(id, self.stream.retry()) else { break };
            let (events, id) = (Arc::clone(events), id.to_owned());
            let asking = async move {
                tokio::time::sleep(wait).await;
                events.open(Some(&id)).await
            };
            self.clock.listen(wait + self.plan.cluster.first_byte());
            match self.answer(asking.boxed()).await {
                Ok(session) => {
                    let last_event_id = self.stream.last_id().unwrap_or_default();
                    occurrence::Resumed { run: self.plan.account.which(), last_event_id }.emit();
                    self.plan.account.resumed += 1;
                    self.stream.resume();
                    self.clock.listen(self.plan.cluster.idle());
                    return Ok(Ok(session));
                }
                Err(End::Failed(why)) => {
                    let hopeless = !may_come_back(&why);
                    failure = Some(why);
                    if hopeless {
                        break;
                    }
                }
                Err(end) => return Err(end),
            }
        }
        Ok(Err(failure))
    }

    /// Counts what was read and written since the last time.
    fn count(&mut self) {
        let (account, report) = (&mut self.plan.account, self.stream.report_mut());
        if let Some(sign) = account.metrics.count(report, &mut account.totals) {
            account.dialects.1 = report.agent;
            let (run, dialect, because) = (account.which(), sign.dialect.name, sign.words);
            occurrence::Detected { run, side: "agent", dialect, because }.emit();
            // The agents of a route are alike, so the first that is told tells for all.
            let _ = self.plan.learned.set(sign.dialect);
        }
    }

    /// Reads at least one piece, and whatever else is there, up to a batch. `false` at the end of the body.
    async fn read(&mut self, session: &mut Session) -> Result<bool, End> {
        let mut piece =
            Piece { stream: &mut self.stream, out: &mut self.out, read: 0, took: Duration::ZERO, fault: None };
        // Most reads find bytes at once; only one that does not is worth a wait for everything else.
        let mut first = session.body(|bytes| piece.take(bytes)).now_or_never();
        if first.is_none() {
            let waiting = Self::wait(&self.audience, &mut self.plan, &mut self.clock, &mut self.head);
            first = Some(tokio::select! {
                biased;
                read = session.body(|bytes| piece.take(bytes)) => read,
                interrupt = waiting => return Err(End::of_interrupt(interrupt, &self.plan)),
            });
        }
        let mut read = first;
        let last = loop {
            match read {
                None => break Ok(true),
                Some(Ok(true))
                    if piece.fault.is_none() && piece.out.len() < BATCH && piece.stream.ending().is_none() => {}
                Some(last) => break last,
            }
            read = session.body(|bytes| piece.take(bytes)).now_or_never();
        };
        let (bytes, took, fault) = (piece.read, piece.took, piece.fault);
        self.clock.heard();
        // A read that fails at its end has read what came before.
        self.plan.account.metrics.bytes_read(bytes);
        self.plan.account.bytes.0 += bytes as u64;
        if bytes > 0 {
            self.plan.account.metrics.translated(self.stream.report_mut(), took);
        }
        match fault {
            Some(fault) => Err(End::of_fault(fault, &self.stream, &self.plan)),
            None => last.map_err(|why| End::Failed(*why)),
        }
    }

    fn finish(&mut self) -> End {
        match self.stream.finish(now(), &mut self.out) {
            Ok(()) => End::Said(self.stream.ending().unwrap_or(Ending::Failed)),
            Err(fault) => End::of_fault(fault, &self.stream, &self.plan),
        }
    }

    /// Waits for `future`, and meanwhile for everything else that can happen to a run.
    async fn attend<F: Future + Unpin>(&mut self, future: F) -> Result<F::Output, Interrupt> {
        let waiting = Self::wait(&self.audience, &mut self.plan, &mut self.clock, &mut self.head);
        tokio::select! {
            biased;
            output = future => Ok(output),
            interrupt = waiting => Err(interrupt),
        }
    }

    async fn wait(
        audience: &Audience,
        plan: &mut Plan,
        clock: &mut Clock,
        head: &mut Option<oneshot::Sender<Head>>,
    ) -> Interrupt {
        loop {
            tokio::select! {
                lost = audience.gone() => return Interrupt::Lost(lost),
                () = plan.lifecycle.cut() => return Interrupt::Cut,
                tick = clock.tick() => {
                    let due = match tick {
                        Err(over) => return Interrupt::Over(over),
                        Ok(due) => due,
                    };
                    // The agent may say little, so that there is room for a client that takes nothing.
                    if let Err(lost) = audience.check() {
                        return Interrupt::Lost(lost);
                    }
                    if due {
                        // Before the client was answered there is nothing to keep alive.
                        audience.keep_alive(head.as_ref().is_none_or(oneshot::Sender::is_closed));
                    }
                }
            }
        }
    }

    /// Gives what was translated to the client, waiting while it is slow.
    async fn hand_over(&mut self) -> Result<(), Lost> {
        self.count();
        if self.out.is_empty() {
            // An agent that floods with what is no event never lets the run wait for its client's leaving.
            return self.audience.gone().now_or_never().map_or(Ok(()), Err);
        }
        let account = &mut self.plan.account;
        match self.said {
            Some(said) => account.metrics.gap(said.elapsed()),
            None => {
                let first = account.began.elapsed();
                account.metrics.first_event(first);
                account.first_event = Some(first);
                self.clock.lift(Over::NoEvent);
            }
        }
        let (length, number) = (self.out.len(), self.stream.number());
        tokio::select! {
            biased;
            written = self.audience.write(&mut self.out, number) => written?,
            // A client that does not read cannot hold the process back for longer than its drain, and may read yet.
            () = self.plan.lifecycle.cut() => self.audience.push(&mut self.out, number)?,
            // Nor keep its run beyond a bound.
            () = self.clock.ended() => self.audience.push(&mut self.out, number)?,
            // Nor at all, when it reads nothing of what waits for it.
            lost = self.audience.stalled() => return Err(lost),
        }
        self.said = Some(self.clock.told());
        self.count_bytes(length);
        Ok(())
    }

    fn count_bytes(&mut self, length: usize) {
        self.plan.account.metrics.bytes_written(length);
        self.plan.account.bytes.1 += length as u64;
    }

    /// Says the last word to the client, the log and the metrics.
    async fn close(mut self: Box<Self>, end: End) -> (Audience, Watch) {
        let end = match end {
            End::ClientGone if self.audience.is_unread() => End::Unread,
            end => end,
        };
        let cut = matches!(end, End::Expired) && self.plan.access.on_token_expiry == OnExpiry::Close;
        let stopped = matches!(end, End::Stopped);
        let (outcome, mut rejection) = end.told();
        let refused = match (&rejection, self.head.take()) {
            (Some(rejection), Some(head)) if !head.is_closed() => {
                // Before its client hears of it, which may ask again at once.
                self.audience.forget();
                head.send(Err(rejection.clone())).is_ok()
            }
            (None, Some(head)) => {
                // Who waits for the answer hears the end in the stream.
                let _ = head.send(Ok(()));
                false
            }
            _ => false,
        };
        if let Some(rejection) = rejection.as_ref().filter(|_| refused && self.plan.access.errors == Errors::Http) {
            self.plan.account.status = rejection.status();
        }
        match &rejection {
            // It was refused to its only client.
            Some(_) if refused && !self.audience.is_open() => {}
            Some(_) if cut => self.audience.cut(),
            Some(rejection) => self.fail(rejection).await,
            None if stopped => {
                self.stream.cancel(now(), &mut self.out);
                self.say().await;
            }
            // Who comes back hears why there is no more.
            None if outcome == Outcome::ClientGone && self.audience.is_open() => {
                self.fail(rejection.insert(Kind::RunAbandoned.into())).await;
            }
            None => {}
        }
        // What was read and made no event for the client is counted as well.
        self.count();
        self.plan.account.readers = self.audience.readers();
        self.plan.account.close(outcome, rejection.as_ref());
        (self.audience, self.plan.lifecycle)
    }

    /// Ends the run with the gateway's own error.
    async fn fail(&mut self, rejection: &Rejection) {
        self.stream.fail(rejection.kind.code(), rejection.message(), now(), &mut self.out);
        self.say().await;
    }

    /// Says the last words.
    async fn say(&mut self) {
        if self.hand_over().await.is_err() {
            // A client that left meanwhile misses nothing it could hear; one that comes back does.
            self.count_bytes(self.out.len());
            let _ = self.audience.push(&mut self.out, self.stream.number());
        }
    }
}

/// Where a piece of the agent's body goes.
struct Piece<'r> {
    stream: &'r mut Stream,
    out: &'r mut Vec<u8>,
    read: usize,
    /// how long its translation took
    took: Duration,
    fault: Option<Fault>,
}

impl Piece<'_> {
    fn take(&mut self, bytes: &[u8]) {
        self.read += bytes.len();
        let began = Instant::now();
        if let Err(fault) = self.stream.push(bytes, now(), self.out) {
            self.fault = Some(fault);
        }
        self.took += began.elapsed();
    }
}
