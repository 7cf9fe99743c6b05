//! How work ends: waiting for streams, giving up on other processes, releasing everything.

use super::calls::check;
use super::nccl::Communicator;
use super::{DriverError, Live};
use cudarc::driver::result::{self, event, graph, module, stream};
use cudarc::driver::sys::{self, CUresult, CUstream};
use std::time::{Duration, Instant};

/// Pause between polls of a stream that waits for other processes.
const PAUSE: Duration = Duration::from_micros(20);

/// Waits for a stream. Meanwhile, polls for errors of other processes, which may be gone.
pub(super) fn finish(
    communicator: &mut Option<Communicator>,
    queue: CUstream,
) -> Result<(), DriverError> {
    let Some(communicator) = communicator else {
        // SAFETY: the stream exists.
        return check("cuStreamSynchronize", unsafe { stream::synchronize(queue) });
    };
    let begin = Instant::now();
    loop {
        // SAFETY: the stream exists.
        match unsafe { sys::cuStreamQuery(queue) } {
            CUresult::CUDA_ERROR_NOT_READY => communicator.look()?,
            answer => return check("cuStreamQuery", answer.result()),
        }
        if begin.elapsed() > communicator.patience() {
            communicator.fail();
            return Err(DriverError::Call {
                call: "cuStreamQuery",
                message: format!(
                    "the work was not done after {} s; another process may hang",
                    communicator.patience().as_secs()
                ),
            });
        }
        std::thread::sleep(PAUSE);
    }
}

impl Live {
    /// Passes on an answer, and gives up on the other processes if the communicator has failed.
    pub(super) fn told<T>(&mut self, answer: Result<T, DriverError>) -> Result<T, DriverError> {
        if answer.is_err() && self.communicator.as_ref().is_some_and(Communicator::failed) {
            self.forget_captured();
            if let Some(communicator) = &mut self.communicator {
                communicator.abort();
            }
        }
        answer
    }

    /// Destroys captured work, including an ongoing capture. Until then NCCL does not release a
    /// communicator, since captured work holds on to its messages. Work on streams continues.
    fn forget_captured(&mut self) {
        // Nobody is left to report a failure to.
        if self.capturing.take().is_some() {
            // SAFETY: the stream is being captured; the graph is not needed.
            unsafe {
                if let Ok(captured) = stream::end_capture(self.captured_on) {
                    let _ = graph::destroy(captured);
                }
            }
        }
        for graph in self.graphs.drain(..) {
            // SAFETY: made by this value, destroyed once.
            let _ = unsafe { graph::exec_destroy(graph) };
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Nobody is left to report a failure to; after an error every call fails.
        let _ = self.context.enter();
        self.forget_captured();
        if let Some(communicator) = &mut self.communicator {
            communicator.close();
        }
        // SAFETY: everything was made by this value and is released once, after the work is done.
        unsafe {
            for queue in &self.queues {
                let _ = stream::synchronize(queue.stream);
            }
            for mark in &self.marks {
                let _ = event::destroy(mark.event);
            }
            for queue in &mut self.queues {
                queue.products = None;
                let _ = stream::destroy(queue.stream);
            }
            for module in &self.modules {
                let _ = module::unload(*module);
            }
            for address in self.memory.keys() {
                let _ = result::free_sync(*address);
            }
        }
        self.pinned.release();
    }
}
