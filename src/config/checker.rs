//! Collects the problems of a check. An invalid value is reported once, at its position, and is `None` afterwards.

use std::path::Path;

use http::HeaderName;
use serde_saphyr::Location;

use super::kind::{OpenKind, ScalarKind};
use super::listen::{ListenAddress, ListenerConfig};
use super::problem::{ConfigProblem, ProblemSeverity, SourcePosition, may_hold_password};
use super::scalar::ScalarError;
use super::source::SourceText;
use super::substitution::{ExpandedText, SubstitutionError, expand};
use super::text::{Scalar, Spanned, Text};
use crate::dialect::Dialect;
use crate::net::read_file::read_regular_file;

/// The path and position of a value.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(super) path: String,
    /// Example value, shown if the key is missing.
    example: &'static str,
    /// The anchor's position if the value is an alias.
    defined: Location,
    /// The alias's own position if the value is an alias.
    referenced: Location,
}

impl Place {
    pub(super) fn new(path: &str) -> Place {
        Place { path: path.to_owned(), example: "", defined: Location::UNKNOWN, referenced: Location::UNKNOWN }
    }

    /// Returns the place of a key, with the mapping's position until [`Place::with_position_of`] sets another.
    pub(super) fn key(&self, key: &str) -> Place {
        let dot = if self.path.is_empty() { "" } else { "." };
        Place { path: format!("{}{dot}{key}", self.path), ..self.clone() }
    }

    /// Returns the place of the value under `key`.
    pub(super) fn value_of<T>(&self, key: &str, value: &Spanned<T>) -> Place {
        self.key(key).with_position_of(value)
    }

    pub(super) fn index(&self, index: usize) -> Place {
        Place { path: format!("{}[{index}]", self.path), ..self.clone() }
    }

    pub(super) fn with_position_of<T>(&self, value: &Spanned<T>) -> Place {
        Place { defined: value.defined, referenced: value.referenced, ..self.clone() }
    }

    pub(super) fn with_example(self, example: &'static str) -> Place {
        Place { example, ..self }
    }

    /// Returns true for a route's agent and its options.
    pub(super) fn is_agent(&self) -> bool {
        let key = self.path.strip_suffix(".dialect").unwrap_or(&self.path);
        key.ends_with(".agent")
    }

    pub(super) fn position(&self) -> Option<SourcePosition> {
        SourcePosition::from_location(self.defined)
    }

    /// Returns the place with the alias's own position if the value is an alias.
    pub(super) fn at_use(&self) -> Place {
        Place { defined: self.referenced, ..self.clone() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct LocatedValue<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

impl<T> LocatedValue<T> {
    pub(super) fn new(value: T, place: Place) -> LocatedValue<T> {
        LocatedValue { value, place }
    }

    /// Describes the position of the alias if the value is one, to distinguish two aliases of one anchor.
    pub(super) fn describe_location(&self) -> String {
        match SourcePosition::from_location(self.place.referenced) {
            Some(position) => format!("{} ({position})", self.place.path),
            None => format!("the default of {}", self.place.path),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceKind {
    Dialect,
    /// An issuer or an API key list.
    Method,
    RateLimit,
}

pub(super) struct AuthMethodRef {
    pub(super) name: String,
    /// The header that carries the API key; `None` for tokens.
    pub(super) key_header: Option<HeaderName>,
    pub(super) is_keys: bool,
    /// Set if callers may have a tenant. Always set for key files, which may change later.
    pub(super) has_tenants: bool,
}

pub(super) struct RateLimitRef {
    /// `None` if the name is invalid, which is already reported.
    pub(super) name: Option<String>,
    /// The part of the rate limit key that depends on the caller.
    pub(super) caller_dependency: Option<&'static str>,
}

pub(crate) struct ConfigChecker<'a> {
    pub(super) source: SourceText<'a>,
    pub(super) custom_dialects: Vec<&'static Dialect>,
    pub(super) file_dialects: Vec<&'static Dialect>,
    /// Dialects with mistakes, which are already reported.
    pub(super) invalid_dialects: Vec<String>,
    /// The data plane listeners, which no upstream may point to.
    pub(super) own_listeners: Vec<LocatedValue<ListenerConfig>>,
    pub(super) methods: Vec<AuthMethodRef>,
    pub(super) policies: Vec<RateLimitRef>,
    /// The kinds with an invalid name. Unknown references to these kinds are not reported.
    pub(super) kinds_with_unnamed: Vec<ReferenceKind>,
    pub(super) has_redis: bool,
    /// Addresses of listeners with `proxy_protocol`.
    pub(super) proxy_listeners: Vec<LocatedValue<ListenAddress>>,
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) warnings: Vec<ConfigProblem>,
}

/// A scalar with its variables expanded.
pub(super) struct ExpandedScalar {
    pub(super) text: String,
    /// The text as written, with variables unexpanded.
    pub(super) display: String,
    pub(super) substituted: bool,
}

impl<'a> ConfigChecker<'a> {
    pub(super) fn new(source: &SourceText<'a>) -> ConfigChecker<'a> {
        ConfigChecker {
            source: *source,
            custom_dialects: Vec::new(),
            file_dialects: Vec::new(),
            invalid_dialects: Vec::new(),
            own_listeners: Vec::new(),
            methods: Vec::new(),
            policies: Vec::new(),
            kinds_with_unnamed: Vec::new(),
            has_redis: false,
            proxy_listeners: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn finish<T>(self, checked: Option<T>) -> Result<T, Vec<ConfigProblem>> {
        match checked {
            Some(checked) if self.problems.is_empty() => Ok(checked),
            _ => Err(self.problems),
        }
    }

    /// Returns whether the value at `path` was skipped because of a mistake that is already reported.
    pub(super) fn is_skipped(&self, path: &str) -> bool {
        self.source.repairs.skipped_paths.iter().any(|skipped| {
            path.strip_prefix(skipped.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    pub(super) fn read<K: ScalarKind>(&mut self, text: &Text<K>, at: &Place) -> Option<K::Value> {
        let value = self.read_with(text.expose_secret(), K::IS_SECRET, at, K::parse)?;
        Some(K::resolve(value, self.source.context.base_dir))
    }

    /// Parses a scalar with a parser other than its kind's.
    pub(super) fn read_as<K: OpenKind, T>(
        &mut self,
        scalar: &Scalar<K>,
        at: &Place,
        parse: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        self.read_with(&scalar.value, false, &at.with_position_of(scalar), parse)
    }

    /// Returns a value if it is valid; reports no problems.
    pub(super) fn peek<K: ScalarKind>(&self, text: &Text<K>) -> Option<K::Value> {
        let expanded = expand(text.expose_secret(), self.source.context.lookup).ok()?;
        K::parse(&expanded.text).ok().filter(|_| !expanded.text.is_empty())
    }

    /// Returns a value with its place if it is valid, for comparisons.
    pub(super) fn locate<K: ScalarKind>(
        &self,
        scalar: Option<&Scalar<K>>,
        at: &Place,
    ) -> Option<LocatedValue<K::Value>> {
        let scalar = scalar?;
        Some(LocatedValue::new(self.peek(&scalar.value)?, at.with_position_of(scalar)))
    }

    fn read_with<T>(
        &mut self,
        written: &str,
        is_secret: bool,
        at: &Place,
        parse: fn(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        let scalar = self.expand(written, is_secret, at)?;
        let fault = match parse(&scalar.text) {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };
        let message = format!("{} {}", scalar.display, fault.predicate);
        if is_secret {
            self.report_error(at, message, fault.hint);
            return None;
        }
        let suggestion = fault.suggestion.filter(|_| !scalar.substituted && scalar.display != HIDDEN_VALUE);
        let hint = match (hint_for_quotes(written), suggestion) {
            (Some(hint), _) => hint.into(),
            (None, Some(meant)) => format!("did you mean `{meant}`?").into(),
            (None, None) => fault.hint,
        };
        self.report_error(at, message, hint);
        None
    }

    pub(super) fn expand_scalar(&mut self, written: &str, at: &Place) -> Option<ExpandedScalar> {
        self.expand(written, false, at)
    }

    /// Expands variables without quoting a secret in messages.
    fn expand(&mut self, written: &str, is_secret: bool, at: &Place) -> Option<ExpandedScalar> {
        let (message, hint) = match expand(written, self.source.context.lookup) {
            Ok(ExpandedText { text, substituted }) if !text.is_empty() => {
                let may_quote = !is_secret && self.source.may_quote(&at.path);
                let display = if may_quote { quote_value(written, substituted) } else { HIDDEN_VALUE.to_owned() };
                return Some(ExpandedScalar { text, display, substituted });
            }
            Ok(ExpandedText { substituted, .. }) if is_secret || !substituted => {
                ("the value is empty".to_owned(), "write a value or remove the key".to_owned())
            }
            Ok(_) => {
                let message = format!("{} is empty", quote_value(written, true));
                (message, "give the variable a value, or a default: `${NAME:-default}`".to_owned())
            }
            Err(SubstitutionError::Unset(name)) => {
                let hint = if is_secret {
                    format!("set it where Diglot is started: `{name}`")
                } else {
                    format!("set it where Diglot is started, or give a default: `${{{name}:-default}}`")
                };
                (format!("the environment variable `{name}` is not set"), hint)
            }
            // The text between the braces may be part of the secret.
            Err(SubstitutionError::Unclosed | SubstitutionError::Malformed(_)) if is_secret => {
                ("`${` in the value is not followed by a valid variable name".to_owned(), REFERENCE_HINT.to_owned())
            }
            Err(SubstitutionError::Unclosed) => ("`${` has no closing `}`".to_owned(), REFERENCE_HINT.to_owned()),
            Err(SubstitutionError::Malformed(inside)) => {
                (format!("`${{{inside}}}` is not a valid variable name"), REFERENCE_HINT.to_owned())
            }
        };
        self.report_error(at, message, hint);
        None
    }

    pub(super) fn read_file(&mut self, file: &Path, at: &Place) -> Option<Vec<u8>> {
        const HINT: &str = "name a file that this user may read, of at most 1 MiB; a relative name starts at the \
                            directory of the configuration";
        match read_regular_file(file) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                // The name is not quoted: it may be the secret itself, written instead of a file name.
                self.report_error(at, format!("the file {error}"), HINT);
                None
            }
        }
    }

    pub(super) fn report_missing_key(&mut self, at: &Place) {
        let (mapping, key) = at.path.rsplit_once('.').unwrap_or(("", &at.path));
        let is_elsewhere = mapping.starts_with("routes[")
            && self.source.repairs.misplaced_keys.iter().any(|misplaced| misplaced == key);
        if is_elsewhere || self.is_skipped(&at.path) {
            return;
        }
        let comment = at.position().and_then(|mapping| self.source.hint_for_comment(mapping, key));
        let (position, hint) = match comment {
            Some(found) => (Some(found.position), found.hint),
            None => (at.position(), format!("add {}", at.example)),
        };
        if !self.is_skipped(mapping) {
            let message = format!("the key `{key}` is missing or empty");
            self.problems.push(self.build_problem(mapping, position, message, hint));
        }
    }

    pub(super) fn report_error(&mut self, at: &Place, message: impl Into<String>, hint: impl Into<String>) {
        // Consequences of a skipped value are not reported.
        if !self.is_skipped(&at.path) {
            self.problems.push(self.build_problem(&at.path, at.position(), message, hint));
        }
    }

    pub(super) fn report_warning(&mut self, at: &Place, message: impl Into<String>, hint: impl Into<String>) {
        let warning = self.build_problem(&at.path, at.position(), message, hint);
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

    pub(super) fn report_duplicates<T: PartialEq>(&mut self, all: &[LocatedValue<T>], message: &str, hint: &str) {
        self.report_conflicts(all, T::eq, message, hint);
    }

    pub(super) fn report_conflicts<T>(
        &mut self,
        all: &[LocatedValue<T>],
        conflict: impl Fn(&T, &T) -> bool,
        message: &str,
        hint: &str,
    ) {
        for (index, one) in all.iter().enumerate() {
            if let Some(earlier) = all[..index].iter().find(|earlier| conflict(&earlier.value, &one.value)) {
                // Points at an explicit value, because a default has no position.
                let is_written = one.place.referenced != Location::UNKNOWN;
                let (at, other) = if is_written { (one, earlier) } else { (earlier, one) };
                self.report_error(&at.place.at_use(), format!("{message} {}", other.describe_location()), hint);
            }
        }
    }
}

/// Stands in for a value that may be a secret. Messages that begin with it have no excerpt.
const HIDDEN_VALUE: &str = "the value";

const REFERENCE_HINT: &str = "write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`";

/// Quotes the text as written, never a variable's value.
pub(super) fn quote_value(written: &str, substituted: bool) -> String {
    const MAX_SHOWN: usize = 80;
    // Text with `: ` is probably a header field and its value.
    if may_hold_password(written) || written.contains(": ") {
        return HIDDEN_VALUE.to_owned();
    }
    let cut: String = written.trim().chars().take(MAX_SHOWN).collect();
    let dots = if cut.len() < written.trim().len() { "…" } else { "" };
    let how = if substituted { ", with its variables expanded," } else { "" };
    format!("`{cut}{dots}`{how}")
}

/// Returns a hint if a value is in typographic quotation marks, which YAML does not recognize.
pub(super) fn hint_for_quotes(written: &str) -> Option<&'static str> {
    const CURLY: [char; 8] = ['“', '”', '„', '‘', '’', '‚', '«', '»'];
    let written = written.trim();
    let curly = written.starts_with(CURLY) || written.ends_with(CURLY);
    curly.then_some("use straight quotes, `\"` or `'`, or none")
}
