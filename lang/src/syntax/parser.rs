//! Parser of items and statements. It never fails: it reports what it cannot read and skips it.

use super::ast::{
    Block, Expr, ExprKind, GraphItem, Ident, Item, ItemKind, LayerEdges, LayerItem, Loc, ModelItem,
    Module, Notes, Param, Repeat, Setting, Stmt, StmtKind,
};
use super::token::{Token, TokenKind, lex};
use super::trivia::{Comments, newline_before};
use crate::diagnostic::{self, Diagnostic, Span};

/// Most errors reported; the parser reads on silently, because later errors rarely help.
pub(super) const MAX_ERRORS: usize = 100;

/// Parses a text. The module holds everything that could be read.
pub fn parse(text: &str) -> (Module, Vec<Diagnostic>) {
    let lexed = lex(text);
    let comments = Comments::new(text, lexed.comments);
    let diagnostics = lexed.diagnostics;
    let (open, level) = (Brackets::default(), Brackets::default());
    let tokens = lexed.tokens;
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        comments,
        diagnostics,
        depth: 0,
        open,
        level,
    };
    let module = parser.module();
    let mut diagnostics = parser.diagnostics;
    diagnostic::tidy(&mut diagnostics);
    diagnostics.truncate(MAX_ERRORS);
    (module, diagnostics)
}

/// `None` after reporting unreadable input.
pub(super) type Parsed<T> = Option<T>;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    comments: Comments<'a>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) depth: u32,
    /// Currently open brackets.
    pub(super) open: Brackets,
    /// Brackets open at the start of the innermost block.
    level: Brackets,
}

/// Counts of open brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Brackets {
    pub(super) braces: usize,
    pub(super) others: usize,
}

impl Parser<'_> {
    fn module(&mut self) -> Module {
        let mut items = Vec::new();
        while self.peek() != TokenKind::End {
            let start = self.span();
            let mut notes = Notes {
                before: self.comments.before(start.start, true),
                after: None,
            };
            let kind = match self.word() {
                "graph" => self.graph_item(&mut notes),
                "layer" => self.layer_item(&mut notes),
                "model" => self.model_item(&mut notes),
                "train" => self.train_item(&mut notes),
                _ => {
                    self.error_expected("`graph`, `layer`, `model` or `train`");
                    None
                }
            };
            let Some(kind) = kind else {
                self.skip_to_item(start);
                continue;
            };
            let span = start.to(self.last());
            self.close_notes(span.end, &mut notes);
            items.push(Item {
                notes,
                kind,
                loc: Loc(span),
            });
        }
        Module {
            tail: self.comments.tail(self.text.len(), true),
            items,
        }
    }

    fn graph_item(&mut self, notes: &mut Notes) -> Parsed<ItemKind> {
        self.bump();
        let name = self.name("the name of the graph")?;
        let mut path = None;
        if self.eat(TokenKind::Eq) {
            let span = self.expect(TokenKind::Str, "the file of the graph, in quotes")?;
            path = Some(self.string(span));
        }
        let mut settings = Block::default();
        if path.is_none() || self.peek() == TokenKind::LBrace {
            settings = self.settings(notes)?;
        }
        Some(ItemKind::Graph(GraphItem {
            name,
            path,
            settings,
        }))
    }

    fn layer_item(&mut self, notes: &mut Notes) -> Parsed<ItemKind> {
        self.bump();
        let name = self.name("the name of the layer")?;
        let params = self.params()?;
        let edges = self.layer_edges()?;
        let body = self.block(notes)?;
        Some(ItemKind::Layer(LayerItem {
            name,
            params,
            edges,
            body,
        }))
    }

    fn layer_edges(&mut self) -> Parsed<LayerEdges> {
        if self.word() != "on" {
            return Some(LayerEdges::Called);
        }
        self.bump();
        if self.peek() == TokenKind::Str {
            let span = self.bump();
            let (name, loc) = (self.string(span), Loc(span));
            return Some(LayerEdges::Named(Ident { name, loc }));
        }
        self.keyword(
            "edges",
            "`edges`, `edges + loops` or the name of a set in quotes",
        )?;
        if self.eat(TokenKind::Plus) {
            self.keyword("loops", "`loops`")?;
            return Some(LayerEdges::Looped);
        }
        Some(LayerEdges::Called)
    }

    fn model_item(&mut self, notes: &mut Notes) -> Parsed<ItemKind> {
        self.bump();
        let name = self.name("the name of the model")?;
        let params = self.params()?;
        self.keyword("on", "`on` and the graph that the model is trained on")?;
        let graph = self.name("the graph that the model is trained on")?;
        let body = self.block(notes)?;
        Some(ItemKind::Model(ModelItem {
            name,
            params,
            graph,
            body,
        }))
    }

    fn train_item(&mut self, notes: &mut Notes) -> Parsed<ItemKind> {
        self.bump();
        self.settings(notes).map(ItemKind::Train)
    }

    fn params(&mut self) -> Parsed<Vec<Param>> {
        let open = self.expect(TokenKind::LParen, "`(` and the parameters")?;
        let mut params = Vec::new();
        while self.peek() != TokenKind::RParen {
            let name = self.name("the name of a parameter")?;
            let mut default = None;
            if self.eat(TokenKind::Eq) {
                default = Some(self.expr()?);
            }
            params.push(Param { name, default });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.expect_close(TokenKind::RParen, open)?;
        Some(params)
    }

    fn settings(&mut self, notes: &mut Notes) -> Parsed<Block<Setting>> {
        self.braces(notes, |parser, notes| {
            let key = parser.name("the name of a setting")?;
            parser.expect(TokenKind::Eq, "`=` and the value of the setting")?;
            let value = parser.expr()?;
            Some(Setting {
                notes: std::mem::take(notes),
                key,
                value,
            })
        })
    }

    fn block(&mut self, notes: &mut Notes) -> Parsed<Block<Stmt>> {
        self.braces(notes, |parser, notes| {
            let start = parser.span();
            let kind = parser.stmt(notes)?;
            let notes = std::mem::take(notes);
            Some(Stmt {
                notes,
                kind,
                loc: Loc(start.to(parser.last())),
            })
        })
    }

    /// Parses `{`, entries, `}`; skips unreadable entries. Comments between the start of the
    /// item and its brace go to `notes`.
    fn braces<T: Noted>(
        &mut self,
        notes: &mut Notes,
        mut entry: impl FnMut(&mut Self, &mut Notes) -> Parsed<T>,
    ) -> Parsed<Block<T>> {
        let open = self.expect(TokenKind::LBrace, "`{`")?;
        let outer = std::mem::replace(&mut self.level, self.open);
        let block = self.entries(open, notes, &mut entry);
        self.level = outer;
        Some(block)
    }

    fn entries<T: Noted>(
        &mut self,
        open: Span,
        notes: &mut Notes,
        entry: &mut impl FnMut(&mut Self, &mut Notes) -> Parsed<T>,
    ) -> Block<T> {
        self.comments.inside(open.start, notes);
        let mut block = Block {
            open: None,
            body: Vec::new(),
            tail: Vec::new(),
        };
        block.open = self.comments.after(open.end, self.span().start);
        loop {
            if self.peek() == TokenKind::End || self.at_item() {
                let message = format!("the block is not closed before {}", self.found());
                let diagnostic = Diagnostic::new("E0102", message).at(open);
                self.report(diagnostic.help("add a `}` at the end of the block"));
                return block;
            }
            if self.peek() == TokenKind::RBrace {
                block.tail = self.comments.tail(self.span().start, block.body.is_empty());
                self.bump();
                return block;
            }
            let start = self.span();
            let before = self.comments.before(start.start, block.body.is_empty());
            let mut notes = Notes {
                before,
                after: None,
            };
            match entry(self, &mut notes) {
                Some(mut value) => {
                    let end = self.last().end;
                    let next = self.span().start;
                    let notes = value.notes();
                    self.comments.inside(end, notes);
                    notes.after = self.comments.after(end, next);
                    block.body.push(value);
                }
                None => {
                    if self.span() == start {
                        self.bump();
                    }
                    self.skip_to_entry();
                }
            }
        }
    }

    fn stmt(&mut self, notes: &mut Notes) -> Parsed<StmtKind> {
        match self.peek() {
            TokenKind::Let => {
                self.bump();
                let name = self.name("the name of a variable")?;
                self.expect(TokenKind::Eq, "`=` and a value")?;
                Some(StmtKind::Let(name, self.value()))
            }
            TokenKind::Ident if self.peek_second() == TokenKind::Eq => {
                let name = self.name("the name of a variable")?;
                self.bump();
                Some(StmtKind::Assign(name, self.value()))
            }
            TokenKind::Return => {
                self.bump();
                Some(StmtKind::Return(self.value()))
            }
            TokenKind::Loss => {
                self.bump();
                Some(StmtKind::Loss(self.value()))
            }
            TokenKind::Repeat => self.repeat(notes).map(StmtKind::Repeat),
            _ => {
                self.error_expected("a statement: `let`, `repeat`, `return`, `loss` or `name =`");
                None
            }
        }
    }

    /// Parses the value of a statement. An unreadable one becomes [`ExprKind::Error`], so that
    /// the name it defines stays known.
    fn value(&mut self) -> Expr {
        let start = self.span();
        self.expr().unwrap_or_else(|| {
            self.skip_to_entry();
            Expr::new(ExprKind::Error, start)
        })
    }

    fn repeat(&mut self, notes: &mut Notes) -> Parsed<Repeat> {
        self.bump();
        let start = self.span();
        let header = self.repeat_header().or_else(|| self.skip_to_body(start));
        let (var, from, to, inclusive) = header?;
        self.depth += 1;
        let body = match self.depth > super::MAX_DEPTH {
            true => self.too_deep(),
            false => self.block(notes),
        };
        self.depth -= 1;
        Some(Repeat {
            var,
            from,
            to,
            inclusive,
            body: body?,
        })
    }

    fn repeat_header(&mut self) -> Parsed<(Ident, Expr, Expr, bool)> {
        let var = self.name("the loop variable, as in `repeat i in 1..=depth`")?;
        self.keyword("in", "`in` and a range, as in `repeat i in 1..=depth`")?;
        let from = self.expr()?;
        let inclusive = match self.peek() {
            TokenKind::RangeTo => true,
            TokenKind::Range => false,
            _ => {
                self.error_expected("`..=` and the last value of the loop variable");
                return None;
            }
        };
        self.bump();
        Some((var, from, self.expr()?, inclusive))
    }

    /// Skips an unreadable header of a repeat on one line, and continues at its body.
    fn skip_to_body(&mut self, start: Span) -> Parsed<(Ident, Expr, Expr, bool)> {
        while self.peek() != TokenKind::LBrace {
            if self.peek() == TokenKind::End || newline_before(self.text, self.span().start) {
                return None;
            }
            self.bump();
        }
        let error = || Expr::new(ExprKind::Error, start);
        let var = Ident {
            name: String::new(),
            loc: Loc(start),
        };
        Some((var, error(), error(), true))
    }

    /// Skips to the next item, at least one token after `start`.
    fn skip_to_item(&mut self, start: Span) {
        if self.span() == start {
            self.bump();
        }
        while self.peek() != TokenKind::End && !self.at_item() {
            self.bump();
        }
        self.open = Brackets::default();
    }

    /// Skips to the next statement or setting of this block.
    fn skip_to_entry(&mut self) {
        let stops = |p: &Self| match p.peek() {
            TokenKind::End => true,
            TokenKind::RBrace => p.open.braces <= p.level.braces,
            TokenKind::Let | TokenKind::Repeat | TokenKind::Return | TokenKind::Loss => true,
            _ => p.at_item() || (p.open == p.level && p.at_entry()),
        };
        while !stops(self) {
            self.bump();
        }
        self.open = self.level;
    }

    /// Whether a name starts a line here.
    fn at_entry(&self) -> bool {
        self.peek() == TokenKind::Ident && newline_before(self.text, self.span().start)
    }

    /// Whether an item starts here: its keyword at the start of a line, followed by its name.
    fn at_item(&self) -> bool {
        let follows = match self.word() {
            "graph" | "layer" | "model" => TokenKind::Ident,
            "train" => TokenKind::LBrace,
            _ => return false,
        };
        self.peek_second() == follows && newline_before(self.text, self.span().start)
    }

    fn close_notes(&mut self, end: usize, notes: &mut Notes) {
        self.comments.inside(end, notes);
        notes.after = self.comments.after(end, self.span().start.max(end));
    }
}

/// Parts of the tree that carry comments.
trait Noted {
    fn notes(&mut self) -> &mut Notes;
}

impl Noted for Stmt {
    fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }
}

impl Noted for Setting {
    fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }
}
