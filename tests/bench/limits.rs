//! Cost of the limits for one request, in process: `cargo bench --bench limits`.
//!
//! Each row sends requests through all gates of the guard to a leaf that does nothing and prints nanoseconds per request:
//! the median of many. The first row is the gates alone. The last one wants a `redis-server` at the URL in `REDIS`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use diglot::config::Config;
use diglot::dialect::{AG_UI, Side};
use diglot::error::Rejection;
use diglot::guard::peer::Peer;
use diglot::guard::{Guard, Matched, Who, gates};
use diglot::telemetry::Metrics;
use http::{Request, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower::{Service, ServiceExt, service_fn};

const ROUNDS: usize = 20_000;

/// Median nanoseconds of a request on a route with these limits.
async fn measure(top: &str, route: &str) -> u128 {
    let yaml = format!(
        "{top}\nroutes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:9\", {route}}}\n"
    );
    let file = std::env::temp_dir().join(format!("diglot-bench-{}.yaml", std::process::id()));
    std::fs::write(&file, yaml).expect("a file in the temporary folder");
    let config: Config = diglot::config::load::from_path(&file).unwrap_or_else(|problems| panic!("{problems}"));
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    let guard = Arc::new(Guard::new(&config, &metrics).expect("a guard"));
    let watching = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.watch().await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let side = Side::new(&AG_UI);
    let matched = Arc::new(Matched {
        name: "run".into(),
        path: "/run".to_owned(),
        access: Arc::clone(&config.routes[0].access),
        metrics: metrics.route("run", side, side),
        reads: false,
    });
    let leaf = service_fn(|_: Request<()>| async { Ok::<_, Rejection>(Response::new(())) });
    let mut service = gates(&guard, leaf);
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut request = Request::post("/run").header("host", "gateway").body(()).expect("a request");
        let extensions = request.extensions_mut();
        extensions.insert(Arc::clone(&matched));
        extensions.insert(Who::default());
        extensions.insert(Peer(([127, 0, 0, 1], 9).into()));
        let began = Instant::now();
        let passed = service.ready().await.expect("ready").call(request).await;
        times.push(began.elapsed().as_nanos());
        assert!(passed.is_ok(), "{:?}", passed.err());
    }
    watching.abort();
    times.sort_unstable();
    times[ROUNDS / 2]
}

#[tokio::main]
async fn main() -> Result<(), Infallible> {
    let policy =
        |key: &str, more: &str| format!("rate_limits: [{{name: one, key: {key}, requests: 1000000, per: 1s{more}}}]");
    println!("{:>8} ns  no limit", measure("", "").await);
    println!("{:>8} ns  one rate limit, counted here", measure(&policy("caller", ""), "rate_limits: [one]").await);
    println!("{:>8} ns  a cap of runs for a caller", measure("", "max_streams_per_caller: 8").await);
    if let Ok(redis) = std::env::var("REDIS") {
        let top = format!("redis: {{url: \"{redis}\"}}\n{}", policy("caller", ", shared: true"));
        println!("{:>8} ns  one rate limit, counted in Redis", measure(&top, "rate_limits: [one]").await);
    }
    Ok(())
}
