//! The error from building a policy.

use std::error::Error;

/// An error that names the unusable setting or file.
pub type PolicyError = Box<dyn Error + Send + Sync>;
