//! How long messages between processes take.

use super::{TOLD, World, WorldError};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Bytes that a measurement of one size sends in about all, and the fewest and most messages that it may be.
const BYTES: usize = 64 << 20;
const FEWEST: usize = 7;
const MOST: usize = 300;
/// Messages before those that count.
const WARM_UP: usize = 3;

/// Messages of one size between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Bytes of a message.
    pub bytes: u64,
    /// Seconds from the one process to the other.
    pub there: f64,
    /// Seconds back.
    pub back: f64,
    /// Seconds if each sends one to the other at the same time.
    pub both: f64,
}

impl World {
    /// The host of each process. Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub fn hosts(&self) -> Result<Vec<String>, WorldError> {
        let told = |process: u32| {
            let own = match process == self.process {
                true => self.host.clone().into_bytes(),
                false => Vec::new(),
            };
            let name = self.broadcast(process, own)?;
            Ok(String::from_utf8_lossy(&name).into_owned())
        };
        (0..self.processes).map(told).collect()
    }

    /// Times messages of so many floats between two processes; medians. Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub fn time(&self, [one, other]: [u32; 2], floats: usize) -> Result<Timed, WorldError> {
        let empty = self.round([one, other], [1, 1])? / 2.0;
        let mut timed = Timed {
            bytes: 4 * floats as u64,
            there: self.round([one, other], [floats, 1])? - empty,
            back: self.round([one, other], [1, floats])? - empty,
            both: self.exchange([one, other], floats)?,
        };
        let text = serde_json::to_vec(&timed).unwrap_or_default();
        let text = self.broadcast(one, text)?;
        if let Ok(told) = serde_json::from_slice(&text) {
            timed = told;
        }
        Ok(timed)
    }

    /// Seconds of a message there and one back, of so many floats.
    fn round(&self, [one, other]: [u32; 2], [there, back]: [usize; 2]) -> Result<f64, WorldError> {
        self.repeated([one, other], there.max(back), |message| {
            match self.process == one {
                true => {
                    self.give(other, &message[..there])?;
                    self.get(other, back)
                }
                false => {
                    self.get(one, there)?;
                    self.give(one, &message[..back])
                }
            }
        })
    }

    /// Seconds until each has sent so many floats to the other.
    fn exchange(&self, [one, other]: [u32; 2], floats: usize) -> Result<f64, WorldError> {
        self.repeated([one, other], floats, |message| {
            let peer = if self.process == one { other } else { one };
            // As ranks exchange rows.
            let posted = self.post(peer, TOLD, floats, Vec::new())?;
            let sending = self.begin(std::iter::once(peer), TOLD, message.to_vec())?;
            self.wait_posted(peer, posted, floats..=floats)?;
            Ok(self.wait_sent(sending)?)
        })
    }

    /// Median seconds of what two processes do together; the others wait.
    fn repeated(
        &self,
        pair: [u32; 2],
        floats: usize,
        mut together: impl FnMut(&[f32]) -> Result<(), WorldError>,
    ) -> Result<f64, WorldError> {
        self.meet()?;
        let message = vec![1.0; floats];
        let times = (BYTES / (4 * floats)).clamp(FEWEST, MOST);
        let mut seconds = Vec::with_capacity(times);
        if pair.contains(&self.process) {
            for _ in 0..WARM_UP {
                together(&message)?;
            }
            for _ in 0..times {
                let began = Instant::now();
                together(&message)?;
                seconds.push(began.elapsed().as_secs_f64());
            }
            seconds.sort_by(f64::total_cmp);
        }
        self.meet()?;
        Ok(seconds.get(seconds.len() / 2).copied().unwrap_or(0.0))
    }

    fn give(&self, to: u32, message: &[f32]) -> Result<(), WorldError> {
        let sending = self.begin(std::iter::once(to), TOLD, message.to_vec())?;
        Ok(self.wait_sent(sending)?)
    }

    fn get(&self, from: u32, floats: usize) -> Result<(), WorldError> {
        let mut message = Vec::new();
        self.receive(from, TOLD, floats..=floats, &mut message)?;
        Ok(())
    }
}
