//! The parser's position in the tokens: lookahead, advancing, and reports of unexpected tokens.

use super::ast::{Ident, Loc};
use super::parser::{Brackets, MAX_ERRORS, Parsed, Parser};
use super::token::TokenKind;
use crate::diagnostic::{Diagnostic, Span};

impl Parser<'_> {
    pub(super) fn peek(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    pub(super) fn peek_second(&self) -> TokenKind {
        self.tokens
            .get(self.at + 1)
            .map_or(TokenKind::End, |token| token.kind)
    }

    pub(super) fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// The place of the previous token.
    pub(super) fn last(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Advances, but never past the last token, `End`.
    pub(super) fn bump(&mut self) -> Span {
        let span = self.span();
        let Brackets { braces, others } = &mut self.open;
        match self.tokens[self.at].kind {
            TokenKind::LBrace => *braces += 1,
            TokenKind::RBrace => *braces = braces.saturating_sub(1),
            TokenKind::LParen | TokenKind::LBracket => *others += 1,
            TokenKind::RParen | TokenKind::RBracket => *others = others.saturating_sub(1),
            _ => {}
        }
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        span
    }

    pub(super) fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn expect(&mut self, kind: TokenKind, what: &str) -> Parsed<Span> {
        if self.peek() == kind {
            return Some(self.bump());
        }
        self.error_expected(what);
        None
    }

    /// Expects the closing bracket for the bracket opened at `open`.
    pub(super) fn expect_close(&mut self, kind: TokenKind, open: Span) -> Parsed<Span> {
        if self.peek() == kind {
            return Some(self.bump());
        }
        let message = format!(
            "expected `,` or {}, found {}",
            kind.describe(),
            self.found()
        );
        let here = self.span();
        self.report(
            Diagnostic::new("E0101", message)
                .at(here)
                .label(here, format!("expected {}", kind.describe()))
                .label(open, "opened here"),
        );
        None
    }

    pub(super) fn name(&mut self, what: &str) -> Parsed<Ident> {
        let span = self.expect(TokenKind::Ident, what)?;
        Some(Ident {
            name: self.text[span.start..span.end].to_owned(),
            loc: Loc(span),
        })
    }

    pub(super) fn keyword(&mut self, word: &str, what: &str) -> Parsed<()> {
        if self.word() == word {
            self.bump();
            return Some(());
        }
        self.error_expected(what);
        None
    }

    /// The text of the current token, if it is a name.
    pub(super) fn word(&self) -> &str {
        match self.peek() {
            TokenKind::Ident => &self.text[self.span().start..self.span().end],
            _ => "",
        }
    }

    pub(super) fn error_expected(&mut self, what: &str) {
        let message = format!("expected {what}, found {}", self.found());
        let here = self.span();
        self.report(
            Diagnostic::new("E0101", message)
                .at(here)
                .label(here, "found here"),
        );
    }

    pub(super) fn too_deep<T>(&mut self) -> Parsed<T> {
        let message = format!("nested more than {} deep", super::MAX_DEPTH);
        let here = self.span();
        let help = "name parts of it with `let`, or use a `repeat`";
        self.report(Diagnostic::new("E0103", message).at(here).help(help));
        None
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_ERRORS {
            self.diagnostics.push(diagnostic);
        }
    }

    pub(super) fn found(&self) -> String {
        let text = &self.text[self.span().start..self.span().end];
        match self.peek() {
            TokenKind::Ident | TokenKind::Number => {
                format!("`{}`", text.chars().take(40).collect::<String>())
            }
            kind => kind.describe().to_owned(),
        }
    }
}
