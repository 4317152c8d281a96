//! The reason for which a run went wrong, as far as its rows have it, in words.

use serde::Deserialize;

/// Items without an end, and kinds of repairs and losses, that are named at the end of their run.
pub(super) const MAX_NAMED: usize = 3;

/// The row that tells most about a run.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct CauseLine {
    /// how both sides of the row belong together
    cause: String,
    /// of the agent's event
    #[serde(rename = "type")]
    kind: Option<String>,
    note: Option<String>,
    cut_within: Option<String>,
    id_change: Option<IdChangeLine>,
    #[serde(default)]
    left_open: Vec<LeftOpenLine>,
}

impl CauseLine {
    /// Returns whether the agent's stream was cut within an event, whatever the code has of the connection.
    pub(super) fn is_cut(&self) -> bool {
        self.cut_within.as_deref().is_some_and(|within| within != "unfinished")
    }

    /// Describes the cause in as few words as a table has room for.
    pub(super) fn describe_briefly(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or("an event");
        match self.cut_within.as_deref() {
            Some("unfinished") => return format!("{kind} not finished"),
            Some("character") => return "cut within a character".to_owned(),
            Some(_) => return format!("cut within {kind}"),
            None => {}
        }
        if let Some(IdChangeLine { before, after }) = &self.id_change {
            return format!("id {before} → {after}");
        }
        match self.left_open.first() {
            Some(open) if is_end(&self.cause) => format!("{} {} still open", open.item, open.id),
            Some(open) => format!("{} {} never ended", open.item, open.id),
            None => format!("{kind}: {}", self.note.as_deref().unwrap_or_default()),
        }
    }
}

/// An id that the agent probably gave to an item that has another one.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct IdChangeLine {
    /// of the open item
    pub(super) before: String,
    /// without a start
    pub(super) after: String,
}

/// An item that the agent did not end.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LeftOpenLine {
    /// `call`, `message`, …
    pub(super) item: String,
    pub(super) id: String,
    /// of the tool
    pub(super) name: Option<String>,
    /// `end`, or `result` of a call that has its end
    #[serde(default)]
    pub(super) lacks: String,
}

/// Describes where the agent's stream was cut.
pub(super) fn describe_cut(within: &str, kind: Option<&str>) -> String {
    let character = if within == "character" { "a character of " } else { "" };
    format!("the agent's stream was cut within {character}{}", kind.unwrap_or("an event"))
}

pub(super) fn describe_id_change(change: &IdChangeLine) -> String {
    let IdChangeLine { before, after } = change;
    format!(
        "the agent probably changed the id from `{before}` to `{after}`: `{after}` has no start, and `{before}` was open"
    )
}

/// Describes what the agent did not end; `None` without any.
pub(super) fn describe_left_open<'a>(open: impl Iterator<Item = &'a LeftOpenLine>, cause: &str) -> Option<String> {
    let mut named: Vec<_> = open
        .map(|LeftOpenLine { item, id, name, lacks }| {
            let name = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            let result = if lacks == "result" { " without a result" } else { "" };
            format!("the {item} `{id}`{name}{result}")
        })
        .collect();
    if let more @ 1.. = named.len().saturating_sub(MAX_NAMED) {
        named.truncate(MAX_NAMED);
        named.push(format!("and {more} more"));
    }
    let named = if named.is_empty() { return None } else { named.join(", ") };
    Some(match cause {
        "disconnect" => format!("still open when the client left: {named}"),
        cause if is_end(cause) => format!("still open when the run was cut: {named}"),
        _ => format!("the agent never ended {named}"),
    })
}

/// Returns whether a run ended at a row of this cause, without the agent's own last event.
pub(super) fn is_end(cause: &str) -> bool {
    matches!(cause, "gateway" | "end" | "disconnect")
}
