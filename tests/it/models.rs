//! Models of the protocols between processes, small enough to visit every state, with every fault at every moment.
//!
//! `resumable_run`: the life of one resumable run, over two replicas and a Redis. The steps are those of
//! `src/replay/replication`, `src/proxy/resume.rs` and `run_start.rs`; the scripts of Redis are transcribed in
//! `redis_model`, which `redis_scripts` compares with the real ones in a real Redis. Two clients of one caller start the run,
//! join it, leave, come back with and without a cursor and stop it, on either replica. Replicas are killed and cut off from
//! Redis; Redis loses its data, executes calls without an answer, and fails over to an older copy. These hold:
//!
//! 1. At most one replica owns the run, unless Redis lost data or the owner its lease.
//! 2. Only the caller who started the run reads it.
//! 3. Every reader sees a beginning of one order: no event twice, none left out, none of another run.
//! 4. A body that ends whole has exactly one terminal event, its last. So nobody takes a lost run for a finished one.
//! 5. A run is reported lost only if its owner is dead, was cut off from Redis, or Redis lost data.
//! 6. A run that a replica has copied is never reported as unknown while that replica reaches Redis.
//! 7. Whoever reads on another replica waits only for a run that somebody still copies.
//! 8. A stop that was confirmed to a client reaches the run.
//! 9. Nothing stays for ever: without further requests and faults, everything ends.
//!
//! `handover`: two processes with one listening socket, of which one takes over from the other, drains, fails or gets
//! signals, while clients connect and send requests. These hold:
//!
//! 1. No connection is refused while a process is meant to serve.
//! 2. No connection waits in the queue of a socket that nobody accepts from.
//! 3. Every request that a process has read is answered once, unless the process is killed.
//! 4. A process that has read a request does not end as if it were drained.
//! 5. Nothing stays for ever: a process that was asked to end, or replaced, ends.
//!
//! Each guard of the code that these need is left out in turn, and the search must find the property that then fails.
//!
//! Not modelled: durations (a step that takes time happens once nothing quicker is pending); more than two replicas, runs
//! with the same key one after the other, and replicas that start again; frames that a slow reader has not fetched (the log
//! itself is tested under `shuttle`, see `src/replay/log/schedules.rs`); `replay.bytes`; the messages between replicas, which only save
//! time; TLS and Unix sockets. Known and not mended: after a failover to an older copy, Redis may show an ended run as open
//! until its key expires, and a run that was copied after the older copy as unknown until its next event.

mod handover;
mod redis_model;
mod redis_scripts;
mod resumable_run;
mod run_checks;
mod search;
