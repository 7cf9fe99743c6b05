//! Text of [`gnnc_ir::kernel::Body::EdgePass`]: a team of threads for each head of a row.
//!
//! The threads of a team are laid along the columns of the head. Each computes the numbers of an
//! edge, and adds up its own columns of a dot with the others'. A softmax is computed on the way: a
//! larger maximum scales what was summed before (Milakov and Gimelshein, Online normalizer
//! calculation for softmax). Groups of threads that share the edges of a narrow row, and the chunks
//! of hubs, are added as in a gather, each scaled to the common maximum.

use super::emit::Emit;
use super::exprs::{Columns, Known};
use super::math;
use super::schedule::BLOCK;
use super::schedule::pass::{Sum, sums, vectors_beyond};
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{EdgePass, EdgeResult};
use gnnc_ir::words::scalar::Unary;

mod edges;

/// Below every score that is not infinite. Differences of two such numbers are finite.
const LEAST: f32 = f32::MIN;

/// `e` to the power of a C expression.
fn exp(of: &str) -> String {
    math::unary(Unary::Exp, of)
}

impl Emit<'_> {
    /// All results of a pass.
    pub fn pass(&mut self, pass: &EdgePass) {
        self.pass_rows(pass);
        self.text.line("");
        self.pass_hubs(pass);
    }

    fn pass_rows(&mut self, pass: &EdgePass) {
        self.entry(0);
        self.teams(self.team);
        self.first_column();
        self.text.line("const u64 rows = end - begin;");
        self.text.line("const u64 items = rows + chunks;");
        self.each_head("items");
        self.row_or_chunk();
        self.start(pass);
        self.walk(pass);
        self.join_apart(pass);
        self.text.open("if (part)");
        self.leave_partial(pass);
        self.text.close();
        self.text.open("if (whole)");
        self.text.line("const int empty = first == last;");
        self.pass_results(pass, true);
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Adds the chunks of each hub.
    fn pass_hubs(&mut self, pass: &EdgePass) {
        self.entry(1);
        self.teams(self.team);
        self.first_column();
        self.each_head("hubs");
        self.text.open("if (item < hubs)");
        self.text.line("const u64 row = hub_rows[item];");
        self.start(pass);
        self.text
            .open("for (u64 chunk = first_chunks[item]; chunk < first_chunks[item + 1]; ++chunk)");
        self.partial_at(pass, "chunk");
        if pass.softmax.is_some() {
            self.scales("scratch[left]", "scratch[left + 1u]");
        }
        for sum in sums(self.kernel, pass).0 {
            let from = format!("scratch[left + {}u", sum.first);
            if sum.wide {
                self.own_vectors(|emit, columns| {
                    for i in 0..columns.lanes {
                        let name = emit.sum_name(&sum, i);
                        emit.merge(pass, &name, &format!("{from} + c + {i}u]"));
                    }
                });
            } else {
                let name = self.sum_name(&sum, 0);
                self.merge(pass, &name, &format!("{from}]"));
            }
        }
        self.text.close();
        self.pass_results(pass, false);
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Opens the loop over the heads of `items`, with `item` and the head `h` declared.
    fn each_head(&mut self, items: &str) {
        let teams = BLOCK / self.team;
        match self.kernel.heads {
            1 => {
                self.stride(teams, items);
                self.text.line("const u64 item = base + team;");
            }
            heads => {
                self.stride(teams, &format!("{items} * {heads}u"));
                self.text
                    .line(format!("const u64 item = (base + team) / {heads}u;"));
                self.text
                    .line(format!("const u32 h = (u32)((base + team) % {heads}u);"));
            }
        }
    }

    /// One column per head.
    fn of_head(&self) -> Columns {
        Columns {
            head: (self.kernel.heads > 1).then_some("h"),
            column: None,
            lanes: 1,
        }
    }

    /// Declares the maximum and the sum of the softmax, and all sums.
    fn start(&mut self, pass: &EdgePass) {
        if pass.softmax.is_some() {
            let least = math::number(LEAST);
            self.text.line(format!("float top = {least};"));
            self.text.line("float total = 0.0f;");
        }
        for sum in sums(self.kernel, pass).0 {
            let name = format!("sum{}", sum.result);
            if sum.wide {
                let count = self.shape.tiles * self.shape.vector;
                self.text.line(format!("float {name}[{count}];"));
                self.each_accumulator(|emit| emit.text.line(format!("{name}[i] = 0.0f;")));
            } else {
                self.text.line(format!("float {name} = 0.0f;"));
            }
        }
    }

    /// Runs `body` for accumulator `i` of a wide sum.
    fn each_accumulator(&mut self, body: impl FnOnce(&mut Self)) {
        let count = self.shape.tiles * self.shape.vector;
        self.text.directive("#pragma unroll");
        self.text
            .open(format!("for (u32 i = 0; i < {count}u; ++i)"));
        body(self);
        self.text.close();
    }

    /// The accumulator of a sum; of a wide one, that of a lane in tile `t`.
    fn sum_name(&self, sum: &Sum, lane: u32) -> String {
        let name = format!("sum{}", sum.result);
        match (sum.wide, self.shape.vector) {
            (false, _) => name,
            (true, 1) => format!("{name}[t]"),
            (true, vector) => format!("{name}[t * {vector}u + {lane}u]"),
        }
    }

    /// Runs `body` for each of the thread's vectors in wide sums, with `t` and `c`.
    fn own_vectors(&mut self, body: impl FnOnce(&mut Self, Columns)) {
        let shape = self.shape;
        self.vectors("column", [shape.tiles, shape.slabs, shape.tiles], body);
    }

    /// Runs `body` for `tiles` vectors that lie in the head, the first at column `from`. There are
    /// `slabs` as many threads. Unrolls the loop for `unroll` vectors.
    fn vectors(
        &mut self,
        from: &str,
        [tiles, slabs, unroll]: [u32; 3],
        body: impl FnOnce(&mut Self, Columns),
    ) {
        let step = self.shape.lanes * self.shape.vector;
        match unroll < tiles {
            true => self.text.directive(&format!("#pragma unroll {unroll}")),
            false => self.text.directive("#pragma unroll"),
        }
        self.text
            .open(format!("for (u32 t = 0; t < {tiles}u; ++t)"));
        self.text
            .line(format!("const u32 c = {from} + t * {step}u;"));
        let width = self.kernel.width;
        let tail = vectors_beyond(self.kernel, self.shape, tiles * slabs);
        if tail {
            self.text.open(format!("if (c < {width}u)"));
        }
        let columns = Columns {
            column: Some("c"),
            lanes: self.shape.vector,
            ..self.of_head()
        };
        body(self, columns);
        if tail {
            self.text.close();
        }
        self.text.close();
    }

    /// Opens the part that one thread of a group runs, and says whether it is a block of its own.
    fn one_thread(&mut self) -> bool {
        let mut conditions = Vec::new();
        match self.shape.lanes {
            1 => {}
            lanes if lanes == self.team => conditions.push("lane == 0".to_owned()),
            lanes => conditions.push(format!("lane % {lanes}u == 0")),
        }
        if self.shape.slabs > 1 {
            conditions.push("blockIdx.y == 0".to_owned());
        }
        if !conditions.is_empty() {
            self.text.open(format!("if ({})", conditions.join(" && ")));
        }
        !conditions.is_empty()
    }

    /// Declares the factors that scale the own sums and another's to the larger maximum; then adds
    /// the other's softmax.
    fn scales(&mut self, top: &str, total: &str) {
        self.text.line(format!("const float other = {top};"));
        self.text
            .line("const float high = other > top ? other : top;");
        let (mine, theirs) = (exp("top - high"), exp("other - high"));
        self.text.line(format!("const float mine = {mine};"));
        self.text.line(format!("const float theirs = {theirs};"));
        self.text.line("top = high;");
        self.text
            .line(format!("total = total * mine + {total} * theirs;"));
    }

    /// Adds another's sum to the own one.
    fn merge(&mut self, pass: &EdgePass, name: &str, other: &str) {
        self.text.line(match pass.softmax {
            Some(_) => format!("{name} = {name} * mine + {other} * theirs;"),
            None => format!("{name} += {other};"),
        });
    }

    /// Adds what the groups that shared the edges found. All threads of the warp take part, and both
    /// of a pair compute the same.
    fn join_apart(&mut self, pass: &EdgePass) {
        let mut distance = self.shape.lanes;
        while distance < self.team {
            let other = |name: &str| format!("__shfl_xor_sync(0xffffffffu, {name}, {distance})");
            self.text.open("");
            if pass.softmax.is_some() {
                self.scales(&other("top"), &other("total"));
            }
            for sum in sums(self.kernel, pass).0 {
                let name = format!("sum{}", sum.result);
                if sum.wide {
                    let name = format!("{name}[i]");
                    self.each_accumulator(|emit| emit.merge(pass, &name, &other(&name)));
                } else {
                    self.merge(pass, &name, &other(&name));
                }
            }
            self.text.close();
            distance *= 2;
        }
    }

    /// Declares `left`, where a chunk leaves what it found for the head.
    fn partial_at(&mut self, pass: &EdgePass, chunk: &str) {
        let (_, floats) = sums(self.kernel, pass);
        self.text.line(match self.kernel.heads {
            1 => format!("const u64 left = {chunk} * {floats}u;"),
            heads => format!("const u64 left = ({chunk} * {heads}u + h) * {floats}u;"),
        });
    }

    /// Stores what a chunk found.
    fn leave_partial(&mut self, pass: &EdgePass) {
        let (sums, floats) = sums(self.kernel, pass);
        if floats == 0 {
            return;
        }
        self.partial_at(pass, "(item - rows)");
        for sum in sums.iter().filter(|sum| sum.wide) {
            self.own_vectors(|emit, columns| {
                for i in 0..columns.lanes {
                    let name = emit.sum_name(sum, i);
                    let first = sum.first;
                    emit.text
                        .line(format!("scratch[left + {first}u + c + {i}u] = {name};"));
                }
            });
        }
        let block = self.one_thread();
        if pass.softmax.is_some() {
            self.text.line("scratch[left] = top;");
            self.text.line("scratch[left + 1u] = total;");
        }
        for sum in sums.iter().filter(|sum| !sum.wide) {
            let name = self.sum_name(sum, 0);
            self.text
                .line(format!("scratch[left + {}u] = {name};", sum.first));
        }
        if block {
            self.text.close();
        }
    }

    /// Finishes and stores the results of the row. `may_be_empty`: there may be no edges.
    fn pass_results(&mut self, pass: &EdgePass, may_be_empty: bool) {
        let or_zero = |value: &str| match may_be_empty {
            true => format!("empty ? 0.0f : {value}"),
            false => value.to_owned(),
        };
        let (sums, _) = sums(self.kernel, pass);
        if pass.softmax.is_some() {
            let share = or_zero("1.0f / total");
            self.text.line(format!("const float share = {share};"));
        }
        let finishes = |wide: bool| -> Vec<&Expr> {
            let sums = sums.iter().filter(|sum| sum.wide == wide);
            sums.map(|sum| sum.finish).collect()
        };
        if !finishes(true).is_empty() {
            self.text.open("");
            self.own_row(&finishes(true));
            self.own_vectors(|emit, columns| emit.finish_sums(pass, &sums, true, columns));
            self.text.close();
        }
        let logs = |result: &EdgeResult| *result == EdgeResult::LogSumExp;
        if finishes(false).is_empty() && !pass.results.iter().any(logs) {
            return;
        }
        self.text.open("");
        let block = self.one_thread();
        self.own_row(&finishes(false));
        let columns = self.of_head();
        self.finish_sums(pass, &sums, false, columns);
        for (result, _) in pass.results.iter().enumerate().filter(|(_, of)| logs(of)) {
            let log = format!("top + {}", math::unary(Unary::Log, "total"));
            let value = or_zero(&log);
            let name = format!("log{result}");
            self.text.line(format!("const float {name} = {value};"));
            self.store(result, columns, &vec![name]);
        }
        if block {
            self.text.close();
        }
        self.text.close();
    }

    /// Finishes and stores the sums that are wide, or those that are not.
    fn finish_sums(&mut self, pass: &EdgePass, sums: &[Sum], wide: bool, columns: Columns) {
        let mut known = Known::new();
        for sum in sums.iter().filter(|sum| sum.wide == wide) {
            let result = sum.result;
            let names: Vec<String> = (0..columns.lanes)
                .map(|i| {
                    let (name, found) = (format!("a{result}_{i}"), self.sum_name(sum, i));
                    let value = match pass.softmax {
                        Some(_) => format!("{found} * share"),
                        None => found,
                    };
                    self.text.line(format!("const float {name} = {value};"));
                    name
                })
                .collect();
            let tag = format!("f{result}_");
            let value = self.eval(sum.finish, columns, &tag, &names, &mut known);
            self.store(result, columns, &value);
        }
    }
}
