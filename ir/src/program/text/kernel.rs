//! Text form of kernels and their expressions.

use super::TextError;
use super::parse::Reader;
use super::words::{Text, storage};
use crate::kernel::expr::{Expr, Value};
use crate::kernel::{At, Axis, Body, EdgeNumber, EdgePass, EdgeResult, Kernel};
use crate::kernel::{Mask, Operand, Over, Picked, Reduce};
use crate::words::scalar::{Binary, Unary};
use crate::words::types::EdgeSet;

impl Text for Kernel {
    fn print(&self, out: &mut String) {
        let shape = format!("{} x {}", self.heads, self.width);
        *out += &format!(
            "{}{} {shape} {{\n",
            self.body.name(),
            attributes(&self.body)
        );
        for operand in &self.inputs {
            *out += &format!("    in {}\n", operand_text(operand, self));
        }
        for operand in &self.outputs {
            *out += &format!("    out {}\n", operand_text(operand, self));
        }
        for mask in &self.masks {
            *out += &format!("    mask {}\n", mask.text());
        }
        if self.scalars != 0 {
            *out += &format!("    scalars {}\n", self.scalars);
        }
        if let Body::EdgePass(pass) = &self.body {
            print_pass(pass, out);
        } else {
            for (n, expr) in self.body.exprs().iter().enumerate() {
                let last = self.body.is_finish(n);
                let name = if last { "finish" } else { "value" };
                *out += &format!("    {name} {}\n", expr.text());
            }
        }
        out.push_str("  }");
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut body = body(from)?;
        let heads = from.number()?;
        from.expect("x")?;
        let width = from.number()?;
        from.expect("{")?;
        let mut inputs = Vec::new();
        while from.skip("in") {
            inputs.push(operand(from, heads, width)?);
        }
        let mut outputs = Vec::new();
        while from.skip("out") {
            outputs.push(operand(from, heads, width)?);
        }
        let mut masks = Vec::new();
        while from.skip("mask") {
            masks.push(Mask::parse(from)?);
        }
        let scalars = match from.skip("scalars") {
            true => from.number()?,
            false => 0,
        };
        if let Body::EdgePass(pass) = &mut body {
            parse_pass(from, pass)?;
        }
        let mut values = Vec::new();
        while from.skip("value") {
            values.push(Expr::parse(from)?);
        }
        if let Body::Map { values: all, .. } = &mut body {
            *all = values;
        } else if !matches!(body, Body::EdgePass(_)) {
            let [one] = <[Expr; 1]>::try_from(values).map_err(|_| from.wrong("one `value`"))?;
            *value(&mut body).ok_or_else(|| from.wrong("a map"))? = one;
        }
        if let Some(last) = finish_mut(&mut body) {
            from.expect("finish")?;
            *last = Expr::parse(from)?;
        }
        from.expect("}")?;
        Ok(Self {
            body,
            heads,
            width,
            inputs,
            outputs,
            masks,
            scalars,
        })
    }
}

/// The attributes between the name of a body and its shape.
fn attributes(body: &Body) -> String {
    let over = |over: &Over| match over {
        Over::Rows => String::new(),
        Over::Edges(set) => format!(" {}", set.text()),
    };
    match body {
        Body::Map { over: rows, .. } | Body::ColReduce { over: rows, .. } => over(rows),
        Body::Gather { set, reduce, .. } => format!(" {} {}", set.text(), reduce.text()),
        Body::RowReduce {
            over: rows,
            axis,
            reduce,
            ..
        } => format!("{} {} {}", over(rows), axis.text(), reduce.text()),
        Body::TypeSum { set, types, .. } => format!(" {} {types} types", set.text()),
        Body::EdgePass(pass) => format!(" {}", pass.set.text()),
    }
}

/// Reads the name of a body and its attributes; leaves its expressions empty.
fn body(from: &mut Reader<'_>) -> Result<Body, TextError> {
    use crate::kernel::End;
    let (value, finish) = (Expr::default(), Expr::default());
    let name = from.word("the name of a kernel")?;
    Ok(match name {
        "map" | "edge-map" => Body::Map {
            over: over(from, name == "edge-map")?,
            values: Vec::new(),
        },
        "spmm" | "spmm-t" => Body::Gather {
            set: EdgeSet::parse(from)?,
            to: if name == "spmm" { End::Dst } else { End::Src },
            reduce: Reduce::parse(from)?,
            value,
            finish,
        },
        "row-reduce" | "sddmm" => Body::RowReduce {
            over: over(from, name == "sddmm")?,
            axis: Axis::parse(from)?,
            reduce: Reduce::parse(from)?,
            value,
            finish,
        },
        "col-reduce" => {
            let edges = !from.at_number();
            Body::ColReduce {
                over: over(from, edges)?,
                value,
            }
        }
        "type-sum" => {
            let set = EdgeSet::parse(from)?;
            let types = from.number()?;
            from.expect("types")?;
            Body::TypeSum { set, types, value }
        }
        "edge-pass" | "edge-pass-t" => Body::EdgePass(EdgePass {
            set: EdgeSet::parse(from)?,
            to: if name == "edge-pass" {
                End::Dst
            } else {
                End::Src
            },
            numbers: Vec::new(),
            softmax: None,
            results: Vec::new(),
        }),
        _ => {
            return Err(from.wrong_before(
                "map, edge-map, spmm, spmm-t, row-reduce, sddmm, col-reduce, type-sum, edge-pass or edge-pass-t",
            ));
        }
    })
}

fn over(from: &mut Reader<'_>, edges: bool) -> Result<Over, TextError> {
    match edges {
        true => EdgeSet::parse(from).map(Over::Edges),
        false => Ok(Over::Rows),
    }
}

fn value(body: &mut Body) -> Option<&mut Expr> {
    match body {
        Body::Map { .. } | Body::EdgePass(_) => None,
        Body::Gather { value, .. }
        | Body::RowReduce { value, .. }
        | Body::ColReduce { value, .. }
        | Body::TypeSum { value, .. } => Some(value),
    }
}

fn finish_mut(body: &mut Body) -> Option<&mut Expr> {
    match body {
        Body::Gather { finish, .. } | Body::RowReduce { finish, .. } => Some(finish),
        Body::Map { .. } | Body::ColReduce { .. } => None,
        Body::TypeSum { .. } | Body::EdgePass(_) => None,
    }
}

/// Prints the numbers and the results of an edge pass.
fn print_pass(pass: &EdgePass, out: &mut String) {
    for number in &pass.numbers {
        let name = if number.dot { "dot" } else { "number" };
        *out += &format!("    {name} {}\n", number.value.text());
    }
    if let Some(n) = pass.softmax {
        *out += &format!("    softmax number{n}\n");
    }
    for result in &pass.results {
        *out += &match result {
            EdgeResult::Sum { value, finish } => {
                format!("    sum {}\n    finish {}\n", value.text(), finish.text())
            }
            EdgeResult::Number(n) => format!("    store number{n}\n"),
            EdgeResult::LogSumExp => "    log-sum-exp\n".to_owned(),
        };
    }
}

fn parse_pass(from: &mut Reader<'_>, pass: &mut EdgePass) -> Result<(), TextError> {
    while matches!(from.next_word(), Some("dot" | "number")) {
        let dot = from.next_word() == Some("dot");
        from.advance();
        let value = Expr::parse(from)?;
        pass.numbers.push(EdgeNumber { value, dot });
    }
    if from.skip("softmax") {
        pass.softmax = Some(index(from, "number")?);
    }
    loop {
        if from.skip("sum") {
            let value = Expr::parse(from)?;
            from.expect("finish")?;
            let finish = Expr::parse(from)?;
            pass.results.push(EdgeResult::Sum { value, finish });
        } else if from.skip("store") {
            let number = index(from, "number")?;
            pass.results.push(EdgeResult::Number(number));
        } else if from.skip("log-sum-exp") {
            pass.results.push(EdgeResult::LogSumExp);
        } else {
            return Ok(());
        }
    }
}

/// Prints an operand: its row, then its differences from a dense one of the kernel's shape.
fn operand_text(operand: &Operand, kernel: &Kernel) -> String {
    let dense = Operand::dense(operand.at, kernel.heads, kernel.width);
    let mut text = operand.at.text();
    for (name, found, plain) in [
        ("stride", operand.stride, dense.stride),
        ("offset", operand.offset, dense.offset),
        ("head-step", operand.head_step, dense.head_step),
        ("column-step", operand.column_step, dense.column_step),
    ] {
        if found != plain {
            text += &format!(" {name} {found}");
        }
    }
    if !operand.storage.is_f32() {
        text += &format!(" {}", operand.storage.text());
    }
    if let Some(Picked { by, count, step }) = operand.picked {
        text += &format!(" picked(in{by} of {count} step {step})");
    }
    text
}

fn operand(from: &mut Reader<'_>, heads: u32, width: u32) -> Result<Operand, TextError> {
    let at = At::parse(from)?;
    let (heads, width): (u32, u32) = (heads, width);
    if heads.checked_mul(width).is_none() {
        return Err(from.wrong_before("heads and columns of at most 2^32 elements"));
    }
    let mut operand = Operand::dense(at, heads, width);
    loop {
        let field = match from.next_word() {
            Some("stride") => &mut operand.stride,
            Some("offset") => &mut operand.offset,
            Some("head-step") => &mut operand.head_step,
            Some("column-step") => &mut operand.column_step,
            _ => break,
        };
        from.advance();
        *field = from.number()?;
    }
    operand.storage = storage(from)?;
    if from.skip("picked") {
        operand.picked = Some(from.in_brackets(|from| {
            let by = index(from, "in")?;
            from.expect("of")?;
            let count = from.number()?;
            from.expect("step")?;
            let step = from.number()?;
            Ok(Picked { by, count, step })
        })?);
    }
    Ok(operand)
}

/// Reads a word made of a name and a number.
fn index(from: &mut Reader<'_>, name: &str) -> Result<u16, TextError> {
    let expected = format!("`{name}` and a number");
    let number = from.numbered(name, &expected)?;
    u16::try_from(number).map_err(|_| from.wrong_before(&expected))
}

impl Text for Mask {
    fn print(&self, out: &mut String) {
        let Self {
            p,
            at,
            first,
            head_step,
            column_step,
        } = self;
        let at = at.text();
        *out +=
            &format!("{p:?} {at} first {first} head-step {head_step} column-step {column_step}");
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let p = from.number()?;
        let at = At::parse(from)?;
        let mut field = |name| {
            from.expect(name)?;
            from.number()
        };
        Ok(Self {
            p,
            at,
            first: field("first")?,
            head_step: field("head-step")?,
            column_step: field("column-step")?,
        })
    }
}

impl Text for Expr {
    fn print(&self, out: &mut String) {
        for (n, value) in self.values.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            *out += &format!("{comma}%{n} = {}", value.text());
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut values = Vec::new();
        while from.skip("%") {
            let number: usize = from.number()?;
            if number != values.len() {
                return Err(from.wrong_before(&format!("{}", values.len())));
            }
            from.expect("=")?;
            values.push(Value::parse(from)?);
            if !from.skip(",") {
                break;
            }
        }
        Ok(Self { values })
    }
}

impl Text for Value {
    fn print(&self, out: &mut String) {
        *out += &match self {
            Self::Load(n) => format!("in{n}"),
            Self::Const(value) => format!("{value:?}"),
            Self::Scalar(n) => format!("scalar{n}"),
            Self::Acc => "acc".to_owned(),
            Self::Number(n) => format!("number{n}"),
            Self::Mask(n) => format!("mask{n}"),
            Self::Unary(unary, a) => format!("{} %{a}", unary.text()),
            Self::Binary(binary, a, b) => format!("{} %{a} %{b}", binary.text()),
        };
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let earlier = |from: &mut Reader<'_>| {
            from.expect("%")?;
            from.number()
        };
        if from.at_numbered("in") {
            return index(from, "in").map(Self::Load);
        }
        if from.at_numbered("scalar") {
            return index(from, "scalar").map(Self::Scalar);
        }
        if from.at_numbered("number") {
            return index(from, "number").map(Self::Number);
        }
        if from.at_numbered("mask") {
            return index(from, "mask").map(Self::Mask);
        }
        if from.skip("acc") {
            return Ok(Self::Acc);
        }
        if from.at_number() || matches!(from.next_word(), Some("inf" | "NaN")) {
            return from.number().map(Self::Const);
        }
        let next = from.next_word();
        if Binary::ALL.iter().any(|binary| Some(binary.name()) == next) {
            let binary = Binary::parse(from)?;
            return Ok(Self::Binary(binary, earlier(from)?, earlier(from)?));
        }
        Ok(Self::Unary(Unary::parse(from)?, earlier(from)?))
    }
}
