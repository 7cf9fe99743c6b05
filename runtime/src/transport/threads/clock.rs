//! Measures whether a rank gets a core.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The CPU time of a rank's thread, readable from other threads.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The system's clock id; 0 (which is another clock) while no thread is known.
    id: AtomicI32,
}

impl Clock {
    /// Makes this the clock of the calling thread.
    pub fn is_mine(&self) {
        let mut id = 0;
        // SAFETY: the calling thread is alive, and the system writes an id.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut id) };
        self.id
            .store(if failed == 0 { id } else { 0 }, Ordering::Relaxed);
    }

    /// CPU time of the thread; `None` if it is unknown or has ended.
    pub fn ran(&self) -> Option<Duration> {
        let id = self.id.load(Ordering::Relaxed);
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the system writes a time, or nothing if there is no such clock.
        let failed = id == 0 || unsafe { libc::clock_gettime(id, &mut time) } != 0;
        let known = (!failed).then_some((time.tv_sec, time.tv_nsec));
        let (seconds, nanos) = known?;
        Some(Duration::new(
            seconds.try_into().ok()?,
            nanos.try_into().ok()?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn a_thread_that_works_runs_and_one_that_sleeps_does_not() {
        let clock = Clock::default();
        assert_eq!(clock.ran(), None);
        let (send, recv) = channel::<()>();
        let (ready, began) = channel();
        let clock = &clock;
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                clock.is_mine();
                let begin = clock.ran().unwrap();
                let end = Instant::now() + Duration::from_secs(60);
                while clock.ran().unwrap() - begin < Duration::from_millis(5) {
                    assert!(Instant::now() < end, "it worked for a minute");
                }
                ready.send(()).unwrap();
                recv.recv().unwrap();
            });
            began.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let asleep = clock.ran().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert!(clock.ran().unwrap() - asleep < Duration::from_millis(25));
            send.send(()).unwrap();
            worker.join().unwrap();
        });
    }
}
