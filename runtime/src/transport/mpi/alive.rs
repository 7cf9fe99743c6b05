//! Which processes are alive. MPI does not tell: a call that waits for a process that is gone may wait forever.
//!
//! Every process has a connection to process 0, over which both say every second that they are alive. Process 0
//! passes on what it hears of failures. So all learn within seconds that a process failed, ended or stopped to
//! answer, whatever they are waiting for.

use crate::error::Failure;
use crate::transport::TransportError;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a process says that it is alive.
const BEAT: Duration = Duration::from_secs(1);
/// How long a process may say nothing.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long to try to reach process 0 at one of its addresses.
const CONNECT: Duration = Duration::from_secs(3);
/// How long process 0 waits for all connections.
const GATHER: Duration = Duration::from_secs(60);
/// How long a failed process waits until process 0 has noted why.
const NOTED: Duration = Duration::from_secs(3);
/// Longest text that is read.
const MOST_BYTES: u32 = 1 << 20;
/// Bytes of the secret that connections of a run have to know.
pub(super) const SECRET: usize = 16;

/// Where process 0 waits for connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meeting {
    pub(super) host: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    pub(super) secret: [u8; SECRET],
}

/// What one process says to another.
#[derive(Serialize, Deserialize)]
enum Said {
    /// The first words of a connection.
    Hello {
        process: u32,
        host: String,
        secret: [u8; SECRET],
    },
    Alive,
    Failed(Trouble),
    /// Process 0 knows of the failure.
    Noted,
    /// The process has done all its work.
    Done,
}

/// Why a run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Trouble {
    /// A rank failed and said so.
    Rank {
        rank: u32,
        instruction: String,
        reason: String,
    },
    /// A process failed outside the instructions of its ranks.
    Process {
        process: u32,
        host: String,
        reason: String,
        /// Whether its input is wrong.
        #[serde(default)]
        mistake: bool,
    },
    /// A process ended without a word, or says nothing any more.
    Gone {
        process: u32,
        host: String,
        how: String,
    },
}

impl Trouble {
    /// The error of a message that will not come, if processes have so many ranks each.
    fn error(&self, each: u32) -> TransportError {
        let gone = |process: u32, host: &str, how: String| TransportError::Gone {
            rank: process * each,
            host: host.to_owned(),
            how,
        };
        match self {
            Self::Rank {
                rank,
                instruction,
                reason,
            } => TransportError::Aborted(Failure {
                rank: *rank,
                instruction: instruction.clone(),
                reason: reason.clone(),
            }),
            Self::Process {
                process,
                host,
                reason,
                ..
            } => gone(*process, host, format!("failed: {reason}")),
            Self::Gone { process, host, how } => gone(*process, host, how.clone()),
        }
    }
}

/// What a process knows of the others.
#[derive(Default)]
pub(super) struct Alive {
    host: String,
    process: u32,
    ranks_each: OnceLock<u32>,
    trouble: OnceLock<Trouble>,
    /// Whether process 0 knows of a failure, and will report it.
    reported: AtomicBool,
    /// Whether a connection ended.
    closed: AtomicBool,
    /// Whether this process has done all its work; connections may then end.
    done: AtomicBool,
    /// Connections to write to: of process 0 to all others, of others to process 0.
    others: Mutex<Vec<TcpStream>>,
}

impl Alive {
    /// For a process that is alone.
    pub(super) fn new(process: u32, host: String) -> Arc<Self> {
        Arc::new(Self {
            host,
            process,
            ..Self::default()
        })
    }

    /// Opens a port for the others; process 0 only.
    pub(super) fn meet(&self) -> io::Result<(TcpListener, Meeting)> {
        let listener = TcpListener::bind(("0.0.0.0", 0))?;
        let mut secret = [0; SECRET];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let meeting = Meeting {
            host: self.host.clone(),
            addresses: addresses(),
            port: listener.local_addr()?.port(),
            secret,
        };
        Ok((listener, meeting))
    }

    /// Waits until all other processes have connected; process 0 only.
    pub(super) fn receive(
        self: &Arc<Self>,
        listener: &TcpListener,
        meeting: &Meeting,
        processes: u32,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let began = Instant::now();
        let mut missing = processes - 1;
        while missing > 0 {
            match listener.accept() {
                Ok((stream, _)) => missing -= u32::from(self.greet(stream, meeting)?),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if began.elapsed() > GATHER {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            format!("{missing} of the processes did not connect"),
                        ));
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
        self.beat()
    }

    /// Takes a connection if it belongs to the run.
    fn greet(self: &Arc<Self>, stream: TcpStream, meeting: &Meeting) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(CONNECT))?;
        stream.set_nodelay(true)?;
        let mut reader = stream.try_clone()?;
        let Ok(Said::Hello {
            process,
            host,
            secret,
        }) = hear(&mut reader)
        else {
            return Ok(false);
        };
        if secret != meeting.secret {
            return Ok(false);
        }
        lock(&self.others).push(stream);
        self.listen(reader, process, host)?;
        Ok(true)
    }

    /// Connects to process 0; for the other processes.
    pub(super) fn connect(self: &Arc<Self>, meeting: &Meeting) -> io::Result<()> {
        let stream = reach(&self.host, meeting)?;
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let hello = Said::Hello {
            process: self.process,
            host: self.host.clone(),
            secret: meeting.secret,
        };
        say(&mut writer, &hello)?;
        lock(&self.others).push(writer);
        self.listen(stream, 0, meeting.host.clone())?;
        self.beat()
    }

    /// Says every second that this process is alive.
    fn beat(self: &Arc<Self>) -> io::Result<()> {
        let own = Arc::clone(self);
        let work = move || {
            while !own.done.load(Ordering::SeqCst) {
                own.tell(&Said::Alive);
                std::thread::sleep(BEAT);
            }
        };
        std::thread::Builder::new()
            .name("alive".to_owned())
            .spawn(work)?;
        Ok(())
    }

    /// Listens to a process until it is done or in trouble.
    fn listen(
        self: &Arc<Self>,
        mut stream: TcpStream,
        process: u32,
        host: String,
    ) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let own = Arc::clone(self);
        let work = move || {
            loop {
                let how = match hear(&mut stream) {
                    Ok(Said::Done) => return,
                    Ok(Said::Alive | Said::Hello { .. }) => continue,
                    Ok(Said::Noted) => {
                        own.reported.store(true, Ordering::SeqCst);
                        continue;
                    }
                    Ok(Said::Failed(trouble)) => {
                        own.reported.store(true, Ordering::SeqCst);
                        own.note(trouble);
                        // One thread writes at a time. If this fails, who waits for it waits a little longer.
                        let _writes = lock(&own.others);
                        let _ = say(&mut stream, &Said::Noted);
                        continue;
                    }
                    Err(error)
                        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                    {
                        format!("has not answered for {} s", PATIENCE.as_secs())
                    }
                    Err(_) => "ended without a message".to_owned(),
                };
                if own.done.load(Ordering::SeqCst) {
                    return;
                }
                own.note(Trouble::Gone { process, host, how });
                own.closed.store(true, Ordering::SeqCst);
                return;
            }
        };
        std::thread::Builder::new()
            .name("alive".to_owned())
            .spawn(work)?;
        Ok(())
    }

    /// Takes note of trouble, and passes it on if this is process 0.
    fn note(&self, trouble: Trouble) {
        let is_first = self.trouble.set(trouble.clone()).is_ok();
        if is_first && self.process == 0 {
            self.tell(&Said::Failed(trouble));
        }
    }

    /// Says something to all that this process is connected to.
    fn tell(&self, said: &Said) {
        for stream in lock(&self.others).iter_mut() {
            // If this fails, the process is gone, which the thread that listens to it notices.
            let _ = say(stream, said);
        }
    }

    /// Tells all processes that this one failed.
    pub(super) fn fail(&self, trouble: Trouble) {
        if self.trouble.set(trouble.clone()).is_ok() {
            self.tell(&Said::Failed(trouble));
        }
    }

    /// Fails outside the instructions of a rank, perhaps by a mistake of its input. Returns whether process 0 will
    /// report it.
    pub(super) fn leave(&self, reason: &str, mistake: bool) -> bool {
        let trouble = Trouble::Process {
            process: self.process,
            host: self.host.clone(),
            reason: reason.to_owned(),
            mistake,
        };
        self.fail(trouble);
        if self.process == 0 {
            return false;
        }
        let began = Instant::now();
        let reported = || self.reported.load(Ordering::SeqCst);
        while !reported() && !self.closed.load(Ordering::SeqCst) && began.elapsed() < NOTED {
            std::thread::sleep(Duration::from_millis(5));
        }
        reported()
    }

    /// Whether the first trouble is a mistake of another process's input.
    pub(super) fn mistaken(&self) -> bool {
        let first = self.trouble.get();
        matches!(first, Some(Trouble::Process { process, mistake: true, .. }) if *process != self.process)
    }

    /// Says that all work is done.
    pub(super) fn end(&self) {
        self.done.store(true, Ordering::SeqCst);
        self.tell(&Said::Done);
    }

    /// Sets how many ranks each process has.
    pub(super) fn has_ranks(&self, each: u32) {
        let _ = self.ranks_each.set(each);
    }

    /// The first trouble, as the error of a message.
    pub(super) fn check(&self) -> Result<(), TransportError> {
        match self.trouble.get() {
            None => Ok(()),
            Some(trouble) => Err(trouble.error(self.ranks_each.get().copied().unwrap_or(1))),
        }
    }
}

/// Connects to process 0: at the loopback address if it is on the same host, else by its name and its addresses.
fn reach(host: &str, meeting: &Meeting) -> io::Result<TcpStream> {
    let mut places: Vec<SocketAddr> = Vec::new();
    if host == meeting.host {
        places.push(SocketAddr::from(([127, 0, 0, 1], meeting.port)));
    }
    let of = |address: &IpAddr| SocketAddr::new(*address, meeting.port);
    places.extend(meeting.addresses.iter().map(of));
    if let Ok(named) = (meeting.host.as_str(), meeting.port).to_socket_addrs() {
        places.extend(named);
    }
    let mut refused = Vec::new();
    for place in &places {
        match TcpStream::connect_timeout(place, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused.push(format!("{place}: {error}")),
        }
    }
    Err(io::Error::new(ErrorKind::NotConnected, refused.join("; ")))
}

/// The addresses of this host, but those that only reach itself.
fn addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call sets the pointer, and the list is freed once.
    unsafe {
        if libc::getifaddrs(&mut first) != 0 {
            return found;
        }
        let mut next = first;
        while let Some(one) = next.as_ref() {
            if let Some(address) = one.ifa_addr.as_ref()
                && i32::from(address.sa_family) == libc::AF_INET
            {
                let address = &*one.ifa_addr.cast::<libc::sockaddr_in>();
                found.push(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()));
            }
            next = one.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    found.retain(|address| !address.is_loopback());
    found
}

/// Writes the length of what is said, and then that.
fn say(stream: &mut TcpStream, said: &Said) -> io::Result<()> {
    let text = serde_json::to_vec(said).map_err(io::Error::other)?;
    let mut all = (text.len() as u32).to_le_bytes().to_vec();
    all.extend(text);
    stream.write_all(&all)
}

fn hear(stream: &mut TcpStream) -> io::Result<Said> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MOST_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
