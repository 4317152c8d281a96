//! Handover and drain: two processes, one listening socket, and clients that connect at any moment.
//!
//! The steps are those of `src/app/drain.rs` (`Drain::recv`), `src/app/upgrade.rs` and `Gateway::start_run`, which their
//! comments name. Every wait of the code has a timeout, and here it may be over at any moment. Assumed: runs that are cut
//! write their end within `CUT_GRACE`.

use super::search::{Protocol, Step};

pub const NOT_REFUSED: &str = "no connection is refused while a process is meant to serve";
pub const NOT_FORGOTTEN: &str = "no connection waits in the queue of a socket that nobody accepts from";
pub const ANSWERED: &str = "every request that a process has read is answered, unless the process is killed";
pub const NOT_CUT_EARLY: &str = "a process that has read a request does not end as if it were drained";

/// A line of the code that a search can leave out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// the old process stops accepting when the new one has confirmed that it serves, not when it has sent its sockets
    ConfirmTakeover,
    /// the new process serves on the sockets of the old one, not on its own
    SharedQueue,
    /// a process that stops accepting closes its copies for a successor, too (`HandoverSockets::close`)
    CloseCopies,
    /// a request is counted before the phase is checked (`Lifecycle::enter`)
    CountBeforeCheck,
    /// every wait has a timeout (`DrainPhase`), even if an agent never ends its run
    EndAfterTimeout,
    /// the end of the process waits for the runs that it cuts (`cut_runs`)
    WaitForCutRuns,
}

/// The faults and actions of a search, and how often each may happen.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    pub removed: Option<Guard>,
    pub upgrades: u8,
    pub signals: u8,
    /// a process is killed, or the new one fails to start
    pub failures: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    /// the old process and the new one
    processes: [Process; 2],
    connections: [Connection; 2],
    upgrades: u8,
    signals: u8,
    failures: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    phase: Phase,
    /// whether its listener is open
    accepts: bool,
    /// whether it has another copy of the socket: for its successor, or not yet in use
    has_copy: bool,
    /// which queue its sockets have; two processes share one unless the guard is removed
    queue: u8,
    /// whether an operator ended it, it was killed, or another one serves in its place
    is_unwanted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Absent,
    /// has the sockets, and does not accept yet
    Starting,
    Serving,
    /// `DrainPhase::Grace`
    Grace {
        successor: bool,
    },
    /// `DrainPhase::Draining`
    Draining,
    /// `Drain::cut_runs`
    Cut,
    Exited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Connection {
    NotYet,
    Queued(u8),
    /// accepted, without a request
    Idle(usize),
    /// the process has read a request
    Arrived(usize),
    /// `Lifecycle::enter`
    Counted(usize),
    /// the phase was checked before the request is counted, without `Guard::CountBeforeCheck`
    Checked(usize),
    Running(usize),
    Done,
}

const NAMES: [&str; 2] = ["the old process", "the new process"];
const CLIENTS: [&str; 2] = ["client 1", "client 2"];

impl Process {
    const ABSENT: Process =
        Process { phase: Phase::Absent, accepts: false, has_copy: false, queue: 0, is_unwanted: false };

    fn holds_socket(&self) -> bool {
        self.accepts || self.has_copy
    }

    fn is_up(&self) -> bool {
        !matches!(self.phase, Phase::Absent | Phase::Exited)
    }
}

impl Connection {
    fn process(self) -> Option<usize> {
        match self {
            Connection::NotYet | Connection::Queued(_) | Connection::Done => None,
            Connection::Idle(at)
            | Connection::Arrived(at)
            | Connection::Counted(at)
            | Connection::Checked(at)
            | Connection::Running(at) => Some(at),
        }
    }
}

impl Protocol for Handover {
    type State = Machine;

    fn first_state(&self) -> Machine {
        let old = Process { phase: Phase::Serving, accepts: true, has_copy: true, queue: 0, is_unwanted: false };
        Machine {
            processes: [old, Process::ABSENT],
            connections: [Connection::NotYet; 2],
            upgrades: self.upgrades,
            signals: self.signals,
            failures: self.failures,
            broken: None,
        }
    }

    fn steps(&self, from: &Machine) -> Vec<Step<Machine>> {
        let mut steps = Steps { model: self, from, found: Vec::new() };
        for at in 0..2 {
            steps.operator(at);
            steps.process(at);
            steps.client(at);
        }
        steps.found
    }

    fn violation(&self, machine: &Machine) -> Option<&'static str> {
        let is_unserved = |connection: &Connection| {
            let Connection::Queued(queue) = connection else { return false };
            let of_queue = || machine.processes.iter().filter(|process| process.queue == *queue && process.is_up());
            // A process that starts will accept; one that drains will not.
            let is_accepted = of_queue().any(|process| process.accepts || process.phase == Phase::Starting);
            !is_accepted && of_queue().any(Process::holds_socket)
        };
        machine.broken.or_else(|| machine.connections.iter().any(is_unserved).then_some(NOT_FORGOTTEN))
    }

    /// An operator's decision is not awaited: a process that serves may stay.
    fn is_at_rest(&self, machine: &Machine) -> bool {
        let is_resting = |process: &Process| matches!(process.phase, Phase::Absent | Phase::Serving | Phase::Exited);
        // After a takeover only one process is left.
        let is_one = machine.processes.iter().filter(|process| process.is_up()).count() <= 1;
        is_one
            && machine.processes.iter().all(is_resting)
            && machine.connections.iter().all(|each| match *each {
                Connection::NotYet | Connection::Idle(_) | Connection::Done => true,
                Connection::Running(at) => machine.processes[at].phase == Phase::Serving,
                _ => false,
            })
    }
}

struct Steps<'s> {
    model: &'s Handover,
    from: &'s Machine,
    found: Vec<Step<Machine>>,
}

impl Steps<'_> {
    fn lacks(&self, guard: Guard) -> bool {
        self.model.removed == Some(guard)
    }

    fn add(&mut self, actor: &'static str, action: &'static str, calm: bool, change: impl FnOnce(&mut Machine)) {
        let mut next = self.from.clone();
        change(&mut next);
        next.reset_queues();
        if next != *self.from {
            self.found.push(Step { actor, action, next, calm });
        }
    }

    fn operator(&mut self, at: usize) {
        let Machine { processes, upgrades, signals, failures, .. } = self.from;
        let process = &processes[at];
        if at == 1 && *upgrades > 0 && matches!(process.phase, Phase::Absent | Phase::Exited) {
            self.start();
        }
        if *signals > 0 && process.is_up() {
            let closes = !self.lacks(Guard::CloseCopies);
            self.add(NAMES[at], "gets SIGTERM", false, |machine| {
                machine.signals -= 1;
                machine.processes[at].is_unwanted = true;
                match machine.processes[at].phase {
                    // Before it watches signals, each ends it.
                    Phase::Starting => machine.exit(at, true),
                    Phase::Serving => machine.processes[at].phase = Phase::Grace { successor: false },
                    // `ShutdownCause::Successor`: the remaining times become shorter, and are over at any moment anyway.
                    Phase::Grace { successor: true } => {}
                    _ => {
                        machine.stop_accepting(at, closes);
                        machine.processes[at].phase = Phase::Cut;
                        machine.close_idle(at);
                    }
                }
            });
        }
        if *failures > 0 && process.is_up() {
            self.add(NAMES[at], "is killed, or fails", false, |machine| {
                machine.failures -= 1;
                // One that has not confirmed yet may fail without a consequence.
                machine.processes[at].is_unwanted = machine.processes[at].phase != Phase::Starting;
                machine.exit(at, true);
            });
        }
    }

    /// `receive_sockets`
    fn start(&mut self) {
        let (shares, confirms) = (!self.lacks(Guard::SharedQueue), !self.lacks(Guard::ConfirmTakeover));
        let closes = !self.lacks(Guard::CloseCopies);
        let old = &self.from.processes[0];
        // Without a process it binds its own; a process that has closed its sockets refuses, and the start fails.
        if old.is_up() && !old.has_copy {
            return;
        }
        let old_is_up = old.is_up();
        self.add(NAMES[1], "starts, with the sockets of the old one", false, |machine| {
            machine.upgrades -= 1;
            let queue = if shares && old_is_up { machine.processes[0].queue } else { 1 };
            machine.processes[1] =
                Process { phase: Phase::Starting, accepts: false, has_copy: true, queue, is_unwanted: false };
            if !confirms && machine.processes[0].phase == Phase::Serving {
                machine.retire(closes);
            }
        });
    }

    fn process(&mut self, at: usize) {
        let process = &self.from.processes[at];
        let closes = !self.lacks(Guard::CloseCopies);
        let connections = || self.from.connections.iter().filter(|connection| connection.process() == Some(at));
        match process.phase {
            Phase::Absent | Phase::Exited => {}
            Phase::Starting => self.add(NAMES[at], "accepts connections", true, |machine| {
                let process = &mut machine.processes[at];
                process.phase = Phase::Serving;
                process.accepts = true;
            }),
            // `confirm_takeover`
            Phase::Serving if at == 1 && self.from.processes[0].phase == Phase::Serving => {
                self.add(NAMES[at], "confirms that it serves", true, |machine| machine.retire(closes));
            }
            Phase::Serving => {}
            // `start_drain`
            Phase::Grace { .. } => self.add(NAMES[at], "drains", true, |machine| {
                machine.stop_accepting(at, closes);
                machine.processes[at].phase = Phase::Draining;
                machine.close_idle(at);
            }),
            Phase::Draining => {
                if connections().next().is_some() && !self.lacks(Guard::EndAfterTimeout) {
                    self.add(NAMES[at], "reaches the timeout", true, |machine| {
                        machine.processes[at].phase = Phase::Cut;
                    });
                }
                // `wait_until_drained`. What has arrived is counted within `IN_FLIGHT_GRACE`.
                if connections().all(|connection| matches!(connection, Connection::Checked(_))) {
                    let early = connections().next().map(|_| NOT_CUT_EARLY);
                    self.add(NAMES[at], "is drained", true, |machine| {
                        machine.processes[at].phase = Phase::Cut;
                        machine.broken = machine.broken.or(early);
                    });
                }
            }
            Phase::Cut if connections().next().is_none() || self.lacks(Guard::WaitForCutRuns) => {
                self.add(NAMES[at], "exits", true, |machine| machine.exit(at, false));
            }
            Phase::Cut => {}
        }
    }

    fn client(&mut self, index: usize) {
        let (name, connection) = (CLIENTS[index], self.from.connections[index]);
        let is_cut = |at: usize| self.from.processes[at].phase == Phase::Cut;
        match connection {
            Connection::NotYet => self.add(name, "connects", false, |machine| machine.connect(index)),
            Connection::Queued(queue) => {
                for (at, process) in NAMES.iter().enumerate() {
                    if self.from.processes[at].accepts && self.from.processes[at].queue == queue {
                        self.add(process, "accepts the connection", true, |machine| {
                            machine.connections[index] = Connection::Idle(at);
                            if matches!(machine.processes[at].phase, Phase::Draining | Phase::Cut) {
                                machine.connections[index] = Connection::Done;
                            }
                        });
                    }
                }
            }
            Connection::Idle(at) => self.add(name, "sends its request", false, |machine| {
                machine.connections[index] = Connection::Arrived(at);
            }),
            // `Gateway::start_run`
            Connection::Arrived(at) if self.lacks(Guard::CountBeforeCheck) => {
                self.add(NAMES[at], "checks the phase for a request", true, |machine| {
                    machine.connections[index] = if is_cut(at) { Connection::Done } else { Connection::Checked(at) };
                });
            }
            Connection::Arrived(at) => self.add(NAMES[at], "counts a request", true, |machine| {
                machine.connections[index] = Connection::Counted(at);
            }),
            Connection::Checked(at) => self.add(NAMES[at], "counts a request that it has checked", true, |machine| {
                machine.connections[index] = Connection::Running(at);
            }),
            Connection::Counted(at) => {
                let refuses = is_cut(at);
                let action = if refuses { "refuses a request" } else { "starts a run" };
                self.add(NAMES[at], action, true, |machine| {
                    machine.connections[index] = if refuses { Connection::Done } else { Connection::Running(at) };
                });
            }
            Connection::Running(at) => {
                let action = if is_cut(at) { "ends a run with gateway_draining" } else { "ends a run" };
                // The agent may never do so.
                self.add(NAMES[at], action, is_cut(at), |machine| machine.connections[index] = Connection::Done);
            }
            Connection::Done => {}
        }
    }
}

impl Machine {
    fn connect(&mut self, index: usize) {
        // Of the processes that listen, the system takes the one whose socket is bound; both may share it.
        let listening = self.processes.iter().rev().find(|process| process.is_up() && process.holds_socket());
        self.connections[index] = match listening {
            Some(process) => Connection::Queued(process.queue),
            None => self.refuse(),
        };
    }

    fn refuse(&mut self) -> Connection {
        let [old, new] = &self.processes;
        if !old.is_unwanted || (new.is_up() && !new.is_unwanted) {
            self.broken = Some(NOT_REFUSED);
        }
        Connection::Done
    }

    /// Resets the connections in queues whose last socket was closed.
    fn reset_queues(&mut self) {
        for index in 0..2 {
            let Connection::Queued(queue) = self.connections[index] else { continue };
            if !self.processes.iter().any(|process| process.queue == queue && process.is_up() && process.holds_socket())
            {
                self.connections[index] = self.refuse();
            }
        }
    }

    /// `ShutdownCause::Successor`
    fn retire(&mut self, closes_copies: bool) {
        self.stop_accepting(0, closes_copies);
        self.processes[0].is_unwanted |= self.processes[1].phase == Phase::Serving;
        self.processes[0].phase = Phase::Grace { successor: true };
    }

    fn stop_accepting(&mut self, at: usize, closes_copies: bool) {
        self.processes[at].accepts = false;
        self.processes[at].has_copy &= !closes_copies;
    }

    /// `DrainSignal::close_connections`: those without a request are closed.
    fn close_idle(&mut self, at: usize) {
        for connection in &mut self.connections {
            if *connection == Connection::Idle(at) {
                *connection = Connection::Done;
            }
        }
    }

    fn exit(&mut self, at: usize, is_killed: bool) {
        self.processes[at] =
            Process { phase: Phase::Exited, is_unwanted: self.processes[at].is_unwanted, ..Process::ABSENT };
        self.close_idle(at);
        for connection in self.connections.iter_mut().filter(|connection| connection.process() == Some(at)) {
            *connection = Connection::Done;
            if !is_killed {
                self.broken = Some(ANSWERED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::{NEVER_ENDS, search};
    use super::*;

    const LIMIT: usize = 150_000;

    const UPGRADE: Handover = Handover { removed: None, upgrades: 2, signals: 0, failures: 1 };
    const SIGNALS: Handover = Handover { removed: None, upgrades: 1, signals: 3, failures: 0 };

    #[test]
    fn holds_when_the_new_process_fails_at_any_moment() {
        search(&UPGRADE, LIMIT).unwrap_or_else(|violation| panic!("{violation}"));
    }

    #[test]
    fn holds_when_both_processes_get_signals_at_any_moment() {
        search(&SIGNALS, LIMIT).unwrap_or_else(|violation| panic!("{violation}"));
    }

    #[test]
    fn every_guard_is_needed() {
        for (guard, scenario, property) in [
            (Guard::ConfirmTakeover, UPGRADE, NOT_REFUSED),
            (Guard::SharedQueue, SIGNALS, NOT_REFUSED),
            (Guard::CloseCopies, SIGNALS, NOT_FORGOTTEN),
            (Guard::CountBeforeCheck, SIGNALS, NOT_CUT_EARLY),
            (Guard::WaitForCutRuns, SIGNALS, ANSWERED),
            (Guard::EndAfterTimeout, UPGRADE, NEVER_ENDS),
        ] {
            let found = search(&Handover { removed: Some(guard), ..scenario }, LIMIT).expect_err("a violation");
            assert_eq!(found.property, property, "without {guard:?}: {found}");
        }
    }
}
