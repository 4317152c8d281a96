//! The part of a configuration that says where its gateway can be asked how it is.

use serde::Deserialize;

use super::{ListenersSpec, Scalar, kind};

/// Of a whole file these keys alone; whatever else stands there may be wrong, or unknown to this version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdminEndpointsSpec {
    /// As in [`super::File`].
    pub(crate) listeners: ListenersSpec,
    /// As in [`super::File`].
    pub(crate) run_dir: Option<Scalar<kind::FileName>>,
}
