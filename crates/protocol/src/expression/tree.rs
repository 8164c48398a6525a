//! The typed tree and its evaluation.
//!
//! There is one enum per type, so a value of the wrong type can come only from outside, in an
//! attribute. The limits on the text bound the depth of the tree.

use std::cmp::Ordering;

use super::{Attributes, EvaluationError, Type, Value, Vector};

/// An expression of any type.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Bool(Bool),
    Int(Int),
    String(Text),
    List(List),
    Vector(u32, Whole),
}

/// An expression of type bool.
#[derive(Clone, Debug)]
pub(super) enum Bool {
    Literal(bool),
    Attribute(String),
    Not(Box<Bool>),
    And(Box<Bool>, Box<Bool>),
    Or(Box<Bool>, Box<Bool>),
    CompareBools(Comparison, Box<Bool>, Box<Bool>),
    CompareInts(Comparison, Int, Int),
    CompareStrings(Comparison, Text, Text),
    InBools(Box<Bool>, Vec<bool>),
    InInts(Int, Vec<i64>),
    InStrings(Text, Vec<String>),
    InAttribute(Text, String),
    Choice(Box<(Bool, Bool, Bool)>),
}

/// An expression of type int.
#[derive(Clone, Debug)]
pub(super) enum Int {
    Literal(i64),
    Attribute(String),
    Negate(Box<Int>),
    Calculate(Operation, Box<(Int, Int)>),
    Choice(Box<(Bool, Int, Int)>),
}

/// An expression of type string.
#[derive(Clone, Debug)]
pub(super) enum Text {
    Literal(String),
    Attribute(String),
    Choice(Box<(Bool, Text, Text)>),
}

/// An expression of type list.
#[derive(Clone, Debug)]
pub(super) enum List {
    /// Each element is an int or a string.
    Literal(Vec<Tree>),
    Attribute(String),
    Choice(Box<(Bool, List, List)>),
}

/// An expression of type vector. Nothing looks into one.
#[derive(Clone, Debug)]
pub(super) enum Whole {
    Attribute(String),
    Choice(Box<(Bool, Whole, Whole)>),
}

/// How two values of one type are compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// An operation on two ints.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Tree {
    pub(super) fn result_type(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::String(_) => Type::String,
            Self::List(_) => Type::List,
            Self::Vector(length, _) => Type::Vector(*length),
        }
    }

    pub(super) fn evaluate(&self, attributes: &Attributes) -> Result<Value, EvaluationError> {
        match self {
            Self::Bool(tree) => tree.evaluate(attributes).map(Value::Bool),
            Self::Int(tree) => tree.evaluate(attributes).map(Value::Int),
            Self::String(tree) => tree.evaluate(attributes).map(|text| Value::String(text.into())),
            Self::List(tree) => tree.evaluate(attributes).map(Value::List),
            Self::Vector(length, tree) => tree.evaluate(*length, attributes).map(Value::Vector),
        }
    }

    /// The numbers and texts that are results, or elements of results, whatever the attributes are:
    /// those in the branches of `?`.
    pub(super) fn constants(&self, found: &mut Vec<Value>) {
        match self {
            Self::Bool(_) | Self::Vector(..) => {}
            Self::Int(tree) => tree.constants(found),
            Self::String(tree) => tree.constants(found),
            Self::List(tree) => tree.constants(found),
        }
    }
}

impl Bool {
    fn evaluate(&self, given: &Attributes) -> Result<bool, EvaluationError> {
        Ok(match self {
            Self::Literal(value) => *value,
            Self::Attribute(name) => match attribute(given, name)? {
                Value::Bool(value) => *value,
                other => return Err(wrong_type(name, Type::Bool, other)),
            },
            Self::Not(tree) => !tree.evaluate(given)?,
            Self::And(left, right) => return decide(false, left, right, given),
            Self::Or(left, right) => return decide(true, left, right, given),
            Self::CompareBools(comparison, left, right) => {
                comparison.holds(left.evaluate(given)?.cmp(&right.evaluate(given)?))
            }
            Self::CompareInts(comparison, left, right) => {
                comparison.holds(left.evaluate(given)?.cmp(&right.evaluate(given)?))
            }
            Self::CompareStrings(comparison, left, right) => {
                // By bytes, which is code point order, as in CEL.
                comparison.holds(left.evaluate(given)?.cmp(right.evaluate(given)?))
            }
            Self::InBools(tree, list) => list.contains(&tree.evaluate(given)?),
            Self::InInts(tree, list) => list.contains(&tree.evaluate(given)?),
            Self::InStrings(tree, list) => {
                let text = tree.evaluate(given)?;
                list.iter().any(|element| element == text)
            }
            Self::InAttribute(tree, name) => {
                let (text, list) = (tree.evaluate(given)?, texts(given, name)?);
                list.iter().any(|element| matches!(element, Value::String(found) if found == text))
            }
            Self::Choice(choice) => {
                let (condition, then, otherwise) = &**choice;
                let branch = if condition.evaluate(given)? { then } else { otherwise };
                return branch.evaluate(given);
            }
        })
    }
}

impl Int {
    fn constants(&self, found: &mut Vec<Value>) {
        match self {
            Self::Choice(choice) => {
                choice.1.constants(found);
                choice.2.constants(found);
            }
            // What has a value without attributes is a constant, like `2 * 3`.
            other => found.extend(other.evaluate(&Attributes::new()).ok().map(Value::Int)),
        }
    }

    fn evaluate(&self, given: &Attributes) -> Result<i64, EvaluationError> {
        match self {
            Self::Literal(value) => Ok(*value),
            Self::Attribute(name) => match attribute(given, name)? {
                Value::Int(value) => Ok(*value),
                other => Err(wrong_type(name, Type::Int, other)),
            },
            Self::Negate(tree) => {
                tree.evaluate(given)?.checked_neg().ok_or(EvaluationError::Overflow)
            }
            Self::Calculate(operation, operands) => {
                let (left, right) = &**operands;
                operation.apply(left.evaluate(given)?, right.evaluate(given)?)
            }
            Self::Choice(choice) => {
                let (condition, then, otherwise) = &**choice;
                let branch = if condition.evaluate(given)? { then } else { otherwise };
                branch.evaluate(given)
            }
        }
    }
}

impl Text {
    fn constants(&self, found: &mut Vec<Value>) {
        match self {
            Self::Literal(text) => found.push(Value::String(text.clone())),
            Self::Attribute(_) => {}
            Self::Choice(choice) => {
                choice.1.constants(found);
                choice.2.constants(found);
            }
        }
    }

    fn evaluate<'a>(&'a self, given: &'a Attributes) -> Result<&'a str, EvaluationError> {
        match self {
            Self::Literal(text) => Ok(text),
            Self::Attribute(name) => match attribute(given, name)? {
                Value::String(text) => Ok(text),
                other => Err(wrong_type(name, Type::String, other)),
            },
            Self::Choice(choice) => {
                let (condition, then, otherwise) = &**choice;
                let branch = if condition.evaluate(given)? { then } else { otherwise };
                branch.evaluate(given)
            }
        }
    }
}

impl List {
    fn constants(&self, found: &mut Vec<Value>) {
        match self {
            Self::Literal(elements) => {
                elements.iter().for_each(|element| element.constants(found));
            }
            Self::Attribute(_) => {}
            Self::Choice(choice) => {
                choice.1.constants(found);
                choice.2.constants(found);
            }
        }
    }

    fn evaluate(&self, given: &Attributes) -> Result<Vec<Value>, EvaluationError> {
        match self {
            Self::Literal(elements) => {
                elements.iter().map(|element| element.evaluate(given)).collect()
            }
            Self::Attribute(name) => texts(given, name).map(<[Value]>::to_vec),
            Self::Choice(choice) => {
                let (condition, then, otherwise) = &**choice;
                let branch = if condition.evaluate(given)? { then } else { otherwise };
                branch.evaluate(given)
            }
        }
    }
}

impl Whole {
    /// A vector of another length is as wrong as a number.
    fn evaluate(&self, length: u32, given: &Attributes) -> Result<Vector, EvaluationError> {
        match self {
            Self::Attribute(name) => match attribute(given, name)? {
                Value::Vector(vector) if vector.as_slice().len() as u64 == u64::from(length) => {
                    Ok(vector.clone())
                }
                other => Err(wrong_type(name, Type::Vector(length), other)),
            },
            Self::Choice(choice) => {
                let (condition, then, otherwise) = &**choice;
                let branch = if condition.evaluate(given)? { then } else { otherwise };
                branch.evaluate(length, given)
            }
        }
    }
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Operation {
    fn apply(self, left: i64, right: i64) -> Result<i64, EvaluationError> {
        match self {
            Self::Divide | Self::Remainder if right == 0 => {
                return Err(EvaluationError::DivisionByZero);
            }
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            Self::Remainder => left.checked_rem(right),
        }
        .ok_or(EvaluationError::Overflow)
    }
}

/// `&&` and `||`: `decisive` on either side decides, even if the other side is an error.
fn decide(
    decisive: bool,
    left: &Bool,
    right: &Bool,
    given: &Attributes,
) -> Result<bool, EvaluationError> {
    let left = left.evaluate(given);
    if left == Ok(decisive) {
        return left;
    }
    let right = right.evaluate(given)?;
    if right == decisive { Ok(decisive) } else { left }
}

fn attribute<'a>(given: &'a Attributes, name: &str) -> Result<&'a Value, EvaluationError> {
    given.get(name).ok_or_else(|| EvaluationError::Missing(name.to_owned()))
}

/// An attribute that is a list of texts.
fn texts<'a>(given: &'a Attributes, name: &str) -> Result<&'a [Value], EvaluationError> {
    match attribute(given, name)? {
        Value::List(list) => match list.iter().find(|one| one.type_of() != Type::String) {
            None => Ok(list),
            Some(other) => Err(wrong_type(name, Type::List, other)),
        },
        other => Err(wrong_type(name, Type::List, other)),
    }
}

fn wrong_type(name: &str, declared: Type, found: &Value) -> EvaluationError {
    EvaluationError::WrongType { name: name.to_owned(), declared, found: found.type_of() }
}
