//! Text of [`gnnc_ir::kernel::Body::RowReduce`] and [`gnnc_ir::kernel::Body::ColReduce`].
//!
//! A team reduces a head of a row and adds up its threads' results in butterfly order. A reduction
//! over heads gives each thread columns of its own. A column reduction runs in two steps: blocks
//! sum a number of rows each, then one block per slab of columns adds these sums.

use super::emit::Emit;
use super::exprs::{Columns, Known, lane};
use super::math::{accumulate, identity};
use super::schedule::BLOCK;
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{At, Axis, Reduce};

impl Emit<'_> {
    /// Reduces an axis of every row or edge.
    pub fn row_reduce(&mut self, axis: Axis, reduce: Reduce, value: &Expr, finish: &Expr) {
        self.entry(0);
        match axis {
            Axis::Width => self.reduce_width(reduce, value, finish),
            Axis::Heads => self.reduce_heads(reduce, value, finish),
        }
        self.text.close();
    }

    fn reduce_width(&mut self, reduce: Reduce, value: &Expr, finish: &Expr) {
        let (heads, width, vector) = (self.kernel.heads, self.kernel.width, self.shape.vector);
        self.items(heads, &[value, finish], |emit| {
            let head = (heads > 1).then_some("h");
            if heads > 1 {
                emit.text.line("const u32 h = sub;");
            }
            let start = identity(reduce);
            emit.text.line(format!("float sum = {start};"));
            emit.text.open("if (active)");
            let (from, step) = match emit.team {
                1 => ("0".to_owned(), vector),
                team if vector == 1 => ("lane".to_owned(), team),
                team => (format!("lane * {vector}u"), team * vector),
            };
            emit.text
                .open(format!("for (u32 c = {from}; c < {width}u; c += {step}u)"));
            let columns = Columns {
                head,
                column: Some("c"),
                lanes: vector,
            };
            let result = emit.eval(value, columns, "v", &Vec::new(), &mut Known::new());
            for i in 0..vector {
                emit.text.line(accumulate(reduce, "sum", lane(&result, i)));
            }
            emit.text.close();
            emit.text.close();
            let team = emit.team;
            emit.join_lanes(reduce, "sum", 1, team);
            emit.text.open(match team {
                1 => "if (active)",
                _ => "if (active && lane == 0)",
            });
            let columns = Columns {
                head,
                column: None,
                lanes: 1,
            };
            let sums = vec!["sum".to_owned()];
            let result = emit.eval(finish, columns, "f", &sums, &mut Known::new());
            emit.store(0, columns, &result);
            emit.text.close();
        });
    }

    fn reduce_heads(&mut self, reduce: Reduce, value: &Expr, finish: &Expr) {
        let (heads, vector) = (self.kernel.heads, self.shape.vector);
        let groups = self.kernel.width / vector;
        self.items(groups, &[value, finish], |emit| {
            emit.text.open("if (active)");
            emit.text.line(match groups {
                1 => "const u32 c = 0u;".to_owned(),
                _ => format!("const u32 c = sub * {vector}u;"),
            });
            let start = identity(reduce);
            let sums: Vec<String> = (0..vector).map(|i| format!("sum{i}")).collect();
            for sum in &sums {
                emit.text.line(format!("float {sum} = {start};"));
            }
            emit.text
                .open(format!("for (u32 h = 0; h < {heads}u; ++h)"));
            let columns = Columns {
                head: Some("h"),
                column: Some("c"),
                lanes: vector,
            };
            let result = emit.eval(value, columns, "v", &Vec::new(), &mut Known::new());
            for (i, sum) in sums.iter().enumerate() {
                let line = accumulate(reduce, sum, lane(&result, i as u32));
                emit.text.line(line);
            }
            emit.text.close();
            let columns = Columns {
                head: None,
                ..columns
            };
            let result = emit.eval(finish, columns, "f", &sums, &mut Known::new());
            emit.store(0, columns, &result);
            emit.text.close();
        });
    }

    /// Reduces a variable over the lanes of a team whose indices are equal modulo `from`. All
    /// threads of the warp take part.
    pub fn join_lanes(&mut self, reduce: Reduce, name: &str, from: u32, team: u32) {
        let mut distance = from;
        while distance < team {
            self.text.open("");
            self.text.line(format!(
                "const float other = __shfl_xor_sync(0xffffffffu, {name}, {distance});"
            ));
            self.text.line(accumulate(reduce, name, "other"));
            self.text.close();
            distance *= 2;
        }
    }

    /// `out[0, h, c] = sum over rows of value`.
    pub fn column_reduce(&mut self, value: &Expr) {
        let exprs = [value];
        let columns = self.kernel.heads * self.kernel.width;
        let apart = self.shape.apart;
        self.entry(0);
        self.column_place();
        self.range();
        self.text
            .line("const u64 low = first + blockIdx.x * partial_items;");
        self.text
            .line("const u64 high = low + partial_items < last ? low + partial_items : last;");
        if self.walks_edges() && self.needs(&exprs, At::Dst) {
            self.text.line("__shared__ u64 bounds[2];");
            self.bounds("low", "high - 1");
        }
        self.column_sums();
        self.text.open(format!("if (at < {columns}u)"));
        let place = self.columns_at("at");
        self.text.open(format!(
            "for (u64 row = low + apart; row < high; row += {apart}u)"
        ));
        self.edge(&exprs);
        let result = self.eval(value, place, "v", &Vec::new(), &mut Known::new());
        for i in 0..self.shape.vector {
            let line = accumulate(Reduce::Sum, &format!("sum{i}"), lane(&result, i));
            self.text.line(line);
        }
        self.text.close();
        self.text.close();
        self.column_join(&format!("scratch[(u64)blockIdx.x * {columns}u + at"));
        self.text.close();
        self.text.line("");
        self.entry(1);
        self.column_place();
        self.column_sums();
        self.text.open(format!("if (at < {columns}u)"));
        self.text.open(format!(
            "for (u64 part = apart; part < partials; part += {apart}u)"
        ));
        for i in 0..self.shape.vector {
            self.text
                .line(format!("sum{i} += scratch[part * {columns}u + at + {i}u];"));
        }
        self.text.close();
        self.text.close();
        self.column_join("out0[at");
        self.text.close();
    }

    /// Declares `at`, the thread's first column, and `apart`, its index among the threads that
    /// share the rows.
    fn column_place(&mut self) {
        let (lanes, vector) = (self.shape.lanes, self.shape.vector);
        self.text.line(format!(
            "const u32 at = (blockIdx.y * {lanes}u + threadIdx.x % {lanes}u) * {vector}u;"
        ));
        self.text
            .line(format!("const u32 apart = threadIdx.x / {lanes}u;"));
    }

    fn column_sums(&mut self) {
        let floats = BLOCK * self.shape.vector;
        self.text
            .line(format!("__shared__ float shared[{floats}];"));
        for i in 0..self.shape.vector {
            self.text.line(format!("float sum{i} = 0.0f;"));
        }
    }

    /// Adds the sums of a block's rows by halves and stores them to `target + i]`.
    fn column_join(&mut self, target: &str) {
        let (lanes, vector) = (self.shape.lanes, self.shape.vector);
        let slot = |i: u32| format!("shared[{}u + threadIdx.x", i * BLOCK);
        for i in 0..vector {
            self.text.line(format!("{}] = sum{i};", slot(i)));
        }
        self.text.open(format!(
            "for (u32 half = {}u; half >= {lanes}u; half /= 2)",
            BLOCK / 2
        ));
        self.text.line("__syncthreads();");
        self.text.open("if (threadIdx.x < half)");
        for i in 0..vector {
            self.text.line(format!("{0}] += {0} + half];", slot(i)));
        }
        self.text.close();
        self.text.close();
        let columns = self.kernel.heads * self.kernel.width;
        self.text
            .open(format!("if (apart == 0 && at < {columns}u)"));
        for i in 0..vector {
            self.text.line(format!("{target} + {i}u] = {}];", slot(i)));
        }
        self.text.close();
    }
}
