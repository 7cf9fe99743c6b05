//! A sampler allocates nothing once its buffers are as large as its batches.

#![allow(clippy::unwrap_used)] // a test that cannot continue fails

use gnnc_graph::generate::Rmat;
use gnnc_graph::sample::{Batches, Blocks, Cut, Fanout, Kind, Rule, Sampler};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of each thread: others may work on something else.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no count any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_second_round_of_batches_allocates_nothing() {
    let topology = Rmat::default().generate().unwrap().topology;
    let all = (0..topology.vertices()).collect();
    let batches = Batches::new(all, 100, Cut::Even, 0).unwrap();
    let epoch = batches.epoch(0).unwrap();
    for kind in [Kind::Neighbor, Kind::Labor] {
        let rule = Rule::new(kind, vec![Fanout::Each(5); 2], 0).unwrap();
        let mut sampler = Sampler::new(&topology, &rule, 1).unwrap();
        let mut blocks = Blocks::default();
        let mut round = || {
            let before = ALLOCATIONS.get();
            for batch in 0..batches.count() {
                sampler
                    .sample(epoch.seeds(batch), epoch.step(batch), &mut blocks)
                    .unwrap();
            }
            ALLOCATIONS.get() - before
        };
        assert!(round() > 0, "buffers grow at first");
        assert_eq!(round(), 0);
    }
}
