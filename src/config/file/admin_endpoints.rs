//! The part of a configuration that says where its gateway can be asked how it is.

use serde::Deserialize;

use super::{Listeners, Text};

/// Of a whole file these keys alone; whatever else stands there may be wrong, or unknown to this version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reach {
    /// As in [`super::File`].
    pub listeners: Listeners,
    /// As in [`super::File`].
    pub run_dir: Option<Text>,
}
