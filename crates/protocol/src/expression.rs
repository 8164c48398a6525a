//! The language of mappings and predicates: a subset of CEL, typed, total and small.
//!
//! Literals of the types bool, int and string; declared attributes; `==` and `!=` between values of
//! one type, `<`, `<=`, `>`, `>=` between ints or strings; `&&`, `||`, `!`; `+`, `-`, `*`, `/`, `%`
//! and unary minus on ints; `in` a list of literals of one type; `c ? a : b`. Comments are skipped.
//! Calls, macros, field selection, maps, floating point and all the rest of CEL are refused on the
//! syntax tree, with what it is and its position.
//!
//! The text goes through four steps. `scan` bounds what the parser may meet, since an author's text
//! must not exhaust a device's stack. The crate `cel` parses. `check` turns the syntax tree into a
//! typed one of our own; whatever it does not know, it refuses. `tree` evaluates that one: it
//! cannot meet a value of the wrong type, allocates nothing but a string that is the result, takes
//! one step per node, and gives what CEL gives (CEL specification, "Evaluation").
//!
//! Leaves to others: which attributes a predicate may read, and what a missing one means
//! (`recipe`).

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cel::parser::Parser;
use sotto_wire::AttributeType;

mod check;
mod error;
mod scan;
mod tree;

pub use error::{EvaluationError, ExpressionError, Position, Reason};

/// Bytes of an expression's text.
pub const MAX_SOURCE_LEN: usize = 4_096;
/// Brackets within brackets. The parser uses some 10 KiB of stack for each.
pub const MAX_BRACKETS: usize = 16;
/// Operators other than `&&` and `||`, which do not nest. The parser and we use up to 1 KiB of
/// stack for each.
pub const MAX_OPERATORS: usize = 256;
/// Nodes of the syntax tree.
pub const MAX_NODES: usize = 1_000;
/// Elements of one list.
pub const MAX_LIST: usize = 256;

/// Nested expressions that the parser allows: more than can come past the scan.
const PARSER_DEPTH: u16 = (MAX_BRACKETS + MAX_OPERATORS) as u16 + 16;

/// The type of an attribute, or of what an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// Text.
    String,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::String => "string",
        })
    }
}

impl From<AttributeType> for Type {
    fn from(declared: AttributeType) -> Self {
        match declared {
            AttributeType::Bool => Self::Bool,
            AttributeType::Int => Self::Int,
            AttributeType::String => Self::String,
        }
    }
}

/// The value of an attribute, or of an expression.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A signed integer of 64 bits.
    Int(i64),
    /// Text.
    String(String),
}

impl Value {
    /// Its type.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::String(_) => Type::String,
        }
    }
}

/// Without the value, which is what a device keeps to itself.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({}, redacted)", self.type_of())
    }
}

/// What a device knows about itself.
pub type Attributes = BTreeMap<String, Value>;

/// A valid expression.
#[derive(Clone, Debug)]
pub struct Expression {
    source: String,
    attributes: BTreeSet<String>,
    tree: tree::Tree,
}

impl Expression {
    /// Parses and types `source`, which may read the `declared` attributes.
    pub fn compile<N, T>(source: &str, declared: &BTreeMap<N, T>) -> Result<Self, ExpressionError>
    where
        N: Borrow<str> + Ord,
        T: Copy + Into<Type>,
    {
        scan::scan(source)?;
        let (syntax, info) = Parser::new()
            .max_recursion_depth(PARSER_DEPTH)
            .parse_with_source_info(source)
            .map_err(|errors| error::syntax(&errors))?;
        let declared = |name: &str| declared.get(name).map(|declared| (*declared).into());
        let (tree, attributes) = check::check(&syntax, &info, &declared)?;
        Ok(Self { source: source.to_owned(), attributes, tree })
    }

    /// The type of what it gives.
    pub fn result_type(&self) -> Type {
        self.tree.result_type()
    }

    /// The attributes that it may read.
    pub fn attributes(&self) -> &BTreeSet<String> {
        &self.attributes
    }

    /// The text, as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its value for a device with these attributes. As in CEL, an error on one side of `&&` or
    /// `||` does not matter if the other side decides, and of `c ? a : b` only one branch is
    /// evaluated.
    pub fn evaluate(&self, attributes: &Attributes) -> Result<Value, EvaluationError> {
        self.tree.evaluate(attributes)
    }
}

/// The text, as it was written.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}
