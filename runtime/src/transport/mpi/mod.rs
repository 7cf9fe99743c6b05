//! Connections between ranks in several processes, by MPI. Ranks of the same process talk as threads do.

mod alive;
mod end;
mod launched;
mod library;
mod posted;
mod timing;

pub use crate::error::WorldError;
pub use end::Mpi;
pub use launched::{Bound, Launched};
pub use timing::Timed;

use self::alive::{Alive, Meeting, Trouble};
use self::library::{Arrived, Handle, Library};
use super::TransportError;
use crate::error::Failure;
use crate::facts::{Fact, differences};
use crate::words::{bytes, words};
use std::fmt;
use std::io::Write;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long processes may take to meet.
const MEET: Duration = Duration::from_secs(120);

/// The tag of what processes tell each other between runs.
const TOLD: u32 = 0;

/// How long a wait spins, and how long it then gives its core to other threads, before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
const YIELD: Duration = Duration::from_millis(20);
const SLEEP: Duration = Duration::from_micros(50);

/// The processes of a run. Each has one or more consecutive ranks.
pub struct World {
    library: Mutex<Library>,
    process: u32,
    processes: u32,
    host: String,
    alive: Arc<Alive>,
    largest_tag: u32,
    ranks_each: AtomicU32,
    /// Nanoseconds that ranks of this process have waited for messages of others.
    waited: AtomicU64,
}

/// Messages that MPI is still reading.
struct Sending {
    requests: Vec<Handle>,
    message: Vec<f32>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "process {} of {}", self.process, self.processes)
    }
}

impl World {
    /// Joins the processes that `mpirun` or a like launcher has started with this one. Collective.
    ///
    /// # Errors
    /// No library of MPI that knows these processes; processes that cannot reach each other.
    pub fn join(launched: Launched) -> Result<Arc<Self>, WorldError> {
        let met = Arc::new(AtomicBool::new(false));
        give_up_unless(&met);
        let joined = Self::joined(launched);
        met.store(true, Ordering::SeqCst);
        joined
    }

    fn joined(launched: Launched) -> Result<Arc<Self>, WorldError> {
        let expected = launched.processes;
        let library = Library::load(launched.by_open_mpi)?;
        let (process, processes) = library.start()?;
        if processes != expected {
            return Err(WorldError::Alone {
                library: library.name().to_owned(),
                expected,
                found: processes,
            });
        }
        let (host, largest_tag) = (host(), library.largest_tag()?);
        let world = Self {
            library: Mutex::new(library),
            alive: Alive::new(process, host.clone()),
            process,
            processes,
            host,
            largest_tag,
            ranks_each: AtomicU32::new(1),
            waited: AtomicU64::new(0),
        };
        world.watch()?;
        let world = Arc::new(world);
        // MPI libraries have threads and handlers of their own, so they stay until the process ends.
        std::mem::forget(Arc::clone(&world));
        Ok(world)
    }

    /// Lets processes watch each other.
    fn watch(&self) -> Result<(), WorldError> {
        let unreached = |to: &str, reason: String| WorldError::Unreached {
            process: self.process,
            host: self.host.clone(),
            to: to.to_owned(),
            reason,
        };
        let opened = match self.process {
            0 => Some(self.alive.meet()),
            _ => None,
        };
        let own = opened.as_ref().and_then(|opened| opened.as_ref().ok());
        let said = own.map(|(_, meeting)| meeting);
        let text = serde_json::to_vec(&said).unwrap_or_default();
        let text = self.broadcast(0, text)?;
        let meeting: Option<Meeting> = serde_json::from_slice(&text).unwrap_or(None);
        let opened: Option<(TcpListener, Meeting)> = opened
            .transpose()
            .map_err(|error| unreached(&self.host, error.to_string()))?;
        let Some(meeting) = meeting else {
            return Err(unreached("its host", "it opened no port".to_owned()));
        };
        let watched = match &opened {
            Some((listener, own)) => self.alive.receive(listener, own, self.processes),
            None => self.alive.connect(&meeting),
        };
        watched.map_err(|error| unreached(&meeting.host, error.to_string()))
    }

    /// Number of this process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Number of processes.
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Name of the host that this process runs on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Divides ranks among the processes, and returns those of this one.
    ///
    /// # Errors
    /// A number that the processes do not divide.
    pub fn divide(&self, ranks: u32) -> Result<Range<u32>, WorldError> {
        if ranks == 0 || !ranks.is_multiple_of(self.processes) {
            return Err(WorldError::Workers {
                workers: ranks,
                processes: self.processes,
            });
        }
        let each = ranks / self.processes;
        self.ranks_each.store(each, Ordering::SeqCst);
        self.alive.has_ranks(each);
        Ok(self.process * each..(self.process + 1) * each)
    }

    /// The tag, if the library has it.
    fn fits(&self, tag: u64) -> Result<u32, TransportError> {
        let found = u32::try_from(tag)
            .ok()
            .filter(|tag| *tag <= self.largest_tag);
        found.ok_or_else(|| {
            let library = self.library().name().to_owned();
            let (most, needed) = (self.largest_tag, tag);
            WorldError::Tags {
                library,
                most,
                needed,
            }
            .into()
        })
    }

    /// Seconds that a rank of this process has waited for messages of other processes so far; the mean over its ranks.
    pub fn waited(&self) -> f64 {
        1e-9 * self.waited.load(Ordering::Relaxed) as f64 / f64::from(self.each())
    }

    /// Ranks of each process.
    fn each(&self) -> u32 {
        self.ranks_each.load(Ordering::SeqCst)
    }

    /// The first rank of each process.
    pub(crate) fn leaders(&self) -> Vec<u32> {
        let each = self.each();
        (0..self.processes).map(|process| process * each).collect()
    }

    /// The process of a rank.
    fn process_of(&self, rank: u32) -> u32 {
        rank / self.each()
    }

    /// Tells all processes what the one with rank `from` has in `floats`. Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub(crate) fn tell(&self, from: u32, floats: &mut [f32]) -> Result<(), TransportError> {
        let from = self.process_of(from);
        if from != self.process {
            let mut told = Vec::new();
            self.receive(from, TOLD, floats.len()..=floats.len(), &mut told)?;
            floats.copy_from_slice(&told);
            return Ok(());
        }
        let others = (0..self.processes).filter(|other| *other != from);
        let sending = self.begin(others, TOLD, floats.to_vec())?;
        self.wait_sent(sending)
    }

    /// Gives all processes the bytes of one of them. Collective.
    ///
    /// # Errors
    /// As [`World::tell`].
    fn broadcast(&self, from: u32, own: Vec<u8>) -> Result<Vec<u8>, WorldError> {
        let each = self.each();
        let mut length = [f32::from_bits(own.len() as u32)];
        self.tell(from * each, &mut length)?;
        let length = length[0].to_bits() as usize;
        let mut told = match from == self.process {
            true => words(&own),
            false => vec![0.0; length.div_ceil(4)],
        };
        self.tell(from * each, &mut told)?;
        Ok(bytes(&told, length))
    }

    /// Checks that all processes have the same facts, such as the version and the options. Collective.
    ///
    /// # Errors
    /// What differs from process 0.
    pub fn agree(&self, facts: &[Fact]) -> Result<(), WorldError> {
        let own = serde_json::to_vec(&(&self.host, facts)).unwrap_or_default();
        let mut all: Vec<(String, Vec<Fact>)> = Vec::new();
        for process in 0..self.processes {
            let said = match process == self.process {
                true => own.clone(),
                false => Vec::new(),
            };
            let told = self.broadcast(process, said)?;
            all.push(serde_json::from_slice(&told).unwrap_or_default());
        }
        let mut found: Vec<String> = Vec::new();
        let name = |process: usize| format!("process {process} on {}", all[process].0);
        for process in 1..all.len() {
            let own = (&name(process)[..], &all[process].1[..]);
            found.extend(differences(own, (&name(0), &all[0].1)));
        }
        // Those that are refused may end once all have read the facts.
        self.meet()?;
        match found.is_empty() {
            true => Ok(()),
            false => Err(WorldError::Differ {
                differences: found.join("; "),
            }),
        }
    }

    /// Tells all processes why this one ends, perhaps by a mistake of its input. Returns whether process 0 will
    /// report it.
    pub fn leave(&self, reason: &str, mistake: bool) -> bool {
        self.alive.leave(reason, mistake)
    }

    /// Whether another process ended first, by a mistake of its input.
    pub fn mistaken(&self) -> bool {
        self.alive.mistaken()
    }

    /// Waits until all processes call this.
    ///
    /// # Errors
    /// A process that failed.
    pub fn meet(&self) -> Result<(), WorldError> {
        for leader in self.leaders() {
            self.tell(leader, &mut [0.0])?;
        }
        Ok(())
    }

    /// Waits until all processes have done their work, and leaves them.
    pub fn finish(&self) {
        if self.alive.check().is_ok() {
            // Nobody may end before all are done.
            let done = (0..self.processes)
                .try_for_each(|process| self.broadcast(process, Vec::new()).map(|_| ()));
            self.alive.end();
            if done.is_ok() {
                self.library().finish();
            }
        }
    }

    fn library(&self) -> MutexGuard<'_, Library> {
        self.library.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to send a message to some processes.
    fn begin(
        &self,
        to: impl Iterator<Item = u32>,
        tag: u32,
        message: Vec<f32>,
    ) -> Result<Sending, TransportError> {
        self.alive.check()?;
        let library = self.library();
        let mut requests = Vec::new();
        for process in to {
            // SAFETY: `Sending` keeps the message, whose memory does not move, until the requests are done.
            requests.push(unsafe { library.send(process, tag, &message) }?);
        }
        Ok(Sending { requests, message })
    }

    /// Whether a message is sent.
    fn is_sent(&self, sending: &mut Sending) -> Result<bool, TransportError> {
        let library = self.library();
        while let Some(request) = sending.requests.last_mut() {
            if !library.is_done(request)? {
                return Ok(false);
            }
            sending.requests.pop();
        }
        Ok(true)
    }

    /// Lets MPI move messages on: looks for one that never comes, from this process to itself.
    fn poke(&self) -> Result<(), TransportError> {
        self.library().arrived(self.process, TOLD)?;
        Ok(())
    }

    fn wait_sent(&self, mut sending: Sending) -> Result<(), TransportError> {
        let sent = self.until(|| Ok(self.is_sent(&mut sending)?.then_some(())));
        if sent.is_err() {
            // MPI may still read it.
            std::mem::forget(sending);
        }
        sent
    }

    /// Waits for the next message from a process with a tag, and copies it.
    fn receive(
        &self,
        from: u32,
        tag: u32,
        lengths: std::ops::RangeInclusive<usize>,
        to: &mut Vec<f32>,
    ) -> Result<usize, TransportError> {
        let arrived: Arrived = self.until(|| Ok(self.library().arrived(from, tag)?))?;
        let floats = arrived.floats;
        self.fits_length(from, floats, lengths)?;
        if to.len() < floats {
            to.resize(floats, 0.0);
        }
        // SAFETY: nothing else uses the memory until the request is done, or it is leaked.
        let mut request = unsafe { self.library().take(arrived, &mut to[..floats]) }?;
        let done = self.until(|| Ok(self.library().is_done(&mut request)?.then_some(())));
        if done.is_err() {
            // MPI may still write to it.
            std::mem::forget(std::mem::take(to));
        }
        done.map(|()| floats)
    }

    /// Checks the length of a message from a process.
    fn fits_length(
        &self,
        from: u32,
        found: usize,
        lengths: std::ops::RangeInclusive<usize>,
    ) -> Result<(), TransportError> {
        if lengths.contains(&found) {
            return Ok(());
        }
        Err(TransportError::Length {
            from: from * self.each(),
            found,
            expected: *lengths.end(),
        })
    }

    /// Asks until there is an answer, or a process has failed.
    fn until<T>(
        &self,
        mut ask: impl FnMut() -> Result<Option<T>, TransportError>,
    ) -> Result<T, TransportError> {
        let began = Instant::now();
        loop {
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            self.alive.check()?;
            match began.elapsed() {
                waited if waited < SPIN => std::hint::spin_loop(),
                waited if waited < YIELD => std::thread::yield_now(),
                _ => std::thread::sleep(SLEEP),
            }
        }
    }

    /// Tells all processes that a rank failed.
    fn abort(&self, failure: &Failure) {
        self.alive.fail(Trouble::Rank {
            rank: failure.rank,
            instruction: failure.instruction.clone(),
            reason: failure.reason.clone(),
        });
    }
}

impl From<WorldError> for TransportError {
    fn from(error: WorldError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<TransportError> for WorldError {
    fn from(error: TransportError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// Ends this process if the processes have not met in time: MPI waits for a missing one forever, and nobody watches yet.
fn give_up_unless(met: &Arc<AtomicBool>) {
    let met = Arc::clone(met);
    // If this thread cannot start, there is no time limit.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(MEET);
        if !met.load(Ordering::SeqCst) {
            let text = format!(
                "error: the processes that the launcher started did not meet within {} s; check that all of them run\n",
                MEET.as_secs()
            );
            // If this fails, there is nobody to tell.
            let _ = std::io::stderr().write_all(text.as_bytes());
            // SAFETY: the call takes only a number.
            unsafe { libc::_exit(2) }
        }
    });
}

/// The name of this host.
fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the name has this length; the last byte stays zero.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    match code == 0 && length > 0 {
        true => String::from_utf8_lossy(&name[..length]).into_owned(),
        false => "an unknown host".to_owned(),
    }
}
