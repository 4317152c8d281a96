//! The contents of Redis for one run, and the scripts of `src/replay/replication/redis_protocol.rs`, each as a function of the same
//! name. `redis_scripts` compares them with the real scripts in a real Redis.
//!
//! Not here: expiry times (a key is there or not), the thread's last run, the fields that no script decides on.

/// A frame; unique in the model, so that a frame of another run or a repeated one is noticed.
pub type Frame = u8;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RedisModel {
    pub run: Option<RunHash>,
    /// the stream of each token, by token; one without entries exists, too
    pub streams: Vec<RunStream>,
    pub leases: [bool; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunHash {
    pub token: u8,
    pub body: u8,
    pub owner: usize,
    pub state: RunState,
    /// `n`
    pub last: u8,
    /// `k`
    pub summed: u8,
    pub base: Vec<Frame>,
    pub stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    Open,
    Ended,
    Gone,
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunStream {
    pub token: u8,
    pub entries: Vec<StreamEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamEntry {
    pub first: u8,
    pub last: u8,
    pub frames: Vec<Frame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    Mine,
    Known,
    Taken { token: u8, owner: usize },
}

/// The answers of the scripts that write for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    Written,
    StopRequested,
    Missing,
    Superseded,
}

impl RedisModel {
    pub fn stream(&self, token: u8) -> &[StreamEntry] {
        self.streams.iter().find(|stream| stream.token == token).map_or(&[], |stream| &stream.entries)
    }

    fn add_entry(&mut self, token: u8, entry: StreamEntry) {
        let at = self.streams.partition_point(|stream| stream.token < token);
        if self.streams.get(at).is_none_or(|stream| stream.token != token) {
            self.streams.insert(at, RunStream { token, entries: Vec::new() });
        }
        self.streams[at].entries.push(entry);
    }

    /// `CLAIM`
    pub fn claim(&mut self, token: u8, body: u8, replaceable: Option<u8>, owner: usize) -> ClaimAnswer {
        if let Some(run) = &self.run
            && run.token != token
            && Some(run.token) != replaceable
            && !matches!(run.state, RunState::Gone | RunState::Cut)
        {
            if run.body == body {
                return ClaimAnswer::Known;
            }
            if run.state == RunState::Open {
                return ClaimAnswer::Taken { token: run.token, owner: run.owner };
            }
        }
        if self.run.as_ref().is_none_or(|run| run.token != token) {
            if let Some(replaced) = &self.run {
                let old = replaced.token;
                self.streams.retain(|stream| stream.token != old);
            }
            let base = Vec::new();
            let state = RunState::Open;
            self.run = Some(RunHash { token, body, owner, state, last: 0, summed: 0, base, stop: false });
        }
        ClaimAnswer::Mine
    }

    /// `APPEND`
    pub fn append(&mut self, token: u8, first: u8, last: u8, frames: &[Frame]) -> WriteAnswer {
        let Some(run) = &mut self.run else { return WriteAnswer::Missing };
        if run.token != token || run.state != RunState::Open {
            return WriteAnswer::Superseded;
        }
        let stop = run.stop;
        if run.last < last {
            if run.last + 1 != first {
                return WriteAnswer::Missing;
            }
            run.last = last;
            self.add_entry(token, StreamEntry { first, last, frames: frames.to_vec() });
        }
        if stop { WriteAnswer::StopRequested } else { WriteAnswer::Written }
    }

    /// `SUM`, with a summary that is not empty
    pub fn sum(&mut self, token: u8, through: u8, summary: &[Frame], anew: bool) -> WriteAnswer {
        let Some(run) = &mut self.run else { return WriteAnswer::Missing };
        if run.token != token || run.state != RunState::Open {
            return WriteAnswer::Superseded;
        }
        run.base = summary.to_vec();
        run.summed = through;
        run.last = if anew { through } else { through.max(run.last) };
        if anew {
            self.streams.retain(|stream| stream.token != token);
        }
        let trimmed = self.streams.iter_mut().filter(|stream| stream.token == token);
        trimmed.for_each(|stream| stream.entries.retain(|entry| entry.first > through));
        WriteAnswer::Written
    }

    /// `TOUCH`
    pub fn touch(&self, token: u8, copied: u8) -> WriteAnswer {
        let Some(run) = &self.run else { return WriteAnswer::Missing };
        if run.token == token && run.last < copied {
            return WriteAnswer::Missing;
        }
        if run.token != token || run.state != RunState::Open {
            return WriteAnswer::Superseded;
        }
        if run.last > 0 && self.streams.iter().all(|stream| stream.token != token) {
            return WriteAnswer::Missing;
        }
        if run.stop { WriteAnswer::StopRequested } else { WriteAnswer::Written }
    }

    /// `END`
    pub fn end(&mut self, token: u8, how: RunState, copied: u8) -> WriteAnswer {
        let Some(run) = &mut self.run else { return WriteAnswer::Missing };
        if run.token != token {
            return WriteAnswer::Superseded;
        }
        if run.last < copied {
            return WriteAnswer::Missing;
        }
        run.state = how;
        WriteAnswer::Written
    }

    /// `READ`: the state (`None` if the run is gone), the last frame's number and the entries
    pub fn read(&self, token: u8, after: u8) -> (Option<RunState>, u8, Vec<StreamEntry>) {
        let Some(run) = self.run.as_ref().filter(|run| run.token == token) else { return (None, 0, Vec::new()) };
        let entries = self.stream(token);
        let next = after + 1;
        let before = entries.iter().rposition(|entry| entry.first <= next);
        let from = before.filter(|at| entries[*at].last > after).map_or(next, |at| entries[at].first);
        (Some(run.state), run.last, entries.iter().filter(|entry| entry.first >= from).cloned().collect())
    }

    /// `END_ORPHANED`, without frames if the last frame already ends the run
    pub fn end_orphaned(&mut self, token: u8, owner: usize, copied: u8, frames: &[Frame]) -> bool {
        let Some(run) = &mut self.run else { return false };
        if run.token != token || run.state != RunState::Open || run.owner != owner || run.last != copied {
            return false;
        }
        run.state = RunState::Ended;
        if !frames.is_empty() {
            let first = run.last + 1;
            let last = copied + u8::try_from(frames.len()).expect("few frames");
            run.last = last;
            self.add_entry(token, StreamEntry { first, last, frames: frames.to_vec() });
        }
        true
    }

    /// `STOP`: whether the run exists, and whether the caller has a lease
    pub fn stop(&mut self, caller: usize) -> (bool, bool) {
        match &mut self.run {
            None => (false, self.leases[caller]),
            Some(run) if matches!(run.state, RunState::Gone | RunState::Cut) => (false, self.leases[caller]),
            Some(run) => {
                run.stop |= run.state == RunState::Open;
                (true, true)
            }
        }
    }

    /// `HEARTBEAT`: whether the lease was missing
    pub fn heartbeat(&mut self, process: usize) -> bool {
        !std::mem::replace(&mut self.leases[process], true)
    }
}
