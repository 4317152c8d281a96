//! The life of one resumable run: its caller, two replicas, and a Redis that fails.
//!
//! Each step stands for a function of `src/replay` or `src/proxy`, which its comment names. Time is no number here: a step
//! that needs time is possible once nothing that takes less time is pending. The assumptions are those of the constants: a
//! process that lives and reaches Redis renews its lease within `OWNER_LOST_AFTER`; all runs are copied again within
//! `SETTLE_TIME`; followers read a run to its end before its key expires.

use super::redis_model::{ClaimAnswer, Frame, RedisModel, RunState, WriteAnswer};
use super::search::{Protocol, Step};

pub const ONE_OWNER: &str = "at most one replica owns the run, unless Redis lost data or the owner its lease";
pub const ONLY_ITS_CALLER: &str = "only the caller who started the run reads it";
pub const ONE_ORDER: &str =
    "every reader sees a beginning of one order: no event twice, none left out, none of another run";
pub const ONE_END: &str = "a body that ends whole has exactly one terminal event, its last";
pub const NOT_LOST: &str =
    "a run is reported lost only if its owner is dead, was cut off from Redis, or Redis lost data";
pub const NEVER_404: &str =
    "a run that a replica has copied is never reported as unknown while that replica reaches Redis";
pub const READ_TO_END: &str = "whoever reads on another replica waits only for a run that somebody still copies";
pub const STOP_KEPT: &str = "a stop that was confirmed to a client reaches the run";

/// A line of the code that a search can leave out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// the key of a run includes its caller (`run_key`)
    CallerInKey,
    /// a run is claimed before it starts (`claim_run`)
    ClaimBeforeStart,
    /// `CLAIM` does not replace an open run whose owner has a lease
    LeaseBeforeReplacing,
    /// `CLAIM` is idempotent for its token
    ClaimIsIdempotent,
    /// `END` compares the number of the last frame
    NumberInEnd,
    /// followers do not write an error behind a terminal event (`end_orphaned`)
    NoErrorBehindEnd,
    /// the error has a number that no event had that a client received and nobody copied (`run_lost_frames`)
    FillersBeforeError,
    /// followers wait for `OWNER_LOST_AFTER`
    OwnerLostAfter,
    /// a missing run may still exist until `SETTLE_TIME` is over (`is_settled`)
    SettleTime,
    /// publishers verify their runs after Redis has lost its data (`data_losses`)
    VerifyAfterLoss,
    /// an ended run is copied as long as it is kept, even after `END_TIMEOUT`
    CopyAfterEnd,
    /// a stop of another replica's run is sent before it is confirmed (`stop_run`)
    SendStopFirst,
    /// followers skip frames that they have (`frames_after`)
    SkipKnownFrames,
    /// followers end if frames are missing (`ReadStatus::Gap`)
    DetectGap,
    /// a cursor is valid only for the run with its token
    TokenInCursor,
}

/// The faults and actions of a search, and how often each may happen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scenario {
    pub removed: Option<Guard>,
    /// the second client starts the run, too, if this is its body; otherwise it only reads
    pub second_starts_with: Option<u8>,
    pub crashes: u8,
    pub panics: u8,
    pub link_failures: u8,
    pub lost_answers: u8,
    pub data_losses: u8,
    pub failovers: u8,
    pub trims: u8,
    pub stops: u8,
    /// requests of each client
    pub requests: [u8; 2],
    /// events of the agent before its last
    pub events: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    redis: RedisModel,
    /// an older copy that takes over at a failover
    standby: Option<RedisModel>,
    links: [bool; 2],
    replicas: [Replica; 2],
    clients: [Client; 2],
    /// what each token's owner has written, and whether a follower has reported the run as lost
    written: Vec<Written>,
    stranger_has_read: bool,
    /// Redis forgot a claim, or the lease of a living owner expired
    claims_lost: bool,
    /// Redis forgot the run, and nothing else: its key expired, or a failover took it back
    forgotten: bool,
    /// a failover took back the recorded end of a run
    end_lost: bool,
    stop_confirmed: Option<u8>,
    left: Budget,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Budget {
    crashes: u8,
    panics: u8,
    link_failures: u8,
    lost_answers: u8,
    data_losses: u8,
    failovers: u8,
    trims: u8,
    stops: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Written {
    frames: Vec<Frame>,
    lost: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Replica {
    alive: bool,
    settled: bool,
    verify_due: bool,
    run: Option<LocalRun>,
}

/// The run that a replica's store has under the key.
#[derive(Clone, PartialEq, Eq, Hash)]
enum LocalRun {
    Owned(OwnedRun),
    Followed(FollowedRun),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct OwnedRun {
    token: u8,
    body: u8,
    /// number of the last trimmed frame
    trimmed: u8,
    phase: Phase,
    publisher: Publisher,
    confirmed: bool,
    /// number of the last copied frame
    sent: u8,
    has_base: bool,
    /// number of the last frame in the summary
    summed: u8,
    /// number of the last frame that the mirror has read
    mirrored: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Open,
    Stopping,
    Finished,
    Cut,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Publisher {
    Restart,
    /// with a summary that replaces everything
    Summarize,
    /// with a summary that replaces the trimmed frames
    Condense,
    Copy,
    /// frames that are read from the mirror, and not yet written
    Pending {
        first: u8,
        last: u8,
    },
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct FollowedRun {
    token: u8,
    body: u8,
    owner: usize,
    /// the frames that the log's recap covers and those after it
    frames: Vec<Frame>,
    /// number of the first frame that is not only in the recap, less one
    recap_through: u8,
    last_read: u8,
    stop_requested: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    at: Place,
    token: Option<u8>,
    received: Vec<Frame>,
    requests: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Away,
    /// its POST has found no run and claims one
    Claiming(usize),
    Reading(usize),
    /// it has the end, or was told that the run is unknown or another's
    Done,
}

const NAMES: [&str; 2] = ["replica A", "replica B"];
const CLIENTS: [&str; 2] = ["client 1", "client 2"];
/// Frames of a run are numbered; these stand for the terminal ones.
const FINISHED: Frame = 10;
const CANCELLED: Frame = 11;
const LOST: Frame = 12;
/// An empty comment, which clients ignore.
const FILLER: Frame = 255;
/// As many as a client can be ahead of the copy; the code has more.
const FILLERS: usize = 3;

fn frame(token: u8, kind: u8) -> Frame {
    token * 16 + kind
}

fn is_terminal(frame: Frame) -> bool {
    frame != FILLER && frame % 16 >= FINISHED
}

fn count(frames: &[Frame]) -> u8 {
    u8::try_from(frames.len()).expect("few frames")
}

impl Protocol for Scenario {
    type State = World;

    fn first_state(&self) -> World {
        let replica = Replica { alive: true, settled: true, verify_due: false, run: None };
        let client = |requests| Client { at: Place::Away, token: None, received: Vec::new(), requests };
        World {
            redis: RedisModel { leases: [true; 2], ..RedisModel::default() },
            standby: None,
            links: [true; 2],
            replicas: [replica.clone(), replica],
            clients: self.requests.map(client),
            written: Vec::new(),
            stranger_has_read: false,
            claims_lost: false,
            forgotten: false,
            end_lost: false,
            stop_confirmed: None,
            left: Budget {
                crashes: self.crashes,
                panics: self.panics,
                link_failures: self.link_failures,
                lost_answers: self.lost_answers,
                data_losses: self.data_losses,
                failovers: self.failovers,
                trims: self.trims,
                stops: self.stops,
            },
            broken: None,
        }
    }

    fn steps(&self, from: &World) -> Vec<Step<World>> {
        let mut steps = Steps { scenario: self, from, found: Vec::new() };
        for at in 0..2 {
            steps.faults(at);
            if from.replicas[at].alive {
                steps.lease(at);
                match &from.replicas[at].run {
                    Some(LocalRun::Owned(run)) => {
                        steps.agent(at, run);
                        steps.publish(at, run);
                    }
                    Some(LocalRun::Followed(run)) => steps.follow(at, run),
                    None => {}
                }
                (0..2).for_each(|client| steps.client(client, at));
            }
        }
        steps.redis_faults();
        steps.expiry();
        steps.found
    }

    fn violation(&self, world: &World) -> Option<&'static str> {
        world.broken.or_else(|| world.find_violation())
    }

    fn is_at_rest(&self, world: &World) -> bool {
        let is_idle = |replica: &Replica| !replica.alive || replica.run.is_none();
        world.redis.run.is_none()
            && world.replicas.iter().all(is_idle)
            && world.clients.iter().all(|client| matches!(client.at, Place::Away | Place::Done))
    }
}

impl World {
    fn owned(&self, at: usize) -> Option<&OwnedRun> {
        match &self.replicas[at].run {
            Some(LocalRun::Owned(run)) if self.replicas[at].alive => Some(run),
            _ => None,
        }
    }

    fn owned_mut(&mut self, at: usize) -> &mut OwnedRun {
        let Some(LocalRun::Owned(run)) = &mut self.replicas[at].run else { panic!("an own run") };
        run
    }

    fn followed_mut(&mut self, at: usize) -> &mut FollowedRun {
        let Some(LocalRun::Followed(run)) = &mut self.replicas[at].run else { panic!("a followed run") };
        run
    }

    fn frames(&self, token: u8) -> &[Frame] {
        &self.written[usize::from(token)].frames
    }

    fn has_readers(&self, at: usize) -> bool {
        self.clients.iter().any(|client| client.at == Place::Reading(at))
    }

    /// Returns whether a living process copies the run.
    fn is_copied(&self, token: u8) -> bool {
        (0..2).any(|at| self.owned(at).is_some_and(|run| run.token == token && run.publisher != Publisher::Done))
    }

    fn copies(&self, at: usize) -> bool {
        self.owned(at).is_some_and(|run| run.publisher != Publisher::Done)
    }

    fn find_violation(&self) -> Option<&'static str> {
        if self.stranger_has_read {
            return Some(ONLY_ITS_CALLER);
        }
        let owners = (0..2).filter_map(|at| self.owned(at));
        let owners =
            owners.filter(|run| run.confirmed && run.publisher != Publisher::Done && run.phase == Phase::Open).count();
        if owners > 1 && !self.claims_lost {
            return Some(ONE_OWNER);
        }
        for client in &self.clients {
            let Some(token) = client.token else { continue };
            let Written { frames, lost } = &self.written[usize::from(token)];
            let mut events: Vec<Frame> = client.received.iter().copied().filter(|frame| *frame != FILLER).collect();
            if *lost {
                events.pop_if(|last| *last == frame(token, LOST));
            }
            if client.received.iter().filter(|frame| is_terminal(**frame)).count() > 1 {
                return Some(ONE_END);
            }
            if !frames.starts_with(&events) {
                return Some(ONE_ORDER);
            }
        }
        self.find_waiting_reader().or_else(|| self.find_lost_stop())
    }

    /// Finds a reader of an open run whose owner lives and has stopped copying.
    fn find_waiting_reader(&self) -> Option<&'static str> {
        let run = self.redis.run.as_ref().filter(|run| run.state == RunState::Open && !self.end_lost)?;
        let owner = run.owner;
        let other = 1 - owner;
        let follows = match &self.replicas[other].run {
            Some(LocalRun::Followed(followed)) => followed.token == run.token && self.replicas[other].alive,
            _ => false,
        };
        let waits = follows && self.has_readers(other) && self.links == [true; 2] && self.replicas[owner].alive;
        // A run that its owner does not keep is over for it, too.
        let is_kept = self.owned(owner).is_some_and(|own| own.token == run.token && own.phase != Phase::Cut);
        (waits && is_kept && !self.is_copied(run.token)).then_some(READ_TO_END)
    }

    fn find_lost_stop(&self) -> Option<&'static str> {
        let token = self.stop_confirmed.filter(|_| !self.claims_lost)?;
        let (at, run) = (0..2).find_map(|at| Some((at, self.owned(at)?))).filter(|(_, run)| run.token == token)?;
        let is_underway = self.redis.run.as_ref().is_none_or(|run| run.token != token || run.stop)
            || (0..2).any(|at| matches!(&self.replicas[at].run, Some(LocalRun::Followed(run)) if run.stop_requested));
        (run.phase == Phase::Open && self.links[at] && !is_underway).then_some(STOP_KEPT)
    }

    /// Gives new frames of the log to its readers; at its end, ends their bodies.
    fn deliver(&mut self, at: usize, ended: Option<BodyEnd>) {
        let (token, frames) = match &self.replicas[at].run {
            Some(LocalRun::Owned(run)) => (run.token, self.written[usize::from(run.token)].frames.clone()),
            Some(LocalRun::Followed(run)) => (run.token, run.frames.clone()),
            None => return,
        };
        let mut broken = None;
        for client in self.clients.iter_mut().filter(|client| client.at == Place::Reading(at)) {
            client.token = Some(token);
            client.received.extend(frames.iter().skip(client.received.len()));
            match ended {
                None => {}
                Some(BodyEnd::Whole) => {
                    client.at = Place::Done;
                    if !client.received.last().is_some_and(|last| is_terminal(*last)) {
                        broken = Some(ONE_END);
                    }
                }
                Some(BodyEnd::CutOff) => client.leave(),
            }
        }
        self.broken = self.broken.or(broken);
    }
}

impl Client {
    /// A client that has the terminal event does not come back.
    fn leave(&mut self) {
        let has_end = self.received.last().is_some_and(|last| is_terminal(*last));
        self.at = if has_end { Place::Done } else { Place::Away };
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Whole,
    CutOff,
}

struct Steps<'s> {
    scenario: &'s Scenario,
    from: &'s World,
    found: Vec<Step<World>>,
}

impl Steps<'_> {
    fn lacks(&self, guard: Guard) -> bool {
        self.scenario.removed == Some(guard)
    }

    fn add(&mut self, actor: &'static str, action: &'static str, calm: bool, change: impl FnOnce(&mut World)) {
        let mut next = self.from.clone();
        change(&mut next);
        if next != *self.from {
            self.found.push(Step { actor, action, next, calm });
        }
    }

    /// Calls Redis: it answers, or it executes the call and the answer is lost, or it cannot be reached.
    fn call<T>(
        &mut self,
        at: usize,
        action: &'static str,
        calm: bool,
        script: impl Fn(&mut World) -> T,
        then: impl Fn(&mut World, Option<T>),
    ) {
        if !self.from.links[at] {
            return self.add(NAMES[at], action, calm, |world| then(world, None));
        }
        if self.from.left.lost_answers > 0 {
            self.add(NAMES[at], "calls Redis, and the answer is lost", false, |world| {
                world.left.lost_answers -= 1;
                script(world);
                then(world, None);
            });
        }
        self.add(NAMES[at], action, calm, |world| {
            let answer = script(world);
            then(world, Some(answer));
        });
    }

    fn faults(&mut self, at: usize) {
        let replica = &self.from.replicas[at];
        if replica.alive && self.from.left.crashes > 0 {
            self.add(NAMES[at], "is killed", false, |world| {
                world.left.crashes -= 1;
                world.deliver(at, Some(BodyEnd::CutOff));
                world.replicas[at] = Replica { alive: false, settled: false, verify_due: false, run: None };
                for client in world.clients.iter_mut().filter(|client| client.at == Place::Claiming(at)) {
                    client.at = Place::Away;
                }
            });
        }
        if self.from.links[at] && self.from.left.link_failures > 0 {
            self.add(NAMES[at], "cannot reach Redis any more", false, |world| {
                world.left.link_failures -= 1;
                world.links[at] = false;
            });
        }
        if !self.from.links[at] {
            self.add(NAMES[at], "reaches Redis again", false, |world| world.links[at] = true);
        }
        if !(replica.alive && self.from.links[at]) && self.from.redis.leases[at] {
            self.add(NAMES[at], "loses its lease, which it did not renew", true, |world| {
                world.redis.leases[at] = false;
                world.claims_lost |= world.replicas[at].alive;
            });
        }
    }

    fn redis_faults(&mut self) {
        if self.from.left.data_losses > 0 {
            self.add("Redis", "loses all data", false, |world| {
                world.left.data_losses -= 1;
                world.claims_lost = true;
                world.redis = RedisModel::default();
            });
        }
        if self.from.left.failovers > 0 {
            match &self.from.standby {
                None => self.add("Redis", "is copied to its standby", false, |world| {
                    world.standby = Some(world.redis.clone());
                }),
                Some(standby) => {
                    self.add("Redis", "fails, and its standby with the older copy takes over", false, |world| {
                        world.left.failovers -= 1;
                        world.claims_lost = true;
                        world.forgotten = true;
                        world.redis = standby.clone();
                        let old = world.redis.run.as_ref().map(|run| run.token);
                        world.end_lost |= old.is_some_and(|token| !world.is_copied(token));
                        world.standby = None;
                    });
                }
            }
        }
    }

    /// Its owner renews the key of a run in progress; that of an ended run stays longer than a follower needs.
    fn expiry(&mut self) {
        if let Some(run) = &self.from.redis.run {
            let is_renewed = (0..2).any(|at| {
                self.from.links[at]
                    && self.from.copies(at)
                    && self.from.owned(at).is_some_and(|own| own.token == run.token)
            });
            let owner_is_awaited = run.state == RunState::Open && !self.from.redis.leases[run.owner];
            // A follower that is ahead of an older copy cannot end the run.
            let is_followed = |replica: &Replica| matches!(&replica.run, Some(LocalRun::Followed(other)) if other.token == run.token && other.last_read <= run.last);
            let is_read = (run.state != RunState::Open || owner_is_awaited)
                && (0..2).any(|at| self.from.links[at] && is_followed(&self.from.replicas[at]));
            if is_renewed || is_read {
                return;
            }
            let is_alive = (0..2).any(|at| self.from.owned(at).is_some_and(|own| own.token == run.token));
            self.add("Redis", "drops the expired run", true, |world| {
                world.claims_lost |= is_alive;
                world.forgotten |= is_alive;
                world.redis.run = None;
                world.redis.streams.clear();
            });
        }
    }

    /// `heartbeat_loop`, and the time after a loss of data
    fn lease(&mut self, at: usize) {
        if !self.from.links[at] {
            return;
        }
        if !self.from.redis.leases[at] {
            self.add(NAMES[at], "renews its lease and finds that it was missing", true, |world| {
                world.redis.heartbeat(at);
                world.replicas[at].settled = false;
                world.replicas[at].verify_due = world.owned(at).is_some();
            });
        }
        let is_copied_again = |other: usize| {
            let replica = &self.from.replicas[other];
            let restarts = |run: &OwnedRun| matches!(run.publisher, Publisher::Restart | Publisher::Summarize);
            !replica.alive
                || !self.from.links[other]
                || (self.from.redis.leases[other]
                    && (!replica.verify_due || self.lacks(Guard::VerifyAfterLoss) || !self.from.copies(other))
                    && !self.from.owned(other).is_some_and(restarts))
        };
        let may_settle = self.lacks(Guard::SettleTime) || (0..2).all(is_copied_again);
        if !self.from.replicas[at].settled && self.from.redis.leases[at] && may_settle {
            self.add(NAMES[at], "waits until all runs are copied again", true, |world| {
                world.replicas[at].settled = true;
                // A replica that was cut off for all this time copies its run later.
                world.forgotten |= world.copies(1 - at) && !world.links[1 - at];
            });
        }
    }

    fn is_in_redis(&self, token: u8) -> bool {
        self.from.redis.run.as_ref().is_some_and(|run| run.token == token)
    }

    /// The agent of a run, and the task that writes its log.
    fn agent(&mut self, at: usize, run: &OwnedRun) {
        let token = run.token;
        let written = self.from.frames(token);
        let has_ended = written.last().is_some_and(|last| is_terminal(*last));
        match run.phase {
            Phase::Open | Phase::Stopping if has_ended => self.add(NAMES[at], "finishes the log", true, |world| {
                world.owned_mut(at).phase = Phase::Finished;
                world.deliver(at, Some(BodyEnd::Whole));
            }),
            Phase::Open => {
                let next = if count(written) < self.scenario.events { count(written) + 1 } else { FINISHED };
                self.add(NAMES[at], "writes the agent's next event", true, |world| {
                    world.written[usize::from(token)].frames.push(frame(token, next));
                    world.deliver(at, None);
                });
            }
            Phase::Stopping => self.add(NAMES[at], "writes the end of a stopped run", true, |world| {
                world.written[usize::from(token)].frames.push(frame(token, CANCELLED));
                world.deliver(at, None);
            }),
            // `RunStore::sweep`; the run stays longer than Redis can be silent about it.
            Phase::Finished | Phase::Cut if run.publisher == Publisher::Done || !self.is_in_redis(token) => {
                self.add(NAMES[at], "evicts the ended run", true, |world| world.replicas[at].run = None);
            }
            Phase::Finished | Phase::Cut => {}
        }
        if self.from.left.panics > 0 && run.phase == Phase::Open {
            self.add(NAMES[at], "fails, and cuts the log without an end", false, |world| {
                world.left.panics -= 1;
                world.owned_mut(at).phase = Phase::Cut;
                world.deliver(at, Some(BodyEnd::CutOff));
            });
        }
        if self.from.left.trims > 0 && run.trimmed == 0 && written.len() > 1 && run.phase == Phase::Open {
            self.add(NAMES[at], "folds the first event into the recap", false, |world| {
                world.left.trims -= 1;
                world.owned_mut(at).trimmed = 1;
            });
        }
    }

    /// `RunPublisher::copy_log`
    fn publish(&mut self, at: usize, run: &OwnedRun) {
        if run.publisher == Publisher::Done {
            return;
        }
        let token = run.token;
        let is_over = matches!(run.phase, Phase::Finished | Phase::Cut);
        let gives_up = if run.phase == Phase::Finished { self.lacks(Guard::CopyAfterEnd) } else { is_over };
        if is_over && gives_up && !self.from.links[at] {
            self.add(NAMES[at], "gives up copying the ended run", true, |world| {
                world.owned_mut(at).publisher = Publisher::Done;
            });
        }
        if self.from.replicas[at].verify_due && run.publisher == Publisher::Copy && !self.lacks(Guard::VerifyAfterLoss)
        {
            // `verify`
            self.call(
                at,
                "verifies its run",
                true,
                |world| world.redis.touch(token, world.owned(at).map_or(0, |run| run.sent)),
                move |world, answer| {
                    world.replicas[at].verify_due &= answer.is_none();
                    world.note_answer(at, answer);
                },
            );
        }
        match run.publisher {
            Publisher::Restart => self.restart(at, run),
            Publisher::Summarize | Publisher::Condense => {
                let anew = run.publisher == Publisher::Summarize;
                self.call(
                    at,
                    "writes a summary",
                    true,
                    move |world| world.write_summary(at, anew),
                    move |world, answer| {
                        world.note_summary(at, answer);
                        if answer == Some(WriteAnswer::Written) {
                            world.owned_mut(at).publisher = Publisher::Copy;
                        }
                    },
                );
            }
            Publisher::Copy => self.next_event(at, run),
            Publisher::Pending { first, last } => self.append(at, run, first, last),
            Publisher::Done => {}
        }
    }

    /// `RunPublisher::restart`, without the summary
    fn restart(&mut self, at: usize, run: &OwnedRun) {
        let OwnedRun { token, body, .. } = *run;
        let idempotent = !self.lacks(Guard::ClaimIsIdempotent);
        self.call(
            at,
            "claims its run again",
            true,
            move |world| world.claim(token, body, at, idempotent),
            move |world, answer| {
                let run = world.owned_mut(at);
                match answer {
                    Some(ClaimAnswer::Mine) => {
                        run.publisher = Publisher::Summarize;
                        run.confirmed = true;
                        run.sent = 0;
                        run.mirrored = 0;
                        run.summed = 0;
                        run.has_base = false;
                    }
                    Some(_) => run.publisher = Publisher::Done,
                    None => {}
                }
            },
        );
    }

    /// `LogMirror::next`, and `publish` of the events that need no frames
    fn next_event(&mut self, at: usize, run: &OwnedRun) {
        let OwnedRun { token, trimmed, sent, mirrored, .. } = *run;
        let length = count(self.from.frames(token));
        if run.phase == Phase::Cut {
            return self.end(at, RunState::Cut);
        }
        if mirrored < trimmed {
            return self.add(NAMES[at], "finds that events were folded before it copied them", true, |world| {
                let run = world.owned_mut(at);
                run.mirrored = trimmed;
                if trimmed > sent {
                    run.publisher = Publisher::Summarize;
                }
            });
        }
        if mirrored == length {
            return if run.phase == Phase::Finished {
                self.end(at, RunState::Ended);
            };
        }
        // The first event is a chunk of its own.
        let last = if mirrored == 0 { 1 } else { length };
        self.append(at, run, mirrored + 1, last);
    }

    /// `RunPublisher::append`
    fn append(&mut self, at: usize, run: &OwnedRun, first: u8, last: u8) {
        let OwnedRun { token, sent, .. } = *run;
        if !run.has_base {
            return self.call(
                at,
                "writes the first summary",
                true,
                move |world| world.write_summary(at, true),
                move |world, answer| {
                    world.note_summary(at, answer);
                },
            );
        }
        if last <= sent {
            return self.add(NAMES[at], "finds that the summary covers its events", true, |world| {
                let run = world.owned_mut(at);
                run.mirrored = last;
                run.publisher = Publisher::Copy;
            });
        }
        self.call(
            at,
            "appends its events",
            true,
            move |world| {
                let from = first.max(sent + 1);
                let frames = world.frames(token)[usize::from(from - 1)..usize::from(last)].to_vec();
                world.redis.append(token, from, last, &frames)
            },
            move |world, answer| {
                let run = world.owned_mut(at);
                run.mirrored = last;
                run.publisher = Publisher::Pending { first, last };
                if matches!(answer, Some(WriteAnswer::Written | WriteAnswer::StopRequested)) {
                    run.sent = last;
                    run.publisher = if run.trimmed > run.summed { Publisher::Condense } else { Publisher::Copy };
                }
                world.note_answer(at, answer);
            },
        );
    }

    /// `RunPublisher::record_end`
    fn end(&mut self, at: usize, how: RunState) {
        let any_number = self.lacks(Guard::NumberInEnd);
        self.call(
            at,
            "records the end",
            true,
            move |world| {
                let OwnedRun { token, sent, .. } = *world.owned_mut(at);
                world.redis.end(token, how, if any_number || how != RunState::Ended { 0 } else { sent })
            },
            move |world, answer| {
                if answer == Some(WriteAnswer::Written) {
                    world.owned_mut(at).publisher = Publisher::Done;
                }
                world.note_answer(at, answer);
            },
        );
    }

    /// `RunFollower::follow_loop`
    fn follow(&mut self, at: usize, run: &FollowedRun) {
        let linked = self.from.links[at];
        let is_known =
            linked && self.from.redis.read(run.token, run.last_read).0.is_some_and(|state| state != RunState::Cut);
        if !is_known {
            self.add(NAMES[at], "cuts off its readers, since Redis does not have the run", true, |world| {
                world.end_following(at, BodyEnd::CutOff);
            });
        }
        if linked {
            let guards = ReadGuards {
                skips_known: !self.lacks(Guard::SkipKnownFrames),
                detects_gaps: !self.lacks(Guard::DetectGap),
            };
            self.add(NAMES[at], "reads the run from Redis", true, |world| world.read(at, guards));
        }
        if !self.from.has_readers(at) {
            self.add(NAMES[at], "stops following, since there are no readers", true, |world| {
                world.end_following(at, BodyEnd::CutOff);
            });
        }
        // Only without `Guard::SendStopFirst`.
        if run.stop_requested && self.from.has_readers(at) {
            self.call(
                at,
                "sends the stop",
                true,
                move |world| world.redis.stop(at),
                move |world, answer| {
                    world.followed_mut(at).stop_requested = answer.is_none();
                },
            );
        }
        let owner = run.owner;
        let may_renew = self.from.replicas[owner].alive && self.from.links[owner];
        let waited = !may_renew || self.lacks(Guard::OwnerLostAfter);
        if linked && !self.from.redis.leases[owner] && waited {
            self.end_orphaned(at, run);
        }
    }

    /// `RunFollower::end_orphaned`
    fn end_orphaned(&mut self, at: usize, run: &FollowedRun) {
        let FollowedRun { token, owner, last_read, .. } = *run;
        let is_complete = run.frames.last().is_some_and(|last| is_terminal(*last));
        let mut frames = Vec::new();
        if !is_complete || self.lacks(Guard::NoErrorBehindEnd) {
            frames.resize(if self.lacks(Guard::FillersBeforeError) { 0 } else { FILLERS }, FILLER);
            frames.push(frame(token, LOST));
        }
        self.call(
            at,
            "ends the run of a lost owner",
            true,
            move |world| {
                if world.redis.end_orphaned(token, owner, last_read, &frames) {
                    world.written[usize::from(token)].lost |= !frames.is_empty();
                    if world.replicas[owner].alive && !world.claims_lost {
                        world.broken = Some(NOT_LOST);
                    }
                    if world.replicas[owner].alive && world.links[owner] {
                        world.broken = Some(NOT_LOST);
                    }
                }
            },
            |_, _| {},
        );
    }

    fn client(&mut self, client: usize, at: usize) {
        let body = if client == 0 { Some(0) } else { self.scenario.second_starts_with };
        let Client { at: place, token, requests, .. } = self.from.clients[client].clone();
        let name = CLIENTS[client];
        let text = |a: &'static str, b: &'static str| if at == 0 { a } else { b };
        match place {
            // The replicas are alike, so the first request of one client may go to either.
            Place::Away if client == 0 && at == 1 && requests == self.scenario.requests[0] => {}
            Place::Away if requests > 0 => {
                let guards = JoinGuards { any_token: self.lacks(Guard::TokenInCursor) };
                if let (None, Some(body)) = (token, body) {
                    self.add(
                        name,
                        text("posts its request to replica A", "posts its request to replica B"),
                        false,
                        |world| {
                            world.clients[client].requests -= 1;
                            world.post(client, at, body);
                        },
                    );
                } else {
                    self.add(name, text("comes to replica A", "comes to replica B"), false, |world| {
                        world.clients[client].requests -= 1;
                        world.get(client, at, guards);
                    });
                }
            }
            Place::Claiming(process) if process == at => self.claim(client, at, body.unwrap_or_default()),
            Place::Reading(process) if process == at => {
                self.add(name, "leaves", false, |world| world.clients[client].leave());
            }
            _ => {}
        }
        let is_sent = !self.lacks(Guard::SendStopFirst);
        if self.from.left.stops > 0 && client == 0 {
            self.add(name, text("stops the run at replica A", "stops the run at replica B"), false, |world| {
                world.stop(at, is_sent);
            });
        }
        // The key of another caller's run is another one, so nothing is found.
        if self.lacks(Guard::CallerInKey) && self.from.replicas[at].run.is_some() {
            self.add("another caller", "reads the run", false, |world| world.stranger_has_read = true);
        }
    }

    /// `Gateway::start_logged` from its claim on
    fn claim(&mut self, client: usize, at: usize, body: u8) {
        let token = count_tokens(self.from);
        let replaces_living = self.lacks(Guard::LeaseBeforeReplacing);
        let starts_anyway = self.lacks(Guard::ClaimBeforeStart);
        self.call(
            at,
            "claims the run for a request",
            true,
            move |world| {
                let answer = world.claim(token, body, at, true);
                match answer {
                    // `claim_within`
                    ClaimAnswer::Taken { token: other, owner } if replaces_living || !world.redis.leases[owner] => {
                        world.redis.claim(token, body, Some(other), at)
                    }
                    answer => answer,
                }
            },
            move |world, answer| match answer {
                Some(ClaimAnswer::Known) if !starts_anyway => world.join_claimed(client, at, body),
                Some(ClaimAnswer::Taken { .. }) => world.clients[client].at = Place::Done,
                answer => world.start(client, at, body, answer.is_some()),
            },
        );
    }
}

#[derive(Clone, Copy)]
struct JoinGuards {
    any_token: bool,
}

#[derive(Clone, Copy)]
struct ReadGuards {
    skips_known: bool,
    detects_gaps: bool,
}

enum ReadStatus {
    Open,
    Ended,
    Unknown,
    Gap,
}

fn count_tokens(world: &World) -> u8 {
    u8::try_from(world.written.len()).expect("few tokens")
}

impl World {
    fn claim(&mut self, token: u8, body: u8, owner: usize, idempotent: bool) -> ClaimAnswer {
        let is_own = self.redis.run.as_ref().is_some_and(|run| run.token == token);
        if is_own && !idempotent { ClaimAnswer::Known } else { self.redis.claim(token, body, None, owner) }
    }

    /// `RunPublisher::write_summary`
    fn write_summary(&mut self, at: usize, anew: bool) -> WriteAnswer {
        let OwnedRun { token, trimmed, .. } = *self.owned_mut(at);
        let frames = self.frames(token).to_vec();
        if frames.is_empty() {
            return WriteAnswer::Written;
        }
        let through = trimmed.max(1);
        self.redis.sum(token, through, &frames[..usize::from(through)], anew)
    }

    fn note_summary(&mut self, at: usize, answer: Option<WriteAnswer>) {
        if answer == Some(WriteAnswer::Written) {
            let has_frames = !self.frames(self.owned(at).map_or(0, |run| run.token)).is_empty();
            let run = self.owned_mut(at);
            if has_frames {
                run.has_base = true;
                run.summed = run.trimmed.max(1);
                run.sent = if run.publisher == Publisher::Condense { run.sent.max(run.summed) } else { run.summed };
            }
        }
        self.note_answer(at, answer);
    }

    /// `RunPublisher::outcome`
    fn note_answer(&mut self, at: usize, answer: Option<WriteAnswer>) {
        let run = self.owned_mut(at);
        match answer {
            Some(WriteAnswer::StopRequested) if run.phase == Phase::Open => run.phase = Phase::Stopping,
            Some(WriteAnswer::Missing) => run.publisher = Publisher::Restart,
            Some(WriteAnswer::Superseded) => run.publisher = Publisher::Done,
            _ => {}
        }
    }

    /// `RunFollower::read`
    fn read(&mut self, at: usize, guards: ReadGuards) {
        match self.read_entries(at, guards) {
            ReadStatus::Open | ReadStatus::Unknown => self.deliver(at, None),
            ReadStatus::Gap => self.end_following(at, BodyEnd::CutOff),
            ReadStatus::Ended => self.end_following(at, BodyEnd::Whole),
        }
    }

    fn read_entries(&mut self, at: usize, guards: ReadGuards) -> ReadStatus {
        let redis = self.redis.clone();
        let run = self.followed_mut(at);
        let (_, _, entries) = redis.read(run.token, run.last_read);
        for entry in entries {
            if entry.first > run.last_read + 1 && guards.detects_gaps {
                return ReadStatus::Gap;
            }
            let known = usize::from((run.last_read + 1).saturating_sub(entry.first));
            run.frames.extend(entry.frames.iter().skip(if guards.skips_known { known } else { 0 }));
            run.last_read = entry.last;
        }
        let (state, last, _) = redis.read(run.token, run.last_read);
        match state {
            None | Some(RunState::Cut) => ReadStatus::Unknown,
            _ if last > run.last_read && guards.detects_gaps => ReadStatus::Gap,
            Some(RunState::Open) => ReadStatus::Open,
            Some(_) => ReadStatus::Ended,
        }
    }

    fn end_following(&mut self, at: usize, how: BodyEnd) {
        self.deliver(at, Some(how));
        self.replicas[at].run = None;
    }

    /// `Gateway::find_kept`: finds the run here, or follows that of another replica. `Err` if Redis cannot confirm.
    fn find(&mut self, at: usize) -> Result<bool, ()> {
        if self.replicas[at].run.is_some() {
            return Ok(true);
        }
        if !self.links[at] {
            return Err(());
        }
        // `fetch_remote`
        let found = self.redis.run.clone().filter(|run| matches!(run.state, RunState::Open | RunState::Ended));
        let Some(found) = found else {
            return if self.redis.leases[at] && self.replicas[at].settled { Ok(false) } else { Err(()) };
        };
        if found.owner == at && found.state == RunState::Open {
            return Err(());
        }
        self.replicas[at].run = Some(LocalRun::Followed(FollowedRun {
            token: found.token,
            body: found.body,
            owner: found.owner,
            frames: found.base,
            recap_through: found.summed,
            last_read: found.summed,
            stop_requested: false,
        }));
        match self.read_entries(at, ReadGuards { skips_known: true, detects_gaps: true }) {
            ReadStatus::Open | ReadStatus::Ended => Ok(true),
            ReadStatus::Unknown | ReadStatus::Gap => {
                self.replicas[at].run = None;
                Err(())
            }
        }
    }

    fn get(&mut self, client: usize, at: usize, guards: JoinGuards) {
        match self.find(at) {
            Ok(true) => self.join(client, at, guards),
            Ok(false) => {
                self.clients[client].at = Place::Done;
                let is_there = |other: usize| {
                    let is_open = |run: &OwnedRun| matches!(run.phase, Phase::Open | Phase::Stopping);
                    let is_copied = |run: &OwnedRun| run.confirmed && run.publisher != Publisher::Done;
                    self.links[other] && self.owned(other).is_some_and(|run| is_open(run) && is_copied(run))
                };
                if (0..2).any(is_there) && !self.forgotten {
                    self.broken = Some(NEVER_404);
                }
            }
            Err(()) => {}
        }
    }

    /// `RunLog::join`
    fn join(&mut self, client: usize, at: usize, guards: JoinGuards) {
        let (token, trimmed, frames, ended) = match &self.replicas[at].run {
            Some(LocalRun::Owned(run)) => {
                let ended = match run.phase {
                    Phase::Open | Phase::Stopping => None,
                    Phase::Finished => Some(BodyEnd::Whole),
                    Phase::Cut => Some(BodyEnd::CutOff),
                };
                (run.token, run.trimmed, self.frames(run.token).to_vec(), ended)
            }
            Some(LocalRun::Followed(run)) => (run.token, run.recap_through, run.frames.clone(), None),
            None => return,
        };
        let reader = &mut self.clients[client];
        let has_cursor = !reader.received.is_empty();
        let received = count(&reader.received);
        let is_valid = guards.any_token || reader.token == Some(token);
        if has_cursor && !(is_valid && received >= trimmed && received <= count(&frames)) {
            // 410: it asks again without a cursor.
            reader.received.clear();
            reader.token = None;
            return;
        }
        reader.at = Place::Reading(at);
        self.deliver(at, ended);
    }

    /// `Gateway::start_run` up to its claim
    fn post(&mut self, client: usize, at: usize, body: u8) {
        match self.find(at) {
            Ok(true) if self.local_body(at) == Some(body) => self.join(client, at, JoinGuards { any_token: false }),
            Ok(true) if self.local_run_is_open(at) == Some(true) => self.clients[client].at = Place::Done,
            _ => self.clients[client].at = Place::Claiming(at),
        }
    }

    fn local_body(&self, at: usize) -> Option<u8> {
        match self.replicas[at].run.as_ref()? {
            LocalRun::Owned(run) => Some(run.body),
            LocalRun::Followed(run) => Some(run.body),
        }
    }

    fn local_run_is_open(&self, at: usize) -> Option<bool> {
        match self.replicas[at].run.as_ref()? {
            LocalRun::Owned(run) => Some(matches!(run.phase, Phase::Open | Phase::Stopping)),
            LocalRun::Followed(_) => Some(true),
        }
    }

    /// The same request started the run elsewhere.
    fn join_claimed(&mut self, client: usize, at: usize, body: u8) {
        self.clients[client].at = Place::Away;
        if self.find(at) == Ok(true) && self.local_body(at) == Some(body) {
            self.join(client, at, JoinGuards { any_token: false });
        }
    }

    /// `RunStore::insert`, and the run's task
    fn start(&mut self, client: usize, at: usize, body: u8, confirmed: bool) {
        self.clients[client].at = Place::Away;
        let token = count_tokens(self);
        self.written.push(Written { frames: Vec::new(), lost: false });
        if let Some(is_open) = self.local_run_is_open(at)
            && (is_open || self.local_body(at) == Some(body))
        {
            if confirmed {
                self.redis.end(token, RunState::Gone, 0);
            }
            return if self.local_body(at) == Some(body) {
                self.join(client, at, JoinGuards { any_token: false });
            } else {
                self.clients[client].at = Place::Done;
            };
        }
        self.replicas[at].run = Some(LocalRun::Owned(OwnedRun {
            token,
            body,
            trimmed: 0,
            phase: Phase::Open,
            publisher: if confirmed { Publisher::Copy } else { Publisher::Restart },
            confirmed,
            sent: 0,
            has_base: confirmed,
            summed: 0,
            mirrored: 0,
        }));
        self.clients[client].at = Place::Reading(at);
        self.clients[client].token = Some(token);
        self.clients[client].received.clear();
    }

    /// `Gateway::stop_run`
    fn stop(&mut self, at: usize, is_sent: bool) {
        let token = match &mut self.replicas[at].run {
            Some(LocalRun::Owned(run)) => {
                if run.phase == Phase::Open {
                    run.phase = Phase::Stopping;
                }
                run.token
            }
            Some(LocalRun::Followed(run)) if !is_sent => {
                run.stop_requested = true;
                run.token
            }
            Some(LocalRun::Followed(_)) | None => {
                let Some(run) = self.redis.run.clone().filter(|_| self.links[at]) else { return };
                if !self.redis.stop(at).0 {
                    return;
                }
                run.token
            }
        };
        self.left.stops -= 1;
        self.stop_confirmed = Some(token);
    }
}
