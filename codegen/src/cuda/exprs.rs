//! Kernel expressions as C statements.
//!
//! A thread computes `lanes` adjacent columns. A value has one name if it is the same for all of
//! them, otherwise one name per lane.

use super::emit::Emit;
use super::math;
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::mask_row;
use gnnc_ir::kernel::{At, Operand, drop_threshold};
use gnnc_ir::words::storage::Storage;

/// The columns a thread computes.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The variable of the head; `None` if there is no such axis here.
    pub head: Option<&'static str>,
    /// The variable of the first column; `None` if there is no such axis here.
    pub column: Option<&'static str>,
    /// Columns per thread.
    pub lanes: u32,
}

/// The names of a value: one per lane, or one for all.
pub type Lanes = Vec<String>;

/// Loads and dropout factors already emitted here.
pub type Known = Vec<(Term, Lanes)>;

/// The name of lane `i`.
pub fn lane(lanes: &Lanes, i: u32) -> &str {
    lanes
        .get(i as usize)
        .or(lanes.first())
        .map_or("", String::as_str)
}

/// The variable that holds the index of a row.
fn row_name(at: At) -> Option<&'static str> {
    match at {
        At::Row => Some("row"),
        At::Src => Some("src"),
        At::Dst => Some("dst"),
        At::Edge => Some("edge"),
        At::List => Some("listed"),
        At::One => None,
    }
}

/// Which values of an expression its result depends on.
fn live(expr: &Expr) -> Vec<bool> {
    let mut live = vec![false; expr.values.len()];
    live[usize::from(expr.result())] = true;
    for id in (0..live.len()).rev() {
        match expr.values[id] {
            Term::Unary(_, a) if live[id] => live[usize::from(a)] = true,
            Term::Binary(_, a, b) if live[id] => {
                live[usize::from(a)] = true;
                live[usize::from(b)] = true;
            }
            _ => {}
        }
    }
    live
}

/// The variable that holds a number of a pass, for edge `b` of those under way.
pub fn number_name(number: u16) -> String {
    format!("number{number}[b]")
}

/// The numbers of a pass that an expression depends on.
pub fn numbers(expr: &Expr) -> Vec<u16> {
    let number = |term| match term {
        Term::Number(number) => Some(number),
        _ => None,
    };
    terms(&[expr]).filter_map(number).collect()
}

/// The values that the results of expressions depend on.
fn terms(exprs: &[&Expr]) -> impl Iterator<Item = Term> {
    exprs.iter().flat_map(|expr| {
        let live = live(expr);
        let values = expr.values.iter().zip(live);
        values.filter(|(_, live)| *live).map(|(value, _)| *value)
    })
}

impl Emit<'_> {
    /// Whether expressions or outputs need this row index.
    pub fn needs(&self, exprs: &[&Expr], at: At) -> bool {
        let by = |output: &Operand| {
            let by = output
                .picked
                .and_then(|picked| self.kernel.inputs.get(usize::from(picked.by)));
            by.is_some_and(|by| by.at == at)
        };
        let output = self
            .kernel
            .outputs
            .iter()
            .any(|output| output.at == at || by(output));
        output
            || terms(exprs).any(|term| match term {
                Term::Load(input) => {
                    let operand = &self.kernel.inputs[usize::from(input)];
                    let by = operand.picked.map(|picked| usize::from(picked.by));
                    operand.at == at || by.is_some_and(|by| self.kernel.inputs[by].at == at)
                }
                Term::Mask(mask) => self.keyed_by(mask, at),
                _ => false,
            })
    }

    fn keyed_by(&self, mask: u16, at: At) -> bool {
        match mask_row(self.kernel, self.kernel.masks[usize::from(mask)].at) {
            At::Edge => matches!(at, At::Src | At::Dst),
            key => key == at,
        }
    }

    /// Declares the hashes that the masks of expressions need at this place.
    pub fn hashes(&mut self, exprs: &[&Expr]) {
        let mut masks: Vec<u16> = terms(exprs)
            .filter_map(|term| match term {
                Term::Mask(mask) => Some(mask),
                _ => None,
            })
            .collect();
        masks.sort_unstable();
        masks.dedup();
        for mask in masks {
            let at = self.kernel.masks[usize::from(mask)].at;
            let hash = match mask_row(self.kernel, at) {
                At::Edge => format!("gnnc_edge_hash(keys[{mask}], ids[src], ids[dst])"),
                At::Src => format!("gnnc_vertex_hash(keys[{mask}], ids[src])"),
                At::Dst => format!("gnnc_vertex_hash(keys[{mask}], ids[dst])"),
                _ => format!("gnnc_vertex_hash(keys[{mask}], ids[row])"),
            };
            self.text.line(format!("const u32 hash{mask} = {hash};"));
        }
    }

    /// The index of an operand's element, for the first lane.
    pub fn address(&self, operand: &Operand, columns: Columns) -> String {
        let mut sum = Vec::new();
        if let (Some(row), true) = (row_name(operand.at), operand.stride != 0) {
            sum.push(times(row, operand.stride));
        }
        if operand.offset != 0 {
            sum.push(format!("{}u", operand.offset));
        }
        if let (Some(head), true) = (columns.head, operand.head_step != 0) {
            sum.push(times(head, operand.head_step));
        }
        if let (Some(column), true) = (columns.column, operand.column_step != 0) {
            sum.push(column.to_owned());
        }
        if sum.is_empty() {
            sum.push("0".to_owned());
        }
        sum.join(" + ")
    }

    fn load(&mut self, input: u16, columns: Columns) -> Lanes {
        let operand = self.kernel.inputs[usize::from(input)];
        let mut address = self.address(&operand, columns);
        if let Some(picked) = operand.picked {
            let by = self.kernel.inputs[usize::from(picked.by)];
            let number = format!("in{}[{}]", picked.by, self.address(&by, columns));
            self.text
                .line(format!("const u32 pick{input} = (u32){number};"));
            let moved = times(&format!("pick{input}"), picked.step);
            address = format!("{address} + {moved}");
        }
        let name = format!("x{input}");
        let steps = columns.column.is_some() && operand.column_step != 0;
        if !steps || columns.lanes == 1 {
            let element = read(operand.storage, &format!("in{input}[{address}]"));
            self.text.line(format!("const float {name} = {element};"));
            return vec![name];
        }
        if !operand.storage.is_f32() {
            return self.load_halves(input, &address, columns.lanes);
        }
        let vector = format!("float{}", columns.lanes);
        self.text.line(format!(
            "const {vector} {name} = *(const {vector} *)(in{input} + ({address}));"
        ));
        let parts = ["x", "y", "z", "w"]
            .into_iter()
            .take(columns.lanes as usize);
        parts.map(|part| format!("{name}.{part}")).collect()
    }

    /// Loads 1, 2 or 4 words with two elements each.
    fn load_halves(&mut self, input: u16, address: &str, lanes: u32) -> Lanes {
        let storage = self.kernel.inputs[usize::from(input)].storage;
        let (ty, parts) = words(lanes);
        self.text.line(format!(
            "const {ty} w{input} = *(const {ty} *)(in{input} + ({address}));"
        ));
        (0..lanes)
            .map(|i| {
                let word = format!("w{input}{}", parts[i as usize / 2]);
                let bits = match i % 2 {
                    0 => format!("{word} & 0xffffu"),
                    _ => format!("{word} >> 16"),
                };
                let name = format!("x{input}_{i}");
                let element = read(storage, &bits);
                self.text.line(format!("const float {name} = {element};"));
                name
            })
            .collect()
    }

    /// Stores a value to an output.
    pub fn store(&mut self, output: usize, columns: Columns, value: &Lanes) {
        let operand = self.kernel.outputs[output];
        let address = self.address(&operand, columns);
        let lanes = columns.lanes;
        if columns.column.is_none() || lanes == 1 {
            let value = written(operand.storage, lane(value, 0));
            self.text.line(format!("out{output}[{address}] = {value};"));
            return;
        }
        if !operand.storage.is_f32() {
            let (ty, _) = words(lanes);
            let element = |i: u32| written(operand.storage, lane(value, i));
            let pairs = (0..lanes).step_by(2);
            let pairs: Vec<String> = pairs
                .map(|i| format!("{} | {} << 16", element(i), element(i + 1)))
                .collect();
            let pairs = pairs.join(", ");
            let made = match lanes {
                2 => pairs,
                _ => format!("make_{ty}({pairs})"),
            };
            self.text
                .line(format!("*({ty} *)(out{output} + ({address})) = {made};"));
            return;
        }
        let values: Vec<&str> = (0..lanes).map(|i| lane(value, i)).collect();
        let values = values.join(", ");
        self.text.line(format!(
            "*(float{lanes} *)(out{output} + ({address})) = make_float{lanes}({values});"
        ));
    }

    /// The dropout factors of a mask whose hash was declared.
    fn factors(&mut self, mask: u16, columns: Columns) -> Lanes {
        let spec = self.kernel.masks[usize::from(mask)];
        let mut sum = Vec::new();
        if spec.first != 0 {
            sum.push(format!("{}u", spec.first));
        }
        if let (Some(head), true) = (columns.head, spec.head_step != 0) {
            sum.push(times(head, spec.head_step));
        }
        let steps = columns.column.is_some() && spec.column_step != 0;
        if let (Some(column), true) = (columns.column, steps) {
            sum.push(column.to_owned());
        }
        let lanes = if steps { columns.lanes } else { 1 };
        (0..lanes)
            .map(|i| {
                let mut sum = sum.clone();
                if i > 0 || sum.is_empty() {
                    sum.push(format!("{i}u"));
                }
                let name = format!("keep{mask}_{i}");
                self.text.line(format!(
                    "const float {name} = gnnc_keep(hash{mask}, {}, {}u, {});",
                    sum.join(" + "),
                    drop_threshold(spec.p),
                    math::number(1.0 / (1.0 - spec.p)),
                ));
                name
            })
            .collect()
    }

    /// Emits the statements of an expression; `tag` keeps the names of several expressions
    /// distinct.
    pub fn eval(
        &mut self,
        expr: &Expr,
        columns: Columns,
        tag: &str,
        acc: &Lanes,
        known: &mut Known,
    ) -> Lanes {
        let live = live(expr);
        let mut values: Vec<Lanes> = Vec::with_capacity(expr.values.len());
        for (id, term) in expr.values.iter().enumerate() {
            let value = match *term {
                _ if !live[id] => Vec::new(),
                Term::Const(x) => vec![math::number(x)],
                Term::Scalar(scalar) => vec![format!("scalars[{scalar}]")],
                Term::Acc => acc.clone(),
                Term::Number(n) => vec![number_name(n)],
                Term::Load(_) | Term::Mask(_) => self.leaf(*term, columns, known),
                Term::Unary(unary, a) => {
                    let a = values[usize::from(a)].clone();
                    self.apply(tag, id, a.len(), |i| {
                        math::unary(unary, &group(lane(&a, i)))
                    })
                }
                Term::Binary(binary, a, b) => {
                    let (a, b) = (
                        values[usize::from(a)].clone(),
                        values[usize::from(b)].clone(),
                    );
                    self.apply(tag, id, a.len().max(b.len()), |i| {
                        math::binary(binary, &group(lane(&a, i)), &group(lane(&b, i)))
                    })
                }
            };
            values.push(value);
        }
        values.pop().unwrap_or_default()
    }

    fn leaf(&mut self, term: Term, columns: Columns, known: &mut Known) -> Lanes {
        if let Some((_, lanes)) = known.iter().find(|(t, _)| *t == term) {
            return lanes.clone();
        }
        let lanes = match term {
            Term::Load(input) => self.load(input, columns),
            Term::Mask(mask) => self.factors(mask, columns),
            _ => Vec::new(),
        };
        known.push((term, lanes.clone()));
        lanes
    }

    fn apply(&mut self, tag: &str, id: usize, count: usize, of: impl Fn(u32) -> String) -> Lanes {
        (0..count as u32)
            .map(|i| {
                let name = if count == 1 {
                    format!("{tag}{id}")
                } else {
                    format!("{tag}{id}_{i}")
                };
                self.text.line(format!("const float {name} = {};", of(i)));
                name
            })
            .collect()
    }
}

/// The type that holds `lanes` 16-bit elements, and its parts of two elements each.
fn words(lanes: u32) -> (&'static str, &'static [&'static str]) {
    match lanes {
        8 => ("uint4", &[".x", ".y", ".z", ".w"]),
        4 => ("uint2", &[".x", ".y"]),
        _ => ("u32", &[""]),
    }
}

/// An element converted to a float.
fn read(storage: Storage, element: &str) -> String {
    match storage {
        Storage::F32 => element.to_owned(),
        storage => format!("gnnc_from_{storage}({element})"),
    }
}

/// A float converted to an element.
fn written(storage: Storage, number: &str) -> String {
    match storage {
        Storage::F32 => number.to_owned(),
        storage => format!("gnnc_to_{storage}({number})"),
    }
}

/// A variable times a constant.
fn times(name: &str, factor: u32) -> String {
    match factor {
        1 => name.to_owned(),
        factor => format!("{name} * {factor}u"),
    }
}

/// Puts a negative number in parentheses, so that its sign cannot merge with an operator before it.
fn group(x: &str) -> String {
    if x.starts_with('-') {
        format!("({x})")
    } else {
        x.to_owned()
    }
}
