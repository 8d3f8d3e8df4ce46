//! Rust, as far as the checks need it: words, signs and literals with their lines, functions, and comments apart.
//!
//! It knows no grammar. What a macro makes it does not see.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier, a keyword, a number.
    Word,
    /// `::`, or any other sign alone.
    Sign,
    /// A string or a character.
    Literal,
    /// `'a`.
    Lifetime,
}

/// A token, and the lines it begins and ends in, from 1 on.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: Box<str>,
    /// Where it stands in the text, in bytes.
    pub(crate) place: Range<usize>,
    pub(crate) line: usize,
    pub(crate) last_line: usize,
}

impl Token {
    /// Whether it is this word or sign.
    pub(crate) fn is(&self, text: &str) -> bool {
        *self.text == *text && matches!(self.kind, Kind::Word | Kind::Sign)
    }
}

/// A comment's line, without what marks it as one.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) line: usize,
    pub(crate) text: Box<str>,
}

/// A file's tokens and comments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rust {
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Comment>,
}

/// Takes `text` apart.
pub(crate) fn lex(text: &str) -> Rust {
    let mut rust = Rust::default();
    let mut cursor = Cursor { text, at: 0, line: 1 };
    while let Some(first) = cursor.peek() {
        let (start, line) = (cursor.at, cursor.line);
        if first.is_whitespace() {
            cursor.bump();
            continue;
        }
        if cursor.rest().starts_with("//") || cursor.rest().starts_with("/*") {
            cursor.comment();
            let lines = text[start..cursor.at].lines().map(|text| {
                text.trim().trim_start_matches(['/', '*', '!']).trim_end_matches("*/").trim().into()
            });
            rust.comments.extend((line..).zip(lines).map(|(line, text)| Comment { line, text }));
            continue;
        }
        let kind = cursor.token(first);
        let text = text[start..cursor.at].into();
        rust.tokens.push(Token { kind, text, place: start..cursor.at, line, last_line: cursor.line });
    }
    rust
}

/// A function that has a body: its name, and which tokens it is, from `fn` to its last brace.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) tokens: &'a [Token],
}

/// The functions, those inside others too.
pub(crate) fn functions(rust: &Rust) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    for (index, pair) in rust.tokens.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        if !keyword.is("fn") || name.kind != Kind::Word {
            continue;
        }
        let (mut braces, mut nested) = (0_usize, 0_i64);
        for (count, token) in (1..).zip(&rust.tokens[index..]) {
            match &*token.text {
                "(" | "[" if braces == 0 => nested += 1,
                ")" | "]" if braces == 0 => nested -= 1,
                ";" if braces == 0 && nested == 0 => break,
                "{" => braces += 1,
                "}" if braces <= 1 => {
                    found.push(Function { name: &name.text, tokens: &rust.tokens[index..index + count] });
                    break;
                }
                "}" => braces -= 1,
                _ => {}
            }
        }
    }
    found
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) {
        if let Some(next) = self.peek() {
            self.at += next.len_utf8();
            self.line += usize::from(next == '\n');
        }
    }

    fn bump_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.bump();
        }
    }

    fn bump_over(&mut self, count: usize) {
        (0..count).for_each(|_| self.bump());
    }

    fn comment(&mut self) {
        if self.rest().starts_with("//") {
            self.bump_while(|next| next != '\n');
            return;
        }
        let mut depth = 0;
        while self.peek().is_some() {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.bump_over(2);
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.bump_over(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.bump();
            }
        }
    }

    fn token(&mut self, first: char) -> Kind {
        if let Some(hashes) = self.raw_string() {
            let end = format!("\"{}", "#".repeat(hashes));
            while self.peek().is_some() && !self.rest().starts_with(&end) {
                self.bump();
            }
            self.bump_over(end.len());
            return Kind::Literal;
        }
        if first == '"' || ["b\"", "c\""].iter().any(|start| self.rest().starts_with(start)) {
            self.bump_while(|next| next != '"');
            self.quoted('"');
            return Kind::Literal;
        }
        if first == '\'' || self.rest().starts_with("b'") {
            return self.character(first);
        }
        if first.is_alphanumeric() || first == '_' {
            self.bump_while(|next| next.is_alphanumeric() || next == '_');
            return Kind::Word;
        }
        self.bump_over(if self.rest().starts_with("::") { 2 } else { 1 });
        Kind::Sign
    }

    /// Moves behind the opening quote of a raw string, if here is one. Its hashes.
    fn raw_string(&mut self) -> Option<usize> {
        let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
            let rest = self.rest().strip_prefix(prefix).map(|rest| rest.trim_start_matches('#'));
            rest.is_some_and(|rest| rest.starts_with('"'))
        })?;
        self.bump_over(prefix.len());
        let before = self.at;
        self.bump_while(|next| next == '#');
        let hashes = self.at - before;
        self.bump();
        Some(hashes)
    }

    /// From an opening quote past the closing one.
    fn quoted(&mut self, quote: char) {
        self.bump();
        while let Some(next) = self.peek() {
            self.bump();
            if next == quote {
                return;
            }
            if next == '\\' {
                self.bump();
            }
        }
    }

    /// A character, or a lifetime.
    fn character(&mut self, first: char) -> Kind {
        if first == 'b' {
            self.bump();
        }
        let mut ahead = self.rest().chars().skip(1);
        let (one, two) = (ahead.next(), ahead.next());
        if one.is_some_and(|one| one != '\\') && two != Some('\'') {
            self.bump();
            self.bump_while(|next| next.is_alphanumeric() || next == '_');
            return Kind::Lifetime;
        }
        self.quoted('\'');
        Kind::Literal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        lex(text).tokens.iter().map(|token| token.text.to_string()).collect()
    }

    #[test]
    fn comments_and_literals_hide_what_is_in_them() {
        let text = "a \"fn // {\" /* fn /* } */ { */ b r#\"use \"x\" \"# '{' b'}' '\\'' 'c x::y // fn\nd";
        let expected =
            ["a", "\"fn // {\"", "b", "r#\"use \"x\" \"#", "'{'", "b'}'", "'\\''", "'c", "x", "::", "y", "d"];
        assert_eq!(words(text), expected);
        let comments: Vec<_> = lex(text).comments.iter().map(|comment| comment.text.to_string()).collect();
        assert_eq!(comments, ["fn /* } */ {", "fn"]);
    }

    #[test]
    fn functions_have_bodies() {
        let rust = lex(
            "trait T { fn none(self: [u8; 2]); } macro! { fn $name() {} } fn a<T: Fn(u8)>() -> [u8; 2] { fn b() {} }",
        );
        let found: Vec<_> =
            functions(&rust).iter().map(|function| (function.name, function.tokens.len())).collect();
        assert_eq!(found, [("a", 27), ("b", 6)]);
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let rust = lex("/* a\n b */\n\"x\n y\"\nz");
        assert_eq!(
            rust.tokens.iter().map(|token| (token.line, token.last_line)).collect::<Vec<_>>(),
            [(3, 4), (5, 5)]
        );
        assert_eq!(rust.comments.iter().map(|comment| comment.line).collect::<Vec<_>>(), [1, 2]);
    }
}
