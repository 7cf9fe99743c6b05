//! The graphs that calibrations train on.

use super::{Case, Kind};
use crate::Error;
use gnnc_graph::generate::{Attributes, Mesh, PlantedPartition, Rmat};
use gnnc_graph::{Features, GraphData};
use gnnc_ir::kernel::mix32;

/// Seed of all graphs.
const SEED: u64 = 7;

impl Case {
    /// The graph to train on.
    pub(super) fn graph(&self) -> Result<GraphData, Error> {
        let &Self {
            vertices, edges, ..
        } = self;
        let attributes = Attributes {
            features: self.features,
            classes: self.classes,
            train: self.train,
            ..Attributes::default()
        };
        let mut data = match self.kind {
            Kind::Rmat => Rmat {
                vertices,
                edges,
                attributes,
                seed: SEED,
                ..Rmat::default()
            }
            .generate()?,
            Kind::Planted => PlantedPartition {
                vertices,
                edges,
                attributes,
                seed: SEED,
                ..PlantedPartition::default()
            }
            .generate()?,
            Kind::Mesh => Mesh {
                vertices,
                edges,
                attributes,
                seed: SEED,
            }
            .generate()?,
        };
        if self.sparsity > 1 {
            let values = data.features.to_dense().values().to_vec();
            let values = self.as_words(values);
            data.features = Features::dense(self.vertices as usize, self.features, values);
        }
        data.features = data.features.in_best_storage();
        Ok(data)
    }

    /// Zeroes features as if each column were a word: the n-th most frequent word occurs in a fraction of the
    /// documents proportional to 1 / n, but at most in half of them (Zipf's law).
    fn as_words(&self, mut values: Vec<f32>) -> Vec<f32> {
        let (columns, kept) = (self.features, 1.0 / f64::from(self.sparsity));
        let share = |scale: f64, n: u32| (scale / f64::from(n + 1)).min(0.5);
        let mean =
            |scale: f64| (0..columns).map(|n| share(scale, n)).sum::<f64>() / f64::from(columns);
        let (mut low, mut high) = (0.0, f64::from(columns));
        for _ in 0..50 {
            let scale = f64::midpoint(low, high);
            match mean(scale) < kept {
                true => low = scale,
                false => high = scale,
            }
        }
        // Frequent words are spread over the columns, in the same way on every machine.
        let mut order: Vec<u32> = (0..columns).collect();
        order.sort_by_key(|&column| mix32(column));
        let mut shares = vec![0.0; columns as usize];
        for (n, &column) in order.iter().enumerate() {
            shares[column as usize] = share(low, n as u32);
        }
        for (i, value) in values.iter_mut().enumerate() {
            let drawn = f64::from(mix32(!(i as u32))) / f64::from(u32::MAX);
            if drawn >= shares[i % columns as usize] {
                *value = 0.0;
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::super::CASES;

    #[test]
    fn columns_are_as_frequent_as_words() {
        let case = CASES.iter().find(|case| case.sparsity == 60).unwrap();
        let (rows, columns) = (case.vertices as usize, case.features as usize);
        let values = case.as_words(vec![1.0; rows * columns]);
        let of_column = |column: usize| {
            let cells = values.iter().skip(column).step_by(columns);
            cells.filter(|value| **value != 0.0).count() as f64 / rows as f64
        };
        let mut shares: Vec<f64> = (0..columns).map(of_column).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        let mean = shares.iter().sum::<f64>() / columns as f64;
        assert!((mean * 60.0 - 1.0).abs() < 0.03, "{mean}");
        assert!(shares[0] < 0.55, "{}", shares[0]);
        // The 20th word is about ten times as frequent as the 200th.
        let quotient = shares[19] / shares[199];
        assert!((8.0..12.0).contains(&quotient), "{quotient}");
    }
}
