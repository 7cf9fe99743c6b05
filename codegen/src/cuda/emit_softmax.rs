//! Text of [`gnnc_ir::kernel::Body::EdgeSoftmax`]: a team for each destination, a block for each
//! hub.
//!
//! Scores stay in the output while maximum, sum and quotient are computed. One thread writes and
//! reads each element.

use super::emit::Emit;
use super::exprs::{Columns, Known, lane};
use super::math::accumulate;
use super::schedule::{BLOCK, WARP};
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{At, Reduce};

impl Emit<'_> {
    /// `out[edge, h] = softmax over the edges with the same destination of value`.
    pub fn softmax(&mut self, value: &Expr) {
        let team = self.team;
        self.entry(0);
        self.teams(team);
        self.stride(BLOCK / team, "end - begin");
        self.text.line("const u64 dst = begin + base + team;");
        self.text.line("u64 first = 0, last = 0;");
        self.text.open("if (dst < end)");
        self.text.line("first = indptr[dst];");
        self.text.line("last = indptr[dst + 1];");
        self.text
            .line("last = last - first <= hub_edges ? last : first;");
        self.text.close();
        self.softmax_row(value, team);
        self.text.close();
        self.text.close();
        self.text.line("");
        self.entry(1);
        self.teams(BLOCK);
        self.text.line(format!("__shared__ float shared[{BLOCK}];"));
        self.stride(1, "hubs");
        self.text.line("const u64 dst = hub_rows[base + team];");
        self.text.line("const u64 first = indptr[dst];");
        self.text.line("const u64 last = indptr[dst + 1];");
        self.softmax_row(value, BLOCK);
        self.text.close();
        self.text.close();
    }

    /// The softmax of edges `first .. last`, computed by `team` threads.
    fn softmax_row(&mut self, value: &Expr, team: u32) {
        let heads = self.kernel.heads;
        let lanes = heads.next_power_of_two().min(WARP);
        let apart = team / lanes;
        let place = Columns {
            head: (heads > 1).then_some("h"),
            column: None,
            lanes: 1,
        };
        self.text.open(format!(
            "for (u32 group = 0; group < {heads}u; group += {lanes}u)"
        ));
        self.text
            .line(format!("const u32 h = group + lane % {lanes}u;"));
        self.text.line(format!(
            "const u64 from = h < {heads}u ? first + lane / {lanes}u : last;"
        ));
        let edges = format!("for (u64 row = from; row < last; row += {apart}u)");
        self.text.line(format!(
            "float top = {};",
            super::math::identity(Reduce::Max)
        ));
        self.text.open(&edges);
        for (at, line) in [
            (At::Src, "const u64 src = indices[row];"),
            (At::Edge, "const u64 edge = row;"),
        ] {
            if self.needs(&[value], at) {
                self.text.line(line);
            }
        }
        self.hashes(&[value]);
        let score = self.eval(value, place, "v", &Vec::new(), &mut Known::new());
        self.store(0, place, &score);
        let line = accumulate(Reduce::Max, "top", lane(&score, 0));
        self.text.line(line);
        self.text.close();
        self.softmax_join(Reduce::Max, "top", lanes, team);

        let out = self.kernel.outputs[0];
        let slot = format!("out0[{}]", self.address(&out, place));
        let edge = out.at == At::Edge;
        self.text.line("float total = 0.0f;");
        self.text.open(&edges);
        self.position(edge);
        self.text
            .line(format!("const float power = expf({slot} - top);"));
        self.text.line(format!("{slot} = power;"));
        self.text.line("total += power;");
        self.text.close();
        self.softmax_join(Reduce::Sum, "total", lanes, team);
        self.text.open(&edges);
        self.position(edge);
        self.text.line(format!("{slot} /= total;"));
        self.text.close();
        self.text.close();
    }

    fn position(&mut self, used: bool) {
        if used {
            self.text.line("const u64 edge = row;");
        }
    }

    /// Reduces over the threads of a team that share a head.
    fn softmax_join(&mut self, reduce: Reduce, name: &str, lanes: u32, team: u32) {
        if team <= WARP {
            self.join_lanes(reduce, name, lanes, team);
            return;
        }
        self.text.line(format!("shared[threadIdx.x] = {name};"));
        self.text.open(format!(
            "for (u32 half = {}u; half >= {lanes}u; half /= 2)",
            team / 2
        ));
        self.text.line("__syncthreads();");
        self.text.open("if (threadIdx.x < half)");
        self.text
            .line("const float other = shared[threadIdx.x + half];");
        let line = accumulate(reduce, "shared[threadIdx.x]", "other");
        self.text.line(line);
        self.text.close();
        self.text.close();
        self.text.line("__syncthreads();");
        self.text
            .line(format!("{name} = shared[threadIdx.x % {lanes}u];"));
        self.text.line("__syncthreads();");
    }
}
