//! Tasks that can be done, and which is next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Tasks whose inputs are there, by batch, cost and arrival (Zheng et al., ByteGNN, PVLDB 2022, section 4.3): older batches
/// come first, and of a batch what costs least.
pub(super) struct Ready<T> {
    heap: BinaryHeap<Entry<T>>,
    arrived: u64,
}

struct Entry<T> {
    /// The launch of the batch, the cost, and how many tasks arrived before.
    key: [u64; 3],
    task: T,
}

impl<T> Ready<T> {
    pub(super) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            arrived: 0,
        }
    }

    /// Adds a task of a batch. `launch` counts the batches that were begun.
    pub(super) fn add(&mut self, launch: u64, cost: u64, task: T) {
        let key = [launch, cost, self.arrived];
        self.arrived += 1;
        self.heap.push(Entry { key, task });
    }

    /// Takes the next task.
    pub(super) fn take(&mut self) -> Option<T> {
        self.heap.pop().map(|entry| entry.task)
    }
}

impl<T> Ord for Entry<T> {
    /// The heap gives the largest entry first, which is to be the one with the smallest key.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task of the worked example: its batch, its name and what it costs.
    type Example = (u64, &'static str, u64);

    /// The tasks that can be done once one is done, of a batch with these costs of the tasks `NSC1`, `FF1`, `NSC2`, `FF2`.
    fn next(done: &str, costs: [u64; 4]) -> Vec<(&'static str, u64)> {
        let [edges, rows, more, others] = costs;
        match done {
            "Seed" => vec![("FF0", 4), ("NSC1", edges)],
            "NSC1" => vec![("FF1", rows), ("NSC2", more)],
            "NSC2" => vec![("FF2", others)],
            _ => Vec::new(),
        }
    }

    /// Two threads draw two batches of the graph of eight vertices, with seeds 3 and 0, in virtual time. When both batches
    /// are drawn, and in which order tasks begin.
    fn run(in_order: bool) -> ([u64; 2], Vec<(u64, String)>) {
        let costs = [[3, 8, 9, 12], [2, 8, 7, 4]];
        let mut ready: Ready<Example> = Ready::new();
        let key = |batch, cost| if in_order { (batch, cost) } else { (0, 0) };
        for batch in 0..2 {
            ready.add(key(batch, 1).0, key(batch, 1).1, (batch, "Seed", 1));
        }
        let mut working: Vec<(u64, Example)> = Vec::new();
        let (mut now, mut ends, mut begun) = (0, [0; 2], Vec::new());
        // Fetches and the end of each batch.
        let mut left = [4, 4];
        loop {
            while working.len() < 2 {
                let Some(task) = ready.take() else { break };
                begun.push((now, format!("{}{}", task.1, task.0 + 1)));
                working.push((now + task.2, task));
            }
            let Some(first) = (0..working.len()).min_by_key(|n| working[*n].0) else {
                return (ends, begun);
            };
            let end = working[first].0;
            now = end;
            // All tasks that end now, in the order in which they began.
            let (done, rest): (Vec<_>, Vec<_>) = working.into_iter().partition(|w| w.0 == end);
            working = rest;
            for (_, (batch, name, _)) in done {
                let place = batch as usize;
                for (name, cost) in next(name, costs[place]) {
                    let (launch, order) = key(batch, cost);
                    ready.add(launch, order, (batch, name, cost));
                }
                if name.starts_with("FF") || name == "End" {
                    left[place] -= 1;
                }
                if name.starts_with("FF") && left[place] == 1 {
                    let (launch, order) = key(batch, 1);
                    ready.add(launch, order, (batch, "End", 1));
                }
                if name == "End" {
                    ends[place] = end;
                }
            }
        }
    }

    #[test]
    fn the_example_ends_when_it_was_computed_to() {
        let (ends, begun) = run(true);
        assert_eq!(ends, [27, 36]);
        let expected = [
            (0, "Seed1"),
            (0, "Seed2"),
            (1, "NSC11"),
            (1, "FF01"),
            (4, "FF11"),
            (5, "NSC21"),
            (12, "NSC12"),
            (14, "FF21"),
            (14, "FF02"),
            (18, "NSC22"),
            (25, "FF22"),
            (26, "End1"),
            (27, "FF12"),
            (35, "End2"),
        ];
        let begun: Vec<(u64, &str)> = begun.iter().map(|(at, name)| (*at, &name[..])).collect();
        assert_eq!(begun, expected);
        // By arrival, the first batch ends no sooner than the second one.
        assert_eq!(run(false).0, [36, 29]);
    }
}
