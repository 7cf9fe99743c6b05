//! Text of [`gnnc_ir::kernel::Body::Gather`]: a team of threads for each row.
//!
//! The threads of a team are laid along the columns. If rows are narrow, several groups of threads
//! share the edges and add their sums at the end, always in the same order. A hub's edges are cut
//! into chunks; one team takes each chunk as if it were a row, and a second entry point adds the
//! chunks in order. All edges of a type are one row in sums by type, so a hub may have 100,000
//! chunks, and terms that are alike are all rounded the same way. Sums of chunks are therefore
//! compensated (Kahan, Further remarks on reducing truncation errors, 1965).

use super::emit::Emit;
use super::exprs::{Columns, Known, lane};
use super::math::{accumulate, identity};
use super::schedule::BLOCK;
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{At, Reduce};

/// Floats in flight per thread. Limits how far the loop over edges is unrolled.
const UNDER_WAY: u32 = 32;

impl Emit<'_> {
    /// `out[v] = finish(reduce over the edges of v of value)`.
    pub fn gather(&mut self, reduce: Reduce, value: &Expr, finish: &Expr) {
        self.gather_rows(reduce, value, finish);
        self.text.line("");
        self.gather_hubs(reduce, finish);
    }

    fn gather_rows(&mut self, reduce: Reduce, value: &Expr, finish: &Expr) {
        self.entry(0);
        self.teams(self.team);
        self.first_column();
        self.text.line("const u64 rows = end - begin;");
        self.text.line("const u64 items = rows + chunks;");
        self.stride(BLOCK / self.team, "items");
        self.text.line("const u64 item = base + team;");
        self.row_or_chunk();
        self.accumulators("sum", reduce);
        self.gather_edges(reduce, value);
        self.join_groups(reduce);
        self.text.open("if (whole || part)");
        if reduce.identity() != 0.0 {
            self.text.line("const int empty = first == last;");
        }
        self.own_row(&[finish]);
        self.tiles(|emit, columns| {
            emit.text.open("if (part)");
            let at = format!("(item - rows) * {}u + at", emit.columns());
            for i in 0..columns.lanes {
                let sum = emit.accumulator("sum", i);
                emit.text.line(format!("scratch[{at} + {i}u] = {sum};"));
            }
            emit.text.close();
            emit.text.open("else");
            emit.gather_finish(finish, columns, reduce.identity() != 0.0);
            emit.text.close();
        });
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Declares `row`, its edges `first .. last`, and whether `item` is a row that is not a hub
    /// (`whole`) or a chunk of a hub (`part`). Other items have no edges.
    pub fn row_or_chunk(&mut self) {
        self.text.line("u64 row = 0, first = 0, last = 0;");
        self.text.line("int whole = 0, part = 0;");
        self.text.open("if (item < rows)");
        self.text.line(match self.ordered {
            true => "row = order ? order[item] : begin + item;",
            false => "row = begin + item;",
        });
        self.text.line("first = indptr[row];");
        self.text.line("last = indptr[row + 1];");
        self.text.line("whole = last - first <= hub_edges;");
        self.text.line("last = whole ? last : first;");
        self.text.close();
        self.text.open("else if (item < items)");
        self.text.line("row = chunk_rows[item - rows];");
        self.text.line("first = chunk_edges[2 * (item - rows)];");
        self.text.line("last = chunk_edges[2 * (item - rows) + 1];");
        self.text.line("part = 1;");
        self.text.close();
    }

    /// Adds the chunks of each hub.
    fn gather_hubs(&mut self, reduce: Reduce, finish: &Expr) {
        self.entry(1);
        self.teams(self.team);
        self.first_column();
        self.stride(BLOCK / self.team, "hubs");
        self.text.line("const u64 item = base + team;");
        self.text.open("if (item < hubs)");
        self.text.line("const u64 row = hub_rows[item];");
        self.accumulators("sum", reduce);
        if reduce == Reduce::Sum {
            self.accumulators("lost", reduce);
        }
        self.text
            .open("for (u64 chunk = first_chunks[item]; chunk < first_chunks[item + 1]; ++chunk)");
        self.tiles(|emit, columns| {
            let at = format!("chunk * {}u + at", emit.columns());
            for i in 0..columns.lanes {
                let from = format!("scratch[{at} + {i}u]");
                emit.add_chunk(reduce, i, &from);
            }
        });
        self.text.close();
        self.own_row(&[finish]);
        self.tiles(|emit, columns| emit.gather_finish(finish, columns, false));
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Adds the sum `from` of a chunk to the accumulator of a lane.
    fn add_chunk(&mut self, reduce: Reduce, lane: u32, from: &str) {
        let sum = self.accumulator("sum", lane);
        if reduce != Reduce::Sum {
            self.text.line(format!("const float s{lane} = {from};"));
            let line = accumulate(reduce, &sum, &format!("s{lane}"));
            self.text.line(line);
            return;
        }
        let lost = self.accumulator("lost", lane);
        for line in [
            format!("const float s{lane} = {from} - {lost};"),
            format!("const float t{lane} = {sum} + s{lane};"),
            format!("{lost} = (t{lane} - {sum}) - s{lane};"),
            format!("{sum} = t{lane};"),
        ] {
            self.text.line(line);
        }
    }

    fn columns(&self) -> u32 {
        self.kernel.heads * self.kernel.width
    }

    /// Declares `column`, the thread's first column, and `apart`, its group among those that share
    /// the edges.
    pub fn first_column(&mut self) {
        let shape = self.shape;
        let mut sum = Vec::new();
        if shape.slabs > 1 {
            let slab = shape.lanes * shape.vector * shape.tiles;
            sum.push(format!("blockIdx.y * {slab}u"));
        }
        match (shape.lanes, shape.vector) {
            (1, _) => {}
            (lanes, 1) => sum.push(format!("lane % {lanes}u")),
            (lanes, vector) => sum.push(format!("lane % {lanes}u * {vector}u")),
        }
        if sum.is_empty() {
            sum.push("0u".to_owned());
        }
        let sum = sum.join(" + ");
        self.text.line(format!("const u32 column = {sum};"));
        if shape.apart > 1 {
            self.text
                .line(format!("const u32 apart = lane / {}u;", shape.lanes));
        }
    }

    /// Declares the array `name` with an accumulator for each column of a thread.
    fn accumulators(&mut self, name: &str, reduce: Reduce) {
        let count = self.shape.tiles * self.shape.vector;
        self.text.line(format!("float {name}[{count}];"));
        self.text.directive("#pragma unroll");
        self.text.line(format!(
            "for (u32 i = 0; i < {count}u; ++i) {name}[i] = {};",
            identity(reduce)
        ));
    }

    /// The element of the array `name` for a lane in tile `t`.
    fn accumulator(&self, name: &str, lane: u32) -> String {
        match self.shape.vector {
            1 => format!("{name}[t]"),
            vector => format!("{name}[t * {vector}u + {lane}u]"),
        }
    }

    /// Whether some threads have vectors beyond the end of a row.
    fn has_tail(&self) -> bool {
        let shape = self.shape;
        shape.lanes * shape.vector * shape.tiles * shape.slabs != self.columns()
    }

    /// Runs `body` for each of the thread's vectors that lies in the row, with `t` and `at`.
    pub fn tiles(&mut self, body: impl FnOnce(&mut Self, Columns)) {
        let shape = self.shape;
        let step = shape.lanes * shape.vector;
        self.text.directive("#pragma unroll");
        self.text
            .open(format!("for (u32 t = 0; t < {}u; ++t)", shape.tiles));
        self.text
            .line(format!("const u32 at = column + t * {step}u;"));
        let tail = self.has_tail();
        if tail {
            self.text.open(format!("if (at < {}u)", self.columns()));
        }
        let columns = self.columns_at("at");
        body(self, columns);
        if tail {
            self.text.close();
        }
        self.text.close();
    }

    fn gather_edges(&mut self, reduce: Reduce, value: &Expr) {
        let shape = self.shape;
        let exprs = [value];
        // Picked places need addresses of their own.
        let picks = self
            .kernel
            .inputs
            .iter()
            .any(|input| input.picked.is_some());
        // A comparison for each vector takes registers too: 602 columns spilled.
        let halved = picks || self.has_tail();
        let under_way = if halved { UNDER_WAY / 2 } else { UNDER_WAY };
        let unroll = (under_way / (shape.tiles * shape.vector)).clamp(1, 4);
        self.text.directive(&format!("#pragma unroll {unroll}"));
        self.text.open(match shape.apart {
            1 => "for (u64 k = first; k < last; ++k)".to_owned(),
            apart => format!("for (u64 k = first + apart; k < last; k += {apart}u)"),
        });
        self.edge_names(&exprs);
        self.hashes(&exprs);
        self.tiles(|emit, columns| {
            let result = emit.eval(value, columns, "v", &Vec::new(), &mut Known::new());
            for i in 0..columns.lanes {
                let line = accumulate(reduce, &emit.accumulator("sum", i), lane(&result, i));
                emit.text.line(line);
            }
        });
        self.text.close();
    }

    /// Declares the indices that expressions need at edge `k`.
    pub fn edge_names(&mut self, exprs: &[&Expr]) {
        let walk = Walk::of(&self.kernel.body);
        let (own, other) = match walk {
            Walk::EdgesBySource => (Some((At::Src, "src")), (At::Dst, "dst")),
            Walk::EdgesByType => (None, (At::Edge, "edge")),
            _ => (Some((At::Dst, "dst")), (At::Src, "src")),
        };
        if let Some((at, name)) = own
            && self.needs(exprs, at)
        {
            self.text.line(format!("const u64 {name} = row;"));
        }
        if self.needs(exprs, other.0) {
            self.text
                .line(format!("const u64 {} = indices[k];", other.1));
        }
        if walk != Walk::EdgesByType && self.needs(exprs, At::Edge) {
            self.text.line(match walk {
                Walk::EdgesBySource => "const u64 edge = positions[k];",
                _ => "const u64 edge = k;",
            });
        }
    }

    /// Adds the sums of the groups that shared the edges. All threads of the warp take part.
    fn join_groups(&mut self, reduce: Reduce) {
        let shape = self.shape;
        let mut distance = shape.lanes;
        while distance < self.team {
            self.text.directive("#pragma unroll");
            let count = shape.tiles * shape.vector;
            self.text
                .open(format!("for (u32 i = 0; i < {count}u; ++i)"));
            self.text.line(format!(
                "const float other = __shfl_xor_sync(0xffffffffu, sum[i], {distance});"
            ));
            self.text.line(accumulate(reduce, "sum[i]", "other"));
            self.text.close();
            distance *= 2;
        }
    }

    /// Declares the index of the row that finishing expressions need.
    pub fn own_row(&mut self, finishes: &[&Expr]) {
        let (at, name) = match Walk::of(&self.kernel.body) {
            Walk::EdgesBySource => (At::Src, "src"),
            _ => (At::Dst, "dst"),
        };
        if self.needs(finishes, at) {
            self.text.line(format!("const u64 {name} = row;"));
        }
        self.hashes(finishes);
    }

    fn gather_finish(&mut self, finish: &Expr, columns: Columns, or_zero: bool) {
        let sums: Vec<String> = (0..columns.lanes)
            .map(|i| {
                let sum = self.accumulator("sum", i);
                let value = if or_zero {
                    format!("empty ? 0.0f : {sum}")
                } else {
                    sum
                };
                self.text.line(format!("const float a{i} = {value};"));
                format!("a{i}")
            })
            .collect();
        let result = self.eval(finish, columns, "f", &sums, &mut Known::new());
        self.store(0, columns, &result);
    }
}
