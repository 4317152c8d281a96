//! Watches key, secret and certificate files for changes.

use super::digest::{self, Sha256Digest};
use super::read_file::{ReadFileError, read_regular_file};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A file that does not change for this long counts as completely written.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// A parser's error. Its message continues a sentence that begins with the file name, and does not quote the content.
pub(crate) type ContentError = Box<dyn Error + Send + Sync>;

type ParseFn<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, ContentError> + Send + Sync>;

/// The parsed value of one or more files that belong together, kept up to date by [`Watched::watch`].
///
/// Files are compared by content, since modification times miss updates of mounted Secrets, which replace a symbolic
/// link. If a file disappears or becomes unusable, the last good value stays in use.
pub(crate) struct Watched<T> {
    /// never empty
    paths: Vec<PathBuf>,
    parse: ParseFn<T>,
    value: ArcSwap<T>,
    /// the content last read, valid or not, so that each change is reported once
    last_seen: Mutex<FileDigests>,
}

/// The digest of each file, or the first read error.
type FileDigests = Result<Vec<Sha256Digest>, String>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: ReadFileError },
    #[error("{}: {error}", path.display())]
    Content { path: PathBuf, error: ContentError },
    /// an error in one of several files that are parsed together
    #[error("{0}")]
    Contents(ContentError),
}

impl WatchError {
    /// Adds `path` to the error unless it already has one.
    pub(crate) fn in_file(self, path: &Path) -> WatchError {
        match self {
            WatchError::Contents(error) => WatchError::Content { path: path.to_owned(), error },
            named => named,
        }
    }
}

impl<T> Watched<T> {
    pub(crate) fn open<E: Into<ContentError>>(
        path: &Path,
        parse: impl Fn(&[u8]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, WatchError> {
        let parse = move |contents: &[Vec<u8>]| parse(contents.first().map_or(&[], Vec::as_slice));
        Watched::open_all(vec![path.to_owned()], parse).map_err(|error| error.in_file(path))
    }

    /// Reads files that belong together; `parse` gets their contents in the order of `paths`.
    pub(crate) fn open_all<E: Into<ContentError>>(
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, WatchError> {
        let parse = move |contents: &[Vec<u8>]| parse(contents).map_err(Into::into);
        let contents = read_all(&paths)?;
        let value = parse(&contents).map_err(WatchError::Contents)?;
        Ok(Watched {
            paths,
            parse: Box::new(parse),
            value: ArcSwap::from_pointee(value),
            last_seen: Mutex::new(Ok(digest_all(&contents))),
        })
    }

    /// Returns the current value; cheap enough for every request. Do not keep the guard.
    pub(crate) fn get(&self) -> arc_swap::Guard<Arc<T>> {
        self.value.load()
    }

    /// Polls the files and reports each change or error; never returns.
    pub(crate) async fn watch(&self, report: impl Fn(&[PathBuf], Result<(), WatchError>)) {
        loop {
            report(&self.paths, self.changed().await);
        }
    }

    /// Waits for the next change. On error, the value stays unchanged.
    async fn changed(&self) -> Result<(), WatchError> {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if let Some(change) = self.detect_change().await {
                return change;
            }
        }
    }

    async fn detect_change(&self) -> Option<Result<(), WatchError>> {
        let (_, first) = self.read().await;
        if first == *self.last_seen.lock() {
            return None;
        }
        tokio::time::sleep(SETTLE_TIME).await;
        let (contents, second) = self.read().await;
        if first != second {
            return None;
        }
        *self.last_seen.lock() = second;
        let parsed = contents.and_then(|contents| (self.parse)(&contents).map_err(WatchError::Contents));
        Some(parsed.map(|value| self.value.store(Arc::new(value))))
    }

    async fn read(&self) -> (Result<Vec<Vec<u8>>, WatchError>, FileDigests) {
        let paths = self.paths.clone();
        // On a separate thread: a disk or network that hangs must not block the other watchers.
        let contents = tokio::task::spawn_blocking(move || read_all(&paths)).await.unwrap_or_else(|error| {
            Err(WatchError::Read { path: PathBuf::new(), error: io::Error::other(error).into() })
        });
        let digests = contents.as_deref().map(digest_all).map_err(WatchError::to_string);
        (contents, digests)
    }
}

impl<T> fmt::Debug for Watched<T> {
    /// Omits the value, since it is often a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("paths", &self.paths).finish_non_exhaustive()
    }
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, WatchError> {
    let read = |path: &PathBuf| read_regular_file(path).map_err(|error| WatchError::Read { path: path.clone(), error });
    paths.iter().map(read).collect()
}

fn digest_all(contents: &[Vec<u8>]) -> Vec<Sha256Digest> {
    contents.iter().map(|content| digest::sha256(content)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::read_file::MAX_FILE_BYTES as LIMIT;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A folder that is removed on drop.
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
        std::str::from_utf8(content).ok().and_then(|text| text.trim().parse().ok()).ok_or("is not a number".to_owned())
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

    /// Simulates a mounted Secret: the name is a symbolic link into a folder that is replaced as a whole.
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

    /// Simulates a writer that continues during the pause between two reads.
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
        let refused = |path: &Path| {
            let error = Watched::open(path, parse_number).expect_err("no file").to_string();
            error.replace(path.to_str().unwrap(), "F")
        };
        assert_eq!(refused(&folder.0), "F: is not a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "F: is not a regular file");
        assert!(refused(&folder.0.join("absent")).starts_with("F: cannot be read: "));
        assert_eq!(refused(&folder.write_file("x")), "F: is not a number");
        assert_eq!(refused(&folder.write_file(&" ".repeat(LIMIT + 1))), format!("F: is larger than {LIMIT} bytes"));
    }

    #[test]
    fn debug_output_hides_the_content() {
        let folder = Folder::new("debug");
        let path = folder.write_file("planted");
        let watched = Watched::open(&path, |content| Ok::<_, ContentError>(content.to_vec())).expect("a file");
        assert_eq!(format!("{watched:?}"), format!("Watched {{ paths: [{path:?}], .. }}"));
    }
}
