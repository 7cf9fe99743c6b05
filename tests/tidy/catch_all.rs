//! Matches over the closed enums of the IR name every variant, so that a new one does not compile until each place answers.

use std::collections::BTreeSet;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, ExprMatch, ItemFn, ItemImpl, ItemMod, Member, Pat, Path, Type};

/// The enums.
pub const CLOSED: &[&str] = &["Extent", "Instr", "Op"];

/// The lines of a file's arms that catch what variants other arms do not name. Tests do not count.
pub fn catch_alls(text: &str) -> syn::Result<Vec<usize>> {
    let mut found = Found::default();
    found.visit_file(&syn::parse_file(text)?);
    Ok(found.lines)
}

#[derive(Default)]
struct Found {
    /// Whether `Self` is one of the enums.
    inside: bool,
    lines: Vec<usize>,
}

/// The way from a pattern to a part of it: constructors, each with one of its fields.
type Place = Vec<Field>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    /// Empty for tuples and slices.
    constructor: String,
    member: String,
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let before = self.inside;
        self.inside =
            matches!(&*item.self_ty, Type::Path(ty) if CLOSED.contains(&last(&ty.path).as_str()));
        visit::visit_item_impl(self, item);
        self.inside = before;
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        let mut places = BTreeSet::new();
        for arm in &expr.arms {
            self.named(&arm.pat, &mut Vec::new(), &mut places);
        }
        let catches = |arm: &&Arm| places.iter().any(|place| is_open(&arm.pat, place));
        let line = |arm: &Arm| arm.fat_arrow_token.spans[0].start().line;
        self.lines
            .extend(expr.arms.iter().filter(catches).map(line));
        visit::visit_expr_match(self, expr);
    }
}

impl Found {
    /// Adds the places at which a pattern names a variant of one of the enums.
    fn named(&self, pat: &Pat, at: &mut Place, places: &mut BTreeSet<Place>) {
        if path(pat).is_some_and(|path| self.is_variant(path)) {
            places.insert(at.clone());
        }
        for (field, part) in parts(pat) {
            at.extend(field.clone());
            self.named(part, at, places);
            at.truncate(at.len() - usize::from(field.is_some()));
        }
    }

    fn is_variant(&self, path: &Path) -> bool {
        let owner = path.segments.iter().rev().nth(1);
        owner.is_some_and(|owner| {
            CLOSED.iter().any(|name| owner.ident == name) || self.inside && owner.ident == "Self"
        })
    }
}

/// Whether a pattern takes whatever is at a place.
fn is_open(pat: &Pat, place: &[Field]) -> bool {
    match pat {
        Pat::Wild(_) => true,
        Pat::Ident(name) if name.subpat.is_none() => name
            .ident
            .to_string()
            .starts_with(|c: char| c.is_lowercase() || c == '_'),
        Pat::Guard(_) => false,
        _ => {
            let through = |field: &Option<Field>, part| match field {
                None => is_open(part, place),
                Some(field) => place.first() == Some(field) && is_open(part, &place[1..]),
            };
            parts(pat).iter().any(|(field, part)| through(field, part))
                || place.first().is_some_and(|field| is_left_out(pat, field))
        }
    }
}

/// Whether `..` stands for a field of a pattern.
fn is_left_out(pat: &Pat, field: &Field) -> bool {
    let rest = match pat {
        Pat::Struct(fields) => fields.rest.is_some(),
        Pat::Tuple(_) | Pat::TupleStruct(_) | Pat::Slice(_) => parts(pat)
            .iter()
            .any(|(_, part)| matches!(part, Pat::Rest(_))),
        _ => false,
    };
    let constructor = path(pat).map_or_else(String::new, last);
    rest && constructor == field.constructor
        && parts(pat)
            .iter()
            .all(|(other, part)| other.as_ref() != Some(field) || matches!(part, Pat::Rest(_)))
}

/// The patterns inside of one, with the fields that they are for, if they are for less than the whole value.
fn parts(pat: &Pat) -> Vec<(Option<Field>, &Pat)> {
    let field = |member: String| Field {
        constructor: path(pat).map_or_else(String::new, last),
        member,
    };
    let numbered = |(i, part)| (Some(field(format!("{i}"))), part);
    match pat {
        Pat::Guard(guard) => vec![(None, &guard.pat)],
        Pat::Ident(name) => name
            .subpat
            .iter()
            .map(|(_, part)| (None, &**part))
            .collect(),
        Pat::Or(or) => or.cases.iter().map(|part| (None, part)).collect(),
        Pat::Paren(paren) => vec![(None, &paren.pat)],
        Pat::Reference(reference) => vec![(None, &reference.pat)],
        Pat::Slice(slice) => slice.elems.iter().enumerate().map(numbered).collect(),
        Pat::Tuple(tuple) => tuple.elems.iter().enumerate().map(numbered).collect(),
        Pat::TupleStruct(tuple) => tuple.elems.iter().enumerate().map(numbered).collect(),
        Pat::Struct(fields) => {
            let member = |member: &Member| match member {
                Member::Named(name) => name.to_string(),
                Member::Unnamed(index) => index.index.to_string(),
            };
            let named = |part: &'_ syn::FieldPat| Some(field(member(&part.member)));
            fields
                .fields
                .iter()
                .map(|part| (named(part), &*part.pat))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The path of the constructor that a pattern names.
fn path(pat: &Pat) -> Option<&Path> {
    match pat {
        Pat::Path(pat) => Some(&pat.path),
        Pat::Struct(pat) => Some(&pat.path),
        Pat::TupleStruct(pat) => Some(&pat.path),
        _ => None,
    }
}

fn last(path: &Path) -> String {
    let last = path.segments.last();
    last.map_or_else(String::new, |segment| segment.ident.to_string())
}

/// Whether an attribute is `#[test]` or `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    let cfg = |list: &syn::MetaList| list.path.is_ident("cfg") && list.tokens.to_string() == "test";
    attribute.path().is_ident("test") || attribute.meta.require_list().is_ok_and(cfg)
}

/// No line.
const NONE: [usize; 0] = [];

#[test]
fn a_match_with_a_catch_all_is_found() {
    let body = |arms: &str| format!("fn f() {{ match x {{\n{arms}\n}} }}");
    let lines = |arms: &str| catch_alls(&body(arms)).expect("a file");
    assert_eq!(lines("Op::Concat => 1,\n_ => 2,"), [3]);
    assert_eq!(
        lines("Op::Concat if a => 1,\n_ if b => 2,\nOp::Blend => 3,"),
        NONE
    );
    assert_eq!(lines("Some(Op::Concat) => 1,\nother => 2,"), [3]);
    assert_eq!(
        lines("(0, ir::graph::Op::Concat | Op::Blend) => 1,\n(_, _) => 2,"),
        [3]
    );
    assert_eq!(
        lines("Node { at: &Extent::Halo, .. } => 1,\nNode { .. } => 2,"),
        [3]
    );
    assert_eq!(
        lines("(Instr::Loss(_), 0) => 1,\n(Instr::Move(_), ..) => 2,\n(..) => 3,"),
        [4]
    );
    // Each names every variant, or asks about something else.
    assert_eq!(
        lines("Op::Take(_, end) => end,\nOp::Concat | Op::Blend => 2,\nNone => 0,"),
        NONE
    );
    assert_eq!(lines("(Op::Concat, _) => 1,\n(Op::Blend, x) => 2,"), NONE);
    assert_eq!(
        lines("Some(Op::Concat) => 1,\nSome(Op::Blend) => 2,\nNone => 3,"),
        NONE
    );
    assert_eq!(lines("Other::Concat => 1,\n_ => 2,"), NONE);
    let method = "{ fn f(&self) {\nmatch self {\nSelf::Halo => 1,\n_ => 2,\n} } }";
    assert_eq!(
        catch_alls(&format!("impl Extent {method}")).expect("a file"),
        [4]
    );
    assert_eq!(
        catch_alls(&format!("impl Reach {method}")).expect("a file"),
        NONE
    );
    let test = format!(
        "#[cfg(test)]\nmod tests {{ {} }}",
        body("Op::Concat => 1,\n_ => 2,")
    );
    assert_eq!(catch_alls(&test).expect("a file"), NONE);
}
