//! Tests which clusters a reload reuses.

use super::*;
use crate::config::load;

fn route(more: &str) -> RouteConfig {
    let text = format!(
        "routes: [{{path: /a, client: ag-ui, agent: hai, upstream: [http://127.0.0.1:9001/, {{url: http://h/, weight: 2}}]{more}}}]"
    );
    load::from_str("f", &text).unwrap_or_else(|problems| panic!("{problems}")).routes.remove(0)
}

#[test]
fn reuses_a_cluster_while_its_settings_are_unchanged() {
    let metrics = Metrics::new().expect("unique names");
    let plain = route("");
    let cluster = Cluster::new(&plain, &Arc::default(), &metrics).expect("no file is named");
    assert!(cluster.is_reusable_for(&plain) && cluster.is_reusable_for(&route("")));
    // Settings that concern only clients do not affect it.
    assert!(cluster.is_reusable_for(&route(", errors: run_error")));
    for more in [
        ", name: other",
        ", health: {}",
        ", ejection: {failures: 1}",
        ", timeouts: {idle: 1s}",
        ", events: \"/{thread_id}\"",
    ] {
        assert!(!cluster.is_reusable_for(&route(more)), "{more}");
    }
}

#[tokio::test]
async fn chooses_no_target_before_names_resolve() {
    let metrics = Metrics::new().expect("unique names");
    let cluster = Cluster::new(&route(""), &Arc::default(), &metrics).expect("no file is named");
    assert!(cluster.choose(&[0; 32], &[]).is_none());
    assert!(cluster.report().iter().all(|(good, text)| !good && text.contains("not resolved")));
}
