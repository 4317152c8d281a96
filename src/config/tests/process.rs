//! Tests mistakes in process settings.

use super::read;

const ROUTES: &str = "routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}]";

#[test]
fn rejects_bad_durations_and_a_run_dir_too_long_for_sockets() {
    let long = format!("/run/{}", "x".repeat(100));
    for (written, expected) in [
        ("drain_grace: 5", "f:1:14: drain_grace: `5` is not a duration".to_owned()),
        ("drain_grace: -1s", "f:1:14: drain_grace: `-1s` is not a duration".to_owned()),
        ("upgrade_timeout: for ever", "f:1:18: upgrade_timeout: `for ever` is not a duration".to_owned()),
        ("run_dir: \"\"", "f:1:10: run_dir: the value is empty".to_owned()),
        (
            &format!("run_dir: {long}"),
            "f:1:10: run_dir: the path has 105 bytes, which is too long for the sockets in it".to_owned(),
        ),
    ] {
        let problems = read(&format!("{written}\n{ROUTES}")).expect_err(written).to_string();
        assert!(problems.starts_with(&expected), "{problems}");
        assert!(problems.contains("\n  hint: "), "{problems}");
    }
}

#[test]
fn accepts_zero_durations() {
    let config = read(&format!("drain_grace: 0s\nupgrade_timeout: 0s\nrun_dir: run\n{ROUTES}"));
    let process = config.unwrap_or_else(|problems| panic!("{problems}")).process;
    assert!(process.drain_grace.is_zero() && process.upgrade_timeout.is_zero());
    assert_eq!(process.run_dir.as_deref(), Some(std::path::Path::new("run")));
}
