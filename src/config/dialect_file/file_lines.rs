//! The lines of a file's values, so that the results of examples name them.

use crate::config::problem::SourcePosition;
use crate::config::spanned_tree::{NodeValue, TreeNode};
use std::collections::BTreeMap;

/// Lines by JSON Pointer. A member has that of its key.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileLines {
    lines: BTreeMap<String, u64>,
}

impl FileLines {
    pub(super) fn new(root: &TreeNode) -> Self {
        let mut own = FileLines::default();
        own.add_values(root, "");
        own
    }

    fn add_values(&mut self, node: &TreeNode, pointer: &str) {
        let mut add = |node: &TreeNode, pointer: String, line: Option<u64>| {
            self.lines.insert(pointer.clone(), line.unwrap_or_default());
            self.add_values(node, &pointer);
        };
        match &node.value {
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let position = SourcePosition::from_location(item.defined);
                    add(item, format!("{pointer}/{index}"), position.map(|position| position.line));
                }
            }
            NodeValue::Mapping(entries) => {
                for entry in entries {
                    let line = entry.position.map(|position| position.line);
                    add(&entry.value, format!("{pointer}/{}", entry.key), line);
                }
            }
            NodeValue::Empty | NodeValue::Scalar(_) => {}
        }
    }

    pub(crate) fn get(&self, pointer: &str) -> Option<u64> {
        self.lines.get(pointer).copied()
    }

    /// Returns the line of the value at a pointer behind `root`, or of the innermost one that would have it, and the
    /// length of that one's pointer. That of `root` is none.
    pub(crate) fn innermost(&self, root: &str, pointer: &str) -> Option<(usize, u64)> {
        let mut rest = pointer;
        while !rest.is_empty() {
            if let Some(line) = self.get(&format!("{root}{rest}")) {
                return Some((rest.len(), line));
            }
            rest = &rest[..rest.rfind('/')?];
        }
        None
    }
}

/// Returns the JSON Pointer of a key path, such as `tests[0]`.
pub(super) fn pointer_of(path: &str) -> String {
    format!("/{}", path.replace(['.', '['], "/").replace(']', ""))
}
