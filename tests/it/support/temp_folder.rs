//! A folder for the files of one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that is gone when the test is.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> TempFolder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-it-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder in the temporary folder");
        TempFolder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
