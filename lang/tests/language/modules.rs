//! Random modules.

use gnnc_ir::kernel::End;
use gnnc_lang::diagnostic::Span;
use gnnc_lang::syntax::Module;
use gnnc_lang::syntax::ast::{
    Arg, BinaryOp, Block, Call, Expr, ExprKind, GraphItem, Ident, Item, ItemKind, LayerEdges,
    LayerItem, Loc, ModelItem, Notes, Param, Repeat, Setting, Stmt, StmtKind, UnaryOp,
};
use proptest::prelude::*;

fn ident() -> impl Strategy<Value = Ident> {
    let name = prop::sample::select(vec![
        "x", "h", "graph", "train", "on", "edges", "_a1", "sum", "relu", "linear", "classes", "i",
    ]);
    name.prop_map(|n| Ident {
        name: n.to_owned(),
        loc: Loc::default(),
    })
}

fn at(kind: ExprKind) -> Expr {
    Expr::new(kind, Span::default())
}

fn expr() -> impl Strategy<Value = Expr> {
    let number = prop::sample::select(vec!["0", "1_000", "0.5", "1e-3", "12.25E2"]);
    let leaf = prop_oneof![
        number.prop_map(|t| at(ExprKind::Number(
            t.replace('_', "").parse().expect("a number"),
            t.to_owned()
        ))),
        "[a-z\"\\\\\n\té ]{0,6}".prop_map(|t| at(ExprKind::Str(t))),
        any::<bool>().prop_map(|b| at(ExprKind::Bool(b))),
        ident().prop_map(|i| at(ExprKind::Name(i.name))),
    ];
    leaf.prop_recursive(6, 48, 4, |inner| {
        let ops = prop::sample::select(vec![
            BinaryOp::Or,
            BinaryOp::And,
            BinaryOp::Eq,
            BinaryOp::Ne,
            BinaryOp::Lt,
            BinaryOp::Le,
            BinaryOp::Gt,
            BinaryOp::Ge,
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Div,
        ]);
        let boxed = inner.clone().prop_map(Box::new);
        let call = (
            ident(),
            prop::collection::vec(inner.clone(), 0..3),
            prop::collection::vec((ident(), inner.clone()), 0..3),
        )
            .prop_map(|(callee, front, named)| {
                let front = front.into_iter().map(|value| Arg { name: None, value });
                let named = named.into_iter().map(|(n, value)| Arg {
                    name: Some(n),
                    value,
                });
                Call {
                    callee,
                    args: front.chain(named).collect(),
                }
            })
            .boxed();
        prop_oneof![
            (any::<bool>(), boxed.clone()).prop_map(|(neg, e)| {
                at(ExprKind::Unary(
                    if neg { UnaryOp::Neg } else { UnaryOp::Not },
                    e,
                ))
            }),
            (ops, boxed.clone(), boxed.clone())
                .prop_map(|(op, a, b)| at(ExprKind::Binary(op, a, b))),
            call.clone().prop_map(|c| at(ExprKind::Call(c))),
            (boxed.clone(), call).prop_map(|(e, c)| at(ExprKind::Pipe(e, c))),
            (boxed.clone(), any::<bool>()).prop_map(|(e, src)| {
                at(ExprKind::At(e, if src { End::Src } else { End::Dst }))
            }),
            (boxed.clone(), boxed.clone(), boxed).prop_map(|(a, b, c)| at(ExprKind::If(a, b, c))),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|v| at(ExprKind::List(v))),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(|v| at(ExprKind::Map(v))),
        ]
    })
}

fn comment() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["# a note", "#", "## b", "# é { } \"", "#  c"])
        .prop_map(str::to_owned)
}

/// Comment lines without blank lines at their ends or in a row.
fn lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec((comment(), any::<bool>()), 0..3).prop_map(|entries| {
        let mut lines = Vec::new();
        for (k, (text, blank)) in entries.into_iter().enumerate() {
            if k > 0 && blank {
                lines.push(String::new());
            }
            lines.push(text);
        }
        lines
    })
}

fn notes() -> impl Strategy<Value = Notes> {
    (lines(), prop::option::of(comment())).prop_map(|(before, after)| Notes { before, after })
}

fn block<T: std::fmt::Debug + Clone>(
    entry: impl Strategy<Value = T>,
) -> impl Strategy<Value = Block<T>> {
    (
        prop::option::of(comment()),
        prop::collection::vec(entry, 0..4),
        lines(),
    )
        .prop_map(|(open, body, tail)| Block { open, body, tail })
}

fn setting() -> impl Strategy<Value = Setting> {
    (notes(), ident(), expr()).prop_map(|(notes, key, value)| Setting { notes, key, value })
}

fn stmt() -> impl Strategy<Value = Stmt> {
    let wrap = |(notes, kind)| Stmt {
        notes,
        kind,
        loc: Loc::default(),
    };
    let leaf = prop_oneof![
        (ident(), expr()).prop_map(|(n, e)| StmtKind::Let(n, e)),
        (ident(), expr()).prop_map(|(n, e)| StmtKind::Assign(n, e)),
        expr().prop_map(StmtKind::Return),
        expr().prop_map(StmtKind::Loss),
    ];
    let leaf = (notes(), leaf).prop_map(wrap);
    leaf.prop_recursive(2, 8, 3, move |inner| {
        let repeat = (ident(), expr(), expr(), any::<bool>(), block(inner)).prop_map(
            |(var, from, to, inclusive, body)| {
                StmtKind::Repeat(Repeat {
                    var,
                    from,
                    to,
                    inclusive,
                    body,
                })
            },
        );
        (notes(), repeat).prop_map(wrap)
    })
}

fn params() -> impl Strategy<Value = Vec<Param>> {
    let param = (ident(), prop::option::of(expr()));
    prop::collection::vec(
        param.prop_map(|(name, default)| Param { name, default }),
        0..4,
    )
}

fn layer_edges() -> impl Strategy<Value = LayerEdges> {
    prop_oneof![
        Just(LayerEdges::Called),
        Just(LayerEdges::Looped),
        ident().prop_map(LayerEdges::Named),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let kind = prop_oneof![
        (ident(), prop::option::of("[a-z./ ]{0,8}"), block(setting())).prop_map(
            |(name, path, settings)| ItemKind::Graph(GraphItem {
                name,
                path,
                settings
            })
        ),
        (ident(), params(), layer_edges(), block(stmt())).prop_map(
            |(name, params, edges, body)| ItemKind::Layer(LayerItem {
                name,
                params,
                edges,
                body
            })
        ),
        (ident(), params(), ident(), block(stmt())).prop_map(|(name, params, graph, body)| {
            ItemKind::Model(ModelItem {
                name,
                params,
                graph,
                body,
            })
        }),
        block(setting()).prop_map(ItemKind::Train),
    ];
    (notes(), kind).prop_map(|(notes, kind)| Item {
        notes,
        kind,
        loc: Loc::default(),
    })
}

/// Any module that the parser can return for a text without errors.
pub fn module() -> impl Strategy<Value = Module> {
    (prop::collection::vec(item(), 0..4), lines()).prop_map(|(items, tail)| Module { items, tail })
}
