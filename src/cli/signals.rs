//! Interrupts: a training run that is asked to stop saves its state first; every other command ends at once.
//! The first interrupt from the keyboard lets the current epoch finish. A second one, and any other signal, stops
//! within the epoch.
//!
//! The signals are blocked in all threads, and one thread waits for them. So no code runs inside a
//! signal handler, and METIS, which installs its own handlers, never sees a signal.

use gnnc::runtime::Stop;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The signals that stop a run.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// More than a thread takes.
const THREAD_BYTES: usize = 8 << 20;
/// How long a run may take to stop.
const PATIENCE: Duration = Duration::from_millis(4500);

/// The signals that this process waits for.
#[derive(Clone, Default)]
pub struct Signals {
    /// The stop request that a signal sets.
    pub stop: Stop,
    received: Arc<AtomicI32>,
    told: bool,
}

impl Signals {
    /// Starts to wait for signals; `told` says whether a first interrupt is answered with a note. Call it before any other thread starts: threads inherit the
    /// blocked signals.
    pub fn listen(told: bool) -> Self {
        let signals = Self {
            told,
            ..Self::default()
        };
        let waited_for = waited_for();
        // SAFETY: the set is initialized; the call changes only this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &waited_for, std::ptr::null_mut()) };
        let own = signals.clone();
        let thread = std::thread::Builder::new().name("signals".to_owned());
        // A thread that starts without memory for its signal stack would end the process.
        let fits = Vec::<u8>::new().try_reserve_exact(THREAD_BYTES).is_ok();
        if !fits || thread.spawn(move || own.wait(waited_for)).is_err() {
            // Without the thread, signals keep their default action.
            // SAFETY: as above.
            unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &waited_for, std::ptr::null_mut()) };
        }
        signals
    }

    /// The exit code of a run that a signal ended: 128 plus the signal's number.
    pub fn exit_code(&self) -> Option<u8> {
        match self.received.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(code(signal)),
        }
    }

    /// Says what the first interrupt does.
    fn note(&self) {
        if self.told {
            let what = match self.stop.epoch() {
                0 => "stopping before the first epoch".to_owned(),
                epoch => format!("finishing epoch {epoch}"),
            };
            let text = format!("{what}; press again to stop now\n");
            // If this fails, there is nobody to tell.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    fn wait(&self, waited_for: libc::sigset_t) {
        loop {
            let mut signal = 0;
            // SAFETY: the set is initialized, and `signal` may be written.
            if unsafe { libc::sigwait(&waited_for, &mut signal) } != 0 {
                return;
            }
            if !self.stop.is_heard() || self.stop.is_at_once() {
                end(signal);
            }
            self.received.store(signal, Ordering::SeqCst);
            if signal == libc::SIGINT && !self.stop.is_asked() {
                self.stop.ask();
                self.note();
                continue;
            }
            self.stop.ask_at_once();
            // If this thread cannot start, there is no time limit.
            let _ = std::thread::Builder::new().spawn(move || {
                std::thread::sleep(PATIENCE);
                too_late(signal);
            });
        }
    }
}

/// The signals to wait for, except those already ignored, as under `nohup`.
fn waited_for() -> libc::sigset_t {
    // SAFETY: zeros are valid values of both types, and the calls fill them in.
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

/// Ends the process with the signal's default action.
fn end(signal: i32) -> ! {
    // SAFETY: the calls take signal numbers and a set made here.
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
    let text =
        "error: the run did not stop in time and was abandoned; its last checkpoint is intact\n";
    // If this fails too, there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
    // SAFETY: the call takes only a number.
    unsafe { libc::_exit(i32::from(code(signal))) }
}

fn code(signal: i32) -> u8 {
    128 + signal as u8
}
