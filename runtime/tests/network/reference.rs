//! The network in plain double precision.

use super::{DROP, LAYERS, Network};
use gnnc_graph::{Features, GraphData, Labels};
use gnnc_ir::kernel::{keep, mask_key, vertex_hash};

impl Network {
    /// Logits in double precision; parameters are `w1`, `b`, `u`, `w2` one after the other.
    pub fn reference_logits(
        &self,
        data: &GraphData,
        params: &[f64],
        key: Option<u64>,
    ) -> Vec<Vec<f64>> {
        let Network {
            features: f,
            hidden: h,
            classes: c,
            ..
        } = *self;
        let (f, h, c) = (f as usize, h as usize, c as usize);
        let (w1, rest) = params.split_at(f * h);
        let (bias, rest) = rest.split_at(h);
        let (u, w2) = rest.split_at(LAYERS as usize * h * h);
        let n = data.vertices() as usize;
        let Features::Dense { values, .. } = data.features.to_dense() else {
            panic!()
        };
        let x: Vec<Vec<f64>> = values
            .as_slice()
            .chunks(f)
            .map(|r| r.iter().map(|&x| f64::from(x)).collect())
            .collect();
        let times = |a: &[Vec<f64>], w: &[f64], columns: usize| -> Vec<Vec<f64>> {
            a.iter()
                .map(|row| {
                    (0..columns)
                        .map(|j| {
                            row.iter()
                                .enumerate()
                                .map(|(k, x)| x * w[k * columns + j])
                                .sum()
                        })
                        .collect()
                })
                .collect()
        };
        let degree = |v: usize| (data.topology.in_neighbours(v as u32).len() + 1) as f64;
        let spread = |a: &[Vec<f64>]| -> Vec<Vec<f64>> {
            (0..n)
                .map(|v| {
                    let mut sum: Vec<f64> = a[v].iter().map(|x| x / degree(v)).collect();
                    for &s in data.topology.in_neighbours(v as u32) {
                        let s = s as usize;
                        sum.iter_mut()
                            .zip(&a[s])
                            .for_each(|(y, x)| *y += x / (degree(s) * degree(v)).sqrt());
                    }
                    sum
                })
                .collect()
        };
        let mut hidden = spread(&times(&x, w1, h));
        hidden.iter_mut().for_each(|row| {
            row.iter_mut()
                .zip(bias)
                .for_each(|(y, b)| *y = (*y + b).max(0.0))
        });
        for layer in 0..LAYERS as usize {
            hidden = times(&hidden, &u[layer * h * h..(layer + 1) * h * h], h);
            hidden.iter_mut().flatten().for_each(|y| *y = y.max(0.0));
        }
        if let Some(key) = key {
            for (v, row) in hidden.iter_mut().enumerate() {
                for (column, y) in row.iter_mut().enumerate() {
                    *y *= if keep(vertex_hash(key, v as u32), column as u32, DROP) {
                        2.0
                    } else {
                        0.0
                    };
                }
            }
        }
        spread(&times(&hidden, w2, c))
    }

    pub fn reference_loss(&self, data: &GraphData, params: &[f64], key: Option<u64>) -> f64 {
        let logits = self.reference_logits(data, params, key);
        let Labels::Single(labels) = &data.labels else {
            panic!()
        };
        let train: Vec<usize> = (0..labels.len()).filter(|&v| data.train[v]).collect();
        let one = |&v: &usize| {
            let top = logits[v].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits[v].iter().map(|z| (z - top).exp()).sum();
            sum.ln() + top - logits[v][labels[v] as usize]
        };
        train.iter().map(one).sum::<f64>() / train.len() as f64
    }

    pub fn dropout_key(&self, seed: u64, epoch: u32) -> Option<u64> {
        self.dropout.then(|| mask_key(seed, epoch, 7, 0))
    }
}
