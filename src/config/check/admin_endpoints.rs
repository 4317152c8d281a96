//! Where a gateway can be asked how it is, of a file whose other keys are nobody's business here.

use super::{Check, every};
use crate::config::file;
use crate::config::load::Source;
use crate::config::problem::Problem;
use crate::config::reach::Reach;

/// Checks these keys of a file, which was read from `source`.
pub(in crate::config) fn reach(source: &Source<'_>, written: &file::Reach) -> Result<Reach, Vec<Problem>> {
    let mut check = Check::new(source);
    // The data plane is not looked at: its certificate may be on its way from one to the next.
    let status = check.sockets(&written.listeners.status, "listeners.status", None);
    let run_dir = written.run_dir.as_ref().map(|folder| check.run_dir(folder));
    let read = every(status).zip(run_dir.map_or(Some(None), |read| read.map(Some)));
    check.end(read.map(|(status, run_dir)| Reach { status, run_dir }))
}
