//! Why a text is not an expression, and why an expression has no value.

use std::fmt;

use super::{MAX_BRACKETS, MAX_LIST, MAX_NODES, MAX_OPERATORS, MAX_SOURCE_LEN, Type};

/// A position in the text of an expression. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The position of the byte `offset`.
    pub(super) fn at(source: &str, offset: usize) -> Self {
        let before = source.char_indices().take_while(|(index, _)| *index < offset);
        before.fold(Self { line: 1, column: 1 }, |position, (_, character)| match character {
            '\n' => Self { line: position.line + 1, column: 1 },
            _ => Self { column: position.column + 1, ..position },
        })
    }

    /// The byte at this position; the end of the text if there is none.
    pub(super) fn offset(&self, source: &str) -> usize {
        let before = source.split_inclusive('\n').take(self.line.saturating_sub(1));
        let start = before.map(str::len).sum::<usize>();
        let mut line = source.get(start..).unwrap_or_default().char_indices();
        let at = line.nth(self.column.saturating_sub(1));
        at.map_or(source.len(), |(offset, _)| start + offset)
    }
}

/// Most expressions have one line.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            1 => write!(f, "column {}", self.column),
            line => write!(f, "line {line}, column {}", self.column),
        }
    }
}

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// What is wrong.
    pub reason: Reason,
    /// Its position, if it has one.
    pub position: Option<Position>,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        self.reason.fmt(f)
    }
}

impl std::error::Error for ExpressionError {}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// More bytes than allowed.
    #[error("the expression is longer than {MAX_SOURCE_LEN} bytes")]
    TooLong,
    /// More brackets within brackets than allowed.
    #[error("brackets are nested more than {MAX_BRACKETS} deep")]
    TooDeep,
    /// More operators than allowed.
    #[error("more than {MAX_OPERATORS} operators other than && and ||")]
    TooManyOperators,
    /// More nodes than allowed.
    #[error("more than {MAX_NODES} literals, attributes and operators")]
    TooManyNodes,
    /// More elements than allowed.
    #[error("a list of more than {MAX_LIST} elements")]
    ListTooLong,
    /// Not valid CEL.
    #[error("{0}")]
    Syntax(String),
    /// Valid CEL, but outside the subset.
    #[error(
        "{0}: not part of the language of recipes, which has == != < <= > >= && || ! + - * / %, \
         `x in [1, 2]` and `condition ? value : other value`"
    )]
    Unsupported(String),
    /// An attribute that is not declared.
    #[error("no attribute `{0}` is declared")]
    Undeclared(String),
    /// An operator on types that it does not support.
    #[error("{0}")]
    Types(String),
}

impl Reason {
    /// The error at a position.
    pub(super) fn at(self, position: Option<Position>) -> ExpressionError {
        ExpressionError { reason: self, position }
    }
}

/// Why an expression has no value for a device. Names attributes, never their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The device does not have this attribute.
    #[error("attribute `{0}` is not declared on this device")]
    Missing(String),
    /// The device has it, but with another type.
    #[error("attribute `{name}` is of type {found} on this device, not {declared}")]
    WrongType {
        /// The attribute.
        name: String,
        /// What the recipe declares.
        declared: Type,
        /// What the device has.
        found: Type,
    },
    /// A result beyond 64 bits.
    #[error("integer overflow")]
    Overflow,
    /// `x / 0` or `x % 0`.
    #[error("division by zero")]
    DivisionByZero,
}
