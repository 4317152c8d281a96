//! Single values: variables are put in, the text is read by its rule, and what is wrong is noted at its place.

use std::fmt::Display;

use super::{ConfigChecker, ExpandedScalar, LocatedValue, SourcePosition, position};
use crate::config::file::{Scalar, ScalarOrList, Spanned};
use crate::config::problem::{ConfigProblem, ProblemSeverity, may_hold_password};
use crate::config::scalar::ScalarError;
use crate::config::schema::kind::OpenKind;
use crate::config::schema::secrets::is_sensitive_path;
use crate::config::substitution::{ExpandedText, SubstitutionError, expand};
use crate::config::yaml_hints;

/// Stands for a value that may be a secret. A message that begins with it has no excerpt either.
const HIDDEN_VALUE: &str = "the value";

impl ConfigChecker<'_> {
    pub(super) fn read_value<T>(
        &mut self,
        text: &Scalar<impl OpenKind>,
        path: &str,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        self.read_located(text, path, read).map(|seen| seen.value)
    }

    /// A value that may be left out; `None` where what is written cannot be read.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn read_optional<T>(
        &mut self,
        text: Option<&Scalar<impl OpenKind>>,
        path: &str,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<Option<T>> {
        match text {
            Some(text) => self.read_value(text, path, read).map(Some),
            None => Some(None),
        }
    }

    pub(super) fn read_located<T>(
        &mut self,
        text: &Scalar<impl OpenKind>,
        path: &str,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<LocatedValue<T>> {
        self.read(&text.value, path, position(text.defined), read)
            .map(|value| LocatedValue::new(value, path, text.referenced))
    }

    /// Reads one scalar or each of a list.
    pub(super) fn read_values<T, K: OpenKind>(
        &mut self,
        written: &Spanned<ScalarOrList<K>>,
        path: &str,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Vec<Option<LocatedValue<T>>> {
        match &written.value {
            ScalarOrList::One(one) => {
                let value = self.read(one, path, position(written.defined), read);
                vec![value.map(|value| LocatedValue::new(value, path, written.referenced))]
            }
            ScalarOrList::Many(many) => self.read_list(many, path, read),
        }
    }

    pub(super) fn read_list<T>(
        &mut self,
        many: &[Scalar<impl OpenKind>],
        path: &str,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Vec<Option<LocatedValue<T>>> {
        let each = |(index, one)| self.read_located(one, &format!("{path}[{index}]"), read);
        many.iter().enumerate().map(each).collect()
    }

    pub(super) fn read<T>(
        &mut self,
        written: &str,
        path: &str,
        position: Option<SourcePosition>,
        read: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        let scalar = self.expand_scalar(written, path, position)?;
        let fault = match read(&scalar.text) {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };
        let suggestion = fault.suggestion.filter(|_| !scalar.substituted && scalar.display != HIDDEN_VALUE);
        let hint = match (yaml_hints::hint_for_quotes(written), suggestion) {
            (Some(straight), _) => straight.to_owned(),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None) => fault.hint.to_owned(),
        };
        self.report_error(path, position, format!("{} {}", scalar.display, fault.predicate), hint);
        None
    }

    pub(super) fn expand_scalar(
        &mut self,
        written: &str,
        path: &str,
        position: Option<SourcePosition>,
    ) -> Option<ExpandedScalar> {
        let form = "write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`";
        let (message, hint) = match expand(written, self.source.context.lookup) {
            Ok(ExpandedText { text, substituted }) if !text.is_empty() => {
                let is_open = !is_sensitive_path(path) && !self.source.repairs.is_guessed(path);
                let display = if is_open { quote_value(written, substituted) } else { HIDDEN_VALUE.to_owned() };
                return Some(ExpandedScalar { text, display, substituted });
            }
            Ok(ExpandedText { substituted: false, .. }) => {
                ("the value is empty".to_owned(), "write a value or remove the key".to_owned())
            }
            Ok(_) => {
                let message = format!("{} is empty", quote_value(written, true));
                (message, "give the variable a value, or a default: `${NAME:-default}`".to_owned())
            }
            Err(SubstitutionError::Unset(name)) => {
                let hint = format!("set it where Diglot is started, or give a default: `${{{name}:-default}}`");
                (format!("the environment variable `{name}` is not set"), hint)
            }
            Err(SubstitutionError::Unclosed) => ("`${` has no closing `}`".to_owned(), form.to_owned()),
            Err(SubstitutionError::Malformed(inside)) => {
                (format!("`${{{inside}}}` is not a valid variable name"), form.to_owned())
            }
        };
        self.report_error(path, position, message, hint);
        None
    }

    pub(super) fn report_error(
        &mut self,
        path: &str,
        position: Option<SourcePosition>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        // The consequences of a skipped value are not mistakes of their own.
        if !self.is_skipped(path) {
            self.problems.push(self.build_problem(path, position, message, hint));
        }
    }

    /// Reports a setting that is valid but probably unintended.
    pub(super) fn report_warning(
        &mut self,
        path: &str,
        position: Option<SourcePosition>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let warning = self.build_problem(path, position, message, hint);
        self.warnings.push(ConfigProblem { severity: ProblemSeverity::Warning, ..warning });
    }

    fn build_problem(
        &self,
        path: &str,
        position: Option<SourcePosition>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigProblem {
        let problem = ConfigProblem::for_file(self.source.name, message).with_location(path, position).with_hint(hint);
        if problem.message.starts_with(HIDDEN_VALUE) { problem } else { problem.with_excerpt(self.source.text) }
    }

    /// One of several words.
    pub(super) fn read_choice<T: Clone>(
        &mut self,
        written: &Scalar<impl OpenKind>,
        path: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let scalar = self.expand_scalar(&written.value, path, position(written.defined))?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == scalar.text) {
            return Some(choice.clone());
        }
        let message = format!("{} is not a valid choice", scalar.display);
        let names = quote_names(choices.iter().map(|(name, _)| name));
        let hint = yaml_hints::hint_for_quotes(&written.value).map_or(format!("write {names}"), str::to_owned);
        self.report_error(path, position(written.defined), message, hint);
        None
    }

    /// Notes a key that must be there and is not, at the mapping that lacks it.
    pub(super) fn require_main_key<'w, T>(
        &mut self,
        value: Option<&'w T>,
        at: &str,
        key: &str,
        whole: Option<SourcePosition>,
    ) -> Option<&'w T> {
        let example = match key {
            "path" => "the path that clients call, such as `path: /agents/chat`",
            "client" => "the dialect of the clients, such as `client: ag-ui`",
            "agent" => "the dialect of the agent, such as `agent: hai`",
            "upstream" => "the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`",
            "name" => "the name that routes use, such as `name: acme-chat`",
            "extends" => "the dialect to extend, such as `extends: ag-ui`",
            _ => "the dialect, such as `dialect: hai`",
        };
        self.require_key(value, at, key, example, whole)
    }

    pub(super) fn require_key<'w, T>(
        &mut self,
        value: Option<&'w T>,
        at: &str,
        key: &str,
        example: &str,
        whole: Option<SourcePosition>,
    ) -> Option<&'w T> {
        let is_elsewhere =
            at.starts_with("routes[") && self.source.repairs.misplaced_keys.iter().any(|misplaced| misplaced == key);
        if value.is_none() && !is_elsewhere && !self.is_skipped(&format!("{at}.{key}")) {
            let slip = whole.and_then(|whole| yaml_hints::hint_for_comment(self.source.text, whole, key));
            let (place, hint) = match slip {
                Some(slip) => (Some(slip.position), slip.hint),
                None => (whole, format!("add {example}")),
            };
            self.report_error(at, place, format!("the key `{key}` is missing or empty"), hint);
        }
        value
    }

    /// Notes each value that is the same as one before it.
    pub(super) fn report_duplicates<T>(
        &mut self,
        all: &[&LocatedValue<T>],
        same: impl Fn(&T, &T) -> bool,
        message: &str,
        hint: &str,
    ) {
        for (index, one) in all.iter().enumerate() {
            if let Some(earlier) = all[..index].iter().find(|earlier| same(&earlier.value, &one.value)) {
                // Of a default and what was written, only the written one can be changed.
                let (at, other) = if one.position.is_some() { (one, earlier) } else { (earlier, one) };
                self.report_error(&at.path, at.position, format!("{message} {}", other.describe_location()), hint);
            }
        }
    }
}

/// Quotes a value for a message: the text of the file, never the value of a variable.
pub(super) fn quote_value(written: &str, substituted: bool) -> String {
    const MAX_SHOWN: usize = 80;
    // Text with `: ` is probably a header field with its value.
    if may_hold_password(written) || written.contains(": ") {
        return HIDDEN_VALUE.to_owned();
    }
    let cut: String = written.trim().chars().take(MAX_SHOWN).collect();
    let dots = if cut.len() < written.trim().len() { "…" } else { "" };
    let how = if substituted { ", with its variables expanded," } else { "" };
    format!("`{cut}{dots}`{how}")
}

/// All values, unless one of them could not be read.
pub(super) fn collect_values<T>(list: Vec<Option<LocatedValue<T>>>) -> Option<Vec<T>> {
    list.into_iter().map(|one| one.map(|one| one.value)).collect()
}

pub(super) fn quote_names<T: Display>(names: impl Iterator<Item = T>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
