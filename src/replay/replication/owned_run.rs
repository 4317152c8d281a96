//! A run of this replica, and the processes that follow it.

use super::redis_protocol::LEASE_TTL;
use crate::replay::RunLog;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct OwnedRun {
    pub(crate) log: Arc<RunLog>,
    /// process ids, with the times of their latest messages
    followers: Mutex<Vec<(String, Instant)>>,
}

impl OwnedRun {
    pub(crate) fn new(log: Arc<RunLog>) -> OwnedRun {
        OwnedRun { log, followers: Mutex::default() }
    }

    pub(crate) fn add_follower(&self, process: &str) {
        self.log.reset_abandon_timer();
        let now = Instant::now();
        let mut followers = self.followers.lock();
        followers.retain(|(known, last_seen)| known != process && now < *last_seen + LEASE_TTL);
        followers.push((process.to_owned(), now));
    }

    pub(crate) fn followers(&self) -> Vec<String> {
        let followers = self.followers.lock();
        followers.iter().map(|(process, _)| process.clone()).collect()
    }
}
