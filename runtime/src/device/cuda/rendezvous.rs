//! How processes that train together find each other, by a file that all of them see.
//!
//! Rank 0 creates the file, which must not be there: the run, NCCL's identifier and the facts that all
//! ranks have to agree on. It holds a lock on the file while it runs, so that the file of a run that was
//! killed can be told and is taken over. The other ranks wait for the file, answer with their own facts in
//! a file of their own, and refuse facts that differ. Rank 0 reads all answers and refuses the same.

use crate::device::gpu::driver::DriverError;
use gnnc_files::Replacement;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the file says that it is.
const KIND: &str = "gnnc-rendezvous-2";
/// Bytes of NCCL's identifier.
pub const ID: usize = 128;
/// Between two looks at the file.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 20;
/// How often rank 0 tries to take a leftover that somebody else looks at just then.
const TRIES: u32 = 10;

/// One of several processes that train together, each on its GPU or all on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// Which one, from 0.
    pub rank: u32,
    /// How many.
    pub ranks: u32,
    /// A file that all of them see and that is not there yet.
    pub rendezvous: PathBuf,
    /// How long they wait for each other.
    pub patience: Duration,
}

/// Something that all processes must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is about, such as `graph`.
    pub about: String,
    /// What this process has.
    pub value: String,
}

/// What rank 0 writes.
#[derive(Serialize, Deserialize)]
struct Invitation {
    kind: String,
    /// Tells this run from all others.
    run: String,
    ranks: u32,
    /// NCCL's identifier, as hexadecimal digits.
    id: String,
    facts: Vec<Fact>,
}

/// What another rank answers.
#[derive(Serialize, Deserialize)]
struct Answer {
    run: String,
    facts: Vec<Fact>,
}

/// The file of rank 0, which is removed when this is dropped.
pub struct Invited<'a> {
    processes: &'a Processes,
    run: String,
    /// Holds the lock.
    _file: File,
}

impl Drop for Invited<'_> {
    fn drop(&mut self) {
        // Whoever comes later sees by the lock that nobody has it any more.
        let _ = fs::remove_file(&self.processes.rendezvous);
    }
}

/// Invites the other ranks and returns once all have answered with the same facts.
///
/// # Errors
/// A file that another run is using, ranks that differ or do not come, what the system refuses.
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
                    // Nobody reads it again.
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

/// Waits for the file of rank 0 and answers: NCCL's identifier.
///
/// # Errors
/// Nothing in time; a file that is something else; facts that differ from those of rank 0.
pub fn follow(processes: &Processes, facts: &[Fact]) -> Result<[u8; ID], DriverError> {
    let path = &processes.rendezvous;
    let began = Instant::now();
    loop {
        // A file that nobody holds was left by a run that has ended; rank 0 of this one replaces it.
        let invitation: Option<Invitation> = if is_held(path) { read(path)? } else { None };
        if let Some(invitation) = invitation {
            return answer(processes, &invitation, facts);
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
            "rank 0 was started with {} ranks, this rank with {}; give all processes the same --ranks",
            invitation.ranks, processes.ranks
        )));
    }
    // Rank 0 reads what differs too, so that it need not wait.
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

/// Refuses facts that differ.
fn compare(who: &str, facts: &[Fact], other: &str, expected: &[Fact]) -> Result<(), DriverError> {
    let value = |facts: &[Fact], about: &str| {
        let fact = facts.iter().find(|fact| fact.about == about);
        fact.map_or("nothing", |fact| &fact.value).to_owned()
    };
    let about = facts.iter().chain(expected).map(|fact| &fact.about);
    let mut differences: Vec<String> = Vec::new();
    for about in about {
        let (found, wanted) = (value(facts, about), value(expected, about));
        let difference = format!("{about}: {found} on {who}, {wanted} on {other}");
        if found != wanted && !differences.contains(&difference) {
            differences.push(difference);
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(failed(format!(
        "the processes disagree ({}); start all with the same model, graph and options",
        differences.join("; ")
    )))
}

/// Removes the file of a run that has ended without doing so.
fn remove_leftover(path: &Path) -> Result<(), DriverError> {
    let refuse = |error: io::Error| failed(format!("cannot open {}: {error}", path.display()));
    let file = match gnnc_files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refuse(error)),
    };
    // What is no invitation is somebody's file, and stays.
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

/// Whether a process has the file locked; if that cannot be told, yes.
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

/// What a file says, if it is there.
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

/// A name for a run: NCCL's identifier is new in each, the process and the time make sure of it.
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
