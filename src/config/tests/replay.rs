//! Tests keys for runs that outlive their clients, with valid and invalid values.

use std::time::Duration;

use super::read;
use crate::config::replay::OnDisconnect;

/// `(cause, file, expected problems)`
pub(super) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "a run that continues without a duration",
        r#"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: "http://h/", on_disconnect: continue}
  - {path: /b, client: ag-ui, agent: hai, upstream: "http://h/", on_disconnect: go on}
  - {path: /c, client: ag-ui, agent: hai, upstream: "http://h/", on_disconnect: continue for 5 minutes}
  - {path: /d, client: ag-ui, agent: hai, upstream: "http://h/", on_disconnect: continue for 0s}
"#,
        r"
f:2:81: routes[0].on_disconnect: `continue` has no duration
  hint: did you mean `continue for 5m`?
f:3:81: routes[1].on_disconnect: `go on` is not a valid choice
  hint: write `abort`, or `continue for` and a duration: `continue for 5m`
f:4:81: routes[2].on_disconnect: `continue for 5 minutes` is not a duration
  hint: did you mean `5m`?
f:5:81: routes[3].on_disconnect: `continue for 0s` must be greater than zero
  hint: write a duration of at least `1ms`
",
    ),
    (
        "one run larger than all of them",
        r"
replay: {bytes: 1MiB, run_bytes: 2MiB}
",
        r"
f:1:34: replay.run_bytes: the limit of one run exceeds the limit of all runs together
  hint: make `bytes` larger, or `run_bytes` smaller
",
    ),
    (
        "all runs smaller than the default of one",
        r"
replay: {bytes: 64KiB, age: 0s, runs: 0, run: 1}
",
        r"
f:1:17: replay.bytes: the limit of one run exceeds the limit of all runs together
  hint: make `bytes` larger, or `run_bytes` smaller
f:1:29: replay.age: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:1:39: replay.runs: `0` must be greater than zero
  hint: write a whole number of at least 1
f:1:42: replay.run: unknown key `run`
  hint: use one of: `runs`, `bytes`, `run_bytes`, `age`, `store`
",
    ),
    (
        "bounds that leave nothing",
        r"
replay: {bytes: 64KiB, age: 0s, runs: 0}
",
        r"
f:1:17: replay.bytes: the limit of one run exceeds the limit of all runs together
  hint: make `bytes` larger, or `run_bytes` smaller
f:1:29: replay.age: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:1:39: replay.runs: `0` must be greater than zero
  hint: write a whole number of at least 1
",
    ),
    (
        "runs that are shared over nothing",
        r"
replay: {store: redis, age: 1m}
",
        r#"
f:1:17: replay.store: replicas share runs through Redis, but `redis` is not configured
  hint: add `redis: {url: "redis://127.0.0.1:6379/0"}`, or remove `store` to keep runs in each replica
"#,
    ),
    (
        "a store that there is not",
        r"
replay: {store: disk}
",
        r"
f:1:17: replay.store: `disk` is not a valid choice
  hint: write `memory` or `redis`
",
    ),
    (
        "paths where runs of another route are found",
        r#"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: "http://h/", on_disconnect: continue for 5m}
  - {path: /a/runs/x/events, client: ag-ui, agent: hai, upstream: "http://h/"}
  - {path: /b, client: ag-ui, agent: hai, upstream: "http://h/", on_disconnect: continue for 5m}
  - {path: /c, client: social-app, agent: hai, upstream: "http://h/", events_path: "/b/runs/{thread_id}/events"}
"#,
        r"
f:2:81: routes[0].on_disconnect: runs of this route are served below its path, which routes[1].path (line 3, column 12) also uses
  hint: give the other path a distinct segment, or write `on_disconnect: abort`
f:4:81: routes[2].on_disconnect: runs of this route are served below its path, which routes[3].events_path (line 5, column 84) also uses
  hint: give the other path a distinct segment, or write `on_disconnect: abort`
",
    ),
];

#[test]
fn aborts_runs_on_disconnect_unless_configured_otherwise() {
    let route = |more: &str| format!("{{path: /a{more}, client: ag-ui, agent: hai, upstream: \"http://h/\"");
    let text = format!(
        "replay: {{runs: 7, bytes: 2MiB, run_bytes: 64KiB, age: 30s}}\nroutes: [{}}}, {}, on_disconnect: abort}}, {}, on_disconnect: continue for 90s}}]",
        route("1"),
        route("2"),
        route("3")
    );
    let config = read(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let endings: Vec<_> = config.routes.iter().map(|route| route.on_disconnect).collect();
    assert_eq!(endings, [OnDisconnect::Abort, OnDisconnect::Abort, OnDisconnect::Continue(Duration::from_secs(90))]);
    let replay = config.replay;
    assert_eq!((replay.runs.get(), replay.bytes, replay.run_bytes), (7, 2 << 20, 64 << 10));
    assert_eq!(replay.age, Duration::from_secs(30));
}
