//! Opens private parts of `diglot` to the fuzz targets, only with `cfg(fuzzing)`. The functions translate types and judge nothing:
//! the judges are in the package of the targets.
#![allow(missing_docs, reason = "the targets that use it describe it")]

pub mod cursor;
pub mod framing;
pub mod proxy_header;
pub mod replay;

pub use crate::config::fuzzing as config;
pub use crate::policy::auth::fuzzing as auth;
