//! The metrics, as Prometheus reads them.

use super::support::agent::Agent;
use super::support::client::run;
use super::support::gateway::Gateway;
use super::support::prometheus::{Prometheus, promtool};
use super::support::sse::{HEAD, whole};

/// `promtool` reads what it is given, and says what is wrong with it.
fn checked(exposition: &str) -> (bool, String) {
    let output = promtool(&["check", "metrics"], exposition);
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).expect("text"))
}

#[test]
fn promtool_finds_what_is_wrong() {
    let (good, said) = checked("# HELP things Things.\n# TYPE things counter\nthings 1\n");
    assert!(!good && said.contains("_total"), "{said}");
    let (good, said) = checked("what is this\n");
    assert!(!good, "{said}");
}

#[tokio::test]
async fn a_real_prometheus_scrapes_what_a_run_counted() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = Gateway::before(&agent).await;
    let prometheus = Prometheus::scraping(&[gateway.status], &[]).await;
    run(gateway.data, "/run").await;
    gateway.reaches(r#"diglot_streams_total{outcome="finished",route="run"}"#, 1.0).await;
    prometheus.scraped().await;
    let ended = prometheus.query(r#"diglot_streams_total{route="run"} == 1"#).await;
    let [(labels, _)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((&*labels["outcome"], &*labels["job"]), ("finished", "diglot"));
    assert_eq!(labels["instance"], gateway.status.to_string());
    assert_eq!(prometheus.query("scalar(sum(diglot_streams_total))").await[0].1, 1.0);
}
