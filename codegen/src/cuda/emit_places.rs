//! Text of a [`gnnc_ir::kernel::Body::Gather`] whose edges name places in the result's row.
//!
//! The threads of a team are laid along the columns and go through a row's edges one by one. Each
//! sum belongs to one thread, even in hubs.

use super::emit::Emit;
use super::exprs::{Columns, Known, lane};
use super::schedule::BLOCK;
use gnnc_ir::kernel::expr::Expr;

impl Emit<'_> {
    /// `out[v, n] =` sum of `value` over the edges of `v` that name place `n`.
    pub fn places(&mut self, value: &Expr) {
        let output = self.kernel.outputs[0];
        let Some(picked) = output.picked else {
            return;
        };
        self.entry(0);
        self.teams(self.team);
        self.first_column();
        self.text.line("const u64 rows = end - begin;");
        self.stride(BLOCK / self.team, "rows");
        self.text.line("const u64 item = base + team;");
        self.text.open("if (item < rows)");
        self.text.line("const u64 row = begin + item;");
        let count = picked.count;
        self.text
            .open(format!("for (u32 place = 0; place < {count}u; ++place)"));
        self.tiles(|emit, columns| emit.each_place(columns, |_| "= 0.0f".to_owned()));
        self.text.close();
        self.text.line("const u64 first = indptr[row];");
        self.text.line("const u64 last = indptr[row + 1];");
        self.text.open("for (u64 k = first; k < last; ++k)");
        let exprs = [value];
        self.edge_names(&exprs);
        self.hashes(&exprs);
        let by = self.kernel.inputs[usize::from(picked.by)];
        let none = Columns {
            head: None,
            column: None,
            lanes: 1,
        };
        let number = self.address(&by, none);
        self.text
            .line(format!("const u32 place = (u32)in{}[{number}];", picked.by));
        self.tiles(|emit, columns| {
            let result = emit.eval(value, columns, "v", &Vec::new(), &mut Known::new());
            emit.each_place(columns, |i| format!("+= {}", lane(&result, i)));
        });
        self.text.close();
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Updates the thread's elements of `place`.
    fn each_place(&mut self, columns: Columns, change: impl Fn(u32) -> String) {
        let output = self.kernel.outputs[0];
        let step = output.picked.map_or(0, |picked| picked.step);
        let address = self.address(&output, columns);
        for i in 0..columns.lanes {
            let change = change(i);
            self.text.line(format!(
                "out0[{address} + place * {step}u + {i}u] {change};"
            ));
        }
    }
}
