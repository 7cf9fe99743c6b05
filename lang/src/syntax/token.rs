//! The lexer.

use crate::diagnostic::{Diagnostic, Span};
use logos::Logos;

/// The kinds of tokens.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f\u{feff}]+")]
pub enum TokenKind {
    #[regex(r"#[^\n]*", allow_greedy = true)]
    Comment,
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*")]
    Ident,
    #[regex(r"[0-9][0-9_]*(\.[0-9][0-9_]*)?([eE][+-]?[0-9]+)?")]
    Number,
    #[regex(r#""([^"\\\n]|\\.)*""#)]
    Str,
    #[regex(r#""([^"\\\n]|\\.)*"#)]
    OpenStr,
    #[token("let")]
    Let,
    #[token("repeat")]
    Repeat,
    #[token("return")]
    Return,
    #[token("loss")]
    Loss,
    #[token("if")]
    If,
    #[token("else")]
    Else,
    #[token("and")]
    And,
    #[token("or")]
    Or,
    #[token("not")]
    Not,
    #[token("true")]
    True,
    #[token("false")]
    False,
    #[token("|>")]
    Pipe,
    #[token("..=")]
    RangeTo,
    #[token("..")]
    Range,
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("<=")]
    Le,
    #[token(">=")]
    Ge,
    #[token("<")]
    Lt,
    #[token(">")]
    Gt,
    #[token("=")]
    Eq,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("@")]
    At,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    /// The end of the text.
    End,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its place.
    pub span: Span,
}

/// Tokens, comments, and errors.
pub struct Lexed {
    /// Tokens without comments; the last one is `End`.
    pub tokens: Vec<Token>,
    /// Places of the comments.
    pub comments: Vec<Span>,
    /// Errors.
    pub diagnostics: Vec<Diagnostic>,
}

/// Splits a text into tokens. Reports and skips bad characters.
pub fn lex(text: &str) -> Lexed {
    let mut out = Lexed {
        tokens: Vec::new(),
        comments: Vec::new(),
        diagnostics: Vec::new(),
    };
    let mut bad: Option<Span> = None;
    for (kind, range) in TokenKind::lexer(text).spanned() {
        let span = Span::new(range.start, range.end);
        if let (Some(run), Err(())) = (&mut bad, &kind)
            && run.end == span.start
        {
            run.end = span.end;
            continue;
        }
        out.report_bad(bad.take(), text);
        match kind {
            Err(()) => bad = Some(span),
            Ok(TokenKind::Comment) => out.comments.push(span),
            Ok(kind) => out.push(Token { kind, span }, text),
        }
    }
    out.report_bad(bad, text);
    let end = Span::new(text.len(), text.len());
    out.tokens.push(Token {
        kind: TokenKind::End,
        span: end,
    });
    out
}

impl Lexed {
    fn report_bad(&mut self, span: Option<Span>, text: &str) {
        let Some(span) = span else { return };
        let found: String = text[span.start..span.end].chars().take(20).collect();
        let message = format!("`{}` starts no token", found.escape_debug());
        self.diagnostics
            .push(Diagnostic::new("E0001", message).at(span).help("remove it"));
    }

    fn push(&mut self, mut token: Token, text: &str) {
        let span = token.span;
        if token.kind == TokenKind::OpenStr {
            let message = "the string has no closing `\"` on its line";
            self.diagnostics.push(
                Diagnostic::new("E0003", message)
                    .at(span)
                    .help("add a `\"`"),
            );
            token.kind = TokenKind::Str;
        }
        let last = self.tokens.last().copied();
        if let Some(number) = last.filter(|last| last.kind == TokenKind::Number)
            && number.span.end == span.start
            && !text[span.start..].starts_with(|c: char| c.is_ascii_punctuation() && c != '_')
        {
            let whole = number.span.to(span);
            let found = &text[whole.start..whole.end];
            let message = format!("`{found}` is not a number");
            let help = "write numbers as 12, 1_000, 0.5 or 1e-3, with a space before a name";
            self.diagnostics
                .push(Diagnostic::new("E0002", message).at(whole).help(help));
            return;
        }
        self.tokens.push(token);
    }
}

impl TokenKind {
    /// Names the token in messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Comment => "a comment",
            Self::Ident => "a name",
            Self::Number => "a number",
            Self::Str | Self::OpenStr => "a string",
            Self::Let => "`let`",
            Self::Repeat => "`repeat`",
            Self::Return => "`return`",
            Self::Loss => "`loss`",
            Self::If => "`if`",
            Self::Else => "`else`",
            Self::And => "`and`",
            Self::Or => "`or`",
            Self::Not => "`not`",
            Self::True => "`true`",
            Self::False => "`false`",
            Self::Pipe => "`|>`",
            Self::RangeTo => "`..=`",
            Self::Range => "`..`",
            Self::EqEq => "`==`",
            Self::NotEq => "`!=`",
            Self::Le => "`<=`",
            Self::Ge => "`>=`",
            Self::Lt => "`<`",
            Self::Gt => "`>`",
            Self::Eq => "`=`",
            Self::Plus => "`+`",
            Self::Minus => "`-`",
            Self::Star => "`*`",
            Self::Slash => "`/`",
            Self::At => "`@`",
            Self::Comma => "`,`",
            Self::Colon => "`:`",
            Self::LParen => "`(`",
            Self::RParen => "`)`",
            Self::LBracket => "`[`",
            Self::RBracket => "`]`",
            Self::LBrace => "`{`",
            Self::RBrace => "`}`",
            Self::End => "the end of the file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        lex(text).tokens.iter().map(|t| t.kind).collect()
    }

    #[test]
    fn ranges_are_not_swallowed_by_numbers() {
        use TokenKind::{End, Ident, Number, RangeTo};
        assert_eq!(kinds("1..=depth"), [Number, RangeTo, Ident, End]);
        assert_eq!(kinds("1_000.5e-3"), [Number, End]);
    }

    #[test]
    fn bad_characters_in_a_row_are_one_error() {
        let lexed = lex("a $$$ b 2x");
        let codes: Vec<_> = lexed.diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, ["E0001", "E0002"]);
    }
}
