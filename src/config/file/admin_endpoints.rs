//! The keys of a configuration file that locate the gateway's admin endpoints.

use serde::Deserialize;

use super::listen::ListenersSpec;
use crate::config::kind;
use crate::config::text::Scalar;

/// Reads only these keys; others may be invalid, or unknown to this version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdminEndpointsSpec {
    pub(crate) listeners: ListenersSpec,
    pub(crate) run_dir: Option<Scalar<kind::FileName>>,
}
