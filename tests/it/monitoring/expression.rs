//! Finds the metrics and labels that a PromQL expression names, and reports unknown ones.
//!
//! Prometheus accepts an expression with an unknown metric: its result is empty, and an alert on it never fires. The
//! syntax is left to Prometheus.

use diglot::telemetry::metric::{CATALOGUE, LabelSpec, MetricKind, MetricSpec};

/// Labels that Prometheus adds to each scraped series.
const TARGET_LABELS: &[&str] = &["job", "instance"];

/// Words of the language that can be in the place of a metric.
const KEYWORDS: &[&str] = &["and", "or", "unless", "bool", "offset", "inf", "nan"];

/// Words with a list of labels behind them.
const LABEL_LIST_KEYWORDS: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];

/// The matchers of one metric in an expression.
#[derive(Debug, PartialEq)]
pub struct Selector {
    pub name: String,
    /// label, operator, value
    pub matchers: Vec<(String, String, String)>,
}

/// The names in an expression.
#[derive(Debug, Default, PartialEq)]
pub struct Expression {
    pub selectors: Vec<Selector>,
    /// labels that series are grouped or matched by
    pub labels: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

fn tokens(text: &str) -> Vec<Token> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' | '\'' | '`' => {
                let end = closing_quote(rest, first);
                all.push(Token::Text(unescaped(&rest[1..end])));
                end + 1
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '0'..='9' => rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len()),
            'a'..='z' | 'A'..='Z' | '_' | ':' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
                let end = end.unwrap_or(rest.len());
                all.push(Token::Word(rest[..end].to_owned()));
                end
            }
            // A duration or two, with a colon between them.
            '[' => rest.find(']').unwrap_or_else(|| panic!("{text}: no end of a range")) + 1,
            _ => {
                if !first.is_whitespace() {
                    all.push(Token::Sign(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    all
}

/// Returns the end of the text that begins with `quote`.
fn closing_quote(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let ends = |&(_, c): &(usize, char)| {
        let end = c == quote && !escaped;
        escaped = c == '\\' && !escaped && quote != '`';
        end
    };
    text.char_indices().skip(1).find(ends).unwrap_or_else(|| panic!("{text}: no end of a text")).0
}

fn unescaped(text: &str) -> String {
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

impl Expression {
    /// Reads the names in `text`. A word that is not part of the language is a metric.
    pub fn read(text: &str) -> Expression {
        let tokens = tokens(text);
        let mut found = Expression::default();
        let mut at = 0;
        while at < tokens.len() {
            let next = tokens.get(at + 1);
            match &tokens[at] {
                Token::Word(word) if LABEL_LIST_KEYWORDS.contains(&word.as_str()) => {
                    let inside = tokens[at + 1..].iter().take_while(|token| **token != Token::Sign(')'));
                    let names = inside.filter_map(|token| match token {
                        Token::Word(name) => Some(name.clone()),
                        _ => None,
                    });
                    // `group_left` may have no list.
                    if next == Some(&Token::Sign('(')) {
                        found.labels.extend(names);
                        at += tokens[at..].iter().position(|token| *token == Token::Sign(')')).expect("an end");
                    }
                }
                Token::Word(word) if KEYWORDS.contains(&word.to_lowercase().as_str()) => {}
                Token::Word(word) => match next {
                    Some(Token::Sign('(')) => {}
                    // `sum by (…) (…)`
                    Some(Token::Word(list))
                        if LABEL_LIST_KEYWORDS.contains(&list.as_str()) && is_call(&tokens[at + 1..]) => {}
                    Some(Token::Sign('{')) => {
                        let length = tokens[at..].iter().position(|token| *token == Token::Sign('}'));
                        let length = length.unwrap_or_else(|| panic!("{text}: no end of the labels"));
                        let matchers = matchers(&tokens[at + 2..at + length]);
                        found.selectors.push(Selector { name: word.clone(), matchers });
                        at += length;
                    }
                    _ => found.selectors.push(Selector { name: word.clone(), matchers: Vec::new() }),
                },
                Token::Sign('{') => panic!("{text}: labels without the name of a metric"),
                Token::Text(_) | Token::Sign(_) => {}
            }
            at += 1;
        }
        found
    }

    /// Returns the unknown metrics, labels and label values. `recorded` are metrics of rules, whose names begin with
    /// their labels.
    pub fn unknown_names(&self, recorded: &[String]) -> Vec<String> {
        let (mut found, mut known) = (Vec::new(), vec!["le".to_owned()]);
        for Selector { name, matchers } in &self.selectors {
            let Some(own) = KnownMetric::lookup(name, recorded) else {
                found.push(format!("{name} is no metric"));
                continue;
            };
            for (label, _, value) in matchers {
                found.extend(own.label_error(label, value).map(|what| format!("{name}: {what}")));
            }
            known.extend(own.labels().into_iter().map(str::to_owned));
        }
        let other = self.labels.iter().filter(|label| !known.contains(label));
        found.extend(other.map(|label| format!("no metric here has the label {label}")));
        found
    }
}

/// Returns whether a list of labels belongs to an aggregation: brackets follow it.
fn is_call(tokens: &[Token]) -> bool {
    let end = tokens.iter().position(|token| *token == Token::Sign(')'));
    end.and_then(|end| tokens.get(end + 1)) == Some(&Token::Sign('('))
}

fn matchers(tokens: &[Token]) -> Vec<(String, String, String)> {
    let each = tokens.split(|token| *token == Token::Sign(',')).filter(|each| !each.is_empty());
    let matcher = |each: &[Token]| match each {
        [Token::Word(label), signs @ .., Token::Text(value)] => {
            let sign = |token: &Token| if let Token::Sign(sign) = token { *sign } else { '?' };
            (label.clone(), signs.iter().map(sign).collect(), value.clone())
        }
        other => panic!("{other:?} is no matcher"),
    };
    each.map(matcher).collect()
}

/// A metric that exists.
enum KnownMetric<'m> {
    /// of the catalogue, and whether it is one of the buckets of a histogram
    Gateway(&'m MetricSpec, bool),
    /// of a rule, with its labels
    Rule(Vec<&'m str>),
    /// Prometheus' own
    Prometheus(&'static [&'static str]),
}

impl<'m> KnownMetric<'m> {
    fn lookup(name: &'m str, recorded: &[String]) -> Option<KnownMetric<'m>> {
        if recorded.iter().any(|own| own == name) {
            let level = name.split(':').next().unwrap_or_default();
            return Some(KnownMetric::Rule(if level == "diglot" { Vec::new() } else { level.split('_').collect() }));
        }
        match name {
            "up" => return Some(KnownMetric::Prometheus(TARGET_LABELS)),
            // The labels of an alert are those of its expression.
            "ALERTS" => {
                return Some(KnownMetric::Prometheus(&[
                    "alertname",
                    "alertstate",
                    "severity",
                    "job",
                    "instance",
                    "route",
                    "upstream",
                ]));
            }
            _ => {}
        }
        let of = |metric: &MetricSpec| match metric.kind {
            MetricKind::Counter | MetricKind::Gauge => metric.name == name,
            MetricKind::Histogram => {
                let parts = ["_bucket", "_sum", "_count"];
                parts.iter().any(|part| name.strip_suffix(part) == Some(metric.name))
            }
        };
        CATALOGUE.iter().find(|metric| of(metric)).map(|metric| KnownMetric::Gateway(metric, name.ends_with("_bucket")))
    }

    fn labels(&self) -> Vec<&str> {
        match self {
            KnownMetric::Gateway(metric, _) => {
                metric.labels.iter().map(|label| label.name).chain(["job", "instance"]).collect()
            }
            KnownMetric::Rule(labels) => labels.clone(),
            KnownMetric::Prometheus(labels) => labels.to_vec(),
        }
    }

    /// Returns the fault of a label and the values that it is compared with.
    fn label_error(&self, label: &str, value: &str) -> Option<String> {
        match self {
            KnownMetric::Gateway(metric, true) if label == "le" => {
                let is = |bound: &str| metric.buckets.iter().any(|own| bound.parse() == Ok(*own));
                let other = value.split('|').find(|bound| !is(bound));
                other.map(|bound| format!("no bucket ends at {bound}"))
            }
            _ if !self.labels().contains(&label) => Some(format!("no label {label}")),
            KnownMetric::Gateway(metric, _) => {
                let all = metric.label(label).and_then(LabelSpec::closed_values)?;
                let other: Vec<_> = value.split('|').filter(|one| !all.contains(one)).collect();
                (!other.is_empty()).then(|| format!("{label} is never {}", other.join(", ")))
            }
            KnownMetric::Rule(_) | KnownMetric::Prometheus(_) => None,
        }
    }
}

#[test]
fn finds_names_anywhere_in_an_expression() {
    let read = |text| {
        let Expression { selectors, labels } = Expression::read(text);
        let selector = |one: Selector| {
            let matchers: Vec<_> =
                one.matchers.iter().map(|(label, sign, value)| format!("{label}{sign}{value}")).collect();
            format!("{}{{{}}}", one.name, matchers.join(","))
        };
        (selectors.into_iter().map(selector).collect::<Vec<_>>().join(" "), labels.join(" "))
    };
    for (text, selectors, labels) in [
        ("up", "up{}", ""),
        ("a:b_c + on (x, y) group_left b offset 1d", "a:b_c{} b{}", "x y"),
        ("sum by (x) (rate(a{k=~\"v|w\", l!='}'}[5m])) > 14.4 * (1 - scalar(c))", "a{k=~v|w,l!=}} c{}", "x"),
        ("sum(a) by (x) / on (y) group_left (z) b{}", "a{} b{}", "x y z"),
        (
            "# sum of z\nhistogram_quantile(0.9, a{k=\"\\\"q\\\"\"}[1h:5m]) and b unless c == 1e9",
            "a{k=\"q\"} b{} c{}",
            "",
        ),
        ("time() - min without (x) (a) < 2 * 86400", "a{}", "x"),
    ] {
        assert_eq!(read(text), (selectors.to_owned(), labels.to_owned()), "{text}");
    }
}

#[test]
fn reports_unknown_metrics_labels_and_values() {
    let recorded = ["job_route:x:ratio".to_owned(), "diglot:y:ratio".to_owned()];
    for (text, wrong) in [
        ("diglot_streams_total{outcome=~\"finished|drained\", job=\"j\", route=\"whatever\"}", ""),
        ("diglot_stream_first_event_seconds_bucket{le=~\"1|1.0\"}", ""),
        ("diglot_stream_first_event_seconds_bucket{le=\"2.5\"} or diglot_stream_first_event_seconds_sum", ""),
        ("sum by (job, route) (job_route:x:ratio{route=\"r\"}) > scalar(diglot:y:ratio)", ""),
        ("diglot_stream_total", "diglot_stream_total is no metric"),
        ("diglot_stream_first_event_seconds", "diglot_stream_first_event_seconds is no metric"),
        ("diglot_streams_active_count", "diglot_streams_active_count is no metric"),
        ("diglot_streams_total{outcome=~\"finished|failed\"}", "diglot_streams_total: outcome is never failed"),
        ("diglot_streams_total{upstream=\"u\"}", "diglot_streams_total: no label upstream"),
        ("diglot_streams_total{le=\"1\"}", "diglot_streams_total: no label le"),
        (
            "diglot_stream_first_event_seconds_bucket{le=\"3\"}",
            "diglot_stream_first_event_seconds_bucket: no bucket ends at 3",
        ),
        ("sum by (upstream) (diglot_streams_total)", "no metric here has the label upstream"),
        ("job_route:x:ratio{instance=\"i\"}", "job_route:x:ratio: no label instance"),
        ("job_route:z:ratio", "job_route:z:ratio is no metric"),
    ] {
        assert_eq!(Expression::read(text).unknown_names(&recorded).join("; "), wrong, "{text}");
    }
}
