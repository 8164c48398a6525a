//! The language of mappings and predicates: a subset of CEL, typed, total and small.
//!
//! Literals of type bool, int and string; declared attributes; `==` and `!=` between values of the
//! same type, `<`, `<=`, `>`, `>=` between ints or strings; `&&`, `||`, `!`; `+`, `-`, `*`, `/`,
//! `%` and unary minus on ints; `in` a list of literals of one type, or an attribute that is a list
//! of strings; `c ? a : b`; a list of ints and strings, or an attribute that is a vector, as the
//! result. Comments are skipped. Calls, macros, field selection, maps, floating point and the rest
//! of CEL are rejected on the syntax tree, with the construct and its position.
//!
//! The text goes through four steps. `scan` bounds what the parser may meet, since an author's text
//! must not exhaust a device's stack. The crate `cel` parses. `check` turns the syntax tree into
//! our own typed tree and rejects whatever it does not know. `tree` evaluates the typed tree: it
//! cannot meet a value of the wrong type, allocates nothing but the result, takes one step per node
//! and per element of a list, and gives the same result as CEL (CEL specification, "Evaluation").
//!
//! Leaves to others: which attributes a predicate may read, and what a missing attribute means
//! (`recipe`).

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cel::parser::Parser;
use sotto_wire::AttributeType;

mod check;
mod error;
mod scan;
mod syntax;
mod tree;

pub use error::{EvaluationError, ExpressionError, Position, Reason};

/// The most bytes in an expression's text.
pub const MAX_SOURCE_LEN: usize = 4_096;
/// The deepest nesting of brackets. The parser uses about 10 KiB of stack for each level.
pub const MAX_BRACKETS: usize = 16;
/// The most operators, not counting `&&` and `||`, which do not nest. The parser and our code use
/// up to 1 KiB of stack for each.
pub const MAX_OPERATORS: usize = 256;
/// The most nodes in the syntax tree.
pub const MAX_NODES: usize = 1_000;
/// The most elements in one list.
pub const MAX_LIST: usize = 256;

/// How deeply the parser lets expressions nest: deeper than anything that passes the scan.
const PARSER_DEPTH: u16 = (MAX_BRACKETS + MAX_OPERATORS) as u16 + 16;

/// The type of an attribute, or of an expression's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// Text.
    String,
    /// A list; as an attribute, of texts.
    List,
    /// A vector of so many coordinates.
    Vector(u32),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::String => f.write_str("string"),
            Self::List => f.write_str("list"),
            Self::Vector(length) => write!(f, "vector({length})"),
        }
    }
}

impl From<AttributeType> for Type {
    fn from(declared: AttributeType) -> Self {
        match declared {
            AttributeType::Bool => Self::Bool,
            AttributeType::Int => Self::Int,
            AttributeType::String => Self::String,
            AttributeType::Strings => Self::List,
            AttributeType::Vector(length) => Self::Vector(length),
        }
    }
}

/// The value of an attribute, or of an expression.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// Text.
    String(String),
    /// A list of ints and texts; as an attribute, of texts alone.
    List(Vec<Value>),
    /// A vector.
    Vector(Vector),
}

/// The coordinates of a vector, which may be a million numbers: copies share them. They may be
/// infinite or not a number, which the language never looks at.
#[derive(Clone)]
pub struct Vector(Arc<[f64]>);

impl Vector {
    /// The coordinates.
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }
}

impl From<Vec<f64>> for Vector {
    fn from(coordinates: Vec<f64>) -> Self {
        Self(coordinates.into())
    }
}

/// By bits, so that every vector equals itself.
impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|one| one.to_bits()).eq(other.0.iter().map(|one| one.to_bits()))
    }
}

impl Eq for Vector {}

impl Value {
    /// Its type.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::String(_) => Type::String,
            Self::List(_) => Type::List,
            Self::Vector(vector) => {
                Type::Vector(u32::try_from(vector.as_slice().len()).unwrap_or(u32::MAX))
            }
        }
    }
}

/// Omits the value, which never leaves the device.
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
    literals: Vec<(Value, Position)>,
    tree: tree::Tree,
}

impl Expression {
    /// Parses and type-checks `source`, which may read the `declared` attributes.
    pub fn compile<N, T>(source: &str, declared: &BTreeMap<N, T>) -> Result<Self, ExpressionError>
    where
        N: Borrow<str> + Ord,
        T: Copy + Into<Type>,
    {
        scan::scan(source)?;
        let (syntax, info) = Parser::new()
            .max_recursion_depth(PARSER_DEPTH)
            .parse_with_source_info(source)
            .map_err(|errors| syntax::explain(&errors, source))?;
        let declared = |name: &str| declared.get(name).map(|declared| (*declared).into());
        let check::Contents { tree, attributes, literals } =
            check::check(&syntax, &info, &declared)?;
        Ok(Self { source: source.to_owned(), attributes, literals, tree })
    }

    /// The type of its result.
    pub fn result_type(&self) -> Type {
        self.tree.result_type()
    }

    /// The attributes that it may read.
    pub fn attributes(&self) -> &BTreeSet<String> {
        &self.attributes
    }

    /// The constant numbers and texts that can be its value, or an element of it: those in the
    /// branches of `c ? a : b`.
    pub fn constants(&self) -> Vec<Value> {
        let mut found = Vec::new();
        self.tree.constants(&mut found);
        found
    }

    /// The place of the only literal with this value, outside of lists after `in`.
    pub fn position_of(&self, value: &Value) -> Option<Position> {
        let mut places = self.literals.iter().filter(|(literal, _)| literal == value);
        let (_, place) = places.next()?;
        places.next().is_none().then_some(*place)
    }

    /// The text, as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its value for a device with these attributes. As in CEL, an error on one side of `&&` or
    /// `||` does not matter if the other side decides, and only one branch of `c ? a : b` is
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
