//! Which cluster may go on under another configuration.

use super::*;
use crate::config::load;

fn route(more: &str) -> Route {
    let text = format!(
        "routes: [{{path: /a, client: ag-ui, agent: hai, upstream: [http://127.0.0.1:9001/, {{url: http://h/, weight: 2}}]{more}}}]"
    );
    load::from_str("f", &text).unwrap_or_else(|problems| panic!("{problems}")).routes.remove(0)
}

#[test]
fn a_cluster_goes_on_as_long_as_what_it_is_made_of_stays() {
    let metrics = Metrics::new().expect("unique names");
    let plain = route("");
    let cluster = Cluster::new(&plain, &Arc::default(), &metrics).expect("no file is named");
    assert!(cluster.is_of(&plain) && cluster.is_of(&route("")));
    // What is asked of callers is not its business.
    assert!(cluster.is_of(&route(", errors: run_error")));
    for more in [
        ", name: other",
        ", health: {}",
        ", ejection: {failures: 1}",
        ", timeouts: {idle: 1s}",
        ", events: \"/{thread_id}\"",
    ] {
        assert!(!cluster.is_of(&route(more)), "{more}");
    }
}

#[tokio::test]
async fn names_that_mean_nothing_yet_leave_nobody_to_ask() {
    let metrics = Metrics::new().expect("unique names");
    let cluster = Cluster::new(&route(""), &Arc::default(), &metrics).expect("no file is named");
    assert!(cluster.choose(&[]).is_none());
    assert!(cluster.report().iter().all(|(good, text)| !good && text.contains("not resolved")));
}
