//! Files of keys, secrets and certificates. They change while the gateway runs, without a word to it.

use super::digest::{self, Sha256Digest};
use crate::config::load;
use crate::telemetry::internal_event;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often a file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a changed file has to stay as it is: one that is being written is not taken in the middle.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// What is made of the files' contents. The error says what is wrong with them, and quotes nothing.
type ParseFn<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// A file, or several that belong together, and what it means, kept fresh by [`Watched::watch`].
///
/// It is compared by content: a mounted Secret changes by a link to another folder, and the times of its files say
/// nothing. A file that is gone or broken changes nothing: what it meant before stays in use.
pub(crate) struct Watched<T> {
    /// at least one
    paths: Vec<PathBuf>,
    parse: ParseFn<T>,
    value: ArcSwap<T>,
    /// what was found there last, usable or not: nothing is said twice
    last_seen: Mutex<FileDigests>,
}

/// What stands in the files, without keeping it: their digests, or why one cannot be read.
type FileDigests = Result<Vec<Sha256Digest>, String>;

impl<T> Watched<T> {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// Why it cannot be read or used, with its path.
    pub(crate) fn open(
        path: &Path,
        parse: impl Fn(&[u8]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let parse = move |contents: &[Vec<u8>]| parse(contents.first().map_or(&[], Vec::as_slice));
        Watched::open_all(vec![path.to_owned()], parse)
    }

    /// As [`Watched::open`], of files that only mean something together; `parse` gets their contents in that order.
    ///
    /// # Errors
    /// Why one of them cannot be read, with its path, or why they cannot be used, with the path of the first.
    pub(crate) fn open_all(
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let contents = read_all(&paths)?;
        let named = |cause| paths.first().map(|path| format!("{}: {cause}", path.display())).unwrap_or(cause);
        let value = parse(&contents).map_err(named)?;
        let seen = contents.iter().map(|content| digest::sha256(content)).collect();
        Ok(Watched {
            paths,
            parse: Box::new(parse),
            value: ArcSwap::from_pointee(value),
            last_seen: Mutex::new(Ok(seen)),
        })
    }

    /// What the file means now. Cheap enough for every request; not to be kept.
    pub(crate) fn get(&self) -> arc_swap::Guard<Arc<T>> {
        self.value.load()
    }

    /// Looks at the file from time to time: never returns.
    pub(crate) async fn watch(&self) {
        loop {
            match self.changed().await {
                Ok(()) => self.paths.iter().for_each(|path| internal_event::SecretFileReloaded { path }.emit()),
                Err(cause) => {
                    let path = self.paths.first().map_or(Path::new(""), PathBuf::as_path);
                    internal_event::SecretFileReloadFailed { path, cause: &cause }.emit();
                }
            }
        }
    }

    /// Waits until it means something else, or why it no longer means anything: then what it meant before stays.
    pub(crate) async fn changed(&self) -> Result<(), String> {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if let Some(change) = self.detect_change().await {
                return change;
            }
        }
    }

    async fn detect_change(&self) -> Option<Result<(), String>> {
        let (_, first) = self.read().await;
        if first == *self.last_seen() {
            return None;
        }
        tokio::time::sleep(SETTLE_TIME).await;
        let (contents, second) = self.read().await;
        if first != second {
            return None;
        }
        self.last_seen().clone_from(&second);
        let parsed = contents.and_then(|contents| (self.parse)(&contents));
        Some(parsed.map(|value| self.value.store(Arc::new(value))))
    }

    async fn read(&self) -> (Result<Vec<Vec<u8>>, String>, FileDigests) {
        let paths = self.paths.clone();
        // A disk or a network that hangs must not hold up whatever else is watched.
        let contents = tokio::task::spawn_blocking(move || read_all(&paths)).await;
        let contents = contents.unwrap_or_else(|error| Err(error.to_string()));
        let seen = contents.as_deref().map(|all| all.iter().map(|content| digest::sha256(content)).collect());
        let seen = seen.map_err(String::clone);
        (contents, seen)
    }

    fn last_seen(&self) -> parking_lot::MutexGuard<'_, FileDigests> {
        self.last_seen.lock()
    }
}

impl<T> fmt::Debug for Watched<T> {
    /// Without the content, which is a secret more often than not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The contents of all of them, or why one cannot be read, with its path.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let named = |path: &PathBuf| load::read_regular_file(path).map_err(|cause| format!("{}: {cause}", path.display()));
    paths.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::MAX_FILE_BYTES as LIMIT;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A folder that is gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("diglot-file-{}-{test}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }

        fn write_file(&self, content: &str) -> PathBuf {
            let path = self.0.join("file");
            std::fs::write(&path, content).expect("a file");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn parse_number(content: &[u8]) -> Result<u32, String> {
        std::str::from_utf8(content).ok().and_then(|text| text.trim().parse().ok()).ok_or("is no number".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn takes_a_changed_file_and_ignores_a_broken_or_missing_one() {
        let folder = Folder::new("changes");
        let path = folder.write_file("1\n");
        let parsed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&parsed);
        let watched = Watched::open(&path, move |content| {
            count.fetch_add(1, Ordering::Relaxed);
            parse_number(content)
        });
        let watched = watched.expect("a number");
        for (content, value, times) in [("1\n", 1, 1), ("2", 2, 2), ("two", 2, 3), ("two", 2, 3), ("3", 3, 4)] {
            folder.write_file(content);
            watched.detect_change().await;
            assert_eq!((**watched.get(), parsed.load(Ordering::Relaxed)), (value, times), "{content}");
        }
        std::fs::remove_file(&path).expect("a file");
        watched.detect_change().await;
        assert_eq!(**watched.get(), 3);
        folder.write_file("4");
        watched.detect_change().await;
        assert_eq!(**watched.get(), 4);
    }

    /// A mounted Secret: the name is a link into a folder that is replaced as a whole.
    #[tokio::test(start_paused = true)]
    async fn reloads_when_a_symlink_target_changes() {
        let folder = Folder::new("links");
        for (name, content) in [("a", "1"), ("b", "2")] {
            std::fs::create_dir_all(folder.0.join(name)).expect("a folder");
            std::fs::write(folder.0.join(name).join("key"), content).expect("a file");
        }
        let link = folder.0.join("data");
        std::os::unix::fs::symlink(folder.0.join("a"), &link).expect("a link");
        let watched = Watched::open(&link.join("key"), parse_number).expect("a number");
        std::fs::remove_file(&link).expect("a link");
        std::os::unix::fs::symlink(folder.0.join("b"), &link).expect("a link");
        watched.detect_change().await;
        assert_eq!(**watched.get(), 2);
    }

    /// Time stands still but for the pause between the two looks, in which the writer goes on.
    #[tokio::test(start_paused = true)]
    async fn waits_until_a_file_is_written_completely() {
        let folder = Folder::new("writing");
        let path = folder.write_file("1");
        let watched = Watched::open(&path, parse_number).expect("a number");
        folder.write_file("2");
        let writer = async {
            tokio::time::sleep(SETTLE_TIME / 2).await;
            folder.write_file("22");
        };
        tokio::join!(watched.detect_change(), writer);
        assert_eq!(**watched.get(), 1);
        watched.detect_change().await;
        assert_eq!(**watched.get(), 22);
    }

    #[test]
    fn refuses_unusable_files_and_names_their_path() {
        let folder = Folder::new("refused");
        let refused =
            |path: &Path| Watched::open(path, parse_number).expect_err("no file").replace(path.to_str().unwrap(), "F");
        assert_eq!(refused(&folder.0), "F: is no regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "F: is no regular file");
        assert!(refused(&folder.0.join("absent")).starts_with("F: cannot be read: "));
        assert_eq!(refused(&folder.write_file("x")), "F: is no number");
        assert_eq!(refused(&folder.write_file(&" ".repeat(LIMIT + 1))), format!("F: is larger than {LIMIT} bytes"));
    }

    #[test]
    fn debug_output_hides_the_content() {
        let folder = Folder::new("debug");
        let path = folder.write_file("planted");
        let watched = Watched::open(&path, |content| Ok(content.to_vec())).expect("a file");
        assert_eq!(format!("{watched:?}"), format!("Watched {{ paths: [{path:?}], .. }}"));
    }
}
