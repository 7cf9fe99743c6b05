//! Random splits of the labeled vertices, or of the graphs of a data set of many.

use crate::rng::Stream;
use crate::{GraphData, Labels};

/// Purpose of the random order of the first group; those of the others follow.
const PURPOSE: u64 = 1 << 32;

/// A random split of the labeled vertices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Shares of the training, validation and test vertices; at most 1 together.
    pub shares: [f64; 3],
    /// Whether every class is split alike.
    pub stratified: bool,
    /// Seed of the order of the vertices.
    pub seed: u64,
}

/// Splits the labeled vertices of a graph; all vertices if there are no labels. Where vertices stand for
/// graphs or pairs, only these are split. Of `n` vertices, the first `round(n * share)` in random order are
/// for training.
pub fn divide(data: &mut GraphData, shares: Shares) {
    let vertices = data.vertices() as usize;
    let class = |v: usize| match &data.labels {
        Labels::Single(labels) => u32::try_from(labels[v]).ok(),
        labels => labels.known(v).then_some(0),
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for v in data.subjects().map(|v| v as usize) {
        let Some(class) = class(v) else { continue };
        let group = if shares.stratified { class as usize } else { 0 };
        if groups.len() <= group {
            groups.resize_with(group + 1, Vec::new);
        }
        groups[group].push(v);
    }
    let mut masks = [(); 3].map(|()| vec![false; vertices]);
    for (number, group) in (0..).zip(&groups) {
        let order = Stream::new(shares.seed, PURPOSE + number).permutation(group.len() as u32);
        let (mut share, mut begin) = (0.0, 0);
        for (mask, own) in masks.iter_mut().zip(shares.shares) {
            share += own;
            let end = (group.len() as f64 * share).round() as usize;
            let end = end.clamp(begin, group.len());
            order[begin..end]
                .iter()
                .for_each(|place| mask[group[*place as usize]] = true);
            begin = end;
        }
    }
    [data.train, data.val, data.test] = masks;
}
