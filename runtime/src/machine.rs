//! The resources of this machine.

use crate::error::{Copies, RuntimeError};
use crate::rank::Rank;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Checks that the buffers of all ranks fit into `limit` bytes, or into the machine's available
/// memory.
///
/// # Errors
/// If the ranks need more.
pub(crate) fn fits<'a>(
    ranks: impl Iterator<Item = &'a Rank>,
    limit: Option<u64>,
) -> Result<(), RuntimeError> {
    let (mut needs, mut copies) = (Vec::new(), Copies::default());
    for rank in ranks {
        // Host and rank share one memory here.
        let layout = &rank.layout;
        needs.push(layout.total_bytes.saturating_add(layout.host_bytes));
        copies.add(&rank.program, &rank.capacity);
    }
    check_memory(&needs, limit, copies)
}

/// Refuses ranks that together need more memory than there is: a system that runs out kills
/// arbitrary processes without a message.
fn check_memory(needs: &[u64], limit: Option<u64>, copies: Copies) -> Result<(), RuntimeError> {
    let needed = needs
        .iter()
        .fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
    match limit.or_else(available_memory) {
        Some(available) if needed > available => Err(RuntimeError::MachineMemory {
            ranks: needs.len(),
            needed,
            available,
            copies,
        }),
        _ => Ok(()),
    }
}

/// Bytes this process can still use before the system has to kill someone: the machine's free
/// memory including swap, limited by the process's control groups. `None` if the system does not
/// say.
pub fn available_memory() -> Option<u64> {
    let free = read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| free_memory(&text));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = left_in_groups(Path::new("/sys/fs/cgroup"), &groups);
    free.into_iter().chain(left).min()
}

/// Resident bytes of this process. `None` if the system does not say.
pub fn resident_memory() -> Option<u64> {
    let status = read_to_string("/proc/self/status").ok()?;
    number_after(&status, "VmRSS:").map(|kibibytes| kibibytes.saturating_mul(1024))
}

/// Available memory plus free swap in `/proc/meminfo`.
fn free_memory(meminfo: &str) -> Option<u64> {
    let kibibytes = |key: &str| number_after(meminfo, key);
    let memory = kibibytes("MemAvailable:")?;
    let swap = kibibytes("SwapFree:").unwrap_or(0);
    Some(memory.saturating_add(swap).saturating_mul(1024))
}

/// Bytes left in the tightest of the groups in `/proc/self/cgroup`, `None` without a limit. Groups
/// are folders below `root`; the groups above also limit each one.
fn left_in_groups(root: &Path, groups: &str) -> Option<u64> {
    let memory_groups = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            return Some((root.to_owned(), path, &UNIFIED));
        }
        let memory = controllers.split(',').any(|name| name == "memory");
        memory.then(|| (root.join("memory"), path, &LEGACY))
    });
    let folders = memory_groups.flat_map(|(base, path, files)| {
        let all: Vec<PathBuf> = Path::new(path).ancestors().map(|p| base.join(p)).collect();
        all.into_iter()
            .filter_map(move |folder| left_in(&folder, files))
    });
    folders.min()
}

/// File names of a memory group: limit, usage, and the keys of the page cache in `memory.stat`.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    cache: [&'static str; 2],
}

/// Cgroup version 2.
const UNIFIED: GroupFiles = GroupFiles {
    limit: "memory.max",
    usage: "memory.current",
    cache: ["inactive_file", "active_file"],
};

/// Cgroup version 1.
const LEGACY: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
};

/// Bytes left in a group: its limit minus its usage, not counting file pages, which the system can
/// drop. `None` without a limit (`max`).
fn left_in(folder: &Path, files: &GroupFiles) -> Option<u64> {
    let number =
        |name: &str| -> Option<u64> { read_to_string(folder.join(name)).ok()?.trim().parse().ok() };
    let limit = number(files.limit)?;
    let used = number(files.usage)?;
    let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cache = files.cache.map(|key| number_after(&stat, key).unwrap_or(0));
    let held = used.saturating_sub(cache[0].saturating_add(cache[1]));
    Some(limit.saturating_sub(held))
}

/// The number after a key at the start of a line.
fn number_after(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == key).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_counts_as_memory() {
        let text = "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:   30 kB\nSwapFree: 12 kB\n";
        assert_eq!(free_memory(text), Some(42 << 10));
        assert_eq!(free_memory("MemAvailable: 5 kB\n"), Some(5 << 10));
        assert_eq!(free_memory("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let name = format!("gnnc-groups-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "1\n");
        write("a/memory.max", "1000\n");
        write("a/memory.current", "700\n");
        write(
            "a/memory.stat",
            "anon 9\ninactive_file 200\nactive_file 50\n",
        );
        write("memory/c/memory.limit_in_bytes", "400\n");
        write("memory/c/memory.usage_in_bytes", "500\n");
        let left = |groups: &str| left_in_groups(&root, groups);
        assert_eq!(left("0::/a/b\n"), Some(550), "the folder above has a limit");
        assert_eq!(left("0::/a/b\n5:cpu,memory:/c\n"), Some(0));
        assert_eq!(left("5:cpu,memory:/not-to-be-seen\n"), None);
        assert_eq!(left("3:cpu:/c\n\nnonsense\n"), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn ranks_share_the_machine() {
        let check = |needs: &[u64], limit| check_memory(needs, limit, Copies::default());
        assert!(check(&[60, 40], Some(100)).is_ok());
        assert!(check(&[60, 41], Some(100)).is_err());
        assert!(check(&[u64::MAX, 2], Some(100)).is_err());
        assert!(check(&[u64::MAX], None).is_err() || available_memory().is_none());
        assert!(check(&[1], None).is_ok());
    }
}
