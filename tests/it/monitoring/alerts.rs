//! The rules with their cases, and the runbook.

use super::super::support::prometheus::promtool;
use super::expression::{Expression, Selector};
use super::{
    CASES, MONITORING, RULES, RUNBOOK, alerts, promql_lines, read, read_yaml, recorded_metrics, repository_path, rules,
};
use diglot::error::RejectionKind;
use diglot::telemetry::label::RunOutcome;
use diglot::translate::{EventLoss, EventRepair};
use serde_json::Value;
use std::collections::BTreeSet;

/// Requires that `promtool` accepts a file.
#[track_caller]
fn assert_promtool_accepts(args: &[&str], file: &str) {
    let file = repository_path(file);
    let args: Vec<&str> = args.iter().copied().chain([file.to_str().expect("a path of text")]).collect();
    let output = promtool(&args, "");
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&printed));
}

#[test]
fn promtool_accepts_the_rules_and_the_scrape_configuration() {
    assert_promtool_accepts(&["check", "rules", "--lint=all", "--lint-fatal"], RULES);
    assert_promtool_accepts(&["check", "config"], "deploy/prometheus/scrape.yaml");
}

#[test]
fn alerts_fire_as_their_cases_expect() {
    let cases = CASES.map(|file| std::thread::spawn(move || assert_promtool_accepts(&["test", "rules"], file)));
    for case in cases {
        case.join().expect("promtool takes the cases");
    }
}

/// Returns for each case its alert, the metrics of its input series, and whether the alert fires.
fn cases() -> Vec<(String, BTreeSet<String>, bool)> {
    let files = CASES.map(read_yaml);
    let tests = files.iter().flat_map(|file| file["tests"].as_array().expect("tests"));
    let case = |test: &Value| {
        let series = test["input_series"].as_array().expect("series").iter().map(|one| one["series"].as_str());
        let fed = series.flat_map(|one| Expression::read(one.expect("a series")).selectors).map(|one| one.name);
        let looks = test["alert_rule_test"].as_array().expect("looks");
        let names: BTreeSet<_> = looks.iter().map(|look| look["alertname"].as_str().expect("a name")).collect();
        assert_eq!(names.len(), 1, "{} is about several alerts", test["name"]);
        let fires = looks.iter().any(|look| look["exp_alerts"].as_array().is_some_and(|all| !all.is_empty()));
        (names.into_iter().collect(), fed.collect(), fires)
    };
    tests.map(case).collect()
}

/// A case without input series never fires, so the quiet case must have all series of a firing one.
#[test]
fn every_alert_has_a_firing_and_a_nearly_firing_case() {
    let cases = cases();
    let names: BTreeSet<_> = alerts().into_iter().map(|alert| alert.name).collect();
    assert!(cases.iter().all(|(name, ..)| names.contains(name)), "a case is about no alert");
    for name in &names {
        let own = cases.iter().filter(|(own, ..)| own == name);
        let (firing, quiet): (Vec<_>, Vec<_>) = own.partition(|(.., fires)| *fires);
        assert!(!firing.is_empty() && !quiet.is_empty(), "{name}: {} fire, {} do not", firing.len(), quiet.len());
        for (name, fed, _) in quiet {
            let close = firing.iter().any(|(_, needed, _)| needed.is_subset(fed));
            assert!(close, "{name}: a case that does not fire lacks series of every one that does: {fed:?}");
        }
    }
}

#[test]
fn every_alert_has_a_severity_and_a_runbook_section() {
    let runbook = read(RUNBOOK);
    let sections: Vec<(&str, &str)> =
        runbook.split("\n## ").skip(1).map(|section| section.split_once('\n').expect("a text")).collect();
    let alerts = alerts();
    let names: Vec<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let titles: Vec<&str> = sections.iter().map(|(title, _)| *title).collect();
    assert_eq!(BTreeSet::from_iter(&titles), BTreeSet::from_iter(&names), "sections, and alerts");
    assert_eq!(titles.len(), names.len(), "a section, or an alert, is there twice");
    for alert in &alerts {
        let name = &alert.name;
        let texts = &alert.json["annotations"];
        assert!(name.starts_with("Diglot"), "{name}");
        assert!(["page", "ticket"].map(Value::from).contains(&alert.json["labels"]["severity"]), "{name}");
        assert_eq!(texts["runbook_url"], format!("{RUNBOOK}#{}", name.to_lowercase()), "{name}");
        for text in ["summary", "description"] {
            assert!(texts[text].as_str().is_some_and(|text| text.len() > 20), "{name} has no {text}");
        }
        let (_, section) = sections.iter().find(|(title, _)| title == name).expect("compared above");
        for part in ["**Means** ", "**Affects** ", "**Look** ", "**Do** "] {
            let present = section.contains(part) || (part == "**Do** " && section.contains("**Look** and **do** "));
            assert!(present, "{name}: the runbook has no paragraph {part}");
        }
        assert!(section.contains("```promql\n"), "{name}: the runbook has no expression to look with");
    }
}

#[test]
fn rules_and_pages_name_existing_metrics() {
    let recorded = recorded_metrics();
    let files = CASES.map(read_yaml);
    let tests = files.iter().flat_map(|file| file["tests"].as_array().expect("tests"));
    let series = tests.flat_map(|test| test["input_series"].as_array().expect("series"));
    let fed = series.map(|one| one["series"].as_str().expect("a series").to_owned());
    let pages = [RUNBOOK, MONITORING].into_iter().flat_map(promql_lines);
    let all: Vec<_> = rules().into_iter().map(|rule| rule.expression).chain(pages).chain(fed).collect();
    let wrong = all.iter().filter_map(|text| {
        let strangers = Expression::read(text).unknown_names(&recorded);
        (!strangers.is_empty()).then(|| format!("{text}\n    {}", strangers.join("; ")))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A log line is quoted as `message="…"`, and an internal event writes it.
#[test]
fn runbook_quotes_existing_log_messages() {
    let folder = std::fs::read_dir(repository_path("src/telemetry/internal_event")).expect("the internal events");
    let sources = folder.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("a text"));
    let sources: String = sources.collect();
    let runbook = read(RUNBOOK);
    let quoted: Vec<_> =
        runbook.split("message=\"").skip(1).map(|rest| rest.split('"').next().expect("a text")).collect();
    assert!(quoted.len() > 20, "{quoted:?}");
    for line in quoted {
        assert!(sources.contains(&format!("\"{line}\"")), "no internal event writes {line:?}");
    }
}

/// Returns the values with which the expression of a rule first compares `label` of `metric`.
#[track_caller]
fn compared_values(rule: &str, metric: &str, label: &str) -> BTreeSet<String> {
    let rules = rules();
    let rule = rules.iter().find(|own| own.name == rule).unwrap_or_else(|| panic!("no rule {rule}"));
    let selectors = Expression::read(&rule.expression).selectors;
    let own = selectors.into_iter().find(|own| own.name == metric).unwrap_or_else(|| panic!("no {metric}"));
    let (_, _, value) = own.matchers.into_iter().find(|(own, ..)| own == label).expect("a label");
    value.split('|').map(str::to_owned).collect()
}

fn set<'s>(values: impl IntoIterator<Item = &'s str>) -> BTreeSet<String> {
    values.into_iter().map(str::to_owned).collect()
}

/// Numerator, denominator and minimum of an expression select the same series.
#[test]
fn an_expression_uses_one_list_of_label_values() {
    for rule in rules() {
        let mut lists: Vec<(String, String, BTreeSet<String>)> = Vec::new();
        for Selector { name, matchers } in Expression::read(&rule.expression).selectors {
            for (label, sign, value) in matchers.into_iter().filter(|(_, _, value)| value.contains('|')) {
                let list = value.split('|').map(str::to_owned).collect();
                lists.push((name.clone(), label + &sign, list));
            }
        }
        for (name, label, list) in &lists {
            for (_, _, other) in lists.iter().filter(|(own, of, _)| (own, of) == (name, label)) {
                let whole = |some: &BTreeSet<_>, all: &BTreeSet<_>| some.is_subset(all) && all.contains("finished");
                let fits = list == other || whole(list, other) || whole(other, list);
                assert!(fits, "{}: {name} by {label}: {list:?} and {other:?}", rule.name);
            }
        }
    }
}

/// An expression of the runbook that lists label values of its alert lists all of them.
#[test]
fn runbook_expressions_list_the_label_values_of_their_alert() {
    let lists = |expression: &str| {
        let selectors = Expression::read(expression).selectors.into_iter();
        let matchers = selectors.flat_map(|selector| {
            let name = selector.name;
            selector.matchers.into_iter().map(move |(label, _, value)| (name.clone(), label, value))
        });
        let lists = matchers.filter(|(.., value)| value.contains('|'));
        lists.map(|(name, label, value)| (name, label, set(value.split('|')))).collect::<Vec<_>>()
    };
    let runbook = read(RUNBOOK);
    let mut compared = 0;
    for section in runbook.split("\n## ").skip(1) {
        let (title, text) = section.split_once('\n').expect("a text");
        let rule = rules().into_iter().find(|rule| rule.name == title).unwrap_or_else(|| panic!("no alert {title}"));
        let of_alert = lists(&rule.expression);
        let lines = text.split("```promql\n").skip(1).filter_map(|rest| rest.split("```").next()).flat_map(str::lines);
        for own in lines.flat_map(&lists) {
            if let Some(other) = of_alert.iter().find(|other| (&other.0, &other.1) == (&own.0, &own.1)) {
                assert_eq!(*other, own, "{title}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 2, "{compared} lists");
}

/// A new outcome, repair, loss or refusal must be classified.
#[test]
fn objectives_classify_every_outcome_loss_and_refusal() {
    let failed = compared_values("job_route:diglot_runs_failed:ratio_rate1h", "diglot_streams_total", "outcome");
    for rule in rules().iter().filter(|rule| rule.name.contains("runs_failed") || rule.name.contains("RunsFail")) {
        assert_eq!(compared_values(&rule.name, "diglot_streams_total", "outcome"), failed, "{}", rule.name);
    }
    let page = read(MONITORING);
    // | `client_gone` | no | why |
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let judged = |word: &str| set(rows.clone().filter(|(_, rest)| rest.starts_with(word)).map(|(outcome, _)| outcome));
    assert_eq!(judged("failed |"), failed);
    assert_eq!(judged("well |"), set(["finished"]));
    let all: BTreeSet<_> = ["failed |", "well |", "neither |"].into_iter().flat_map(judged).collect();
    assert_eq!(all, set(RunOutcome::ALL.iter().map(|one| one.label())));

    // Healthy agents need these: HAI's write patches with `"from": ""`, CloudBase's begin without RUN_STARTED.
    let healthy = [EventRepair::PatchMended, EventRepair::RunStartedSupplied];
    let is_breach = |one: &&EventRepair| one.rule().is_some() && !healthy.contains(one);
    let breaches = EventRepair::ALL.iter().filter(is_breach).map(|one| one.label());
    let rule = "job_route:diglot_agent_breaches:ratio_rate1h";
    assert_eq!(compared_values(rule, "diglot_repairs_total", "repair"), set(breaches));

    let wished = ["done_marker", "stripped", "other_run", "repeated"];
    // Carried content depends on the client's dialect, so it shows no change of the agent.
    let lost = EventLoss::ALL.iter().filter(|one| !one.is_carried()).map(|one| one.label());
    let lost = lost.filter(|one| !wished.contains(one));
    assert_eq!(
        compared_values("job_route:diglot_events_lost:ratio_rate1h", "diglot_losses_total", "reason"),
        set(lost)
    );

    let own = RejectionKind::ALL.iter().filter(|kind| [500, 503].contains(&kind.status())).map(|kind| kind.code());
    assert_eq!(compared_values("DiglotRequestsRefused", "diglot_refusals_total", "reason"), set(own));
}
