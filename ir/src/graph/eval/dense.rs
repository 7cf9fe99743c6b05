//! Operators on plain tensors, row by row.

use super::{EvalError, Machine, Tensor};
use crate::graph::op::{Clip, Copies, LabelKind, Loss, Op, Product, Sampled, Site};
use crate::kernel::{Axis, edge_hash, keep, vertex_hash};
use crate::words::types::{Rows, Type};
use std::collections::BTreeMap;

impl Machine<'_> {
    /// Applies an operator to plain tensors; `ty` is the type of the result.
    pub(super) fn apply_plain(
        &self,
        op: &Op,
        ty: Type,
        operands: &[&Tensor],
        iteration: u32,
    ) -> Result<Tensor, EvalError> {
        let rows = self.rows(ty.rows);
        // A verified graph has all operands.
        let Some(&x) = operands.first() else {
            return Ok(Tensor::full(ty, rows, 0.0));
        };
        let named = |what: &str, count: usize| {
            let numbers = &operands[1].data;
            match numbers.iter().find(|n| **n as usize >= count) {
                None => Ok(numbers),
                Some(number) => Err(EvalError::Topology(format!(
                    "an edge names number {number}, but there are {count} {what}"
                ))),
            }
        };
        let map = |x: &Tensor, f: &dyn Fn(f64) -> f64| {
            Tensor::new(ty, rows, x.data.iter().map(|x| f(*x)).collect())
        };
        Ok(match op {
            Op::Unary(f) => map(x, &|x| f.eval(x)),
            Op::Binary(f) => {
                let b = operands[1];
                build(ty, rows, |r, h, c| f.eval(x.at(r, h, c), b.at(r, h, c)))
            }
            Op::Dropout { p, site, slice } => {
                let width = x.ty.width;
                let columns = slice.map_or((0, width), |slice| slice.columns(x.ty));
                self.dropout(*p, *site, columns, iteration, x)
            }
            Op::Broadcast(_) => build(ty, rows, |r, h, c| x.at(r, h, c)),
            Op::Copies(Copies::Left, _) => Tensor::full(ty, rows, 0.0),
            Op::SumRanks | Op::Copies(..) | Op::Clip(Clip::Gradient, _) => x.clone(),
            Op::Clip(Clip::Factor, most) => {
                map(x, &|squares| Clip::factor(f64::from(*most), squares))
            }
            Op::Clip(Clip::Rows, most) => self.clipped(f64::from(*most), x),
            Op::Redistribute(_) if x.ty.columns() == ty.columns() => {
                Tensor::new(ty, rows, x.data.clone())
            }
            Op::Redistribute(how) => return Err(EvalError::Ranks(how.name().to_owned())),
            Op::Take(set, end) => self.edges_of(ty.rows, *set).take(ty, *end, x),
            Op::Gather(set, end, reduce) => {
                let edges = self.edges_of(x.ty.rows, *set);
                edges.gather(ty, *end, *reduce, x)
            }
            Op::GatherMean(set) => self.edges_of(x.ty.rows, *set).mean(ty, x),
            Op::EdgeSoftmax(set) => self.edges_of(x.ty.rows, *set).softmax(ty, x),
            Op::Sampled(Sampled::Fetch(_)) => {
                let vertices = (0..rows).map(|r| self.vertex(ty.rows, r) as usize);
                let data = vertices.flat_map(|v| x.row(v).iter().copied());
                Tensor::new(ty, rows, data.collect())
            }
            Op::Sampled(Sampled::Prefix(_)) => {
                let len = rows * ty.columns() as usize;
                Tensor::new(ty, rows, x.data[..len].to_vec())
            }
            Op::Sampled(Sampled::AddPrefix) => {
                let mut out = x.clone();
                let sums = out.data.iter_mut().zip(&operands[1].data);
                sums.for_each(|(sum, value)| *sum += value);
                out
            }
            Op::Pick => {
                let named = named("rows", x.rows)?;
                let data = (0..rows).flat_map(|r| x.row(named[r] as usize).iter().copied());
                Tensor::new(ty, rows, data.collect())
            }
            Op::PickSum(count) => {
                let mut out = Tensor::full(ty, rows, 0.0);
                let columns = ty.columns() as usize;
                for (r, named) in named("rows", *count as usize)?.iter().enumerate() {
                    let sums = out.data[*named as usize * columns..].iter_mut();
                    sums.zip(x.row(r)).for_each(|(sum, value)| *sum += value);
                }
                out
            }
            Op::PickHead => {
                let named = named("heads", x.ty.heads as usize)?;
                build(ty, rows, |r, _, c| x.at(r, named[r] as usize, c))
            }
            Op::PlaceHead(_) => {
                let named = |r: usize, h: usize| operands[1].data[r] as usize == h;
                build(
                    ty,
                    rows,
                    |r, h, c| if named(r, h) { x.at(r, 0, c) } else { 0.0 },
                )
            }
            Op::MatMul => matmul(Product::Nn, ty, rows, x, operands[1]),
            Op::MatMulNT => matmul(Product::Nt, ty, rows, x, operands[1]),
            Op::MatMulTN => matmul(Product::Tn, ty, rows, x, operands[1]),
            Op::Reshape { .. } => Tensor::new(ty, rows, x.data.clone()),
            Op::Concat => {
                build(ty, rows, |r, h, c| {
                    let mut c = c;
                    for part in operands {
                        let width = part.ty.width as usize;
                        if c < width {
                            // Not `at`, which would repeat an operand of width 1.
                            return part.row(r)[h * width + c];
                        }
                        c -= width;
                    }
                    0.0
                })
            }
            Op::SliceCols { start, .. } => {
                let start = *start as usize;
                build(ty, rows, |r, h, c| {
                    x.row(r)[h * x.ty.width as usize + start + c]
                })
            }
            Op::PadCols { before, .. } => {
                let (before, width) = (*before as usize, x.ty.width as usize);
                build(ty, rows, |r, h, c| match c.checked_sub(before) {
                    Some(c) if c < width => x.row(r)[h * width + c],
                    _ => 0.0,
                })
            }
            Op::SliceRows { start, .. } => {
                let start = *start as usize * ty.columns() as usize;
                let len = rows * ty.columns() as usize;
                Tensor::new(ty, rows, x.data[start..start + len].to_vec())
            }
            Op::PadRows { before, .. } => {
                let mut out = Tensor::full(ty, rows, 0.0);
                let start = *before as usize * ty.columns() as usize;
                out.data[start..start + x.data.len()].copy_from_slice(&x.data);
                out
            }
            Op::ReduceCols(axis, reduce) => {
                let count = match axis {
                    Axis::Width => x.ty.width as usize,
                    Axis::Heads => x.ty.heads as usize,
                };
                build(ty, rows, |r, h, c| {
                    let terms = (0..count).map(|i| match axis {
                        Axis::Width => x.at(r, h, i),
                        Axis::Heads => x.at(r, i, c),
                    });
                    reduce.fold(terms)
                })
            }
            Op::SumRows => build(ty, rows, |_, h, c| (0..x.rows).map(|r| x.at(r, h, c)).sum()),
            Op::Loss(loss) => Tensor::full(ty, 1, self.loss(loss, x, |_, _, _| ())?),
            Op::LossGrad(loss) => {
                let mut out = Tensor::full(ty, rows, 0.0);
                let columns = ty.columns() as usize;
                self.loss(loss, x, |v, c, grad| out.data[v * columns + c] = grad)?;
                out
            }
            // The interpreter's loop has handled these, and no blend is left.
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Table(_)
            | Op::Arg(_)
            | Op::Scan(_)
            | Op::Out(_)
            | Op::Blend => Tensor::full(ty, rows, 0.0),
        })
    }

    /// Scales the rows of each block so that the block's norm is at most `most`.
    fn clipped(&self, most: f64, x: &Tensor) -> Tensor {
        let block = |r: usize| self.context.blocks.get(r).copied().unwrap_or(0);
        let mut squares: BTreeMap<u32, f64> = BTreeMap::new();
        for r in 0..x.rows {
            *squares.entry(block(r)).or_default() += x.row(r).iter().map(|x| x * x).sum::<f64>();
        }
        let factor = |r: usize| {
            squares
                .get(&block(r))
                .map_or(1.0, |sum| Clip::factor(most, *sum))
        };
        build(x.ty, x.rows, |r, h, c| x.at(r, h, c) * factor(r))
    }

    /// Applies dropout. `first` is the column of the first element in the whole tensor, and
    /// `head_step` is its distance between heads, in columns.
    fn dropout(
        &self,
        p: f32,
        site: Site,
        (first, head_step): (u32, u32),
        iteration: u32,
        x: &Tensor,
    ) -> Tensor {
        let Some(dropout) = self.context.dropout else {
            return x.clone();
        };
        let key = site.key(dropout.seed, dropout.epoch, iteration);
        let scale = 1.0 / (1.0 - f64::from(p));
        let mut out = x.clone();
        for (r, row) in out
            .data
            .chunks_mut(x.ty.columns().max(1) as usize)
            .enumerate()
        {
            let hash = match x.ty.rows {
                Rows::Edges(set) | Rows::AllEdges(set) => {
                    let (src, dst) = self.edges(set).list[r];
                    edge_hash(key, src, dst)
                }
                Rows::LevelEdges(layer, set) => {
                    let (src, dst) = self.levels.edges(layer, set).list[r];
                    let vertex = |row| self.levels.vertex(row);
                    edge_hash(key, vertex(src), vertex(dst))
                }
                rows => vertex_hash(key, self.vertex(rows, r)),
            };
            for (c, value) in (0..).zip(row) {
                let column = first + c / x.ty.width * head_step + c % x.ty.width;
                *value = if keep(hash, column, p) {
                    *value * scale
                } else {
                    0.0
                };
            }
        }
        out
    }

    /// The weight of each class in a loss; `None` if all are 1.
    fn class_weights(&self, loss: &Loss, classes: usize) -> Option<Vec<f64>> {
        let Loss::CrossEntropy { weights, .. } = loss else {
            return None;
        };
        let mut counts = vec![0; classes];
        let trained = self.context.labels.iter().zip(&self.context.train);
        for (label, _) in trained.filter(|(_, trains)| **trains) {
            if let Some(count) = counts.get_mut(*label as usize) {
                *count += 1;
            }
        }
        weights.of_classes(&counts)
    }

    /// The loss of logits; calls `grad(row, column, derivative)` for every derivative.
    fn loss(
        &self,
        loss: &Loss,
        logits: &Tensor,
        mut grad: impl FnMut(usize, usize, f64),
    ) -> Result<f64, EvalError> {
        let (labels, train) = (&self.context.labels, &self.context.train);
        let classes = logits.ty.width as usize;
        let expected = self.vertices * loss.per_vertex(logits.ty.width) as usize;
        self.check_count("labels", expected, labels.len())?;
        // All rows of a batch's logits are seeds.
        let seeds = |row: usize| logits.ty.rows.of_batch() || train[row];
        let of_classes = self.class_weights(loss, classes);
        let weight = |class: usize| of_classes.as_ref().map_or(1.0, |weights| weights[class]);
        let class_of = |v: usize| (0..classes).find(|class| *class as f64 == labels[v]);
        let vertex = |row: usize| self.vertex(logits.ty.rows, row) as usize;
        let of_row = |row: usize| match loss.labels() {
            LabelKind::Class => class_of(vertex(row)).map_or(0.0, weight),
            LabelKind::Several | LabelKind::Numbers => {
                let targets = &labels[vertex(row) * classes..][..classes];
                let known = targets.iter().filter(|y| !y.is_nan()).count();
                known as f64 / classes as f64
            }
        };
        let trained: f64 = (0..logits.rows).filter(|row| seeds(*row)).map(of_row).sum();
        let mut total = 0.0;
        if trained == 0.0 {
            return Ok(total);
        }
        for row in (0..logits.rows).filter(|row| seeds(*row)) {
            let v = vertex(row);
            let z = logits.row(row);
            if let Loss::CrossEntropy { smoothing, .. } = loss {
                let Some(target) = class_of(v) else {
                    return Err(EvalError::Label {
                        vertex: v,
                        label: labels[v],
                        classes: logits.ty.width,
                    });
                };
                let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = z.iter().map(|z| (z - top).exp()).sum();
                let share = |c: usize| {
                    let hit = f64::from(u8::from(c == target));
                    weight(c) * ((1.0 - smoothing.0) * hit + smoothing.0 / classes as f64)
                };
                let all: f64 = (0..classes).map(share).sum();
                for (c, z) in z.iter().enumerate() {
                    total += share(c) * (sum.ln() + top - z) / trained;
                    grad(row, c, (all * (z - top).exp() / sum - share(c)) / trained);
                }
                continue;
            }
            let n = trained * classes as f64;
            let targets = &labels[v * classes..][..classes];
            for (c, (z, y)) in z.iter().zip(targets).enumerate() {
                if y.is_nan() {
                    continue;
                }
                if let Some((value, slope)) = loss.of_number(c, *z, *y) {
                    total += value / n;
                    grad(row, c, slope / n);
                }
            }
        }
        Ok(total)
    }
}

/// A tensor from a function of row, head and column.
fn build(ty: Type, rows: usize, f: impl Fn(usize, usize, usize) -> f64) -> Tensor {
    let mut data = Vec::with_capacity(rows * ty.columns() as usize);
    for r in 0..rows {
        for h in 0..ty.heads as usize {
            data.extend((0..ty.width as usize).map(|c| f(r, h, c)));
        }
    }
    Tensor::new(ty, rows, data)
}

fn matmul(product: Product, ty: Type, rows: usize, a: &Tensor, b: &Tensor) -> Tensor {
    let (m, n) = (a.ty.columns() as usize, b.ty.columns() as usize);
    build(ty, rows, |r, h, c| {
        let c = h * ty.width as usize + c;
        match product {
            Product::Nt => (0..m).map(|k| a.data[r * m + k] * b.data[c * n + k]).sum(),
            Product::Tn => (0..a.rows)
                .map(|k| a.data[k * m + r] * b.data[k * n + c])
                .sum(),
            Product::Nn => (0..m).map(|k| a.data[r * m + k] * b.data[k * n + c]).sum(),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::graph::eval::{DropoutKey, EvalContext, Tensor, evaluate};
    use crate::graph::op::{Input, Op, Slice};
    use crate::kernel::Axis;
    use crate::words::types::Type;

    /// Applies dropout to all features, or to a rank's columns.
    fn dropped(context: &EvalContext, slice: Option<Slice>) -> Tensor {
        let mut graph = Graph::new(7);
        let input = slice.map_or(Input::Features, Input::FeatureSlice);
        let x = graph.add(Op::Input(input), &[], 0).unwrap();
        let (p, site) = (0.5, 3.into());
        let y = graph.add(Op::Dropout { p, site, slice }, &[x], 0).unwrap();
        graph.results = vec![y];
        evaluate(&graph, context).unwrap().remove(0)
    }

    #[test]
    fn slices_of_features_drop_what_the_whole_drops() {
        let rows = 9;
        let numbers = (1..=rows * 7).map(|n| n as f64).collect();
        let context = EvalContext {
            indptr: vec![0; rows + 1],
            indices: Vec::new(),
            edge_features: Vec::new(),
            sets: Vec::new(),
            types: Vec::new(),
            features: Tensor::new(Type::vertices(7), rows, numbers),
            labels: vec![0.0; rows],
            train: vec![true; rows],
            params: Vec::new(),
            dropout: Some(DropoutKey { seed: 5, epoch: 2 }),
            histories: Vec::new(),
            order: Vec::new(),
            blocks: Vec::new(),
            batch: None,
        };
        let whole = dropped(&context, None);
        assert!(whole.data.contains(&0.0) && whole.data.iter().any(|x| *x > 0.0));
        for ranks in [2, 3, 4, 9] {
            for rank in 0..ranks {
                let slice = Slice::new(Axis::Width, 7, ranks, rank);
                let part = dropped(&context, Some(slice));
                for r in 0..rows {
                    for c in 0..slice.len {
                        let expected = match c < slice.own {
                            true => whole.at(r, 0, (slice.start + c) as usize),
                            false => 0.0,
                        };
                        assert_eq!(part.row(r)[c as usize], expected, "{slice:?}");
                    }
                }
            }
        }
    }
}
