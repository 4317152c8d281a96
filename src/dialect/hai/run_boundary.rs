//! Run boundaries, which have a message id and a role.

use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::supply_run_ids;
use crate::event::input::ASSISTANT;
use crate::event::{Field, Json, MemberKey, get, remove};

/// Removes a message id equal to the run's id and the role "assistant", which the gateway adds because they are
/// required.
pub(super) fn read(parts: &mut IncomingEvent<'_>) {
    let run_id = parts.event.get(Field::RunId);
    if run_id.is_some() && get(&parts.extensions, Field::MessageId) == run_id {
        remove(&mut parts.extensions, Field::MessageId);
        if get(&parts.extensions, Field::Role).is_some_and(|role| role.is_str(ASSISTANT)) {
            remove(&mut parts.extensions, Field::Role);
        }
    }
    supply_run_ids(parts);
}

/// Adds the required message id and role: the run's id and "assistant".
pub(super) fn write(outgoing: &mut OutgoingEvent<'_>) {
    if get(&outgoing.extensions, Field::MessageId).is_some() {
        return;
    }
    let has_role = get(&outgoing.extensions, Field::Role).is_some();
    if let Some(run_id) = get(&outgoing.members, Field::RunId).cloned() {
        outgoing.extensions.push((MemberKey::Known(Field::MessageId), run_id.into_owned()));
    }
    if !has_role {
        outgoing.extensions.push((MemberKey::Known(Field::Role), Json::string(ASSISTANT)));
    }
}
