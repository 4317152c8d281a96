//! The error of building a policy.

use std::error::Error;

/// Names the setting or the file of the configuration that cannot be used.
pub type PolicyError = Box<dyn Error + Send + Sync>;
