//! Single values: variables are put in, the text is read by its rule, and what is wrong is noted at its place.

use std::fmt::Display;

use serde_saphyr::Spanned;

use super::{Check, Position, Scalar, Seen, position};
use crate::config::file::{OneOrMany, Text};
use crate::config::problem::{Problem, Severity, may_hold_password};
use crate::config::scalar::Fault;
use crate::config::slip;
use crate::config::variable::{Expanded, Failure, expand};

impl Check<'_> {
    pub(super) fn value<T>(&mut self, text: &Text, path: &str, read: fn(&str) -> Result<T, Fault>) -> Option<T> {
        self.seen(text, path, read).map(|seen| seen.value)
    }

    /// A value that may be left out; `None` where what is written cannot be read.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn optional<T>(
        &mut self,
        text: Option<&Text>,
        path: &str,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Option<Option<T>> {
        match text {
            Some(text) => self.value(text, path, read).map(Some),
            None => Some(None),
        }
    }

    pub(super) fn seen<T>(&mut self, text: &Text, path: &str, read: fn(&str) -> Result<T, Fault>) -> Option<Seen<T>> {
        self.read(&text.value, path, position(text.defined), read).map(|value| Seen::new(value, path, text.referenced))
    }

    /// Reads one scalar or each of a list.
    pub(super) fn values<T>(
        &mut self,
        written: &Spanned<OneOrMany>,
        path: &str,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Vec<Option<Seen<T>>> {
        match &written.value {
            OneOrMany::One(one) => {
                let value = self.read(one, path, position(written.defined), read);
                vec![value.map(|value| Seen::new(value, path, written.referenced))]
            }
            OneOrMany::Many(many) => self.list(many, path, read),
        }
    }

    pub(super) fn list<T>(
        &mut self,
        many: &[Text],
        path: &str,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Vec<Option<Seen<T>>> {
        let each = |(index, one): (usize, &Text)| self.seen(one, &format!("{path}[{index}]"), read);
        many.iter().enumerate().map(each).collect()
    }

    pub(super) fn read<T>(
        &mut self,
        written: &str,
        path: &str,
        position: Option<Position>,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let scalar = self.scalar(written, path, position)?;
        let fault = match read(&scalar.text) {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };
        let suggestion = fault.suggestion.filter(|_| !scalar.substituted && !may_hold_password(&scalar.text));
        let hint = match (slip::quotes(written), suggestion) {
            (Some(straight), _) => straight.to_owned(),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None) => fault.hint.to_owned(),
        };
        self.note(path, position, format!("{} {}", scalar.shown, fault.is), hint);
        None
    }

    pub(super) fn scalar(&mut self, written: &str, path: &str, position: Option<Position>) -> Option<Scalar> {
        let form = "write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`";
        let (message, hint) = match expand(written, self.source.with.lookup) {
            Ok(Expanded { text, substituted }) if !text.is_empty() => {
                let shown = shown(written, substituted);
                return Some(Scalar { text, shown, substituted });
            }
            Ok(Expanded { substituted: false, .. }) => {
                ("the value is empty".to_owned(), "write one, or take the key away".to_owned())
            }
            Ok(_) => {
                let message = format!("{} is empty", shown(written, true));
                (message, "give the variable a value, or a default: `${NAME:-default}`".to_owned())
            }
            Err(Failure::Unset(name)) => {
                let hint = format!("set it where Diglot is started, or give a default: `${{{name}:-default}}`");
                (format!("the environment variable `{name}` is not set"), hint)
            }
            Err(Failure::Unclosed) => ("`${` without a `}` after it".to_owned(), form.to_owned()),
            Err(Failure::Malformed(inside)) => (format!("`${{{inside}}}` names no variable"), form.to_owned()),
        };
        self.note(path, position, message, hint);
        None
    }

    pub(super) fn note(
        &mut self,
        path: &str,
        position: Option<Position>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        // What became of a value that was left out is no mistake of its own.
        if !self.is_lost(path) {
            self.problems.push(self.problem(path, position, message, hint));
        }
    }

    /// Notes what can be run on and is probably not meant.
    pub(super) fn warn(
        &mut self,
        path: &str,
        position: Option<Position>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let warning = self.problem(path, position, message, hint);
        self.warnings.push(Problem { severity: Severity::Warning, ..warning });
    }

    fn problem(
        &self,
        path: &str,
        position: Option<Position>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem::of_file(self.source.name, message).at(path, position, self.source.text).hint(hint)
    }

    /// One of several words.
    pub(super) fn choice<T: Clone>(&mut self, written: &Text, path: &str, choices: &[(&str, T)]) -> Option<T> {
        let scalar = self.scalar(&written.value, path, position(written.defined))?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == scalar.text) {
            return Some(choice.clone());
        }
        let message = format!("{} is not a choice here", scalar.shown);
        let names = quoted(choices.iter().map(|(name, _)| name));
        let hint = slip::quotes(&written.value).map_or(format!("write {names}"), str::to_owned);
        self.note(path, position(written.defined), message, hint);
        None
    }

    /// Notes a key that must be there and is not, at the mapping that lacks it.
    pub(super) fn required<'w, T>(
        &mut self,
        value: Option<&'w T>,
        at: &str,
        key: &str,
        whole: Option<Position>,
    ) -> Option<&'w T> {
        let example = match key {
            "path" => "the path that clients call, such as `path: /agents/chat`",
            "client" => "what the clients speak, such as `client: ag-ui`",
            "agent" => "what the agent speaks, such as `agent: hai`",
            "upstream" => "where the agent is, such as `upstream: http://127.0.0.1:9001/chat`",
            "name" => "what routes call it, such as `name: acme-chat`",
            "extends" => "which dialect it changes, such as `extends: ag-ui`",
            _ => "which dialect it is, such as `dialect: hai`",
        };
        self.needed(value, at, key, example, whole)
    }

    pub(super) fn needed<'w, T>(
        &mut self,
        value: Option<&'w T>,
        at: &str,
        key: &str,
        example: &str,
        whole: Option<Position>,
    ) -> Option<&'w T> {
        let is_elsewhere = at.starts_with("routes[") && self.source.misplaced.iter().any(|misplaced| misplaced == key);
        if value.is_none() && !is_elsewhere && !self.is_lost(&format!("{at}.{key}")) {
            let slip = whole.and_then(|whole| slip::commented(self.source.text, whole, key));
            let (place, hint) = match slip {
                Some(slip) => (Some(slip.position), slip.hint),
                None => (whole, format!("add {example}")),
            };
            self.note(at, place, format!("the key `{key}` is missing or empty"), hint);
        }
        value
    }

    /// Notes each value that is the same as one before it.
    pub(super) fn distinct<T>(&mut self, all: &[&Seen<T>], same: impl Fn(&T, &T) -> bool, message: &str, hint: &str) {
        for (index, one) in all.iter().enumerate() {
            if let Some(earlier) = all[..index].iter().find(|earlier| same(&earlier.value, &one.value)) {
                // Of a default and what was written, only the written one can be changed.
                let (at, other) = if one.position.is_some() { (one, earlier) } else { (earlier, one) };
                self.note(&at.path, at.position, format!("{message} {}", other.place()), hint);
            }
        }
    }
}

/// How a message names a value: the text of the file, never what a variable holds.
pub(super) fn shown(written: &str, substituted: bool) -> String {
    const MAX_SHOWN: usize = 80;
    if may_hold_password(written) {
        return "the value".to_owned();
    }
    let cut: String = written.trim().chars().take(MAX_SHOWN).collect();
    let dots = if cut.len() < written.trim().len() { "…" } else { "" };
    let how = if substituted { ", with its variables put in," } else { "" };
    format!("`{cut}{dots}`{how}")
}

/// All values, unless one of them could not be read.
pub(super) fn every<T>(list: Vec<Option<Seen<T>>>) -> Option<Vec<T>> {
    list.into_iter().map(|one| one.map(|one| one.value)).collect()
}

pub(super) fn quoted<T: Display>(names: impl Iterator<Item = T>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
