//! The part of a configuration that says where its gateway can be asked how it is.

use serde::Deserialize;

use super::listen::ListenersSpec;
use crate::config::kind;
use crate::config::text::Scalar;

/// Reads only these keys of a configuration file; the rest may be wrong, or unknown to this version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdminEndpointsSpec {
    pub(crate) listeners: ListenersSpec,
    pub(crate) run_dir: Option<Scalar<kind::FileName>>,
}
