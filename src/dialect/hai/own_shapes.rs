//! Event shapes that only HAI has.

use super::blocks;
use crate::dialect::row::OwnShape;

pub(super) static RUN_BOUNDARY: OwnShape =
    OwnShape::new("boundaries of a run: `messageId` and `role` in place of thread and run ids");
pub(super) static MESSAGE_START: OwnShape =
    OwnShape::new("a start that waits for the first text, because thinking or blocks may precede it");
pub(super) static MESSAGE_CONTENT: OwnShape =
    OwnShape { find_text: Some(blocks::find_text), ..OwnShape::new("a delta that is a string or an output block") };
pub(super) static MESSAGE_END: OwnShape = OwnShape::new("an end that repeats the role");
pub(super) static STATE_DELTA: OwnShape = OwnShape::new("a JSON Patch whose operations all have a `from`");

const COLLABORATION: OwnShape = OwnShape {
    is_in_snapshot: false,
    writes_its_kind: false,
    ..OwnShape::new("a message between agents in three events: an activity and its changes")
};
pub(super) static COLLABORATION_START: OwnShape = COLLABORATION;
pub(super) static COLLABORATION_CONTENT: OwnShape = COLLABORATION;
pub(super) static COLLABORATION_END: OwnShape = COLLABORATION;
