//! Reads the values at many paths of a JSON text in one scan.
//!
//! ```text
//!   choices[0].delta.content, choices[0].finish_reason, usage
//!
//!   root ─┬─ choices ── [0] ─┬─ delta ── content
//!         ╰─ usage           ╰─ finish_reason
//! ```
//! Skips values that are on no path. If a path leads into a string that holds an object, continues in that object,
//! because some agents put an event's content into a string.

use super::scan::{ScanFailure, ValueScanner};
use super::{DEPTH_LIMIT, Json};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonStep {
    Member(Box<str>),
    Index(usize),
    /// the last element of a list, `[-1]`
    Last,
}

/// Paths that are read together. The slot of a path is the position of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathTree {
    /// by slot; the first is the root
    nodes: Vec<PathNode>,
}

/// The end of a path, and the steps from there to the ends of longer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PathNode {
    /// by the length of their names: most members of a frame are on no path, and have another length
    members: Vec<Vec<NamedChild>>,
    /// by index
    elements: Vec<(usize, usize)>,
    last: Option<usize>,
}

/// A member with its slot.
type NamedChild = (Box<str>, usize);

/// By slot. A path that leads nowhere has no value.
type PathValues<'a> = Vec<Option<Json<'a>>>;

impl Default for PathTree {
    fn default() -> Self {
        PathTree { nodes: vec![PathNode::default()] }
    }
}

impl PathNode {
    fn child(&self, step: &JsonStep) -> Option<usize> {
        match step {
            JsonStep::Member(name) => self.member(name),
            JsonStep::Index(index) => self.element(*index),
            JsonStep::Last => self.last,
        }
    }

    fn add_child(&mut self, step: &JsonStep, child: usize) {
        match step {
            JsonStep::Member(name) => {
                self.members.resize_with(self.members.len().max(name.len() + 1), Vec::new);
                self.members[name.len()].push((name.clone(), child));
            }
            JsonStep::Index(index) => self.elements.push((*index, child)),
            JsonStep::Last => self.last = Some(child),
        }
    }

    #[inline]
    fn member(&self, name: &str) -> Option<usize> {
        let is_same = |own: &str| own.as_bytes().first() == name.as_bytes().first() && own == name;
        self.members.get(name.len())?.iter().find(|(own, _)| is_same(own)).map(|(_, child)| *child)
    }

    #[inline]
    fn element(&self, index: usize) -> Option<usize> {
        self.elements.iter().find(|(own, _)| *own == index).map(|(_, child)| *child)
    }

    const fn is_entered(&self) -> bool {
        !self.members.is_empty() || !self.elements.is_empty() || self.last.is_some()
    }

    fn children(&self) -> impl Iterator<Item = usize> {
        let members = self.members.iter().flatten().map(|(_, child)| *child);
        members.chain(self.elements.iter().map(|(_, child)| *child)).chain(self.last)
    }
}

impl PathTree {
    /// The slot of the whole value.
    pub(crate) const ROOT: usize = 0;

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds a path and returns its slot; a path that is already there keeps its own.
    pub(crate) fn add(&mut self, steps: &[JsonStep]) -> usize {
        let mut slot = PathTree::ROOT;
        for step in steps {
            slot = self.nodes[slot].child(step).unwrap_or_else(|| {
                let child = self.nodes.len();
                self.nodes.push(PathNode::default());
                self.nodes[slot].add_child(step, child);
                child
            });
        }
        slot
    }

    /// Returns the name of the last member on the path of each slot.
    pub(crate) fn last_members(&self) -> Vec<Option<&str>> {
        let mut names = vec![None; self.nodes.len()];
        // A node stands behind the one to which it was added.
        for (slot, node) in self.nodes.iter().enumerate() {
            node.children().for_each(|child| names[child] = names[slot]);
            node.members.iter().flatten().for_each(|(name, child)| names[*child] = Some(&**name));
        }
        names
    }

    /// Reads the values of all paths. There are none in a text that is not exactly one JSON value.
    pub(crate) fn read<'a>(&self, text: &'a str) -> PathValues<'a> {
        let mut values = self.no_values();
        if self.read_text(PathTree::ROOT, text, &mut values).is_err() {
            values.fill(None);
        }
        values
    }

    fn no_values<'a>(&self) -> PathValues<'a> {
        std::iter::repeat_with(|| None).take(self.nodes.len()).collect()
    }

    /// Reads a text as the value of a path, and the values of all paths that go on from there.
    fn read_text<'a>(&self, slot: usize, text: &'a str, values: &mut PathValues<'a>) -> Result<(), ScanFailure> {
        let mut scanner = ValueScanner::new(text, DEPTH_LIMIT);
        self.take_value(slot, 0, &mut scanner, values)?;
        scanner.finish()
    }

    fn take_value<'a>(
        &self,
        slot: usize,
        depth: usize,
        scanner: &mut ValueScanner<'a>,
        values: &mut PathValues<'a>,
    ) -> Result<(), ScanFailure> {
        let node = &self.nodes[slot];
        // Of members with the same name, the last one counts.
        if values[slot].is_some() {
            self.clear(slot, values);
        }
        let is_entered = node.is_entered();
        let text = match scanner.peek_byte().filter(|_| is_entered) {
            Some(b'{') => scanner.take_text(|scanner| self.take_members(node, depth + 1, scanner, values))?,
            Some(b'[') => scanner.take_text(|scanner| self.take_elements(node, depth + 1, scanner, values))?,
            _ => scanner.value_at_depth(depth)?,
        };
        if is_entered && text.starts_with('"') {
            self.read_held(slot, text, values);
        }
        values[slot] = Some(Json::from_trusted(text));
        Ok(())
    }

    fn take_members<'a>(
        &self,
        node: &PathNode,
        depth: usize,
        scanner: &mut ValueScanner<'a>,
        values: &mut PathValues<'a>,
    ) -> Result<(), ScanFailure> {
        scanner.take_members(depth, |scanner, name| {
            let child = match name.plain() {
                Some(name) => node.member(name),
                // A name that is no Rust string is the name of no path.
                None => name.decode().ok().and_then(|name| node.member(&name)),
            };
            match child {
                Some(child) => self.take_value(child, depth, scanner, values),
                None => scanner.value_at_depth(depth).map(drop),
            }
        })
    }

    fn take_elements<'a>(
        &self,
        node: &PathNode,
        depth: usize,
        scanner: &mut ValueScanner<'a>,
        values: &mut PathValues<'a>,
    ) -> Result<(), ScanFailure> {
        let (mut count, mut last) = (0, None);
        scanner.take_elements(depth, |scanner| {
            let child = node.element(count);
            count += 1;
            match child {
                None => last = Some(scanner.value_at_depth(depth)?),
                Some(child) => {
                    self.take_value(child, depth, scanner, values)?;
                    last = values[child].as_ref().and_then(Json::source);
                }
            }
            Ok(())
        })?;
        match node.last.zip(last) {
            Some((slot, text)) => self.read_text(slot, text, values),
            None => Ok(()),
        }
    }

    /// Reads the values of the paths that lead into a string, unless it holds no object. A list stays text: a path to
    /// the first element is how a file distinguishes content with parts from content that is text.
    fn read_held(&self, slot: usize, string: &str, values: &mut PathValues<'_>) {
        let string = Json::from_trusted(string);
        let held = string.text().unwrap_or_default();
        let held = held.trim();
        if !held.starts_with('{') {
            return;
        }
        let mut found = self.no_values();
        if self.read_text(slot, held, &mut found).is_ok() {
            let found = found.into_iter().map(|value| value.map(Json::into_owned));
            values.iter_mut().zip(found).for_each(|(value, found)| *value = found.or_else(|| value.take()));
        }
    }

    /// Removes the values of a path and of all that go on from there.
    fn clear(&self, slot: usize, values: &mut PathValues<'_>) {
        values[slot] = None;
        self.nodes[slot].children().for_each(|child| self.clear(child, values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> JsonStep {
        JsonStep::Member(name.into())
    }

    /// Returns the values of paths in a text.
    fn read(text: &str, paths: &[&[JsonStep]]) -> Vec<Option<String>> {
        let mut tree = PathTree::default();
        let slots: Vec<usize> = paths.iter().map(|steps| tree.add(steps)).collect();
        let again: Vec<usize> = paths.iter().map(|steps| tree.add(steps)).collect();
        assert_eq!(slots, again);
        let values = tree.read(text);
        slots.iter().map(|slot| values[*slot].as_ref().map(|value| value.as_str().to_owned())).collect()
    }

    #[test]
    fn last_of_several_members_with_a_name_counts() {
        let paths: [&[JsonStep]; 3] =
            [&[member("a"), member("b")], &[member("a"), member("c")], &[member("a"), JsonStep::Last]];
        let rows = [
            (r#"{"a":{"b":1,"c":2},"a":{"c":3}}"#, [None, Some("3"), None]),
            (r#"{"a":{"b":1,"b":2}}"#, [Some("2"), None, None]),
            (r#"{"a":{"b":1},"a":null}"#, [None, None, None]),
            (r#"{"a":"{\"b\":1}","a":[4,5]}"#, [None, None, Some("5")]),
            (r#"{"a":[4,5],"a":"{\"b\":1}"}"#, [Some("1"), None, None]),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text, &paths), expected.map(|value| value.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn elements_may_be_counted_from_both_ends() {
        let paths: [&[JsonStep]; 4] = [
            &[JsonStep::Index(0), member("a")],
            &[JsonStep::Index(1)],
            &[JsonStep::Last, member("a")],
            &[JsonStep::Last],
        ];
        let rows = [
            (r#"[{"a":1}]"#, [Some("1"), None, Some("1"), Some(r#"{"a":1}"#)]),
            (r#"[{"a":1},{"a":2}]"#, [Some("1"), Some(r#"{"a":2}"#), Some("2"), Some(r#"{"a":2}"#)]),
            (r#" [ {"a":1} , 2 , {"a" : 3 } ] "#, [Some("1"), Some("2"), Some("3"), Some(r#"{"a" : 3 }"#)]),
            ("[]", [None, None, None, None]),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text, &paths), expected.map(|value| value.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn names_are_compared_without_their_escapes() {
        let paths: [&[JsonStep]; 2] = [&[member("ab")], &[member("\\ud800")]];
        assert_eq!(read(r#"{"\ud800":1,"\u0061b":2}"#, &paths), [Some("2".to_owned()), None]);
    }

    #[test]
    fn reads_nothing_from_values_of_another_type_and_from_malformed_text() {
        let path: &[JsonStep] = &[member("a"), JsonStep::Index(0)];
        let other = ["1", "null", "\"text\"", "[]", "{}", "[1]", r#"{"a":{}}"#, r#"{"a":"[}"}"#];
        let malformed = [r#"{"a":[1]"#, r#"{"a":[1]} 2"#, r#"{"a":[1],}"#, "", r#"{"a":[1],"b":"#];
        for text in other.into_iter().chain(malformed) {
            assert_eq!(read(text, &[path]), [None], "{text}");
        }
        assert_eq!(PathTree::default().read("{}"), [Some(Json::from_trusted("{}"))]);
        assert_eq!(PathTree::default().read("{"), [None]);
    }

    #[test]
    fn a_path_is_no_way_around_the_limit_of_nesting() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let path = vec![JsonStep::Index(0); DEPTH_LIMIT + 2];
        let values = |depth: usize| read(&nested(depth), &[&path[..DEPTH_LIMIT - 1], &path, &[]]);
        assert_eq!(values(DEPTH_LIMIT), [Some("[]".to_owned()), None, Some(nested(DEPTH_LIMIT))]);
        assert_eq!(values(DEPTH_LIMIT + 1), [None, None, None]);
        let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let path = vec![member("a"); DEPTH_LIMIT];
        assert_eq!(read(&objects(DEPTH_LIMIT), &[&path]), [Some("1".to_owned())]);
        assert_eq!(read(&objects(DEPTH_LIMIT + 1), &[&path]), [None]);
    }
}
