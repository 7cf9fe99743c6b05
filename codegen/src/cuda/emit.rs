//! Text that kernels have in common: entry points and the loops over rows and edges.

use super::exprs::Columns;
use super::schedule::pass::resident;
use super::schedule::{BLOCK, Parameter, Schedule, Shape};
use super::text::Text;
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{At, Body, Kernel};

/// A kernel under construction. `kernel` is flattened.
pub struct Emit<'a> {
    /// The specification.
    pub kernel: &'a Kernel,
    /// How rows are laid over threads.
    pub shape: Shape,
    /// Threads of a team.
    pub team: u32,
    /// Whether teams may take rows out of order.
    pub ordered: bool,
    /// The index of the block among those that share the rows, and their number.
    pub block: [&'static str; 2],
    /// The text so far.
    pub text: Text,
    names: Vec<String>,
}

impl<'a> Emit<'a> {
    /// A kernel with no text yet.
    pub fn new(kernel: &'a Kernel, schedule: &Schedule) -> Self {
        Self {
            kernel,
            shape: schedule.shape,
            team: schedule.team,
            ordered: schedule.ordered(),
            block: ["blockIdx.x", "gridDim.x"],
            text: Text::default(),
            names: schedule.entries().map(str::to_owned).collect(),
        }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text.finish()
    }

    /// Opens entry point `number`.
    pub fn entry(&mut self, number: usize) {
        let alone = !matches!(self.kernel.body, Body::Map { .. });
        let parameters: Vec<String> = Parameter::of(self.kernel)
            .into_iter()
            .map(|parameter| parameter.declaration(self.kernel, alone))
            .collect();
        let name = &self.names[number];
        let resident = resident(self.kernel, self.shape);
        let head =
            format!("extern \"C\" __global__ void __launch_bounds__({BLOCK}, {resident}) {name}(");
        self.text.line(head);
        self.text
            .line(format!("    {})", parameters.join(",\n    ")));
        self.text.open("");
    }

    /// Declares `lane` and `team`: the thread's index in its team and the team's index in the
    /// block.
    pub fn teams(&mut self, team: u32) {
        if team > 1 {
            self.text
                .line(format!("const u32 lane = threadIdx.x % {team}u;"));
        }
        self.text
            .line(format!("const u32 team = threadIdx.x / {team}u;"));
    }

    /// Opens the loop of teams over `items`. All threads of a block run the same number of
    /// iterations.
    pub fn stride(&mut self, teams: u32, items: &str) {
        let [block, blocks] = self.block;
        self.text.open(format!(
            "for (u64 base = (u64){block} * {teams}u; base < {items}; base += (u64){blocks} * {teams}u)"
        ));
    }

    /// Runs `body` for every row or edge and each of its `per_row` teams, with `row`, `sub` (the
    /// team's number) and `active` declared. Inactive teams get a row that exists.
    pub fn items(&mut self, per_row: u32, exprs: &[&Expr], body: impl FnOnce(&mut Self)) {
        let edges = self.walks_edges();
        let search = edges && self.needs(exprs, At::Dst);
        let teams = BLOCK / self.team;
        self.teams(self.team);
        self.range();
        self.text
            .line(format!("const u64 items = (last - first) * {per_row}u;"));
        if search {
            self.text.line("__shared__ u64 bounds[2];");
        }
        self.stride(teams, "items");
        if search {
            let low = format!("first + base / {per_row}u");
            let top = format!("base + {teams}u < items ? base + {teams}u : items");
            self.text.line(format!("const u64 top = {top};"));
            let high = format!("first + (top - 1) / {per_row}u");
            self.bounds(&low, &high);
        }
        self.text.line("const int active = base + team < items;");
        self.text
            .line("const u64 item = active ? base + team : base;");
        self.text
            .line(format!("const u64 row = first + item / {per_row}u;"));
        if per_row > 1 {
            self.text
                .line(format!("const u32 sub = (u32)(item % {per_row}u);"));
        }
        self.edge(exprs);
        body(self);
        if search {
            self.text.line("__syncthreads();");
        }
        self.text.close();
    }

    /// Whether a row of the kernel is an edge.
    pub fn walks_edges(&self) -> bool {
        Walk::of(&self.kernel.body) == Walk::Edges
    }

    /// Declares `first` and `last`, the range of rows or edges.
    pub fn range(&mut self) {
        if self.walks_edges() {
            self.text.line("const u64 first = indptr[begin];");
            self.text.line("const u64 last = indptr[end];");
        } else {
            self.text.line("const u64 first = begin;");
            self.text.line("const u64 last = end;");
        }
    }

    /// Finds the destinations of edges `low` and `high` for the whole block. `bounds` is then the
    /// range of rows that own the edges in between.
    pub fn bounds(&mut self, low: &str, high: &str) {
        self.text.open("if (threadIdx.x == 0)");
        self.text.line(format!(
            "bounds[0] = gnnc_row_of(indptr, begin, end, {low});"
        ));
        self.text.close();
        self.text.open("if (threadIdx.x == 32)");
        self.text.line(format!(
            "bounds[1] = gnnc_row_of(indptr, begin, end, {high}) + 1;"
        ));
        self.text.close();
        self.text.line("__syncthreads();");
    }

    /// Declares the indices that expressions need at the row or edge `row`, and the hashes of their
    /// masks.
    pub fn edge(&mut self, exprs: &[&Expr]) {
        if self.walks_edges() {
            let declared = [
                (At::Edge, "const u64 edge = row;"),
                (At::Src, "const u64 src = indices[row];"),
                (
                    At::Dst,
                    "const u64 dst = gnnc_row_of(indptr, bounds[0], bounds[1], row);",
                ),
            ];
            for (at, line) in declared {
                if self.needs(exprs, at) {
                    self.text.line(line);
                }
            }
        } else if self.needs(exprs, At::List) {
            self.text.line("const u64 listed = list[row];");
        }
        self.hashes(exprs);
    }

    /// Declares `h` and `c` from `at`, an element's index in its row.
    pub fn columns_at(&mut self, at: &str) -> Columns {
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        if heads > 1 {
            self.text.line(format!("const u32 h = {at} / {width}u;"));
            self.text.line(format!("const u32 c = {at} % {width}u;"));
        } else {
            self.text.line(format!("const u32 c = {at};"));
        }
        Columns {
            head: (heads > 1).then_some("h"),
            column: Some("c"),
            lanes: self.shape.vector,
        }
    }
}
