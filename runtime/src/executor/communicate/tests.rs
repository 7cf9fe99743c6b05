//! Numbers arrive in the right places, and no more are sent than predicted.

use super::*;
use crate::communication::moves::Geometry;
use crate::communication::redistribute::Redistribution;
use crate::part::whole::Whole;
use crate::transport::threads::Threads;
use gnnc_ir::graph::op::{Redistribute, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::program::traffic::redistribute_floats;
use gnnc_ir::program::{Group, Moved};
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::share;
use proptest::prelude::*;
use std::sync::Arc;

/// Vertices divided among ranks, and the shape of the tensor by rows.
#[derive(Clone, Debug)]
struct Case {
    owned: Vec<Vec<u32>>,
    heads: usize,
    width: usize,
    threads: usize,
}

/// A tensor on one rank.
struct Tensor {
    values: Vec<f32>,
    columns: usize,
}

/// Fills the gaps between and before the rows of operands.
const GAP: f32 = f32::NAN;

/// Element `column` of vertex `v` before anything moves.
fn number(v: u32, column: usize) -> f32 {
    (v * 100) as f32 + column as f32
}

impl Case {
    fn vertices(&self) -> usize {
        self.owned.iter().map(Vec::len).sum()
    }

    fn columns(&self) -> usize {
        self.heads * self.width
    }

    fn slice(&self, axis: Axis, rank: usize) -> Slice {
        let of = match axis {
            Axis::Heads => self.heads,
            Axis::Width => self.width,
        };
        Slice::new(axis, of as u32, self.owned.len() as u32, rank as u32)
    }

    /// The columns of the tensor by rows in a rank's slice, in order; `None` is padding.
    fn sliced(&self, axis: Axis, rank: usize) -> Vec<Option<usize>> {
        let slice = self.slice(axis, rank);
        let part = share(slice.of, self.owned.len() as u32, rank as u32);
        let (begin, end) = (part.start as usize, part.end as usize);
        let (heads, width, len) = (self.heads, self.width, slice.len as usize);
        match axis {
            Axis::Heads => (begin..begin + len)
                .flat_map(|h| (0..width).map(move |c| (h < end).then_some(h * width + c)))
                .collect(),
            Axis::Width => (0..heads)
                .flat_map(|h| (begin..begin + len).map(move |c| (c < end).then_some(h * width + c)))
                .collect(),
        }
    }

    fn by_rows(&self) -> Vec<Tensor> {
        let rows = |rows: &Vec<u32>| {
            let row = |&v: &u32| (0..self.columns()).map(move |c| number(v, c));
            rows.iter().flat_map(row).collect()
        };
        let tensor = |values| Tensor {
            values,
            columns: self.columns(),
        };
        self.owned.iter().map(rows).map(tensor).collect()
    }

    /// Runs a redistribution on all ranks and checks how much each sends. Results start out filled
    /// with gaps.
    fn run(
        &self,
        how: impl Fn(usize) -> Redistribute + Sync,
        operands: &[Tensor],
        result: impl Fn(usize) -> (usize, usize) + Sync,
    ) -> Vec<Tensor> {
        let ranks = self.owned.len() as u32;
        let own: Vec<u64> = self.owned.iter().map(|rows| rows.len() as u64).collect();
        let one = |mut transport: Threads| {
            let rank = transport.rank() as usize;
            let (rows, columns) = result(rank);
            let operand = &operands[rank];
            let (offset, stride) = (3, operand.columns + 2);
            let mut from = vec![GAP; offset];
            for row in operand.values.chunks(operand.columns) {
                from.extend(row);
                from.extend([GAP; 2]);
            }
            // The operand, and the result behind it.
            let end = from.len();
            let buffers = Arena::new(end + rows * columns).unwrap();
            let result = buffers.span(end, rows * columns);
            // SAFETY: nothing else uses the memory.
            unsafe {
                buffers.span(0, end).write().copy_from_slice(&from);
                result.write().fill(GAP);
            }
            let redistribution = Redistribution {
                in_groups: false,
                geometry: Geometry {
                    how: how(rank),
                    stride,
                    heads: self.heads,
                    width: self.width,
                    rank,
                    ranks: self.owned.len(),
                },
                group: Group {
                    stage: 0,
                    first: 0,
                    step: 1,
                    ranks,
                },
                ids: &self.owned,
                moved: Moved::All,
                from: Words::of(offset..end),
                to: Words::of(end..end + rows * columns),
                storage: Storage::F32,
                encoded: None,
            };
            let mut part = Part::default();
            part.whole = Arc::new(Whole {
                owned: self.owned.clone(),
                ..Whole::default()
            });
            let local = Local {
                team: &Team::new(0, self.threads).unwrap(),
                part: &part,
                buffers: &buffers,
                sum: span(&mut []),
                step_context: &StepContext {
                    seed: 0,
                    epoch: 0,
                    step: 1,
                    draw: 0,
                    learning_rate: 0.0,
                },
            };
            let mut steps = CommSteps::default();
            redistribution.begin(&mut steps);
            redistribution.finish(&mut steps);
            let mut next = 0;
            while steps.get(next).is_some() {
                // SAFETY: this thread alone uses the memory.
                unsafe { local.step(&mut transport, &steps, next).unwrap() };
                next += 1;
            }
            // SAFETY: as above.
            let values = unsafe { result.read() }.to_vec();
            let shape = (self.heads as u32, self.width as u32);
            let floats = |to| redistribute_floats(how(rank), shape, ranks, &own, (rank as u32, to));
            let want: u64 = (0..ranks).map(floats).sum();
            assert_eq!(transport.bytes_sent(), 4 * want, "rank {rank} of {ranks}");
            Tensor { values, columns }
        };
        std::thread::scope(|scope| {
            let one = &one;
            let ends = Threads::connect(ranks).into_iter();
            let threads: Vec<_> = ends.map(|end| scope.spawn(move || one(end))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    fn split_and_join(&self, axis: Axis) {
        let all = self.vertices();
        let by_rows = self.by_rows();
        let columns = |rank| self.sliced(axis, rank);
        let mut split = self.run(
            |rank| Redistribute::Split(self.slice(axis, rank)),
            &by_rows,
            |rank| (all, columns(rank).len()),
        );
        for (rank, tensor) in split.iter_mut().enumerate() {
            let columns = &columns(rank);
            let element = |v| columns.iter().map(move |c| c.map_or(0.0, |c| number(v, c)));
            let want: Vec<f32> = (0..all as u32).flat_map(element).collect();
            assert_eq!(tensor.values, want, "rank {rank}");
            // Nobody reads the padding of a slice.
            let padding = columns.iter().cycle().zip(&mut tensor.values);
            padding
                .filter(|(column, _)| column.is_none())
                .for_each(|(_, x)| *x = GAP);
        }
        let joined = self.run(
            |rank| Redistribute::Join(self.slice(axis, rank)),
            &split,
            |rank| (self.owned[rank].len(), self.columns()),
        );
        for (tensor, before) in joined.iter().zip(&by_rows) {
            assert_eq!(tensor.values, before.values);
        }
    }

    fn replicate_reduce_and_own(&self) {
        let (all, by_rows) = (self.vertices(), self.by_rows());
        let replicas = self.run(
            |_| Redistribute::Replicate,
            &by_rows,
            |_| (all, self.columns()),
        );
        for tensor in &replicas {
            let row = |v| (0..self.columns()).map(move |c| number(v, c));
            let want: Vec<f32> = (0..all as u32).flat_map(row).collect();
            assert_eq!(tensor.values, want);
        }
        let own = |rank: usize| (self.owned[rank].len(), self.columns());
        let kept = self.run(|_| Redistribute::Own, &replicas, own);
        for (tensor, before) in kept.iter().zip(&by_rows) {
            assert_eq!(tensor.values, before.values);
        }
        // Shares whose sum depends on the order of additions.
        let share = |rank: usize, x: f32| (x + 0.1) * [1.0, 1e-3, 3e4][rank % 3];
        let shares: Vec<Tensor> = replicas
            .into_iter()
            .enumerate()
            .map(|(rank, t)| Tensor {
                values: t.values.iter().map(|&x| share(rank, x)).collect(),
                ..t
            })
            .collect();
        let sums = self.run(|_| Redistribute::Reduce, &shares, own);
        for (tensor, before) in sums.iter().zip(&by_rows) {
            let sum = |&x: &f32| {
                let shares = (1..self.owned.len()).map(|rank| share(rank, x));
                shares.fold(share(0, x), |sum, share| sum + share)
            };
            let want: Vec<f32> = before.values.iter().map(sum).collect();
            assert_eq!(tensor.values, want);
        }
    }

    fn check(&self) {
        for axis in [Axis::Heads, Axis::Width] {
            self.split_and_join(axis);
        }
        self.replicate_reduce_and_own();
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (0u32..40, 1usize..7, 1usize..6, 1usize..10).prop_flat_map(|(vertices, ranks, heads, width)| {
        let order = Just((0..vertices).collect::<Vec<_>>()).prop_shuffle();
        let owner = prop::collection::vec(0..ranks, vertices as usize);
        (order, owner).prop_map(move |(order, owner)| {
            let mut owned = vec![Vec::new(); ranks];
            for v in order {
                owned[owner[v as usize]].push(v);
            }
            Case {
                owned,
                heads,
                width,
                threads: 1,
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_number_arrives_where_it_belongs(case in cases()) {
        case.check();
    }
}

#[test]
fn many_rows_are_moved_by_many_threads() {
    let rows = |rank: u32| (0..4000).rev().filter(|v| v % 3 == rank).collect();
    Case {
        owned: (0..3).map(rows).collect(),
        heads: 4,
        width: 20,
        threads: 3,
    }
    .check();
}
