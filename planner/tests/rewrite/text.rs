//! Graphs as text for tests: one directive per line, expressions in prefix notation.
//!
//! ```text
//! features 5                       # width of `features`
//! params w: 5 x 3                  # trainable tensors
//! args h: V x 4, a: E x 1          # arguments
//! scope layer_1                    # the lines below belong to this layer instance
//! let m = (gather sum dst (take src h))
//! result (matmul m w)
//! ```

use gnnc_ir::graph::op::{Input, Loss};
use gnnc_ir::graph::{Init, NodeId, ParamSpec};
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::{Binary, EdgeSet, Graph, Op, Rows, Type, Unary};
use std::collections::BTreeMap;

/// Parses a graph.
pub fn graph(text: &str) -> Graph {
    let mut builder = Builder {
        graph: Graph::new(1),
        names: BTreeMap::new(),
        scope: 0,
    };
    for line in text
        .lines()
        .map(|line| line.split('#').next().unwrap().trim())
    {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        builder.directive(word, rest);
    }
    builder.graph.verify().unwrap();
    builder.graph
}

struct Builder {
    graph: Graph,
    names: BTreeMap<String, NodeId>,
    scope: u32,
}

impl Builder {
    fn directive(&mut self, word: &str, rest: &str) {
        match word {
            "" => {}
            "features" => self.graph.features = rest.parse().unwrap(),
            "scope" => self.scope = self.graph.scope(rest),
            "args" => {
                for (name, ty) in declarations(rest) {
                    let number = self.graph.args.len() as u32;
                    self.graph.args.push(ty);
                    let id = self.graph.add(Op::Arg(number), &[], self.scope).unwrap();
                    self.names.insert(name, id);
                }
            }
            "params" => {
                for (name, ty) in declarations(rest) {
                    let spec = ParamSpec {
                        name: name.clone(),
                        ty,
                        init: Init::Zeros,
                        decay: None,
                        shard: None,
                        element: None,
                    };
                    let param = self.graph.param(spec);
                    let id = self.graph.add(Op::Param(param), &[], self.scope).unwrap();
                    self.names.insert(name, id);
                }
            }
            "let" => {
                let (name, expr) = rest.split_once('=').unwrap();
                let id = self.expr(expr);
                self.names.insert(name.trim().to_owned(), id);
            }
            "result" => {
                let id = self.expr(rest);
                self.graph.results.push(id);
            }
            other => panic!("unknown directive `{other}`"),
        }
    }

    fn expr(&mut self, text: &str) -> NodeId {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
        let id = self.value(&mut words);
        assert!(words.is_empty(), "left over in `{text}`: {words:?}");
        id
    }

    /// Parses one value; words are taken from the end.
    fn value(&mut self, words: &mut Vec<&str>) -> NodeId {
        let word = words.pop().unwrap();
        if word != "(" {
            return self.atom(word);
        }
        let name = words.pop().unwrap();
        let op = operator(name, words);
        let mut kids = Vec::new();
        while words.last() != Some(&")") {
            kids.push(self.value(words));
        }
        words.pop();
        self.add(op, &kids)
    }

    fn atom(&mut self, word: &str) -> NodeId {
        let (plain, looped) = (EdgeSet::Plain, EdgeSet::Looped);
        let op = match word {
            "features" => Op::Input(Input::Features),
            "in_degree" => Op::Input(Input::InDegree(plain)),
            "out_degree" => Op::Input(Input::OutDegree(plain)),
            "in_degree+" => Op::Input(Input::InDegree(looped)),
            "out_degree+" => Op::Input(Input::OutDegree(looped)),
            _ => match (self.names.get(word), word.parse()) {
                (Some(id), _) => return *id,
                (None, Ok(number)) => Op::Const(number),
                _ => panic!("unknown name `{word}`"),
            },
        };
        self.add(op, &[])
    }

    /// Adds a node, or finds an equal one.
    fn add(&mut self, op: Op, kids: &[NodeId]) -> NodeId {
        let same = |(_, node): &(NodeId, &gnnc_ir::Node)| node.op == op && node.inputs == kids;
        let found = self.graph.iter().find(same).map(|(id, _)| id);
        match found {
            Some(id) => id,
            None => self.graph.add(op, kids, self.scope).unwrap(),
        }
    }
}

/// `name: type, name: type`
fn declarations(text: &str) -> Vec<(String, Type)> {
    let one = |part: &str| {
        let (name, ty) = part.split_once(':').unwrap();
        (name.trim().to_owned(), self::ty(ty))
    };
    text.split(',').map(one).collect()
}

/// `V x 3`, `E x 2 x 3`, `4 x 5`
fn ty(text: &str) -> Type {
    let parts: Vec<&str> = text.split(" x ").map(str::trim).collect();
    let number = |part: &str| part.parse::<u32>().unwrap();
    let rows = match parts[0] {
        "V" => Rows::Vertices,
        "E" => Rows::Edges(EdgeSet::Plain),
        "E+" => Rows::Edges(EdgeSet::Looped),
        fixed => Rows::Fixed(number(fixed)),
    };
    match parts[1..] {
        [width] => Type::new(rows, 1, number(width)),
        [heads, width] => Type::new(rows, number(heads), number(width)),
        _ => panic!("`{text}` is no type"),
    }
}

/// Parses an operator; a name that ends in `+` works on the edges with self loops.
fn operator(name: &str, words: &mut Vec<&str>) -> Op {
    let (base, set) = match name.strip_suffix('+') {
        Some(base) => (base, EdgeSet::Looped),
        None => (name, EdgeSet::Plain),
    };
    let end = |words: &mut Vec<&str>| match words.pop().unwrap() {
        "src" => End::Src,
        "dst" => End::Dst,
        other => panic!("`{other}` is no end of an edge"),
    };
    let reduce = |words: &mut Vec<&str>| match words.pop().unwrap() {
        "sum" => Reduce::Sum,
        "max" => Reduce::Max,
        other => panic!("`{other}` is no reduction"),
    };
    let number = |words: &mut Vec<&str>| words.pop().unwrap().parse::<u32>().unwrap();
    let float = |words: &mut Vec<&str>| words.pop().unwrap().parse::<f32>().unwrap();
    match base {
        "take" => Op::Take(set, end(words)),
        "gather" => {
            let reduce = reduce(words);
            Op::Gather(set, end(words), reduce)
        }
        "mean" => Op::GatherMean(set),
        "softmax" => Op::EdgeSoftmax(set),
        "matmul" => Op::MatMul,
        "add" => Op::Binary(Binary::Add),
        "sub" => Op::Binary(Binary::Sub),
        "mul" => Op::Binary(Binary::Mul),
        "div" => Op::Binary(Binary::Div),
        "max" => Op::Binary(Binary::Max),
        "neg" => Op::Unary(Unary::Neg),
        "relu" => Op::Unary(Unary::Relu),
        "leaky_relu" => Op::Unary(Unary::LeakyRelu(float(words))),
        "elu" => Op::Unary(Unary::Elu),
        "exp" => Op::Unary(Unary::Exp),
        "log" => Op::Unary(Unary::Log),
        "sigmoid" => Op::Unary(Unary::Sigmoid),
        "tanh" => Op::Unary(Unary::Tanh),
        "sqrt" => Op::Unary(Unary::Sqrt),
        "rsqrt" => Op::Unary(Unary::Rsqrt),
        "recip" => Op::Unary(Unary::Recip),
        "dropout" => {
            let p = float(words);
            Op::Dropout {
                p,
                site: number(words).into(),
                slice: None,
            }
        }
        "broadcast" => {
            let rows = match words.pop().unwrap() {
                "V" => Rows::Vertices,
                fixed => Rows::Fixed(fixed.parse().unwrap()),
            };
            let heads = number(words);
            Op::Broadcast(Type::new(rows, heads, number(words)))
        }
        "reshape" => {
            let heads = number(words);
            Op::Reshape {
                heads,
                width: number(words),
            }
        }
        "concat" => Op::Concat,
        "slice" => {
            let start = number(words);
            Op::SliceCols {
                start,
                len: number(words),
            }
        }
        "rows" => {
            let start = number(words);
            Op::SliceRows {
                start,
                len: number(words),
            }
        }
        "reduce" => {
            let axis = match words.pop().unwrap() {
                "width" => Axis::Width,
                "heads" => Axis::Heads,
                other => panic!("`{other}` is no axis"),
            };
            Op::ReduceCols(axis, reduce(words))
        }
        "sum_rows" => Op::SumRows,
        "cross_entropy" => Op::Loss(Loss::CROSS_ENTROPY),
        other => panic!("unknown operator `{other}`"),
    }
}
