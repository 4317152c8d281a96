//! The memory that the system allows the process, from which the default number of connections and the default bounds
//! in bytes follow.

use super::text::{Scalar, text};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::LazyLock;

/// Number of connections where memory is not the limit.
const DEFAULT_CONNECTIONS: usize = 8192;

/// Memory for each connection, and for each HTTP/2 request. One takes at most about 64 KiB: its head or its run, and
/// what is buffered for it. The other half is for the program and for the bounds in bytes.
const CONNECTION_MEMORY: usize = 128 << 10;

/// Memory in which the process has its whole bounds in bytes. They are 192 MiB together, and an allocator needs a tenth
/// more than is counted; with half of them, a process with 256 MiB survives all of them at their worst together.
const WHOLE_BOUNDS_MEMORY: usize = 512 << 20;

/// The least that a bound in bytes is by default, in MiB: `replay.run_bytes` and a few large bodies.
const LEAST_BOUND: usize = 4;

/// The default of `limits.connections`.
pub(super) static CONNECTIONS: LazyLock<NonZeroUsize> = LazyLock::new(|| connections_in(*MEMORY));

/// The memory limit of the process, if it has one.
static MEMORY: LazyLock<Option<usize>> = LazyLock::new(|| {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    group_limit(Path::new("/sys/fs/cgroup"), &groups).into_iter().chain(data_limit(&limits)).min()
});

/// Returns whether the process may use less than this memory.
pub(crate) fn is_memory_below(bytes: usize) -> bool {
    MEMORY.is_some_and(|memory| memory < bytes)
}

/// Returns the default of a bound of so many MiB, of which a process with little memory has a part.
pub(super) fn mebibytes<K>(whole: usize) -> Scalar<K> {
    text(&format!("{}MiB", bound_in(*MEMORY, whole)))
}

fn bound_in(memory: Option<usize>, whole: usize) -> usize {
    let memory = memory.unwrap_or(WHOLE_BOUNDS_MEMORY).min(WHOLE_BOUNDS_MEMORY);
    (whole * (memory >> 20) / (WHOLE_BOUNDS_MEMORY >> 20)).max(LEAST_BOUND)
}

fn connections_in(memory: Option<usize>) -> NonZeroUsize {
    let room = memory.map_or(DEFAULT_CONNECTIONS, |memory| memory / CONNECTION_MEMORY);
    NonZeroUsize::new(room.min(DEFAULT_CONNECTIONS)).unwrap_or(NonZeroUsize::MIN)
}

/// Returns the least limit of the process's control groups, of either version. In a container, the path may be that of
/// the host, whose file does not exist; then the limit of the container is in the root.
fn group_limit(root: &Path, groups: &str) -> Option<usize> {
    // Each line is `number:controllers:path`; version 2 has no controllers [cgroups(7)].
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let path = path.trim_start_matches('/');
        let limit = |folder: &Path| fs::read_to_string(root.join(folder).join(file)).ok()?.trim().parse().ok();
        Path::new(path).ancestors().filter_map(limit).min()
    });
    limits.min()
}

/// Returns the soft limit of private memory (`ulimit -d`) from the text of `/proc/self/limits`.
fn data_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max data size"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_one_connection_per_part_of_the_memory() {
        for (memory, connections) in
            [(None, 8192), (Some(256 << 20), 2048), (Some(64 << 20), 512), (Some(1 << 40), 8192), (Some(1), 1)]
        {
            assert_eq!(connections_in(memory).get(), connections, "{memory:?}");
        }
    }

    #[test]
    fn halves_bounds_in_bytes_in_half_of_the_memory() {
        for (memory, bound) in
            [(None, 64), (Some(1 << 40), 64), (Some(512 << 20), 64), (Some(256 << 20), 32), (Some(1), 4)]
        {
            assert_eq!(bound_in(memory, 64), bound, "{memory:?}");
        }
    }

    #[test]
    fn reads_the_least_limit_of_either_version() {
        let root = std::env::temp_dir().join(format!("diglot-cgroup-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write("pod/memory.max", "300\n");
        write("pod/gateway/memory.max", "max\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/a/b/memory.limit_in_bytes", "200\n");
        let limit = |groups| group_limit(&root, groups);
        assert_eq!(limit("0::/pod/gateway\n"), Some(300));
        assert_eq!(limit("5:cpu,memory:/a/b\n1:pids:/\n0::/\n"), Some(200));
        // The host's path, which the container does not see.
        assert_eq!(limit("5:memory:/kubepods/1\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(limit("5:cpu:/a/b\n0::/other\n"), None);
        fs::remove_dir_all(&root).expect("it exists");
    }

    #[test]
    fn reads_the_soft_limit_of_private_memory() {
        let head = "Limit                     Soft Limit           Hard Limit           Units\n";
        let limits =
            |soft: &str| format!("{head}Max data size             {soft}            unlimited            bytes\n");
        assert_eq!(data_limit(&limits("268435456")), Some(256 << 20));
        assert_eq!(data_limit(&limits("unlimited")), None);
    }
}
