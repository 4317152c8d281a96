//! Where a gateway can be asked how it is, for whoever stands beside it: a container's health check, above all.
//!
//! The file on the disk need not be the one that the gateway runs on. One with mistakes is refused by a reload while the
//! gateway goes on with the last good one, and must not make it look ill. So nothing is read here but `listeners.status`
//! and `run_dir`, which no reload changes.

use std::path::{Path, PathBuf};

use super::listen::Listen;
use super::load::{self, With, environment, unread};
use super::problem::{Problem, Problems};
use super::{check, file};

/// Where its gateway can be asked, as a configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// `listeners.status`
    pub status: Vec<Listen>,
    /// `run_dir`
    pub run_dir: Option<PathBuf>,
}

impl Reach {
    /// What the file at `path` says, whatever else is wrong with it.
    ///
    /// # Errors
    /// That it cannot be read, or what is wrong with these keys.
    pub fn read(path: &Path) -> Result<Reach, Problems> {
        let name = path.display().to_string();
        let bytes = unread(path)?;
        let text = str::from_utf8(&bytes).map_err(|_| Problem::of_file(&name, "is not UTF-8"))?;
        understood(&name, text, With::of(path, &environment))
    }

    /// What a file says that names neither key.
    ///
    /// # Errors
    /// None; the defaults go through the same checks as a file.
    pub fn of_defaults() -> Result<Reach, Problems> {
        understood("the defaults", "", With::of(Path::new(""), &environment))
    }
}

fn understood(name: &str, text: &str, with: With<'_>) -> Result<Reach, Problems> {
    load::both::<file::Reach, _>(name, text, with, check::reach).map(|(_, reach)| reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Reach, Problems> {
        understood("f", text, With::of(Path::new("/etc/diglot.yaml"), &|_| None))
    }

    #[test]
    fn mistakes_elsewhere_do_not_matter() {
        let text = "listeners: {status: 0.0.0.0:1, data: nowhere}\nrun_dir: run\nroute: 1\nkeep_alive: [soon]\n";
        let reach = read(text).unwrap_or_else(|problems| panic!("{problems}"));
        let status: Vec<_> = reach.status.iter().map(|one| one.address.to_string()).collect();
        assert_eq!((status, reach.run_dir), (vec!["0.0.0.0:1".to_owned()], Some("/etc/run".into())));
        for text in ["listeners: {status: 1}\n", "run_dir: \"\"\n", "listeners: {\n", "status: [\n"] {
            read(text).expect_err(text);
        }
        assert_eq!(read("{}").ok(), Reach::of_defaults().ok());
        assert!(Reach::of_defaults().is_ok_and(|reach| reach.status.len() == 1));
    }
}
