//! The role of a message in a snapshot that has none, or one that no client knows.

use super::report::TranslationReport;
use super::value_aliases;
use crate::dialect::PeerDialect;
use crate::event::input::{ACTIVITY, ASSISTANT, ROLES, TOOL};
use crate::event::{EventRepair, Field, Json, MemberKey, Members, get, get_owned, set};

/// Gives a message of a snapshot a role if it has none, or one that no client knows; returns the role that it had. The
/// real client drops such a message. A versioned agent's is of a later version: it passes.
pub(super) fn repair_role(
    message: &mut Members<'_>,
    side: PeerDialect,
    report: &mut TranslationReport,
) -> Option<Json<'static>> {
    let original = get_owned(message, Field::Role).filter(|role| !role.is_null());
    let Some(original) = original else {
        let role = Json::string(guess_role(message));
        set(message, MemberKey::Known(Field::Role), role);
        report.count_supplied_member(Field::Role.camel());
        return None;
    };
    let text = original.text().unwrap_or_default().into_owned();
    if side.dialect.is_versioned() || ROLES.contains(&value_aliases::canonical_role(side, &text)) {
        return None;
    }
    let same_word = ROLES.iter().find(|role| role.eq_ignore_ascii_case(&text));
    let role = same_word.copied().unwrap_or_else(|| guess_role(message));
    set(message, MemberKey::Known(Field::Role), Json::string(role));
    report.count_repair(EventRepair::ValueCarried);
    Some(original)
}

/// Returns AG-UI's role of a message, or of one without a role the role that its members show; `None` if it has
/// another.
pub(super) fn find(message: &Members<'_>) -> Option<&'static str> {
    let Some(role) = get(message, Field::Role).filter(|role| !role.is_null()) else { return Some(guess_role(message)) };
    ROLES.iter().find(|known| role.is_str(known)).copied()
}

/// Returns the role of the messages that have such members.
pub(super) fn guess_role(message: &Members<'_>) -> &'static str {
    if get(message, Field::ToolCallId).is_some() {
        TOOL
    } else if get(message, Field::ActivityType).is_some() {
        ACTIVITY
    } else {
        ASSISTANT
    }
}
