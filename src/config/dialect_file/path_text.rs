//! Paths as a dialect file writes them: `choices[0].delta.content`, `@item.id`, `$["odd name"].x`.

use super::compiled::{PathChain, ReadPlace};
use super::compiler::{DialectCompiler, PathUse, PlacedNode, position_of};
use super::request_places::{PlaceFault, RequestPlace};
use crate::codec::json::JsonStep;
use crate::config::problem::{SourcePosition, did_you_mean, nearest};
use crate::dialect::ValueSource;
use crate::event::Field;

/// The named places of frames and requests.
const FRAME_ROOTS: &[&str] = &["@event", "@data", "@item", "@run", "@thread", "@thread_id", "@run_id"];
pub(super) const REQUEST_ROOTS: &[&str] =
    &["@item", "@thread", "@user_text", "@new_messages", "@answered_calls", "@reasoning"];

/// Maximum number of steps of a path. The values that a path enters are read one within the other.
const MAX_STEPS: usize = 64;

/// Maximum number of places that all rules or all requests of a file read. Each takes memory in every frame.
const MAX_PLACES: usize = 1_000;

/// Maximum length in bytes of a name. The names of a place's members are found by their length.
const MAX_NAME: usize = 256;

const PATH_HINT: &str = "write names separated by dots, `[0]` for an element, `[-1]` for the last one, and `[\"a.b\"]` \
                         for a name with dots";

impl DialectCompiler<'_> {
    /// Compiles a path without a named place.
    pub(super) fn plain_path(&mut self, at: PlacedNode<'_>) -> Option<Vec<JsonStep>> {
        let text = self.scalar_text(at)?;
        let text = text.trim();
        if let Some(meant) = text.strip_prefix('$') {
            let hint = match without_dot(meant) {
                "" => "remove the key".to_owned(),
                meant => format!("did you mean `{meant}`?"),
            };
            self.report_at(at, format!("`{text}` begins with `$`, but this path begins at the top anyway"), hint);
            return None;
        }
        self.parse_steps(at, text, text)
    }

    /// Compiles a path into the place of its value.
    pub(super) fn compile_path(&mut self, at: PlacedNode<'_>, text: &str, scope: PathUse) -> Option<ValueSource> {
        let text = text.trim();
        self.last_chain = None;
        self.last_words = Vec::new();
        if let Some(named) = text.strip_prefix('@') {
            return self.compile_named(at, text, named, scope);
        }
        let is_root = text == "$" || text.starts_with("$.") || text.starts_with("$[");
        if let Some(name) = text.strip_prefix('$').filter(|_| !is_root) {
            let hint = format!("did you mean `$.{name}`? A member that has `$` in its name is `[\"${name}\"]`");
            self.report_at(at, format!("`{text}` has no `.` behind the `$`"), hint);
            return None;
        }
        let is_item = text == "item" || text.starts_with("item.");
        if is_item && scope == (PathUse::Frame { has_item: true }) {
            let hint = format!("write `@{text}`; a member of the frame is `[\"item\"]{}`", &text["item".len()..]);
            self.report_at(at, "the element of `each` is `@item`", hint);
            return None;
        }
        let steps = match text.strip_prefix('$').filter(|_| is_root) {
            Some(rest) => self.parse_steps(at, text, without_dot(rest))?,
            None if text.is_empty() => {
                self.report_at(at, "a path is missing", "write one, such as `choices[0].text`; `$` is the whole frame");
                return None;
            }
            None => self.parse_steps(at, text, text)?,
        };
        match scope {
            PathUse::Request { .. } => {
                self.check_request_place(at, text, vec![steps.clone()], scope)?;
                if let Some(JsonStep::Member(name)) = steps.first() {
                    self.read_of_request.insert(name.to_string());
                }
                self.add_place(at, &steps, scope)
            }
            PathUse::Frame { .. } => {
                let steps = if is_root { steps } else { [self.payload.clone(), steps].concat() };
                self.mapping.add_read_members(&steps);
                self.add_read_place(at, text, vec![steps.clone()]);
                self.add_place(at, &steps, scope)
            }
        }
    }

    /// Reports a place that no request has, and keeps the chain of any other.
    fn check_request_place(&mut self, at: PlacedNode<'_>, text: &str, chain: PathChain, scope: PathUse) -> Option<()> {
        let (taken, fault) = match RequestPlace::find(&chain) {
            Ok(place) => {
                self.last_words = place.words;
                self.last_chain = Some(chain);
                return Some(());
            }
            Err(fault) => fault,
        };
        let root = if chain.len() > 1 { "@item" } else { "" };
        let steps = chain.last()?;
        let owner = write_path(root, &steps[..taken]);
        let (message, hint) = match (fault, &steps.get(taken)) {
            (PlaceFault::NoMember(names), Some(JsonStep::Member(wrong))) => {
                let named = format!("@{wrong}");
                let is_root = REQUEST_ROOTS.contains(&named.as_str());
                let (message, is_first) = match owner.as_str() {
                    "" => (format!("a request has no member `{wrong}`"), true),
                    owner => (format!("`{owner}` has no member `{wrong}`"), false),
                };
                let hint = match scope.has_item() {
                    _ if is_first && is_root => format!("did you mean `{named}`?"),
                    true if is_first => format!("write `@item.{text}` for a member of the element"),
                    _ => did_you_mean(wrong, &names),
                };
                (message, hint)
            }
            (PlaceFault::InList, _) => {
                let hint = format!("write `{owner}[-1]` for its last element, or `each` for all");
                (format!("`{owner}` is a list, which has no members"), hint)
            }
            _ => (format!("`{owner}` is no list"), "name one of its members, or remove the number".to_owned()),
        };
        self.report_at(at, message, hint);
        None
    }

    /// Reports a word that is none of those that a place of the request may have.
    pub(super) fn check_request_word(&mut self, at: PlacedNode<'_>, word: &str, known: &[&str]) {
        if !known.is_empty() && !known.contains(&word) {
            let hint = did_you_mean(word, known);
            self.report_at(at, format!("this is never `{word}` in a request"), hint);
        }
    }

    /// Takes note of a place that a rule reads, or `error`.
    pub(super) fn add_read_place(&mut self, at: PlacedNode<'_>, written: &str, chain: PathChain) {
        self.last_chain = Some(chain.clone());
        let Some(SourcePosition { line, column }) = position_of(at.node) else { return };
        let (written, path) = (written.to_owned(), at.path.to_owned());
        self.places.push(ReadPlace { chain, written, path, line, column, rule_line: None, is_alternative: false });
    }

    fn add_place(&mut self, at: PlacedNode<'_>, steps: &[JsonStep], scope: PathUse) -> Option<ValueSource> {
        let (tree, read) = match scope {
            PathUse::Request { .. } => (&mut self.mapping.request_paths, "requests"),
            PathUse::Frame { .. } => (&mut self.mapping.paths, "rules"),
        };
        if tree.len() > MAX_PLACES {
            let message = format!("the {read} read more than {MAX_PLACES} different places");
            self.report_at(at, message, "read fewer members, or whole objects of them");
            return None;
        }
        Some(ValueSource::Slot(tree.add(steps)))
    }

    fn compile_named(&mut self, at: PlacedNode<'_>, text: &str, named: &str, scope: PathUse) -> Option<ValueSource> {
        let end = named.find(['.', '[']).unwrap_or(named.len());
        let (name, rest) = named.split_at(end);
        let rest = without_dot(rest);
        let is_frame = matches!(scope, PathUse::Frame { .. });
        let source = match name {
            "item" if scope.has_item() => {
                let steps = self.parse_steps(at, text, rest)?;
                if is_frame {
                    self.mapping.add_read_members(&steps);
                }
                if let Some(list) = &self.item_chain {
                    let chain = list.iter().chain([&steps]).cloned().collect();
                    match is_frame {
                        true => self.add_read_place(at, text, chain),
                        false => self.check_request_place(at, text, chain, scope)?,
                    }
                }
                return Some(ValueSource::Item(steps));
            }
            "item" => {
                self.report_at(at, "`@item` exists only where `each` names a list", "add `each: PATH`");
                return None;
            }
            "run" if is_frame => return self.compile_kept(at, rest, false),
            "thread" => return self.compile_kept(at, rest, true),
            "event" if is_frame => {
                self.mapping.reads_event_line = true;
                ValueSource::EventLine
            }
            "data" if is_frame => ValueSource::Data,
            "thread_id" if is_frame => ValueSource::ThreadId,
            "run_id" if is_frame => ValueSource::RunId,
            "user_text" if !is_frame => ValueSource::UserText,
            "new_messages" if !is_frame => ValueSource::NewMessages,
            "answered_calls" if !is_frame && scope.has_item() => ValueSource::AnsweredCalls,
            "reasoning" if !is_frame && scope.has_item() => ValueSource::Reasoning,
            "answered_calls" | "reasoning" if !is_frame => {
                let message = format!("`@{name}` exists only where `each` names messages");
                self.report_at(at, message, "write it in the rules of `each: messages`");
                return None;
            }
            _ => {
                self.report_at(at, format!("`@{name}` does not exist here"), suggest_root(name, text, is_frame));
                return None;
            }
        };
        if rest.is_empty() {
            self.mark_read_of_request(name, &source);
            let member = |name: &str| vec![JsonStep::Member(name.into())];
            let inner = self.item_chain.iter().flatten().cloned();
            self.last_chain = match source {
                ValueSource::NewMessages => Some(vec![member(Field::Messages.camel())]),
                ValueSource::AnsweredCalls => Some(inner.chain([member(Field::ToolCalls.camel())]).collect()),
                _ => None,
            };
            return Some(source);
        }
        let is_list = [ValueSource::NewMessages, ValueSource::AnsweredCalls].contains(&source);
        let what = if is_list { "list, which only `each` enters" } else { "text" };
        let hint = match source {
            ValueSource::Data => format!("write `{rest}` for a member of the frame, or `@data` for all of its text"),
            _ => format!("write `@{name}` alone"),
        };
        self.report_at(at, format!("`{text}` leads into a {what}"), hint);
        None
    }

    fn compile_kept(&mut self, at: PlacedNode<'_>, name: &str, is_thread: bool) -> Option<ValueSource> {
        self.reads_thread |= is_thread;
        if name.is_empty() {
            let root = if is_thread { "@thread" } else { "@run" };
            self.report_at(at, format!("`{root}` names no value"), format!("write `{root}.NAME`"));
            return None;
        }
        // A key without names is one mistake.
        if self.lacks_names {
            return None;
        }
        let names = if is_thread { &self.mapping.thread_names } else { &self.mapping.run_names };
        if let Some(found) = names.iter().position(|own| **own == *name) {
            if is_thread {
                self.read_thread_names.insert(found);
                return Some(ValueSource::Thread(found));
            }
            self.read_names.insert(found);
            return Some(ValueSource::Run(found));
        }
        let known: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let root = if is_thread { "thread" } else { "run" };
        if let Some(hint) = self.suggest_name(name, is_thread, &known) {
            self.report_at(at, format!("no rule sets `@{root}.{name}`"), hint);
        }
        None
    }

    /// Splits the part of a path that has steps.
    fn parse_steps(&mut self, at: PlacedNode<'_>, path: &str, part: &str) -> Option<Vec<JsonStep>> {
        let Some(steps) = split_steps(part) else {
            let inside = path.strip_prefix('{').and_then(|inside| inside.strip_suffix('}'));
            let is_path = |text: &str| split_steps(text).is_some_and(|steps| !steps.is_empty());
            let hint =
                match (inside.filter(|inside| is_place(inside)), with_brackets(path).filter(|path| is_path(path))) {
                    (None, Some(meant)) if path.strip_prefix('.') == Some(&*meant) => {
                        format!("did you mean `{meant}`?")
                    }
                    (Some(inside), _) => format!("a path has no braces, which are for values: write `{inside}`"),
                    (None, Some(meant)) => format!("did you mean `{meant}`? A member with such a name is `[\"0\"]`"),
                    (None, None) => PATH_HINT.to_owned(),
                };
            self.report_at(at, format!("`{path}` is not a path"), hint);
            return None;
        };
        if steps.len() > MAX_STEPS {
            let message = format!("a path of {} steps; at most {MAX_STEPS} are read", steps.len());
            self.report_at(at, message, "name a member that is less deep");
            return None;
        }
        let longest = steps.iter().map(|step| if let JsonStep::Member(name) = step { name.len() } else { 0 }).max();
        if let Some(length) = longest.filter(|length| *length > MAX_NAME) {
            let message = format!("a name of {length} bytes; at most {MAX_NAME} are read");
            self.report_at(at, message, "name the object that has this member");
            return None;
        }
        Some(steps)
    }
}

/// Returns the way out for a path that begins with the name of no place.
fn suggest_root(name: &str, text: &str, is_frame: bool) -> String {
    let known = if is_frame { FRAME_ROOTS } else { REQUEST_ROOTS };
    let root = format!("@{name}");
    match (name, nearest(&root, known).as_slice()) {
        ("thread_id", _) => "write `threadId`, the member of the request".to_owned(),
        ("run_id", _) => "write `runId`, the member of the request".to_owned(),
        (_, []) if !is_named_place(name) => {
            format!("write `{}` for a member, or {}", text.trim_start_matches('@'), did_you_mean(&root, known))
        }
        _ => did_you_mean(&root, known),
    }
}

/// Returns whether a path begins with the name of a named place, without its `@`.
pub(super) fn is_named_place(path: &str) -> bool {
    let name = path.split(['.', '[']).next().unwrap_or_default();
    [FRAME_ROOTS, REQUEST_ROOTS].concat().iter().any(|root| root.strip_prefix('@') == Some(name))
}

/// Returns whether a text is a path, also of a named place.
pub(super) fn is_place(text: &str) -> bool {
    let named = text.strip_prefix('@').filter(|named| is_named_place(named));
    let is_path = |path: &str| split_steps(path).is_some_and(|steps| !steps.is_empty());
    is_path(named.unwrap_or(text))
}

/// Writes a path behind a named place, such as `@item`, or without any.
pub(crate) fn write_path(root: &str, steps: &[JsonStep]) -> String {
    let mut path = root.to_owned();
    for step in steps {
        path += &match step {
            JsonStep::Member(name) if split_steps(name).is_none_or(|steps| steps != [step.clone()]) => {
                format!("[\"{name}\"]")
            }
            JsonStep::Member(name) if path.is_empty() => name.to_string(),
            JsonStep::Member(name) => format!(".{name}"),
            JsonStep::Index(index) => format!("[{index}]"),
            JsonStep::Last => "[-1]".to_owned(),
        };
    }
    path
}

/// Returns a path whose numbers between dots are elements; `None` if it has none.
fn with_brackets(path: &str) -> Option<String> {
    let mut meant = String::new();
    for step in path.split('.') {
        let number = step.split('[').next().unwrap_or_default();
        match number.parse::<usize>() {
            Ok(_) => meant += &format!("[{number}]{}", &step[number.len()..]),
            Err(_) => meant += &format!("{}{step}", if meant.is_empty() { "" } else { "." }),
        }
    }
    (meant != path).then_some(meant)
}

/// Removes the dot behind a named place, unless nothing follows it.
fn without_dot(rest: &str) -> &str {
    rest.strip_prefix('.').filter(|next| !next.is_empty()).unwrap_or(rest)
}

/// Splits a path into its steps; empty text has none. Returns `None` if it is malformed.
pub(super) fn split_steps(text: &str) -> Option<Vec<JsonStep>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = match inside.strip_prefix('"') {
                Some(quoted) => {
                    let (name, after) = quoted.split_once("\"]")?;
                    (JsonStep::Member(name.into()), after)
                }
                None => {
                    let (index, after) = inside.split_once(']')?;
                    let step = if index == "-1" { JsonStep::Last } else { JsonStep::Index(index.parse().ok()?) };
                    (step, after)
                }
            };
            steps.push(step);
            rest = match after.strip_prefix('.') {
                Some(next) if next.is_empty() || next.starts_with('[') => return None,
                Some(next) => next,
                None if after.is_empty() || after.starts_with('[') => after,
                None => return None,
            };
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = !is_number && !name.contains(|c: char| c.is_whitespace() || "{}|\"]@*()/".contains(c));
        if !is_plain {
            return None;
        }
        steps.push(JsonStep::Member(name.into()));
        rest = match after.strip_prefix('.') {
            Some(next) if next.is_empty() || next.starts_with('[') => return None,
            Some(next) => next,
            None => after,
        };
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_paths() {
        let member = |name: &str| JsonStep::Member(name.into());
        assert_eq!(split_steps(""), Some(vec![]));
        let steps = vec![member("choices"), JsonStep::Index(0), member("delta"), member("内容")];
        assert_eq!(split_steps("choices[0].delta.内容"), Some(steps));
        let steps = vec![member("a"), member("b.c]"), JsonStep::Last, member("d")];
        assert_eq!(split_steps(r#"a["b.c]"][-1].d"#), Some(steps));
        for wrong in [
            ".a", "a.", "a..b", "a[", "a[]", "a[x]", "a[-2]", "a.[0]", "a[0]b", "a b", "a{b", r#"a["b"#, "a|b",
            "a[0].", "a.*", "/a/b", "a()", ".", "a['b']", "a.0", "0", "a.0[1].b",
        ] {
            assert_eq!(split_steps(wrong), None, "{wrong}");
        }
        assert_eq!(split_steps("a[\"0\"].0b"), Some(vec![member("a"), member("0"), member("0b")]));
        for path in ["", "a.b[0][-1].c", "[\"a.b\"].c", "a[\"0\"][\"\"]", "[0].内容"] {
            let steps = split_steps(path).expect("a path");
            assert_eq!(write_path("", &steps), path);
            assert_eq!(
                split_steps(write_path("@item", &steps).trim_start_matches("@item").trim_start_matches('.')),
                Some(steps)
            );
        }
    }
}
