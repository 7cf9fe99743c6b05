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
/// Floats of the messages that are sent while a process computes.
const BEHIND: usize = 64 << 10;
/// About how long it computes in all.
const SECONDS: f64 = 12.0;
/// About how long it computes between two calls of MPI: as an instruction of a batch.
const SLICE: f64 = 5e-4;

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

    /// Seconds that a processor lacks for computing, for each byte that it sends to or receives from another process
    /// meanwhile. It computes for a quarter longer than the messages take, and calls MPI in between, as ranks do. Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub fn time_behind(&self, [one, other]: [u32; 2]) -> Result<f64, WorldError> {
        // Both have to compute as often.
        let exchanged = self.told(one, self.exchange([one, other], BEHIND)?)?;
        let mut lacked = Vec::new();
        if self.process == one || self.process == other {
            let peer = if self.process == one { other } else { one };
            let mut work = Work::lasting(SLICE);
            let slices = (1.25 * exchanged / SLICE).ceil() as usize + 1;
            let message = vec![1.0; BEHIND];
            let pair = 2.0 * SLICE * slices as f64;
            let times = ((SECONDS / pair) as usize).max(FEWEST);
            for _ in 0..times {
                let began = Instant::now();
                self.computing(&mut work, slices)?;
                let alone = began.elapsed();
                let (given, room) = (message.clone(), message.clone());
                let began = Instant::now();
                let posted = self.post(peer, TOLD, BEHIND, room)?;
                let sending = self.begin(std::iter::once(peer), TOLD, given)?;
                self.computing(&mut work, slices)?;
                lacked.push(began.elapsed().as_secs_f64() - alone.as_secs_f64());
                // The other process may be late; that is no work.
                self.wait_posted(peer, posted, BEHIND..=BEHIND)?;
                self.wait_sent(sending)?;
            }
        }
        self.meet()?;
        let bytes = (2 * 4 * BEHIND) as f64;
        let found = middle(lacked) / bytes;
        let both = self.told(one, found)? + self.told(other, found)?;
        Ok((both / 2.0).max(0.0))
    }

    /// A number of one process.
    fn told(&self, from: u32, number: f64) -> Result<f64, WorldError> {
        let told = self.broadcast(from, number.to_le_bytes().to_vec())?;
        Ok(told.try_into().map_or(number, f64::from_le_bytes))
    }

    fn computing(&self, work: &mut Work, slices: usize) -> Result<(), WorldError> {
        for _ in 0..slices {
            work.slice();
            self.poke()?;
        }
        Ok(())
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
        }
        self.meet()?;
        Ok(median(seconds))
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

/// Zero if there are none.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
}

/// The mean of the middle half; zero if there are none.
fn middle(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    let quarter = seconds.len() / 4;
    let half = &seconds[quarter..seconds.len() - quarter];
    half.iter().sum::<f64>() / half.len().max(1) as f64
}

/// Something to compute.
struct Work {
    numbers: Vec<f32>,
    /// Passes over the numbers in a slice.
    passes: usize,
}

impl Work {
    /// Work whose slices take about so many `seconds`.
    fn lasting(seconds: f64) -> Self {
        let mut work = Self {
            numbers: vec![1.0; 64 << 10],
            passes: 16,
        };
        work.slice();
        let began = Instant::now();
        work.slice();
        let took = began.elapsed().as_secs_f64().max(1e-9);
        work.passes = ((16.0 * seconds / took) as usize).clamp(1, 1 << 16);
        work
    }

    fn slice(&mut self) {
        for _ in 0..self.passes {
            for number in &mut self.numbers {
                *number = *number * 0.999 + 0.001;
            }
            std::hint::black_box(&mut self.numbers);
        }
    }
}
