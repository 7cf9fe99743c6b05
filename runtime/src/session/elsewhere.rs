//! What a session knows of ranks in other processes.

use super::Session;
use crate::RuntimeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Session {
    /// Whether a stop was requested of any process, so that all processes end after the same epoch.
    /// Collective; called between epochs.
    ///
    /// # Errors
    /// [`RuntimeError::Rank`] if a connection fails.
    pub fn stops(&mut self) -> Result<bool, RuntimeError> {
        let asked = self.gather(self.options.stop.is_asked())?;
        Ok(asked.contains(&true))
    }

    /// Whether this process has rank 0, and so writes files and reports.
    pub fn leads(&self) -> bool {
        self.rank_set.leads()
    }

    /// What each process knows, in the order of their ranks. Collective.
    ///
    /// # Errors
    /// As [`Session::stops`].
    pub fn gather<T: Serialize + DeserializeOwned>(&self, own: T) -> Result<Vec<T>, RuntimeError> {
        Ok(self.rank_set.gather(own)?)
    }

    /// The sum of a number over all processes. Collective.
    ///
    /// # Errors
    /// As [`Session::stops`].
    pub fn sum(&self, own: u64) -> Result<u64, RuntimeError> {
        Ok(self.gather(own)?.into_iter().sum())
    }

    /// The largest of a number over all processes. Collective.
    ///
    /// # Errors
    /// As [`Session::stops`].
    pub fn most(&self, own: u64) -> Result<u64, RuntimeError> {
        Ok(self.gather(own)?.into_iter().max().unwrap_or(own))
    }
}
