//! The loop over the edges of a row in a pass.
//!
//! Edges are taken several at a time, so that their loads are under way together and a softmax is
//! scaled once for all of them; the last ones are taken one by one.

use super::super::emit::Emit;
use super::super::exprs::{Columns, Known, lane, number_name, numbers};
use super::super::schedule::WARP;
use super::super::schedule::pass::{Sum, batch, dot_unroll, sums, vectors};
use super::exp;
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{EdgePass, EdgeResult};

impl Emit<'_> {
    /// Sums over the edges `first .. last`, and stores numbers of edges.
    pub(super) fn walk(&mut self, pass: &EdgePass) {
        self.text.line(match self.shape.apart {
            1 => "u64 next = first;",
            _ => "u64 next = first + apart;",
        });
        if self.shape.slabs > 1 {
            let vector = self.shape.vector;
            self.text
                .line(format!("const u32 start = lane * {vector}u;"));
        }
        let batch = batch(self.kernel, pass, self.shape);
        if batch > 1 {
            self.edges_at_a_time(pass, batch);
        }
        self.edges_at_a_time(pass, 1);
    }

    /// Whether a number is a dot whose columns are spread over several threads.
    fn is_spread(&self, pass: &EdgePass, number: usize) -> bool {
        self.shape.lanes > 1 && pass.numbers[number].dot
    }

    /// Takes `count` edges at a time while there are as many.
    ///
    /// All threads of a warp have to reach the shuffles that add up dots, so groups of threads that
    /// share a warp go round until all are done.
    fn edges_at_a_time(&mut self, pass: &EdgePass, count: u32) {
        let apart = self.shape.apart;
        let there = match (count - 1) * apart {
            0 => "next < last".to_owned(),
            behind => format!("next + {behind}u < last"),
        };
        let any_spread = (0..pass.numbers.len()).any(|n| self.is_spread(pass, n));
        let together = any_spread && self.shape.lanes < WARP;
        if together {
            self.text
                .open(format!("while (__any_sync(0xffffffffu, {there}))"));
            self.text.line(format!("const int there = {there};"));
        } else {
            self.text.open(format!("while ({there})"));
        }
        for number in 0..pass.numbers.len() {
            let zero = if together { " = {0.0f}" } else { "" };
            self.text
                .line(format!("float number{number}[{count}]{zero};"));
        }
        let open = |emit: &mut Self| {
            if together {
                emit.text.open("if (there)");
            }
        };
        let close = |emit: &mut Self| {
            if together {
                emit.text.close();
            }
        };
        open(self);
        for (from, to) in self.rounds(pass) {
            self.numbers(pass, from, to, count);
            let spread: Vec<usize> = (from..to).filter(|&n| self.is_spread(pass, n)).collect();
            if !spread.is_empty() {
                close(self);
                spread.into_iter().for_each(|n| self.add_up(n, count));
                open(self);
            }
        }
        self.weigh(pass, count);
        self.add_edges(pass, count);
        self.text.line(format!("next += {}u;", count * apart));
        close(self);
        self.text.close();
    }

    /// Cuts the numbers into rounds. Those of a round are computed before the dots among them are
    /// added up over threads.
    fn rounds(&self, pass: &EdgePass) -> Vec<(usize, usize)> {
        let (mut rounds, mut from) = (Vec::new(), 0);
        for (index, number) in pass.numbers.iter().enumerate() {
            let used = numbers(&number.value);
            if (from..index).any(|n| self.is_spread(pass, n) && used.contains(&(n as u16))) {
                rounds.push((from, index));
                from = index;
            }
        }
        if from < pass.numbers.len() {
            rounds.push((from, pass.numbers.len()));
        }
        rounds
    }

    /// Runs `body` for every edge `b` under way, with its position `k`.
    fn each_edge(&mut self, count: u32, body: impl FnOnce(&mut Self)) {
        self.each_under_way(count, |emit| {
            let apart = match emit.shape.apart {
                1 => String::new(),
                apart => format!(" * {apart}u"),
            };
            emit.text.line(format!("const u64 k = next + b{apart};"));
            body(emit);
        });
    }

    fn each_under_way(&mut self, count: u32, body: impl FnOnce(&mut Self)) {
        self.text.directive("#pragma unroll");
        self.text
            .open(format!("for (u32 b = 0; b < {count}u; ++b)"));
        body(self);
        self.text.close();
    }

    /// Computes the numbers `from .. to` of the edges under way; of a dot, the thread's part.
    fn numbers(&mut self, pass: &EdgePass, from: usize, to: usize, count: u32) {
        let exprs: Vec<&Expr> = pass.numbers[from..to].iter().map(|n| &n.value).collect();
        self.each_edge(count, |emit| {
            emit.edge_names(&exprs);
            emit.hashes(&exprs);
            let (columns, mut known) = (emit.of_head(), Known::new());
            for index in from..to {
                let number = &pass.numbers[index];
                let (name, tag) = (number_name(index as u16), format!("n{index}_"));
                if number.dot {
                    emit.dot(pass, &name, &tag, &number.value);
                } else {
                    let value = emit.eval(&number.value, columns, &tag, &Vec::new(), &mut known);
                    emit.text.line(format!("{name} = {};", lane(&value, 0)));
                }
            }
        });
    }

    /// Sums the thread's columns of a dot.
    fn dot(&mut self, pass: &EdgePass, name: &str, tag: &str, value: &Expr) {
        let tiles = vectors(self.kernel, pass, self.shape);
        let from = match self.shape.slabs {
            1 => "column",
            _ => "start",
        };
        self.text.open("");
        self.text.line("float dot = 0.0f;");
        let unroll = dot_unroll(self.shape);
        self.vectors(from, [tiles, 1, unroll], |emit, columns| {
            let value = emit.eval(value, columns, tag, &Vec::new(), &mut Known::new());
            for i in 0..columns.lanes {
                emit.text.line(format!("dot += {};", lane(&value, i)));
            }
        });
        self.text.line(format!("{name} = dot;"));
        self.text.close();
    }

    /// Adds up a dot over the threads of a group.
    fn add_up(&mut self, number: usize, count: u32) {
        let name = number_name(number as u16);
        self.each_under_way(count, |emit| {
            let mut distance = 1;
            while distance < emit.shape.lanes {
                emit.text.line(format!(
                    "{name} += __shfl_xor_sync(0xffffffffu, {name}, {distance});"
                ));
                distance *= 2;
            }
        });
    }

    /// Declares the weights of the edges under way, and scales what was summed before to the larger
    /// maximum. There is no branch, so that the loads of values need not wait for scores.
    fn weigh(&mut self, pass: &EdgePass, count: u32) {
        let Some(score) = pass.softmax.map(number_name) else {
            return;
        };
        self.text.line("float high = top;");
        self.each_under_way(count, |emit| {
            emit.text
                .line(format!("high = {score} > high ? {score} : high;"));
        });
        let scale = exp("top - high");
        self.text.line(format!("const float scale = {scale};"));
        self.text.line("top = high;");
        self.text.line("total *= scale;");
        for sum in sums(self.kernel, pass).0 {
            let name = format!("sum{}", sum.result);
            if sum.wide {
                self.each_accumulator(|emit| emit.text.line(format!("{name}[i] *= scale;")));
            } else {
                self.text.line(format!("{name} *= scale;"));
            }
        }
        self.text.line(format!("float weight[{count}];"));
        self.each_under_way(count, |emit| {
            let weight = exp(&format!("{score} - top"));
            emit.text.line(format!("weight[b] = {weight};"));
            emit.text.line("total += weight[b];");
        });
    }

    /// Adds the edges under way to the sums, and stores their numbers.
    fn add_edges(&mut self, pass: &EdgePass, count: u32) {
        let (sums, _) = sums(self.kernel, pass);
        let stored = |result: &EdgeResult| match result {
            EdgeResult::Number(number) => Some(*number),
            EdgeResult::Sum { .. } | EdgeResult::LogSumExp => None,
        };
        if sums.is_empty() && pass.results.iter().filter_map(stored).next().is_none() {
            return;
        }
        let exprs: Vec<&Expr> = sums.iter().map(|sum| sum.value).collect();
        let any_wide = sums.iter().any(|sum| sum.wide);
        self.each_edge(count, |emit| {
            emit.edge_names(&exprs);
            emit.hashes(&exprs);
            if any_wide {
                emit.own_vectors(|emit, columns| {
                    emit.add_sums(pass, &sums, true, columns);
                });
            }
            let columns = emit.of_head();
            emit.add_sums(pass, &sums, false, columns);
            let numbers = pass.results.iter().enumerate();
            let mut numbers = numbers.filter_map(|(i, of)| stored(of).map(|n| (i, n)));
            let first = numbers.next();
            if first.is_some() {
                let block = emit.one_thread();
                for (result, number) in first.into_iter().chain(numbers) {
                    emit.store(result, columns, &vec![number_name(number)]);
                }
                if block {
                    emit.text.close();
                }
            }
        });
    }

    /// Adds an edge to the sums that are wide, or to those that are not.
    fn add_sums(&mut self, pass: &EdgePass, sums: &[Sum], wide: bool, columns: Columns) {
        let mut known = Known::new();
        for sum in sums.iter().filter(|sum| sum.wide == wide) {
            let tag = format!("v{}_", sum.result);
            let value = self.eval(sum.value, columns, &tag, &Vec::new(), &mut known);
            for i in 0..columns.lanes {
                let (name, brought) = (self.sum_name(sum, i), lane(&value, i));
                self.text.line(match pass.softmax {
                    Some(_) => format!("{name} += weight[b] * {brought};"),
                    None => format!("{name} += {brought};"),
                });
            }
        }
    }
}
