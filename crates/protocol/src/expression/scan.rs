//! Bounds on a text before it is parsed.
//!
//! The parser recurses once per bracket and once per operator of a chain, and its error recovery
//! adds to that. So both are counted here first. The count is right only if this scan and the
//! parser agree on what is inside a string or a comment. Hence the parser reads every token that
//! passes here in the same way (CEL, "Syntax"), and whatever could be read in two ways (prefixed
//! and triple-quoted strings, numbers that run into words, bad escapes) is rejected.

use super::error::{ExpressionError, Position, Reason};
use super::{MAX_BRACKETS, MAX_OPERATORS, MAX_SOURCE_LEN};

/// Rejects text that is too long, too deep or too wide, or is not made of tokens.
pub(super) fn scan(source: &str) -> Result<(), ExpressionError> {
    if source.len() > MAX_SOURCE_LEN {
        return Err(Reason::TooLong.at(None));
    }
    let mut scan =
        Scan { bytes: source.as_bytes(), at: 0, open: 0, operators: 0, last: Last::Start };
    while let Some(first) = scan.peek(0) {
        let start = scan.at;
        scan.token(first).map_err(|reason| reason.at(Some(Position::at(source, start))))?;
    }
    Ok(())
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    open: usize,
    operators: usize,
    last: Last,
}

/// The last token, to tell a unary minus from a binary one.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Start,
    /// The end of an operand.
    Operand,
    Unary,
    Other,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Skips the bytes from here for which `holds`.
    fn skip_while(&mut self, holds: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&holds) {
            self.at += 1;
        }
    }

    fn token(&mut self, first: u8) -> Result<(), Reason> {
        match first {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0C => self.at += 1,
            b'/' if self.peek(1) == Some(b'/') => self.skip_while(|byte| byte != b'\n'),
            b'\'' | b'"' => return self.string(first),
            b'0'..=b'9' => return self.number(first),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return self.word(),
            b'(' | b'[' | b'{' => {
                self.open += 1;
                if self.open > MAX_BRACKETS {
                    return Err(Reason::TooDeep);
                }
                // An index is an operator on the operand before it.
                let is_index = first == b'[' && self.last == Last::Operand;
                self.step(1, Last::Other, is_index)?;
            }
            b')' | b']' | b'}' => {
                self.open = self.open.saturating_sub(1);
                self.step(1, Last::Operand, false)?;
            }
            b'!' if self.peek(1) != Some(b'=') => self.unary()?,
            b'-' if self.last != Last::Operand => self.unary()?,
            b'&' | b'|' | b',' | b':' => self.step(1, Last::Other, false)?,
            b'=' | b'!' | b'<' | b'>' => {
                let length = if self.peek(1) == Some(b'=') { 2 } else { 1 };
                self.step(length, Last::Other, true)?;
            }
            b'?' | b'.' | b'+' | b'-' | b'*' | b'/' | b'%' => self.step(1, Last::Other, true)?,
            _ => return Err(self.stray()),
        }
        Ok(())
    }

    /// A character that begins no token.
    fn stray(&self) -> Reason {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let text = std::str::from_utf8(rest).unwrap_or_default();
        let found = text.chars().next().unwrap_or('?');
        Reason::Syntax(match found {
            found if found.is_control() || found.is_whitespace() => {
                "a character that cannot be seen: remove it, or write a space".to_owned()
            }
            ';' => "`;` has no meaning here: there is one expression".to_owned(),
            '#' => "`#` has no meaning here: comments begin with `//`".to_owned(),
            found if found.is_alphabetic() => {
                format!("`{found}` has no meaning here: write text in quotes")
            }
            found => format!("`{found}` has no meaning here: remove it"),
        })
    }

    fn step(&mut self, length: usize, last: Last, is_operator: bool) -> Result<(), Reason> {
        self.at += length;
        self.last = last;
        self.operators += usize::from(is_operator);
        if self.operators > MAX_OPERATORS { Err(Reason::TooManyOperators) } else { Ok(()) }
    }

    /// `!` and `-` before an operand. The parser drops pairs of them, so that `!!1` would be an int
    /// and `--x` would never overflow. A single one nests no deeper than its operand.
    fn unary(&mut self) -> Result<(), Reason> {
        if self.last == Last::Unary {
            return Err(Reason::Syntax("two unary operators in a row: use brackets".to_owned()));
        }
        self.step(1, Last::Unary, false)
    }

    fn word(&mut self) -> Result<(), Reason> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if matches!(self.peek(0), Some(b'\'' | b'"')) {
            return Err(Reason::Unsupported("a string with a prefix (raw or bytes)".to_owned()));
        }
        let is_in = self.bytes.get(start..self.at) == Some(b"in");
        self.step(0, if is_in { Last::Other } else { Last::Operand }, is_in)
    }

    /// An integer in base 10 or 16, or what is before or after a decimal point, with the suffix of
    /// an unsigned integer or an exponent. Whether it is in the subset is decided on the syntax
    /// tree.
    fn number(&mut self, first: u8) -> Result<(), Reason> {
        if first == b'0' && self.peek(1) == Some(b'x') {
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_hexdigit());
        } else {
            self.skip_while(|byte| byte.is_ascii_digit());
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            let is_exponent = matches!(self.peek(0), Some(b'e' | b'E'))
                && self.peek(1 + sign).is_some_and(|byte| byte.is_ascii_digit());
            if is_exponent {
                self.at += 1 + sign;
                self.skip_while(|byte| byte.is_ascii_digit());
            }
        }
        if matches!(self.peek(0), Some(b'u' | b'U')) {
            self.at += 1;
        }
        if self.peek(0).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Reason::Syntax(
                "a number that runs into a word: write a space, or quotes".to_owned(),
            ));
        }
        self.step(0, Last::Operand, false)
    }

    fn string(&mut self, quote: u8) -> Result<(), Reason> {
        if self.peek(1) == Some(quote) && self.peek(2) == Some(quote) {
            return Err(Reason::Unsupported("a string in triple quotes".to_owned()));
        }
        self.at += 1;
        loop {
            match self.peek(0) {
                None | Some(b'\n' | b'\r') => {
                    return Err(Reason::Syntax(
                        "a text without an end: write the quote again".to_owned(),
                    ));
                }
                Some(b'\\') => self.escape()?,
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        return self.step(0, Last::Operand, false);
                    }
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), Reason> {
        let hexadecimal = |byte: u8| byte.is_ascii_hexdigit();
        let octal = |byte: u8| matches!(byte, b'0'..=b'7');
        let (digits, is_digit): (usize, &dyn Fn(u8) -> bool) = match self.peek(1) {
            Some(
                b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`',
            ) => (0, &octal),
            Some(b'x' | b'X') => (2, &hexadecimal),
            Some(b'u') => (4, &hexadecimal),
            Some(b'U') => (8, &hexadecimal),
            Some(b'0'..=b'3') => (2, &octal),
            _ => {
                return Err(Reason::Syntax(
                    "an unknown escape: write \\\\ for a backslash".to_owned(),
                ));
            }
        };
        if !(2..2 + digits).all(|ahead| self.peek(ahead).is_some_and(is_digit)) {
            return Err(Reason::Syntax(
                "an unfinished escape: write \\\\ for a backslash".to_owned(),
            ));
        }
        self.at += 2 + digits;
        Ok(())
    }
}
