//! Steps of optimizers as their papers write them, in double precision: of whole parameters, or of some rows.

use gnnc::ir::graph::model::{Optimizer, TrainSettings};
use std::collections::BTreeSet;

/// What a session trains with, and what its optimizer remembers.
pub struct Steps {
    settings: TrainSettings,
    /// For each parameter, two numbers for each of its elements, and how often each row was stepped.
    states: Vec<State>,
}

#[derive(Clone, Default)]
struct State {
    first: Vec<f64>,
    second: Vec<f64>,
    counts: Vec<i32>,
}

/// A parameter at a step.
pub struct Stepped<'a> {
    pub values: &'a mut [f64],
    pub columns: usize,
    pub gradient: &'a [f64],
    /// Weight decay of its own.
    pub decay: Option<f64>,
    /// The rows that are stepped, if not all are.
    pub rows: Option<&'a BTreeSet<u32>>,
}

impl Steps {
    pub fn new(settings: &TrainSettings) -> Self {
        Self {
            settings: settings.clone(),
            states: Vec::new(),
        }
    }

    /// The factor of gradients with this sum of squares.
    pub fn factor(&self, squares: f64) -> f64 {
        let most = self.settings.clip_norm.unwrap_or(f64::INFINITY);
        (most / (squares.sqrt() + 1e-6)).min(1.0)
    }

    /// Steps parameter `n`, whose gradient counts `factor` times.
    pub fn step(&mut self, n: usize, factor: f64, one: Stepped) {
        if self.states.len() <= n {
            self.states.resize(n + 1, State::default());
        }
        let decay = one.decay.unwrap_or(self.settings.weight_decay);
        let state = &mut self.states[n];
        let floats = one.values.len();
        state.first.resize(floats, 0.0);
        state.second.resize(floats, 0.0);
        state.counts.resize(floats / one.columns, 0);
        for (row, count) in (0..).zip(&mut state.counts) {
            if one.rows.is_some_and(|rows| !rows.contains(&row)) {
                continue;
            }
            *count += 1;
            for k in row as usize * one.columns..(row as usize + 1) * one.columns {
                let gradient = factor * one.gradient[k];
                let value = one.values[k];
                let decayed = gradient + decay * value;
                let (first, second) = (&mut state.first[k], &mut state.second[k]);
                let mut adam = |g: f64, beta1: f64, beta2: f64, eps: f64| {
                    *first = beta1 * *first + (1.0 - beta1) * g;
                    *second = beta2 * *second + (1.0 - beta2) * g * g;
                    let mean = *first / (1.0 - beta1.powi(*count));
                    let square = *second / (1.0 - beta2.powi(*count));
                    mean / (square.sqrt() + eps)
                };
                let step = match self.settings.optimizer {
                    Optimizer::Sgd { momentum, .. } => {
                        *first = momentum * *first + decayed;
                        *first
                    }
                    Optimizer::Adagrad { eps, .. } => {
                        *second += decayed * decayed;
                        decayed / (second.sqrt() + eps)
                    }
                    Optimizer::Adam {
                        beta1, beta2, eps, ..
                    } => adam(decayed, beta1, beta2, eps),
                    Optimizer::AdamW {
                        beta1, beta2, eps, ..
                    } => adam(gradient, beta1, beta2, eps) + decay * value,
                };
                one.values[k] -= self.settings.optimizer.learning_rate() * step;
            }
        }
    }
}
