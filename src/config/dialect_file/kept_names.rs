//! Names of the values that rules keep for others, and for later runs of the thread.

use super::compiler::{DialectCompiler, events_of};
use crate::config::problem::{did_you_mean, is_one_edit_off};
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeNode};

/// Keys of a rule that set values.
const NAME_KEYS: &[&str] = &["set", "append", "keep"];

impl DialectCompiler<'_> {
    /// Collects the names of values that rules set, which other rules may use before.
    pub(super) fn collect_names(&mut self, root: &TreeNode) {
        let Some(events) = events_of(root) else { return };
        let rules = if let NodeValue::List(rules) = &events.value.value { rules.as_slice() } else { &[] };
        self.lacks_names |= rules.is_empty();
        for rule in rules {
            // A misspelt key is not also one for each name that it sets.
            if let NodeValue::Mapping(entries) = &rule.value {
                let is_misspelt = |entry: &MapEntry| {
                    NAME_KEYS.iter().any(|key| *key != entry.key && is_one_edit_off(&entry.key, key))
                };
                self.lacks_names |= entries.iter().any(is_misspelt);
            }
            for (key, is_thread) in [("set", false), ("append", false), ("keep", true)] {
                let entries = match rule.entry(key).map(|entry| &entry.value.value) {
                    Some(NodeValue::Mapping(entries)) => entries,
                    other => {
                        self.lacks_names |= other.is_some();
                        continue;
                    }
                };
                for entry in entries {
                    let names = if is_thread { &mut self.mapping.thread_names } else { &mut self.mapping.run_names };
                    if !names.iter().any(|name| **name == *entry.key) {
                        names.push(entry.key.as_str().into());
                    }
                }
            }
        }
    }

    /// Returns the way out if a value is read which no rule sets; `None` if this name is reported already.
    pub(super) fn suggest_name(&mut self, name: &str, is_thread: bool, known: &[String]) -> Option<String> {
        let others = if is_thread { &self.mapping.run_names } else { &self.mapping.thread_names };
        let is_other = others.iter().any(|other| **other == *name);
        let (key, other, duration) = match is_thread {
            true => ("keep", "set", "later runs of the thread"),
            false => ("set", "keep", "the rest of the run"),
        };
        if !self.missing_names.insert(format!("{key} {name}")) {
            return None;
        }
        Some(if is_other {
            format!("a rule has it under `{other}`: write `{key}`, which is for {duration}")
        } else if known.is_empty() {
            format!("add a rule with `{key}: {{{name}: \"{{PATH}}\"}}`")
        } else {
            did_you_mean(name, &known.iter().map(String::as_str).collect::<Vec<_>>())
        })
    }

    /// Warns about values of the run or of the thread that nothing reads.
    pub(super) fn check_unread_names(&mut self, root: &TreeNode) {
        let Some(NodeValue::List(rules)) = events_of(root).map(|events| &events.value.value) else { return };
        for is_thread in [false, true] {
            let (names, read, keys): (_, _, &[&str]) = match is_thread {
                false => (self.mapping.run_names.clone(), self.read_names.clone(), &["set", "append"]),
                true => (self.mapping.thread_names.clone(), self.read_thread_names.clone(), &["keep"]),
            };
            for (index, name) in names.iter().enumerate() {
                let entries = rules.iter().enumerate().flat_map(|(at, rule)| {
                    let written = keys.iter().filter_map(move |key| Some((key, rule.entry(key)?)));
                    written.filter_map(move |(key, entry)| {
                        Some((format!("events[{at}].{key}.{name}"), entry.value.entry(name)?))
                    })
                });
                let first = entries.into_iter().next().filter(|_| !read.contains(&index));
                let Some((path, entry)) = first.filter(|_| self.problem_count() == 0) else { continue };
                let (root, hint) = match is_thread {
                    false => (
                        "run",
                        format!(
                            "use `{{@run.{name}}}` in a rule, or remove it; `keep` is for later runs of the thread"
                        ),
                    ),
                    true => ("thread", format!("use `{{@thread.{name}}}` in `request`, or remove it")),
                };
                self.warn(&path, entry.position, format!("nothing reads `@{root}.{name}`"), hint);
            }
        }
    }
}
