//! Generated pages: `src/dialect/README.md`, and those of the modules below. `UPDATE=1` writes them; otherwise they
//! must be up to date.

mod errors;
mod limits;
mod metrics;
mod threat_model;
mod reference;

use diglot::dialect::{ALL, CarryLocation, DETECTION_RULES, Dialect, EventRow, EventShape, FieldSet, OPTION_CHOICES};
use diglot::event::{EventType, Field};
use diglot::translate::{EventLoss, EventRepair};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# The dialects

<!-- Made from the tables beside it: UPDATE=1 cargo test --test it pages -->

Each dialect is described against AG-UI 1.0 (`ag-ui`), never against another one. A row has the name of an event, its canonical
event, the difference between the two (its shape), and the members that the dialect cannot express, which are carried. An event
without a row is the same as in AG-UI if the dialect is based on AG-UI; otherwise it travels as `CUSTOM`.

A dialect's own members travel in `metadata.<dialect>` of the canonical event. Members that only canonical AG-UI has travel in the
place that the section of the dialect names. Names that begin with `$` are notes: they record the
original notation, so that a translation back restores it; applications can ignore them.
";

fn write_line(out: &mut String, line: impl std::fmt::Display) {
    writeln!(out, "{line}").expect("a string takes everything");
}

/// The sentences that document the variants of `EventShape`, from its source.
fn shapes(source: &str) -> Vec<(String, String)> {
    let body = source.split("enum EventShape {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the enum");
    let (mut all, mut doc) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        match line.strip_prefix("/// ") {
            Some(sentence) => doc.push(sentence.to_owned()),
            None if line.is_empty() => {}
            None => {
                let name = line.trim_end_matches(',').split('(').next().unwrap_or_default().to_owned();
                all.push((name, std::mem::take(&mut doc).join(" ")));
            }
        }
    }
    all
}

/// Lists words; of patch versions in a row, the first and the last.
fn join_words(words: &[&str]) -> String {
    let patch = |word: &str| word.strip_prefix("0.0.")?.parse::<u32>().ok();
    let runs = words.chunk_by(|one, next| patch(one).is_some_and(|one| patch(next) == Some(one + 1)));
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("`{first}` to `{last}`"),
        words => format!("`{}`", words.concat()),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn field_names(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("`{}`", field.camel())).collect::<Vec<_>>().join(", ")
}

fn members_cell(row: &EventRow) -> String {
    let carried = match row.fields {
        FieldSet::AllBut(fields) => fields.to_vec(),
        FieldSet::Only(fields) => {
            row.kind.slots().iter().map(|slot| slot.field).filter(|field| !fields.contains(field)).collect()
        }
    };
    let mut cells = Vec::new();
    if !carried.is_empty() {
        cells.push(format!("carries {}", field_names(&carried)));
    }
    cells.extend(row.field_aliases.iter().map(|(field, name)| format!("`{}` is `{name}`", field.camel())));
    cells.join("; ")
}

fn dialect_section(out: &mut String, dialect: &Dialect, shapes: &[(String, String)]) {
    write_line(out, format_args!("\n## `{}`\n", dialect.name));
    let location = match dialect.carry_location {
        CarryLocation::Native => {
            "The canonical dialect: nothing differs, and a frame that needs no repair passes unchanged.".to_owned()
        }
        _ => {
            let (member, key) = dialect.carry_location.carry_member().expect("a member");
            format!(
                "Members that only canonical AG-UI has are carried in `{member}[\"{key}\"]`, of events and of messages."
            )
        }
    };
    write_line(out, location);
    let options: Vec<String> = dialect
        .option_names
        .iter()
        .map(|option| {
            let words: Vec<_> =
                OPTION_CHOICES.iter().filter(|(own, ..)| own == option).map(|(_, word, _)| *word).collect();
            if words.is_empty() { format!("`{option}`") } else { format!("`{option}` ({})", join_words(&words)) }
        })
        .collect();
    if !options.is_empty() {
        write_line(out, format_args!("\nOptions: {}.", options.join("; ")));
    }
    if !dialect.value_aliases.is_empty() {
        let words: Vec<_> = dialect
            .value_aliases
            .iter()
            .map(|word| format!("`{}` {} is `{}`", word.field.camel(), word.canonical, word.wire))
            .collect();
        write_line(out, format_args!("\nWords: {}.", words.join("; ")));
    }
    if !dialect.strip.is_empty() {
        write_line(out, format_args!("\nNever sent: `{}`.", dialect.strip.join("`, `")));
    }
    if dialect.rows.is_empty() {
        return;
    }
    write_line(out, "\n| event | AG-UI | shape | members | seed |\n|---|---|---|---|---|");
    for row in dialect.rows {
        let words = match row.shape {
            EventShape::Plain => "",
            EventShape::Own(own) => own.description,
            shape => {
                let name = format!("{shape:?}");
                let name = name.split('(').next().unwrap_or_default();
                let found = shapes.iter().find(|(own, _)| own == name);
                found.map_or_else(|| panic!("{name} has no sentence"), |(_, words)| words)
            }
        };
        let kind = if row.wire == row.kind.wire() { "the same".to_owned() } else { format!("`{}`", row.kind.wire()) };
        let until = row.until.map_or_else(String::new, |until| {
            let (_, version, _) = OPTION_CHOICES
                .iter()
                .find(|(option, _, set)| {
                    let mut side = diglot::dialect::PeerDialect::new(built_in_dialect(dialect));
                    set(&mut side);
                    *option == "pin" && side.peer_version == until
                })
                .expect("every version is a choice");
            format!(" (before {version})")
        });
        write_line(
            out,
            format_args!("| `{}`{until} | {kind} | {words} | {} | {} |", row.wire, members_cell(row), row.seed),
        );
    }
}

fn built_in_dialect(dialect: &Dialect) -> &'static Dialect {
    diglot::dialect::find_by_name(dialect.name).expect("built in")
}

fn page() -> String {
    let source =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dialect/row.rs")).expect("the source");
    let shapes = shapes(&source);
    let mut out = HEAD.to_owned();
    ALL.iter().for_each(|one| dialect_section(&mut out, one, &shapes));
    write_line(
        &mut out,
        "\n## Detection\n\nFor `auto` and `diglot detect`, the sign of an event is the first rule that matches it. A stream has the dialect with the strongest\nsign; of several, the one with most signs of that weight; of these, the first.\n\n| dialect | rule | weight |\n|---|---|---|",
    );
    for sign in DETECTION_RULES.iter() {
        write_line(
            &mut out,
            format_args!("| `{}` | {} | {} |", sign.dialect.name, sign.description, sign.weight.text()),
        );
    }
    write_line(
        &mut out,
        "\n## Repairs and losses\n\nA repair changes an event, or adds one, and loses nothing: a value that the client cannot accept is carried in the event's\nmetadata. A loss leaves something out or, if its label ends with `_not_shown`, carries content that the receiver does not show: the\nclient's user does not see it or, in a request, the agent. The labels are those of `diglot_repairs_total` and `diglot_losses_total`, of `repair_names`\nand `loss_names` in the log, and of `--explain`. With `guard: strict`, only an agent that broke a rule ends its run.\n\n| label | is a | what happened | what Diglot does | the broken rule, if any |\n|---|---|---|---|---|",
    );
    let repairs = EventRepair::ALL.iter().map(|one| (one.label(), "repair", one.description(), one.rule()));
    let loss_class = |one: &EventLoss| if one.is_carried() { "loss, carried" } else { "loss" };
    let losses = EventLoss::ALL.iter().map(|one| (one.label(), loss_class(one), one.description(), one.rule()));
    for (label, class, description, rule) in repairs.chain(losses) {
        let (cause, effect) = description.split_once(": ").unwrap_or_else(|| panic!("{label} lacks a colon"));
        write_line(
            &mut out,
            format_args!("| `{label}` | {class} | {cause} | {effect} | {} |", rule.unwrap_or_default()),
        );
    }
    write_line(&mut out, "\n## The canonical events\n\n| event | members (required ones first) |\n|---|---|");
    for kind in EventType::ALL {
        let required =
            kind.slots().iter().filter(|slot| slot.required).map(|slot| format!("**{}**", slot.field.camel()));
        let optional = kind.slots().iter().filter(|slot| !slot.required).map(|slot| slot.field.camel().to_owned());
        write_line(
            &mut out,
            format_args!("| `{}` | {} |", kind.wire(), required.chain(optional).collect::<Vec<_>>().join(", ")),
        );
    }
    out
}

/// Returns the names in the first table below a heading of a page.
fn listed_names(page: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(path).expect("the page can be read");
    let (_, section) = text.split_once(&format!("{heading}\n")).expect("the heading");
    let (_, table) = section.split_once("\n|---|---|").expect("a table");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect()
}

#[test]
fn pages_list_every_dialect() {
    let names: Vec<_> = ALL.iter().map(|dialect| dialect.name).collect();
    for (page, section) in
        [("README.md", "## Dialects"), ("README.zh.md", "## 方言"), ("deploy/dialects.md", "# Dialects")]
    {
        assert_eq!(listed_names(page, section), names, "{page}: one row for each dialect, in the order of `ALL`");
    }
}

#[test]
fn dialect_page_matches_the_tables() {
    assert_up_to_date("src/dialect/README.md", &page());
}

/// Requires that a page is up to date, or writes it.
fn assert_up_to_date(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&path, page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{name} is out of date: run UPDATE=1 cargo test --test it pages::");
}
