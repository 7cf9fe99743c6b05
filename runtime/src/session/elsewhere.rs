//! What a session cannot do if its ranks are in several processes.

use super::Session;
use crate::RuntimeError;
use gnnc_ir::program::{Program, Role};

impl Session {
    /// Whether a stop was requested, as the process of rank 0 says, so that all processes end after the same epoch.
    /// Collective; called between epochs.
    ///
    /// # Errors
    /// [`RuntimeError::Rank`] if a connection fails.
    pub fn stops(&mut self) -> Result<bool, RuntimeError> {
        let mut asked = [f32::from(u8::from(self.options.stop.is_asked()))];
        self.rank_set.tell(0, &mut asked)?;
        Ok(asked != [0.0])
    }

    /// Whether some ranks are in other processes.
    fn divided(&self) -> bool {
        let here = self.rank_set.map(|rank| rank.rank().ranks);
        here.first()
            .is_some_and(|ranks| *ranks as usize > here.len())
    }

    /// Refuses requests that need rows of ranks elsewhere.
    pub(super) fn needs_all_ranks(&self, what: &str) -> Result<(), RuntimeError> {
        match self.divided() {
            false => Ok(()),
            true => Err(RuntimeError::Program(format!(
                "{what} of all ranks are needed, but this process has only some of the ranks; run all ranks \
                 in one process"
            ))),
        }
    }

    /// Refuses access to parameters and histories that are partly in other processes.
    pub(super) fn needs_all_parts(&self) -> Result<(), RuntimeError> {
        let shared = |program: &Program| {
            let shards = program.params.iter().any(|spec| spec.shard.is_some());
            let kept = |role: Role| matches!(role, Role::History(_));
            shards || program.pipeline.is_some() || program.buffers.iter().any(|b| kept(b.role))
        };
        match self.programs.all().iter().any(|program| shared(program)) {
            true => self.needs_all_ranks("parameters or histories"),
            false => Ok(()),
        }
    }
}
