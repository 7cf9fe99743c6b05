//! Ordering of work on streams, and the last use of each word of memory.

use gnnc::runtime::device::gpu::driver::{Event, Stream};
use std::collections::BTreeMap;

/// Limit on the number of streams.
const STREAMS: usize = 20;

/// How much of each stream has completed.
type Clock = [u32; STREAMS];

/// A use of memory: the stream's tick (0 for none), and the number of the work.
#[derive(Clone, Copy, Default)]
struct Use {
    tick: u32,
    work: u32,
}

/// Four bytes of memory.
#[derive(Clone, Default)]
pub struct Word {
    written: bool,
    writes: [Use; STREAMS],
    reads: [Use; STREAMS],
}

/// A point in time.
#[derive(Clone, Copy, Default)]
struct StepContext {
    clock: Clock,
    seconds: f64,
}

/// All streams and events.
#[derive(Default)]
pub struct Clocks {
    streams: Vec<StepContext>,
    host: StepContext,
    events: BTreeMap<Event, Recorded>,
    names: Vec<String>,
}

/// The point that an event recorded.
#[derive(Clone, Copy, Default)]
struct Recorded {
    at: Option<StepContext>,
    timed: bool,
}

impl StepContext {
    fn join(&mut self, other: &Self) {
        for (own, other) in self.clock.iter_mut().zip(other.clock) {
            *own = (*own).max(other);
        }
        self.seconds = self.seconds.max(other.seconds);
    }

    fn before(&self, other: &Self) -> bool {
        self.clock
            .iter()
            .zip(other.clock)
            .all(|(own, other)| *own <= other)
    }
}

impl Word {
    /// Marks the word as written before anything started.
    pub fn begin(&mut self) {
        self.written = true;
    }
}

impl Clocks {
    /// The latest work on a stream copies words; words that were never written stay so.
    pub fn copy(&self, on: Stream, from: &mut [Word], to: &mut [Word]) -> Result<(), String> {
        for (from, to) in from.iter_mut().zip(to) {
            let written = std::mem::replace(&mut from.written, true);
            self.touch(on, std::slice::from_mut(from), false)?;
            self.touch(on, std::slice::from_mut(to), true)?;
            (from.written, to.written) = (written, written);
        }
        Ok(())
    }

    /// The processor uses words; fails unless conflicting work on streams is complete.
    pub fn by_host(&self, words: &mut [Word], write: bool) -> Result<(), String> {
        for word in words {
            for (stream, over) in self.host.clock.iter().enumerate() {
                let earlier = [word.writes[stream], word.reads[stream]];
                let meets = if write { 2 } else { 1 };
                if let Some(one) = earlier[..meets].iter().find(|one| one.tick > *over) {
                    return Err(format!(
                        "race: the processor does not wait for {} on stream {stream}",
                        self.names[one.work as usize]
                    ));
                }
            }
            word.written |= write;
        }
        Ok(())
    }

    pub fn stream(&mut self) -> Result<Stream, String> {
        if self.streams.len() == STREAMS {
            return Err(format!("more than {STREAMS} streams"));
        }
        self.streams.push(StepContext::default());
        Ok(Stream(self.streams.len() as u32 - 1))
    }

    pub fn event(&mut self, timed: bool) -> Event {
        let event = Event(self.events.len() as u32);
        self.events.insert(event, Recorded { at: None, timed });
        event
    }

    /// Starts a piece of work.
    pub fn work(&mut self, on: Stream, name: String) {
        let host = self.host;
        let stream = &mut self.streams[on.0 as usize];
        stream.join(&host);
        stream.clock[on.0 as usize] += 1;
        stream.seconds += 1e-6;
        self.names.push(name);
    }

    /// The latest work on a stream uses words.
    pub fn touch(&self, on: Stream, words: &mut [Word], write: bool) -> Result<(), String> {
        let (own, now) = (on.0 as usize, &self.streams[on.0 as usize].clock);
        let work = self.names.len() as u32 - 1;
        for word in words {
            if !write && !word.written {
                return Err(format!(
                    "{} reads what was never written",
                    self.names[work as usize]
                ));
            }
            for stream in (0..STREAMS).filter(|stream| *stream != own) {
                let earlier = [word.writes[stream], word.reads[stream]];
                let meets = if write { 2 } else { 1 };
                for earlier in &earlier[..meets] {
                    if earlier.tick > now[stream] {
                        return Err(format!(
                            "race: {} on stream {own} does not wait for {} on stream {stream}",
                            self.names[work as usize], self.names[earlier.work as usize]
                        ));
                    }
                }
            }
            let tick = now[own];
            match write {
                true => {
                    word.written = true;
                    word.writes[own] = Use { tick, work };
                }
                false => word.reads[own] = Use { tick, work },
            }
        }
        Ok(())
    }

    pub fn record(&mut self, event: Event, on: Stream) -> Result<(), String> {
        let host = self.host;
        let stream = &mut self.streams[on.0 as usize];
        stream.join(&host);
        let known = self.events.get_mut(&event).ok_or("no such event")?;
        known.at = Some(*stream);
        Ok(())
    }

    /// An event recorded in captured work has no meaning outside it.
    pub fn forget(&mut self, event: Event) {
        if let Some(known) = self.events.get_mut(&event) {
            known.at = None;
        }
    }

    pub fn wait(&mut self, on: Stream, event: Event) -> Result<(), String> {
        let known = self.events.get(&event).ok_or("no such event")?;
        let at = known.at.ok_or_else(|| {
            format!(
                "stream {} waits for event {}, which was never recorded",
                on.0, event.0
            )
        })?;
        self.streams[on.0 as usize].join(&at);
        Ok(())
    }

    /// Makes a stream wait for all work of another.
    pub fn follow(&mut self, stream: Stream, other: Stream) {
        let other = self.streams[other.0 as usize];
        self.streams[stream.0 as usize].join(&other);
    }

    /// Makes the processor wait for a stream.
    pub fn synchronize(&mut self, on: Stream) {
        let stream = self.streams[on.0 as usize];
        self.host.join(&stream);
    }

    pub fn seconds(&self, from: Event, to: Event) -> Result<f64, String> {
        let over = |event: Event| {
            let known = self.events.get(&event).filter(|known| known.timed);
            let known = known.ok_or(format!("event {} is not timed", event.0))?;
            let at = known.at.filter(|at| at.before(&self.host));
            at.ok_or(format!("event {} is not over", event.0))
        };
        Ok(over(to)?.seconds - over(from)?.seconds)
    }
}

/// Whether all work in a list of orderings is complete when stream `on` is.
pub fn joined(on: Stream, work: impl Iterator<Item = Ordering>) -> bool {
    let mut streams: BTreeMap<Stream, Clock> = BTreeMap::new();
    let mut events: BTreeMap<Event, Clock> = BTreeMap::new();
    for one in work {
        match one {
            Ordering::Work(stream) => {
                streams.entry(stream).or_default()[stream.0 as usize] += 1;
            }
            Ordering::Record(event, stream) => {
                let clock = *streams.entry(stream).or_default();
                events.insert(event, clock);
            }
            Ordering::Wait(stream, event) => {
                let at = events.get(&event).copied().unwrap_or_default();
                let clock = streams.entry(stream).or_default();
                for (own, other) in clock.iter_mut().zip(at) {
                    *own = (*own).max(other);
                }
            }
        }
    }
    let end = streams.get(&on).copied().unwrap_or_default();
    streams
        .iter()
        .all(|(stream, clock)| clock[stream.0 as usize] <= end[stream.0 as usize])
}

/// What captured work does to the ordering.
#[derive(Clone, Copy)]
pub enum Ordering {
    Work(Stream),
    Record(Event, Stream),
    Wait(Stream, Event),
}
