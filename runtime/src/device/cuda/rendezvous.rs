//! Rendezvous of processes that train together, through a file they all see.
//!
//! Rank 0 creates the file, which must not exist yet, with a name for the run, NCCL's identifier
//! and the facts that all ranks have to agree on. It holds a lock on the file while it runs, so
//! that the file of a killed run is recognized and replaced. The other ranks wait for the file,
//! answer with their own facts in files of their own, and refuse differing facts. Rank 0 reads all
//! answers and refuses the same.

use crate::device::gpu::driver::DriverError;
use crate::facts::{Fact, differences};
use gnnc_files::Replacement;
use gnnc_ir::words::spelling::counted;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Identifies the file format.
const KIND: &str = "gnnc-rendezvous-2";
/// Bytes of NCCL's identifier.
pub const ID: usize = 128;
/// Pause between checks for the file.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest file accepted.
const MOST_BYTES: u64 = 1 << 20;
/// How often rank 0 tries to lock a leftover while somebody else is checking it.
const TRIES: u32 = 10;

/// One of several processes that train together, each on its own GPU or all on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// Its rank.
    pub rank: u32,
    /// Number of processes.
    pub ranks: u32,
    /// A file visible to all of them, which does not exist yet.
    pub rendezvous: PathBuf,
    /// How long they wait for each other.
    pub patience: Duration,
}

/// The content of rank 0's file.
#[derive(Serialize, Deserialize)]
struct Invitation {
    kind: String,
    /// Distinguishes this run from all others.
    run: String,
    ranks: u32,
    /// NCCL's identifier in hexadecimal.
    id: String,
    facts: Vec<Fact>,
}

/// Another rank's answer.
#[derive(Serialize, Deserialize)]
struct Answer {
    run: String,
    facts: Vec<Fact>,
}

/// Rank 0's file, removed on drop.
pub struct Invited<'a> {
    processes: &'a Processes,
    run: String,
    /// Holds the lock.
    _file: File,
}

impl Drop for Invited<'_> {
    fn drop(&mut self) {
        // Late ranks see from the lock that nobody holds the file any more.
        let _ = fs::remove_file(&self.processes.rendezvous);
    }
}

/// Invites the other ranks, and returns once all have answered with the same facts.
///
/// # Errors
/// Another run is using the file, ranks differ or do not show up, or an error of the system.
pub fn lead<'a>(
    processes: &'a Processes,
    id: &[u8; ID],
    facts: &[Fact],
) -> Result<Invited<'a>, DriverError> {
    let path = &processes.rendezvous;
    remove_leftover(path)?;
    let run = run_name(id);
    let invitation = Invitation {
        kind: KIND.to_owned(),
        run: run.clone(),
        ranks: processes.ranks,
        id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
        facts: facts.to_vec(),
    };
    let file = create(path, &invitation).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => in_use(path),
        _ => failed(format!("cannot write {}: {error}", path.display())),
    })?;
    let invited = Invited {
        processes,
        run,
        _file: file,
    };
    invited.gather(facts)?;
    Ok(invited)
}

impl Invited<'_> {
    /// Waits for the answers of all other ranks.
    fn gather(&self, facts: &[Fact]) -> Result<(), DriverError> {
        let began = Instant::now();
        for rank in 1..self.processes.ranks {
            let path = answer_path(&self.processes.rendezvous, rank);
            loop {
                let answer: Option<Answer> = read(&path)?;
                if let Some(answer) = answer.filter(|answer| answer.run == self.run) {
                    // Nobody else reads it.
                    let _ = fs::remove_file(&path);
                    compare(&format!("rank {rank}"), &answer.facts, "rank 0", facts)?;
                    break;
                }
                if began.elapsed() > self.processes.patience {
                    return Err(failed(format!(
                        "rank 0 waited {} s for rank {rank}, which did not answer; check that it runs and can access the \
                         folder of {}",
                        self.processes.patience.as_secs(),
                        self.processes.rendezvous.display()
                    )));
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

/// Waits for rank 0's file and answers it. Returns NCCL's identifier.
///
/// # Errors
/// Nothing appears in time, the file is something else, or facts differ from rank 0's.
pub fn follow(processes: &Processes, facts: &[Fact]) -> Result<[u8; ID], DriverError> {
    let path = &processes.rendezvous;
    let began = Instant::now();
    let mut seen = None;
    loop {
        // A file nobody holds is left from a run that has ended; this run's rank 0 will replace it.
        // Rank 0 holds such a file for a moment while it removes it, so we look twice.
        let invitation: Option<Invitation> = if is_held(path) { read(path)? } else { None };
        if let Some(invitation) = invitation {
            if seen.as_ref() == Some(&invitation.run) {
                return answer(processes, &invitation, facts);
            }
            seen = Some(invitation.run);
        }
        if began.elapsed() > processes.patience {
            return Err(failed(format!(
                "rank {} waited {} s for {}, which rank 0 writes; check that rank 0 runs and can access the \
                 same folder",
                processes.rank,
                processes.patience.as_secs(),
                path.display()
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

fn answer(
    processes: &Processes,
    invitation: &Invitation,
    facts: &[Fact],
) -> Result<[u8; ID], DriverError> {
    let path = &processes.rendezvous;
    let id = parse_id(&invitation.id)
        .filter(|_| invitation.kind == KIND)
        .ok_or_else(|| no_invitation(path))?;
    if invitation.ranks != processes.ranks {
        return Err(failed(format!(
            "rank 0 was started with {}, this rank with {}; give all processes the same --ranks",
            counted(invitation.ranks, "rank"),
            processes.ranks
        )));
    }
    // Answer even if facts differ, so that rank 0 need not wait.
    let answer = Answer {
        run: invitation.run.clone(),
        facts: facts.to_vec(),
    };
    let own = answer_path(path, processes.rank);
    let written = to_json(&answer).and_then(|text| gnnc_files::replace(&own, &text));
    written.map_err(|error| failed(format!("cannot write {}: {error}", own.display())))?;
    compare("this rank", facts, "rank 0", &invitation.facts)?;
    Ok(id)
}

/// Refuses differing facts.
fn compare(who: &str, facts: &[Fact], other: &str, expected: &[Fact]) -> Result<(), DriverError> {
    let found = differences((who, facts), (other, expected));
    if found.is_empty() {
        return Ok(());
    }
    Err(failed(format!(
        "the processes disagree ({}); start all with the same model, graph and options",
        found.join("; ")
    )))
}

/// Removes the file of a run that ended without doing so.
fn remove_leftover(path: &Path) -> Result<(), DriverError> {
    let refuse = |error: io::Error| failed(format!("cannot open {}: {error}", path.display()));
    let file = match gnnc_files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refuse(error)),
    };
    // A file that is no invitation belongs to somebody, and stays.
    let _: Option<Invitation> = read(path)?;
    let free = (0..TRIES).any(|_| {
        let locked = file.try_lock().is_ok();
        if !locked {
            std::thread::sleep(PAUSE);
        }
        locked
    });
    if !free {
        return Err(in_use(path));
    }
    let found = file.metadata().map_err(refuse)?;
    let same =
        fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
    if same {
        fs::remove_file(path).map_err(refuse)?;
    }
    Ok(())
}

/// Whether a process has locked the file; true if that is unknown.
fn is_held(path: &Path) -> bool {
    let Ok(file) = gnnc_files::open(path) else {
        return true;
    };
    match file.try_lock_shared() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
    }
}

fn create(path: &Path, invitation: &Invitation) -> io::Result<File> {
    let mut file = Replacement::begin(path)?;
    file.write_all(&to_json(invitation)?)?;
    file.finish_new()
}

/// The content of a file, if it exists.
fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, DriverError> {
    match gnnc_files::read(path, MOST_BYTES) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(said) => Ok(Some(said)),
            Err(_) => Err(no_invitation(path)),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(format!("cannot read {}: {error}", path.display()))),
    }
}

fn to_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

fn parse_id(digits: &str) -> Option<[u8; ID]> {
    if digits.len() != 2 * ID || !digits.is_ascii() {
        return None;
    }
    let mut id = [0; ID];
    for (n, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(id)
}

/// A name for a run. NCCL's identifier is new each time; process id and time make sure.
fn run_name(id: &[u8; ID]) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut hash = blake3::Hasher::new();
    hash.update(id);
    hash.update(&std::process::id().to_le_bytes());
    hash.update(&now.map_or(0, |now| now.as_nanos()).to_le_bytes());
    hash.finalize().to_hex()[..16].to_owned()
}

fn answer_path(rendezvous: &Path, rank: u32) -> PathBuf {
    let mut name = rendezvous
        .file_name()
        .map(OsString::from)
        .unwrap_or_default();
    name.push(format!(".rank-{rank}"));
    rendezvous.with_file_name(name)
}

fn in_use(path: &Path) -> DriverError {
    failed(format!(
        "another run is using {}; name a file that does not exist",
        path.display()
    ))
}

fn no_invitation(path: &Path) -> DriverError {
    failed(format!(
        "{} is not a file written by rank 0; name one that does not exist",
        path.display()
    ))
}

fn failed(message: String) -> DriverError {
    DriverError::Call {
        call: "the rendezvous of the processes",
        message,
    }
}

#[cfg(test)]
mod tests;
