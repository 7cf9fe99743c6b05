//! Detection of layers that call each other in a cycle.

use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Block, Call, Expr, ExprKind, LayerItem, Module, Stmt, StmtKind};
use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};

/// Reports every cycle and returns the names of the layers in cycles.
pub fn check(module: &Module, diagnostics: &mut Vec<Diagnostic>) -> Vec<String> {
    let layers: Vec<&LayerItem> = module.layers().collect();
    let mut graph = DiGraph::<usize, ()>::new();
    let ids: Vec<NodeIndex> = (0..layers.len()).map(|k| graph.add_node(k)).collect();
    for (k, layer) in layers.iter().enumerate() {
        for name in mentioned(layer) {
            if let Some(callee) = layers.iter().position(|l| l.name.name == name) {
                graph.update_edge(ids[k], ids[callee], ());
            }
        }
    }
    let mut circular = Vec::new();
    for mut circle in tarjan_scc(&graph) {
        circle.sort();
        let first = circle[0];
        if circle.len() == 1 && graph.find_edge(first, first).is_none() {
            continue;
        }
        debug_assert!(
            circle
                .iter()
                .all(|id| has_path_connecting(&graph, first, *id, None))
        );
        let path = walk(&graph, &circle);
        let names: Vec<String> = path
            .iter()
            .map(|id| format!("`{}`", layers[graph[*id]].name.name))
            .collect();
        let message = format!(
            "layers call each other in a cycle: {}",
            names.join(" calls ")
        );
        let name = &layers[graph[first]].name;
        let mut report = Diagnostic::new("E0207", message)
            .at(name.span())
            .help("a layer cannot contain itself; use `repeat` for repeated steps");
        for id in path.iter().filter(|id| **id != first) {
            report = report.label(layers[graph[*id]].name.span(), "also in the cycle");
        }
        diagnostics.push(report);
        circular.extend(circle.iter().map(|id| layers[graph[*id]].name.name.clone()));
    }
    diagnostics.sort_by_key(|d| d.span);
    circular
}

/// A walk from the first layer of a strongly connected set back to itself.
fn walk(graph: &DiGraph<usize, ()>, circle: &[NodeIndex]) -> Vec<NodeIndex> {
    let first = circle[0];
    let mut path = vec![first];
    let mut seen = vec![first];
    // Depth-first over the set; every vertex in it can reach the first.
    while let Some(&at) = path.last() {
        let mut next: Vec<NodeIndex> = graph.neighbors(at).filter(|n| circle.contains(n)).collect();
        next.sort();
        if next.contains(&first) {
            path.push(first);
            return path;
        }
        match next.into_iter().find(|n| !seen.contains(n)) {
            Some(n) => {
                seen.push(n);
                path.push(n);
            }
            None => {
                path.pop();
            }
        }
    }
    path
}

/// Names that a layer mentions where a layer may be meant.
fn mentioned(layer: &LayerItem) -> Vec<&str> {
    let mut names = Vec::new();
    for param in &layer.params {
        if let Some(default) = &param.default {
            expr(default, &mut names);
        }
    }
    block(&layer.body, &mut names);
    // A parameter shadows a layer of the same name.
    names.retain(|name| !layer.params.iter().any(|p| p.name.name == *name));
    names
}

fn block<'a>(stmts: &'a Block<Stmt>, names: &mut Vec<&'a str>) {
    for stmt in &stmts.body {
        match &stmt.kind {
            StmtKind::Let(_, e) | StmtKind::Assign(_, e) => expr(e, names),
            StmtKind::Return(e) | StmtKind::Loss(e) => expr(e, names),
            StmtKind::Repeat(repeat) => block(&repeat.body, names),
        }
    }
}

fn expr<'a>(e: &'a Expr, names: &mut Vec<&'a str>) {
    let args = |call: &'a Call, names: &mut Vec<&'a str>| {
        names.push(&call.callee.name);
        call.args.iter().for_each(|arg| expr(&arg.value, names));
    };
    match &e.kind {
        ExprKind::Name(name) => names.push(name),
        ExprKind::Unary(_, a) | ExprKind::At(a, _) => expr(a, names),
        ExprKind::Binary(_, a, b) => {
            expr(a, names);
            expr(b, names);
        }
        ExprKind::Call(call) => args(call, names),
        ExprKind::Pipe(value, call) => {
            expr(value, names);
            args(call, names);
        }
        ExprKind::If(a, b, c) => {
            for e in [a, b, c] {
                expr(e, names);
            }
        }
        ExprKind::Number(..) | ExprKind::Str(_) | ExprKind::Bool(_) | ExprKind::Error => {}
        ExprKind::List(entries) => entries.iter().for_each(|entry| expr(entry, names)),
        ExprKind::Map(_) => {}
    }
}
