//! Expression parser, by binding strength.

use super::MAX_DEPTH;
use super::ast::{Arg, BinaryOp, Call, Expr, ExprKind, UnaryOp, binding};
use super::parser::{Parsed, Parser};
use super::token::TokenKind;
use crate::diagnostic::{Diagnostic, Span};
use gnnc_ir::kernel::End;

/// An expression and the height of its tree; bounding the height keeps every tree safe to walk.
type Tree = (Expr, u32);

impl Parser<'_> {
    /// Reads an expression.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.tree(binding::PIPE).map(|(expr, _)| expr)
    }

    /// Reads an expression whose operators bind at least as tightly as `min`.
    fn tree(&mut self, min: u8) -> Parsed<Tree> {
        self.nested(|parser| parser.operators(min))
    }

    /// Runs `read` one nesting level deeper.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Parsed<Tree>) -> Parsed<Tree> {
        self.depth += 1;
        let tree = match self.depth > MAX_DEPTH {
            true => self.too_deep(),
            false => read(self),
        };
        self.depth -= 1;
        tree
    }

    fn operators(&mut self, min: u8) -> Parsed<Tree> {
        let mut left = self.prefix(min)?;
        loop {
            if self.peek() == TokenKind::Pipe && min <= binding::PIPE {
                left = self.pipe(left)?;
                if binary(self.peek()).is_some() {
                    return self.error_after_pipe();
                }
                continue;
            }
            let Some(op) = binary(self.peek()).filter(|op| op.binding() >= min) else {
                return Some(left);
            };
            self.bump();
            let right = self.tree(op.binding() + 1)?;
            let span = left.0.span().to(right.0.span());
            let kind = ExprKind::Binary(op, Box::new(left.0), Box::new(right.0));
            left = self.grown(kind, span, left.1.max(right.1))?;
            let next = binary(self.peek()).map(BinaryOp::binding);
            if op.binding() == binding::COMPARE && next == Some(binding::COMPARE) {
                self.error_expected("`and` or `or` between comparisons");
                return None;
            }
        }
    }

    fn pipe(&mut self, (value, height): Tree) -> Parsed<Tree> {
        self.bump();
        if self.peek() != TokenKind::Ident {
            return self.error_after_pipe();
        }
        let callee = self.name("a function or a layer")?;
        let (mut args, mut tallest) = (Vec::new(), 0);
        if self.peek() == TokenKind::LParen {
            (args, tallest) = self.args()?;
        }
        let span = value.span().to(self.last());
        let kind = ExprKind::Pipe(Box::new(value), Call { callee, args });
        self.grown(kind, span, height.max(tallest))
    }

    fn error_after_pipe<T>(&mut self) -> Parsed<T> {
        let here = self.span();
        let message = "only a function or a layer, and then another `|>`, can follow `|>`";
        let help = "write `x |> f(a)`; to use the result in an expression, write parentheses: `(x |> f) + y`";
        self.report(Diagnostic::new("E0105", message).at(here).help(help));
        None
    }

    fn prefix(&mut self, min: u8) -> Parsed<Tree> {
        let (op, strength) = match self.peek() {
            TokenKind::Minus => (UnaryOp::Neg, binding::NEG),
            TokenKind::Not if min <= binding::NOT => (UnaryOp::Not, binding::NOT),
            _ => return self.postfix(),
        };
        let start = self.bump();
        let (operand, height) = self.tree(strength)?;
        let span = start.to(operand.span());
        self.grown(ExprKind::Unary(op, Box::new(operand)), span, height)
    }

    fn postfix(&mut self) -> Parsed<Tree> {
        let mut base = self.primary()?;
        while self.eat(TokenKind::At) {
            let end = match self.name("`src` or `dst`")? {
                name if name.name == "src" => End::Src,
                name if name.name == "dst" => End::Dst,
                name => {
                    let message = format!("expected `src` or `dst`, found `{}`", name.name);
                    let help = "`h@src` is the row of an edge's source, `h@dst` of its destination";
                    self.report(Diagnostic::new("E0101", message).at(name.span()).help(help));
                    return None;
                }
            };
            let span = base.0.span().to(self.last());
            base = self.grown(ExprKind::At(Box::new(base.0), end), span, base.1)?;
        }
        Some(base)
    }

    fn primary(&mut self) -> Parsed<Tree> {
        let span = self.span();
        let text = &self.text[span.start..span.end];
        let kind = match self.peek() {
            TokenKind::Number => self.number(text),
            TokenKind::Str => ExprKind::Str(self.string(span)),
            TokenKind::True => ExprKind::Bool(true),
            TokenKind::False => ExprKind::Bool(false),
            TokenKind::Ident if self.peek_second() == TokenKind::LParen => {
                let callee = self.name("a function")?;
                let (args, height) = self.args()?;
                let kind = ExprKind::Call(Call { callee, args });
                return self.grown(kind, span.to(self.last()), height);
            }
            TokenKind::Ident => ExprKind::Name(text.to_owned()),
            TokenKind::LParen => {
                self.bump();
                let (inner, height) = self.tree(binding::PIPE)?;
                self.expect_close(TokenKind::RParen, span)?;
                return Some((Expr::new(inner.kind, span.to(self.last())), height));
            }
            TokenKind::If => return self.condition(),
            TokenKind::LBracket => return self.list(),
            TokenKind::LBrace => return self.map(),
            _ => {
                self.error_expected("an expression");
                return None;
            }
        };
        self.bump();
        Some((Expr::new(kind, span), 1))
    }

    fn number(&mut self, text: &str) -> ExprKind {
        match text.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() => ExprKind::Number(value, text.to_owned()),
            _ => {
                let here = self.span();
                let message = format!("`{text}` is too large for a number");
                let help = "the largest number is about 1.8e308";
                self.report(Diagnostic::new("E0002", message).at(here).help(help));
                ExprKind::Error
            }
        }
    }

    /// Parses `if c { a } else { b }`, or `else if ..`.
    fn condition(&mut self) -> Parsed<Tree> {
        let start = self.bump();
        let (condition, first) = self.tree(binding::PIPE)?;
        let (yes, second) = self.branch()?;
        self.expect(
            TokenKind::Else,
            "`else`: an `if` is an expression and has two branches",
        )?;
        let (no, third) = match self.peek() {
            TokenKind::If => self.nested(Self::condition)?,
            _ => self.branch()?,
        };
        let kind = ExprKind::If(Box::new(condition), Box::new(yes), Box::new(no));
        self.grown(kind, start.to(self.last()), first.max(second).max(third))
    }

    fn branch(&mut self) -> Parsed<Tree> {
        let open = self.expect(TokenKind::LBrace, "`{`")?;
        let tree = self.tree(binding::PIPE)?;
        if self.peek() == TokenKind::RBrace {
            self.bump();
            return Some(tree);
        }
        let here = self.span();
        let message = "a branch of an `if` is one expression, closed by `}`";
        let diagnostic = Diagnostic::new("E0101", message)
            .at(here)
            .label(open, "opened here");
        self.report(diagnostic.help("put `let` statements before the `if`"));
        None
    }

    /// Parses the arguments of a call; also returns the height of the tallest.
    fn args(&mut self) -> Parsed<(Vec<Arg>, u32)> {
        let open = self.bump();
        let (mut args, mut tallest, mut named) = (Vec::new(), 0, false);
        while self.peek() != TokenKind::RParen {
            let mut name = None;
            if self.peek() == TokenKind::Ident && self.peek_second() == TokenKind::Eq {
                name = Some(self.name("the name of an argument")?);
                self.bump();
            }
            let (value, height) = self.tree(binding::PIPE)?;
            if named && name.is_none() {
                let message = "a positional argument follows a named one";
                let help = "name it, or move it to the front";
                self.report(
                    Diagnostic::new("E0106", message)
                        .at(value.span())
                        .help(help),
                );
            }
            named |= name.is_some();
            tallest = tallest.max(height);
            args.push(Arg { name, value });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.expect_close(TokenKind::RParen, open)?;
        Some((args, tallest))
    }

    fn list(&mut self) -> Parsed<Tree> {
        let open = self.bump();
        let (mut entries, mut tallest) = (Vec::new(), 0);
        while self.peek() != TokenKind::RBracket {
            let (entry, height) = self.tree(binding::PIPE)?;
            tallest = tallest.max(height);
            entries.push(entry);
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.expect_close(TokenKind::RBracket, open)?;
        self.grown(ExprKind::List(entries), open.to(self.last()), tallest)
    }

    fn map(&mut self) -> Parsed<Tree> {
        let open = self.bump();
        let (mut entries, mut tallest) = (Vec::new(), 0);
        while self.peek() != TokenKind::RBrace {
            let (key, first) = self.tree(binding::PIPE)?;
            self.expect(TokenKind::Colon, "`:` between a key and its value")?;
            let (value, second) = self.tree(binding::PIPE)?;
            tallest = tallest.max(first).max(second);
            entries.push((key, value));
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.expect_close(TokenKind::RBrace, open)?;
        self.grown(ExprKind::Map(entries), open.to(self.last()), tallest)
    }

    /// Builds a node above trees of height `below`.
    fn grown(&mut self, kind: ExprKind, span: Span, below: u32) -> Parsed<Tree> {
        if below >= MAX_DEPTH {
            return self.too_deep();
        }
        Some((Expr::new(kind, span), below + 1))
    }

    /// The contents of a string token.
    pub(super) fn string(&mut self, span: Span) -> String {
        let text = &self.text[span.start..span.end];
        let inner = text[1..].strip_suffix('"').unwrap_or(&text[1..]);
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(c @ ('"' | '\\')) => out.push(c),
                other => {
                    let found: String = other.into_iter().collect();
                    let message = format!("`\\{}` is not an escape", found.escape_debug());
                    let help = "the escapes are `\\\\`, `\\\"`, `\\n` and `\\t`";
                    self.report(Diagnostic::new("E0003", message).at(span).help(help));
                }
            }
        }
        out
    }
}

fn binary(kind: TokenKind) -> Option<BinaryOp> {
    Some(match kind {
        TokenKind::Or => BinaryOp::Or,
        TokenKind::And => BinaryOp::And,
        TokenKind::EqEq => BinaryOp::Eq,
        TokenKind::NotEq => BinaryOp::Ne,
        TokenKind::Lt => BinaryOp::Lt,
        TokenKind::Le => BinaryOp::Le,
        TokenKind::Gt => BinaryOp::Gt,
        TokenKind::Ge => BinaryOp::Ge,
        TokenKind::Plus => BinaryOp::Add,
        TokenKind::Minus => BinaryOp::Sub,
        TokenKind::Star => BinaryOp::Mul,
        TokenKind::Slash => BinaryOp::Div,
        _ => return None,
    })
}
