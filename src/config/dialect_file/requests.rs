//! The requests of a dialect file, and the members of its agent's errors.

use super::compiler::{DialectCompiler, OTHER_KEYS, PathUse, PlacedNode, position_of};
use super::file_keys::{ERROR_KEYS, REQUEST_KEYS};
use super::path_text::{is_place, write_path};
use super::rule_overlaps::FirstMatch;
use crate::codec::json::JsonStep;
use crate::config::problem::is_one_edit_off;
use crate::config::scalar;
use crate::config::spanned_tree::{MapEntry, NodeValue, join_key};
use crate::dialect::{
    ErrorPaths, ForgetRule, RequestTemplate, RuleEffect, TargetTemplate, TextPart, ValueTemplate, is_field_value,
};
use crate::event::Json;
use http::header;

const BODY: &str = "body";

pub(super) const FORGET_KEYS: &[&str] = &["status", "code"];

/// The first request of a conversation.
const PLAIN_QUESTION: &str =
    r#"{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"Hello"}],"tools":[],"context":[]}"#;

const USE: PathUse = PathUse::Request { has_item: false };

impl DialectCompiler<'_> {
    /// Compiles one request, or a list of which the first that fits is used.
    pub(super) fn compile_requests(&mut self, at: PlacedNode<'_>) {
        let requests = self.list_items(at);
        if requests.is_empty() {
            self.report_at(
                at,
                "an empty list has no request",
                "add one, or remove the key: the agent then gets AG-UI's",
            );
        }
        let mut earlier = Vec::new();
        for (index, (node, path)) in requests.iter().enumerate() {
            let at = PlacedNode { node, path };
            let before = self.problem_count();
            if let Some(request) = self.compile_request(at, index) {
                // A condition with a mistake is none.
                if self.problem_count() == before {
                    self.check_first_match(at, &request.conditions, &mut earlier, "request");
                    earlier.push(FirstMatch::new(at, &request.conditions));
                }
                self.mapping.requests.push(request);
            }
        }
        self.check_plain_question(at);
    }

    /// Warns about requests none of which is for the question of a user, if that does not depend on what an
    /// application adds to its requests.
    fn check_plain_question(&mut self, at: PlacedNode<'_>) {
        let conditions = || self.mapping.requests.iter().flat_map(|request| &request.conditions);
        let is_general = |path: &str| ["messages", "tools", "resume", "@"].iter().any(|root| path.starts_with(root));
        if self.problem_count() > 0 || !conditions().all(|condition| is_general(&condition.path)) {
            return;
        }
        let question = Json::from_trusted(PLAIN_QUESTION);
        if self.mapping.lacks_request(&question) {
            let message = "none of these is for a plain question of a user, which is then refused";
            let hint = "add a request without `when:`, `has:` and `lacks:` at the end";
            self.warn(at.path, position_of(at.node), message, hint);
        } else if self.mapping.needs_earlier_run(&question) {
            let message =
                "the first question of a thread is refused: its `path` has a value that only an earlier run keeps";
            let hint = "put `has: \"@thread.NAME\"` with that value before this `path`, and add a request without it";
            self.warn(at.path, position_of(at.node), message, hint);
        }
    }

    /// Compiles a request; `None` if a variable makes its conditions impossible.
    fn compile_request(&mut self, at: PlacedNode<'_>, index: usize) -> Option<RequestTemplate> {
        let entries = self.mapping_entries(at, "`body:` with the request that the agent gets");
        // Members that stand where their `body:` is missing are one mistake.
        let others: Vec<_> = entries.iter().filter(|entry| !REQUEST_KEYS.contains(&entry.key.as_str())).collect();
        let is_other_mistake = |entry: &&&MapEntry| {
            is_one_edit_off(&entry.key, BODY) || OTHER_KEYS.iter().any(|(key, _)| *key == entry.key)
        };
        match others.as_slice() {
            [first, second, ..] if at.node.entry(BODY).is_none() && !others.iter().any(is_other_mistake) => {
                let message = format!("`{}`, `{}` and what follows are members of the body", first.key, second.key);
                let hint = "write `body:` above them, and indent them further than it";
                self.report(&join_key(at.path, &first.key), first.position, message, hint);
                return None;
            }
            _ => self.check_keys(at, REQUEST_KEYS),
        }
        let conditions = self.compile_conditions(at, USE);
        self.reads_thread = false;
        let target = TargetTemplate {
            path: self.compile_path_parts(at).unwrap_or_default(),
            query: self.compile_named_values(at, "query"),
            headers: self.compile_named_values(at, "headers"),
        };
        self.check_headers(at, &target.headers);
        let body = at.node.entry(BODY).and_then(|entry| {
            let path = join_key(at.path, BODY);
            self.compile_value(PlacedNode { node: &entry.value, path: &path }, USE)
        });
        Some(RequestTemplate { index, conditions: conditions?, target, body, reads_thread: self.reads_thread })
    }

    /// Compiles `path`, which stands behind the path of the route's URL.
    fn compile_path_parts(&mut self, at: PlacedNode<'_>) -> Option<Vec<TextPart>> {
        let entry = at.node.entry("path")?;
        let path = join_key(at.path, "path");
        let at = PlacedNode { node: &entry.value, path: &path };
        let parts = match self.compile_value(at, USE)? {
            ValueTemplate::Text(parts) => parts,
            ValueTemplate::From(sources) if sources.is_empty() => return None,
            ValueTemplate::From(sources) => vec![TextPart::From(sources)],
            ValueTemplate::Literal(text) => vec![TextPart::Literal(text.text().unwrap_or_default().into())],
            _ => Vec::new(),
        };
        if !matches!(parts.first(), Some(TextPart::Literal(text)) if text.starts_with('/')) {
            let hint = "write what stands behind the path of the route's URL, such as `/tools/{@thread.run_id}`";
            self.report_at(at, "does not begin with `/`", hint);
            return None;
        }
        let is_lost = |segment: &&str| segment.starts_with('@') && is_place(segment);
        let mut segments = parts.iter().filter_map(|part| match part {
            TextPart::Literal(text) => text.split('/').find(is_lost),
            TextPart::From(_) => None,
        });
        if let Some(place) = segments.next() {
            let message = format!("`{place}` without braces is this text itself");
            self.report_at(at, message, format!("write `{{{place}}}`"));
            return None;
        }
        let literals = parts.iter().map(|part| match part {
            TextPart::Literal(text) => text,
            TextPart::From(_) => "x",
        });
        let text: String = literals.collect();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(c);
        if let Some(wrong) = text.chars().find(|c| !is_allowed(*c)) {
            let hint = match wrong {
                '?' | '#' => "write parameters under `query:`",
                _ => "write letters, digits and `-._~!$&'()*+,;=:@`; values in braces may have any characters",
            };
            self.report_at(at, format!("a path cannot have {wrong:?}"), hint);
            return None;
        }
        let mut segments = text.split('/').skip(1).peekable();
        while let Some(segment) = segments.next() {
            let is_last = segments.peek().is_none();
            if matches!(segment.split(';').next(), Some("." | "..")) || (segment.is_empty() && !is_last) {
                let hint = "write names between the slashes; the route's URL is what a path cannot leave";
                self.report_at(at, "a path cannot have the segment ``, `.` or `..`", hint);
                return None;
            }
        }
        Some(parts)
    }

    /// Compiles a mapping of names to values.
    fn compile_named_values(&mut self, at: PlacedNode<'_>, key: &str) -> Vec<(Box<str>, ValueTemplate)> {
        let Some(entry) = at.node.entry(key) else { return Vec::new() };
        let path = join_key(at.path, key);
        let mut values = Vec::new();
        let expected = format!("`{key}: {{name: \"{{PATH}}\"}}`");
        for entry in self.mapping_entries(PlacedNode { node: &entry.value, path: &path }, &expected) {
            let path = join_key(&path, &entry.key);
            let value = self.compile_value(PlacedNode { node: &entry.value, path: &path }, USE);
            values.extend(value.map(|value| (entry.key.as_str().into(), value)));
        }
        values
    }

    fn check_headers(&mut self, at: PlacedNode<'_>, headers: &[(Box<str>, ValueTemplate)]) {
        let Some(NodeValue::Mapping(entries)) = at.node.entry("headers").map(|entry| &entry.value.value) else {
            return;
        };
        for entry in entries.iter().filter(|entry| !entry.value.is_skipped.get()) {
            let path = join_key(&join_key(at.path, "headers"), &entry.key);
            let is_credential = [header::AUTHORIZATION, header::COOKIE].iter().any(|name| *name == *entry.key);
            let fault = match scalar::parse_forwarded_field(&entry.key) {
                _ if is_credential => Some((
                    "carries a credential",
                    "write it in `upstream_headers` of the route, which are secret".to_owned(),
                )),
                Ok(_) => None,
                Err(fault) => {
                    let hint = fault.suggestion.map(|meant| format!("did you mean `{meant}`?"));
                    Some((fault.predicate, hint.unwrap_or_else(|| fault.hint.into_owned())))
                }
            };
            if let Some((predicate, hint)) = fault {
                self.report(&path, entry.position, format!("`{}` {predicate}", entry.key), hint);
            }
            let value = headers.iter().find(|(name, _)| **name == *entry.key).map(|(_, value)| value);
            if matches!(value, Some(ValueTemplate::Literal(text)) if !text.text().is_none_or(|text| is_field_value(&text)))
            {
                let at = PlacedNode { node: &entry.value, path: &path };
                self.report_at(at, "a header cannot have these characters", "write visible ASCII on one line");
            }
        }
    }

    /// Compiles `error`: where the agent's errors have their message and code, and which mean that it no longer knows
    /// the thread.
    pub(super) fn compile_error(&mut self, at: PlacedNode<'_>) {
        self.mapping_entries(at, "`error: {message: PATH, code: PATH}`");
        self.check_keys(at, ERROR_KEYS);
        let message = self.compile_error_paths(at, "message");
        self.mapping.error = ErrorPaths { message, code: self.compile_error_paths(at, "code"), forget: Vec::new() };
        if let Some(forget) = at.node.entry("forget") {
            self.compile_forget(PlacedNode { node: &forget.value, path: &join_key(at.path, "forget") });
        }
    }

    /// Compiles the errors of an agent that no longer knows the thread.
    fn compile_forget(&mut self, at: PlacedNode<'_>) {
        if self.mapping.thread_names.is_empty() {
            let hint = "add a rule with `keep:`, or remove `forget`";
            self.report_at(at, "no rule keeps anything that could be forgotten", hint);
        }
        let rules = self.list_items(at);
        if rules.is_empty() {
            self.report_at(at, "an empty list names no error", "write `forget: {status: 404, code: not_found}`");
        }
        for (node, path) in rules {
            let at = PlacedNode { node, path: &path };
            let before = self.problem_count();
            self.mapping_entries(at, "`forget: {status: 404, code: not_found}`");
            self.check_keys(at, FORGET_KEYS);
            let rule = ForgetRule { statuses: self.compile_statuses(at), codes: self.compile_codes(at) };
            if self.problem_count() == before && rule.statuses.is_empty() && rule.codes.is_empty() {
                self.report_at(at, "names no error", "write the `status` of the error, its `code`, or both");
            }
            self.mapping.error.forget.push(rule);
        }
    }

    /// Compiles the HTTP statuses of an error, one or several.
    fn compile_statuses(&mut self, at: PlacedNode<'_>) -> Vec<u16> {
        let Some(entry) = at.node.entry("status") else { return Vec::new() };
        let mut statuses = Vec::new();
        for (node, path) in self.list_items(PlacedNode { node: &entry.value, path: &join_key(at.path, "status") }) {
            let at = PlacedNode { node, path: &path };
            let Some(word) = self.scalar_text(at) else { continue };
            match word.parse().ok().filter(|status| (200..600).contains(status)) {
                Some(status) => statuses.push(status),
                None => {
                    self.report_at(
                        at,
                        "must be an HTTP status",
                        "write a number from 200 to 599, such as `status: 404`",
                    );
                }
            }
        }
        statuses
    }

    /// Compiles the codes of an error, one or several.
    fn compile_codes(&mut self, at: PlacedNode<'_>) -> Vec<String> {
        let Some(entry) = at.node.entry("code") else { return Vec::new() };
        let path = join_key(at.path, "code");
        let at = PlacedNode { node: &entry.value, path: &path };
        let mut effects = self.mapping.rules.iter().flat_map(|rule| &rule.effects);
        let has_code = effects.any(|effect| matches!(effect, RuleEffect::Fail { code: Some(_), .. }));
        if self.mapping.error.code.is_empty() && !has_code {
            let hint = "add `code:` with its path beside `forget`, or to the `fail` of a rule";
            self.report_at(at, "nothing says where an error has its code", hint);
        }
        let codes = self.list_items(at).into_iter();
        codes.filter_map(|(node, path)| self.scalar_text(PlacedNode { node, path: &path })).collect()
    }

    fn compile_error_paths(&mut self, at: PlacedNode<'_>, key: &str) -> Vec<Vec<JsonStep>> {
        let Some(entry) = at.node.entry(key) else { return Vec::new() };
        let path = join_key(at.path, key);
        let paths = self.list_items(PlacedNode { node: &entry.value, path: &path });
        let mut compiled = Vec::new();
        for (node, path) in paths {
            let at = PlacedNode { node, path: &path };
            let Some(steps) = self.plain_path(at) else { continue };
            let written = write_path("", &steps);
            self.add_read_place(at, &written, vec![steps.clone()]);
            compiled.push(steps);
        }
        compiled
    }
}
