//! Interrupts: a training run that is asked to end writes what it has; everything else ends at once.
//!
//! The signals are blocked in all threads, and one thread waits for them. So nothing runs inside of a
//! signal handler, and METIS, which installs handlers of its own, never sees one.

use gnnc::runtime::Stop;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// What asks a run to end.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// How long a run may take to end.
const PATIENCE: Duration = Duration::from_millis(4500);

/// The signals that this process waits for.
#[derive(Clone, Default)]
pub struct Signals {
    /// The request that a signal makes.
    pub stop: Stop,
    received: Arc<AtomicI32>,
}

impl Signals {
    /// Begins to wait for signals. To be called before other threads are started, which take over what is
    /// blocked.
    pub fn listen() -> Self {
        let signals = Self::default();
        let waited_for = waited_for();
        // SAFETY: the set is one; the call changes this thread alone.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &waited_for, std::ptr::null_mut()) };
        let own = signals.clone();
        let thread = std::thread::Builder::new().name("signals".to_owned());
        if thread.spawn(move || own.wait(waited_for)).is_err() {
            // Without the thread signals do what they do by default.
            // SAFETY: as above.
            unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &waited_for, std::ptr::null_mut()) };
        }
        signals
    }

    /// The exit code of a run that a signal has ended: 128 and the signal's number.
    pub fn exit_code(&self) -> Option<u8> {
        match self.received.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(code(signal)),
        }
    }

    fn wait(&self, waited_for: libc::sigset_t) {
        loop {
            let mut signal = 0;
            // SAFETY: the set is one, and the number is written.
            if unsafe { libc::sigwait(&waited_for, &mut signal) } != 0 {
                return;
            }
            if !self.stop.is_heard() || self.stop.is_asked() {
                end(signal);
            }
            self.received.store(signal, Ordering::SeqCst);
            self.stop.ask();
            // Without a thread for it, nobody looks after the time.
            let _ = std::thread::Builder::new().spawn(move || {
                std::thread::sleep(PATIENCE);
                too_late(signal);
            });
        }
    }
}

/// The signals, but those that are ignored, as `nohup` does.
fn waited_for() -> libc::sigset_t {
    // SAFETY: a set and an action of zeros are values of these types; both are written by the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            if action.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, signal);
            }
        }
        set
    }
}

/// Ends the process as the signal does by default.
fn end(signal: i32) -> ! {
    // SAFETY: the calls take numbers of signals and a set that is made here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
        libc::_exit(i32::from(code(signal)))
    }
}

fn too_late(signal: i32) -> ! {
    let text = "error: the run did not end in time and is given up; its last checkpoint is whole\n";
    // Nothing is left to be told if this fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
    // SAFETY: the call takes a number.
    unsafe { libc::_exit(i32::from(code(signal))) }
}

fn code(signal: i32) -> u8 {
    128 + signal as u8
}
