//! Products and copies of sparse input features.

use super::{Instruction, Operand, Product, Use};
use crate::graph::op::Site;
use crate::program::access::Touched;
use crate::program::text::line::{arrow, factor_and_result, matrix};
use crate::program::text::{Reader, Text, TextError};
use crate::program::verify::{Check, Checked};
use crate::program::work::{
    Counts, FLOAT, INDEX, KernelClass, OFFSET, SparseProduct, Stored, TRANSCENDENTAL, Terms, Work,
    copy, element, stored,
};
use crate::program::{Matrix, Program, RankSizes, Ref};
use crate::words::units::{Bytes, Flops};
use serde::{Deserialize, Serialize};

/// Product with the sparse input features `x`: `out = x . b` (`Nn`) or `x^T . b` (`Tn`).
/// Whether `x` is own rows or own columns is said by the extent of its values, here and below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseMatMul {
    /// `Nn` or `Tn`.
    pub product: Product,
    /// Values of the non-zeros.
    pub values: Ref,
    /// Dense operand.
    pub b: Matrix,
    /// Result.
    pub out: Matrix,
    /// Columns of `x`.
    pub inner: u32,
    /// Columns of the result.
    pub columns: u32,
}

/// Dropout of the sparse input features' values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseDropout {
    /// Values of the non-zeros.
    pub values: Ref,
    /// Dropped values.
    pub out: Ref,
    /// Probability of dropping.
    pub p: f32,
    /// Dropout site.
    pub site: Site,
}

/// Writes sparse feature values as a dense matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Densify {
    /// Values of the non-zeros.
    pub values: Ref,
    /// The dense matrix.
    pub out: Ref,
}

const ALL: Use<'static> = Use::Rows(Touched::All);

impl Instruction for SparseMatMul {
    fn name(&self, _: &Program) -> &'static str {
        "sparse-gemm"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.values, ALL));
        visit(Operand::read(self.b.at, ALL));
        visit(Operand::write(self.out.at, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        [&mut self.values, &mut self.b.at, &mut self.out.at]
            .into_iter()
            .for_each(visit);
    }

    fn check(&self, check: &Check) -> Checked {
        let (vertices, features) = check.sparse(self.values)?;
        let (inner, columns) = (u64::from(self.inner), u64::from(self.columns));
        if let Some(features) = features.filter(|features| *features != inner) {
            return Err(format!("{inner} features, the rank has {features}"));
        }
        let (factor, rows) = match self.product {
            Product::Nn => (inner, vertices),
            Product::Tn => (vertices, inner),
            Product::Nt => return Err("a sparse product cannot be Nt".to_owned()),
        };
        check.matrix("b", &self.b, (factor, columns))?;
        check.matrix("out", &self.out, (rows, columns))?;
        check.in_words("b", self.b.at, &[self.b.offset])?;
        check.in_words("out", self.out.at, &[self.out.offset])
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        self.product != Product::Tn
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let Stored { rows, nonzeros } = stored(counts.program, self.values, sizes);
        let columns = u64::from(self.columns);
        let rows = match self.product {
            Product::Tn => u64::from(self.inner),
            Product::Nn | Product::Nt => rows,
        };
        let [read, written] = [&self.b, &self.out].map(|m| element(counts.program, m.at));
        Some(Work {
            class: KernelClass::SparseGemm,
            flops: Flops(2.0 * nonzeros as f64 * columns as f64),
            read: Bytes((rows + 1) * OFFSET + nonzeros * (INDEX + FLOAT + columns * read)),
            written: Bytes(rows * columns * written),
        })
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.sparse(&SparseProduct {
            product: self.product,
            stored: stored(program, self.values, sizes),
            inner: self.inner.into(),
            columns: self.columns.into(),
            read: element(program, self.b.at),
            written: element(program, self.out.at),
        }))
    }

    fn print(&self, program: &Program) -> String {
        format!(
            "sparse-gemm {} {} . {} -> {}, {} x {}",
            self.product.text(),
            self.values.text(),
            matrix(&self.b, program),
            matrix(&self.out, program),
            self.inner,
            self.columns
        )
    }
}

impl SparseMatMul {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let product = Product::parse(from)?;
        let values = Ref::parse(from)?;
        let (b, out) = factor_and_result(from)?;
        from.expect(",")?;
        let inner = from.number()?;
        from.expect("x")?;
        Ok(Self {
            product,
            values,
            b,
            out,
            inner,
            columns: from.number()?,
        })
    }
}

impl Instruction for SparseDropout {
    fn name(&self, _: &Program) -> &'static str {
        "sparse-dropout"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.values, ALL));
        visit(Operand::write(self.out, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.values);
        visit(&mut self.out);
    }

    fn check(&self, check: &Check) -> Checked {
        check.sparse(self.values)?;
        check.at_least("out", self.out, check.stored(self.values))?;
        check.floats("out", self.out)?;
        if (0.0..1.0).contains(&self.p) {
            Ok(())
        } else {
            Err(format!("dropout {}, expected 0 to below 1", self.p))
        }
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let nonzeros = stored(counts.program, self.values, sizes).nonzeros;
        Some(Work {
            class: KernelClass::Copy,
            flops: Flops(nonzeros as f64 * (TRANSCENDENTAL + 1.0)),
            read: Bytes(nonzeros * (FLOAT + INDEX)),
            written: Bytes(nonzeros * FLOAT),
        })
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.sparse_dropout(stored(program, self.values, sizes)))
    }

    fn print(&self, _: &Program) -> String {
        format!(
            "sparse-dropout {} -> {}, p {:?}, site {}",
            self.values.text(),
            self.out.text(),
            self.p,
            self.site.text()
        )
    }
}

impl SparseDropout {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let (values, out) = (Ref::parse(from)?, arrow(from)?);
        from.expect(",")?;
        from.expect("p")?;
        let p = from.number()?;
        from.expect(",")?;
        from.expect("site")?;
        Ok(Self {
            values,
            out,
            p,
            site: Site::parse(from)?,
        })
    }
}

impl Instruction for Densify {
    fn name(&self, _: &Program) -> &'static str {
        "densify"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.values, ALL));
        visit(Operand::write(self.out, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.values);
        visit(&mut self.out);
    }

    fn check(&self, check: &Check) -> Checked {
        let (rows, features) = check.sparse(self.values)?;
        check.floats("out", self.out)?;
        check.at_least("out", self.out, rows.saturating_mul(features.unwrap_or(0)))
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let Stored { rows, nonzeros } = stored(counts.program, self.values, sizes);
        let read = (rows + 1) * OFFSET + nonzeros * (FLOAT + INDEX);
        let written = counts.program.buffer(self.out.buffer).slot_bytes(sizes);
        Some(copy(read, written))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        let written = program.buffer(self.out.buffer).slot_bytes(sizes);
        Some(terms.densify(stored(program, self.values, sizes), written))
    }

    fn print(&self, _: &Program) -> String {
        format!("densify {} -> {}", self.values.text(), self.out.text())
    }
}

impl Densify {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            values: Ref::parse(from)?,
            out: arrow(from)?,
        })
    }
}
