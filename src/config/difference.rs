//! Compares two configurations as `effective` prints them, with secrets masked.
//!
//! List entries are matched by name, so that inserting one does not change all others.

use std::fmt;

use serde_json::{Map, Value};

const MAX_VALUE_CHARS: usize = 60;

const NOT_SET: &str = "not set";

/// A changed key, such as `routes[chat].guard`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigDifference {
    path: String,
    before: String,
    after: String,
}

impl ConfigDifference {
    /// Returns whether the difference is at or below `key`.
    pub(super) fn is_within(&self, key: &str) -> bool {
        let rest = self.path.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl fmt::Display for ConfigDifference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} → {}", self.path, self.before, self.after)
    }
}

/// Compares two printed configurations. Omits added and removed routes, which the caller reports.
pub(super) fn diff(before: &str, after: &str) -> Vec<ConfigDifference> {
    let read = |text| serde_saphyr::from_str::<Value>(text).ok();
    let mut found = Vec::new();
    // The parser has size limits. A larger configuration gets only the names of keys and routes.
    if let (Some(before), Some(after)) = (read(before), read(after)) {
        compare(Some(&before), Some(&after), "", &mut found);
    }
    found
}

fn compare(before: Option<&Value>, after: Option<&Value>, path: &str, found: &mut Vec<ConfigDifference>) {
    match (before, after) {
        _ if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => compare_members(before, after, path, found),
        (Some(Value::Array(before)), Some(Value::Array(after))) if are_named(before) && are_named(after) => {
            compare_entries(before, after, path, found);
        }
        _ => {
            let shown = |value: Option<&Value>| value.map_or_else(|| NOT_SET.to_owned(), shorten);
            found.push(ConfigDifference { path: path.to_owned(), before: shown(before), after: shown(after) });
        }
    }
}

fn compare_members(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &str,
    found: &mut Vec<ConfigDifference>,
) {
    let mut keys: Vec<&String> = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))).collect();
    keys.sort();
    for key in keys {
        let dot = if path.is_empty() { "" } else { "." };
        compare(before.get(key), after.get(key), &format!("{path}{dot}{key}"), found);
    }
}

fn compare_entries(before: &[Value], after: &[Value], path: &str, found: &mut Vec<ConfigDifference>) {
    let named = |list: &'_ [Value], wanted: &str| list.iter().position(|entry| entry_name(entry) == Some(wanted));
    let is_reported_elsewhere = path == "routes";
    for entry in before {
        let Some(own) = entry_name(entry) else { continue };
        let at = format!("{path}[{own}]");
        match named(after, own) {
            Some(index) => compare(Some(entry), Some(&after[index]), &at, found),
            None if is_reported_elsewhere => {}
            None => compare(Some(entry), None, &at, found),
        }
    }
    for entry in after.iter().filter(|_| !is_reported_elsewhere) {
        if let Some(own) = entry_name(entry).filter(|own| named(before, own).is_none()) {
            compare(None, Some(entry), &format!("{path}[{own}]"), found);
        }
    }
}

/// Returns an entry's `name`, a route's path, or an API key's id.
fn entry_name(entry: &Value) -> Option<&str> {
    ["name", "path", "id"].iter().find_map(|key| entry.get(key)?.as_str())
}

fn are_named(list: &[Value]) -> bool {
    list.iter().all(|entry| entry_name(entry).is_some())
}

/// Formats a value on one line.
fn shorten(value: &Value) -> String {
    let whole = to_inline(value);
    let mut shown: String = whole.chars().filter(|each| !each.is_control()).take(MAX_VALUE_CHARS).collect();
    if shown.len() < whole.len() {
        shown.push('…');
    }
    shown
}

fn to_inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(to_inline).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key}: {}", to_inline(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::diff;

    fn describe_differences(before: &str, after: &str) -> Vec<String> {
        diff(before, after).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn matches_list_entries_by_name() {
        let before = "limits: [{name: a, n: \"1\"}, {name: b, n: \"2\"}]\nroutes: [{path: /x, g: u}]\nlist: [p, q]";
        let after =
            "limits: [{name: c, n: \"3\"}, {name: b, n: \"4\"}]\nroutes: [{path: /y, g: u}]\nlist: [q]\nnew: {a: b}";
        let expected = [
            "limits[a]: {n: 1, name: a} → not set",
            "limits[b].n: 2 → 4",
            "limits[c]: not set → {n: 3, name: c}",
            "list: [p, q] → [q]",
            "new: not set → {a: b}",
        ];
        // Kept and removed entries come first, in their order.
        let mut all = describe_differences(before, after);
        all.sort();
        assert_eq!(all, expected);
        assert_eq!(describe_differences(before, before), [""; 0]);
    }

    #[test]
    fn reports_no_difference_for_unreadable_yaml() {
        assert_eq!(describe_differences("a: [", "a: b"), [""; 0]);
        assert_eq!(describe_differences("a: b", "a: ["), [""; 0]);
    }

    #[test]
    fn is_within_matches_whole_path_segments() {
        let [difference] = &diff("a: {bc: \"1\"}", "a: {bc: \"2\"}")[..] else { panic!("one") };
        assert!(difference.is_within("a") && difference.is_within("a.bc") && !difference.is_within("a.b"));
    }
}
