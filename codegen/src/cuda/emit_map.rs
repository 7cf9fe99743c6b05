//! Text of [`gnnc_ir::kernel::Body::Map`]: a thread for each vector of columns.

use super::emit::Emit;
use super::exprs::Known;
use gnnc_ir::kernel::expr::Expr;

impl Emit<'_> {
    /// `out_i[row, h, c] = values_i`. Computes all values of an element before storing any, since
    /// an output may be an input.
    pub fn map(&mut self, values: &[Expr]) {
        self.entry(0);
        self.map_rows(values);
        self.text.close();
    }

    /// The same within an open entry point.
    pub fn map_rows(&mut self, values: &[Expr]) {
        let exprs: Vec<&Expr> = values.iter().collect();
        let vector = self.shape.vector;
        let groups = self.kernel.heads * self.kernel.width / vector;
        self.items(groups, &exprs, |emit| {
            emit.text.open("if (active)");
            let at = match (groups, vector) {
                (1, _) => "0u".to_owned(),
                (_, 1) => "sub".to_owned(),
                _ => format!("(sub * {vector}u)"),
            };
            let columns = emit.columns_at(&at);
            let mut known = Known::new();
            let results: Vec<_> = values
                .iter()
                .enumerate()
                .map(|(i, value)| {
                    let tag = format!("v{i}_");
                    emit.eval(value, columns, &tag, &Vec::new(), &mut known)
                })
                .collect();
            for (i, result) in results.iter().enumerate() {
                emit.store(i, columns, result);
            }
            emit.text.close();
        });
    }
}
