//! The cause of a broken run is named by the gateway where it knows it.

use super::super::support::agent::Agent;
use super::super::support::client::post_run;
use super::super::support::sse::{HEAD, complete_run};
use super::{RunDir, start};

#[tokio::test]
async fn names_the_dialect_that_an_agent_of_another_dialect_speaks() {
    // AG-UI's names on a route for HAI, which are read as what they mean.
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    for (dialect, looks_like) in [("hai", Some("ag-ui")), ("ag-ui", None)] {
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", &format!("client: ag-ui, agent: {dialect}, inspect: events")).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        assert_eq!(run["looks_like"].as_str(), looks_like, "{run}");
    }
}
