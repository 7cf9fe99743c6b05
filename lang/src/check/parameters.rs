//! Trainable tensors: start values, names and weight decay.

use super::args::Args;
use super::elaborator::{Elaborator, MAX_COLUMNS};
use super::value::{Tensor, Value};
use crate::diagnostic::{Diagnostic, Span};
use gnnc_ir::graph::op::Op;
use gnnc_ir::graph::{Init, ParamSpec};
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::types::{Rows, Type};

/// Start of a parameter, before its fans are known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// Uniform within `sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio, 2010).
    Glorot,
    /// Uniform within `1 / sqrt(fan_in)`, the usual default for linear layers.
    Kaiming,
    /// Independent of fans.
    Fixed(Init),
}

impl Start {
    fn init(self, fan_in: f64, fan_out: f64) -> Init {
        match self {
            Self::Glorot => Init::Uniform((6.0 / (fan_in + fan_out)).sqrt() as f32),
            Self::Kaiming => Init::Uniform((1.0 / fan_in).sqrt() as f32),
            Self::Fixed(init) => init,
        }
    }
}

impl<'a> Elaborator<'a, '_> {
    /// `parameter(width, rows, heads, init, fan_in, fan_out, decay, name)`
    pub fn parameter(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let width = self.size(args, 0)?;
        let rows = if args.given(1) {
            self.size(args, 1)?
        } else {
            1
        };
        let heads = if args.given(2) {
            self.size(args, 2)?
        } else {
            1
        };
        if u64::from(width) * u64::from(heads) > u64::from(MAX_COLUMNS) {
            let message = format!(
                "found {} of {}, expected at most {MAX_COLUMNS} columns in all",
                counted(heads, "head"),
                counted(width, "column")
            );
            self.report(Diagnostic::new("E0303", message).at(args.span));
            return None;
        }
        let start = self.start(args, 3)?;
        let fan_in = if args.given(4) {
            self.size(args, 4)?
        } else {
            rows
        };
        let fan_out = if args.given(5) {
            self.size(args, 5)?
        } else {
            heads * width
        };
        let decay = self.decay(args, 6)?;
        let name = match args.value(7) {
            None => None,
            Some(Value::Word(name)) if !name.is_empty() => Some(name.clone()),
            Some(other) => {
                let other = other.clone();
                self.wrong_kind(&other, "a string", args.span_of(7));
                return None;
            }
        };
        let name = name.unwrap_or_else(|| "parameter_1".to_owned());
        let path = self.frame().path.clone();
        let ty = Type::new(Rows::Fixed(rows), heads, width);
        let init = start.init(f64::from(fan_in), f64::from(fan_out));
        self.create(&path, &name, ty, init, decay, args.span)
            .map(Value::Tensor)
    }

    /// `linear(x, width, bias, init, decay)`
    pub fn linear(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let x = self.tensor(args, 0)?;
        let width = self.size(args, 1)?;
        let bias = if args.given(2) {
            self.boolean(args, 2)?
        } else {
            true
        };
        let start = match args.given(3) {
            true => self.start_of(args, 3, &["glorot", "kaiming"])?,
            false => Start::Glorot,
        };
        let decay = self.decay(args, 4)?;
        let path = self.instance("linear");
        let inner = self.ty(x).columns();
        let (fan_in, fan_out) = (f64::from(inner), f64::from(width));
        let init = start.init(fan_in, fan_out);
        let ty = Type::matrix(inner, width);
        let weight = self.create(&path, "weight", ty, init, decay, args.span)?;
        let product = self.emit_in(&path, Op::MatMul, &[x, weight], args.span);
        let (Value::Tensor(product), true) = (&product, bias) else {
            return Some(product);
        };
        let init = if start == Start::Kaiming {
            init
        } else {
            Init::Zeros
        };
        let bias = self.create(
            &path,
            "bias",
            Type::matrix(1, width),
            init,
            decay,
            args.span,
        )?;
        Some(self.emit_in(&path, Op::Binary(Binary::Add), &[*product, bias], args.span))
    }

    /// Declares a parameter and reads it; in a repeat, declares one per iteration.
    fn create(
        &mut self,
        path: &str,
        name: &str,
        ty: Type,
        init: Init,
        decay: Option<f64>,
        span: Span,
    ) -> Option<Tensor> {
        let full = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        let name = self.fresh(full);
        let count = self.looped.as_ref().map_or(0, |looped| looped.count);
        let spec = ParamSpec {
            name,
            ty: ty.stacked(count),
            init,
            decay,
            shard: None,
            element: None,
        };
        let id = self.graph.param(spec);
        let value = match count {
            0 => self.emit_in(path, Op::Param(id), &[], span),
            _ => match self.graph.add(Op::Param(id), &[], 0) {
                Ok(node) => self.stacked(node),
                Err(_) => Value::Poison,
            },
        };
        match value {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// A unique parameter name: `name`, or else `name` with the next free number appended.
    fn fresh(&mut self, name: String) -> String {
        if self.param_names.insert(name.clone()) {
            return name;
        }
        let stem = name.strip_suffix("_1").unwrap_or(&name).to_owned();
        for k in 2u32.. {
            let name = format!("{stem}_{k}");
            if self.param_names.insert(name.clone()) {
                return name;
            }
        }
        name
    }

    fn start(&mut self, args: &Args<'a>, k: usize) -> Option<Start> {
        match args.value(k) {
            None => Some(Start::Glorot),
            Some(Value::Number(n)) => Some(Start::Fixed(Init::Constant(*n as f32))),
            Some(Value::Uniform(bound)) => Some(Start::Fixed(Init::Uniform(*bound as f32))),
            Some(_) => self.start_of(args, k, &["glorot", "kaiming", "zeros", "ones"]),
        }
    }

    fn start_of(&mut self, args: &Args<'a>, k: usize, words: &[&'static str]) -> Option<Start> {
        Some(match self.choice(args, k, words)? {
            "glorot" => Start::Glorot,
            "kaiming" => Start::Kaiming,
            "zeros" => Start::Fixed(Init::Zeros),
            _ => Start::Fixed(Init::Ones),
        })
    }

    /// `none`, which means the optimizer's decay, or a number.
    fn decay(&mut self, args: &Args<'a>, k: usize) -> Option<Option<f64>> {
        match args.value(k) {
            None => Some(None),
            Some(Value::Word(word)) if word == "none" => Some(None),
            Some(Value::Number(_)) => self.number_in(args, k, 0.0..=1e6).map(Some),
            Some(other) => {
                let other = other.clone();
                self.wrong_kind(&other, "`none` or a number", args.span_of(k));
                None
            }
        }
    }
}
