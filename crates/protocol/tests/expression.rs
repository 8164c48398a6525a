//! The language of mappings and predicates.

mod differential;
mod language;
mod limits;
mod mutation;
mod random;

use std::collections::BTreeMap;

use sotto_protocol::expression::{
    Attributes, EvaluationError, Expression, ExpressionError, Type, Value,
};

/// Attributes that all tests declare.
fn declared() -> BTreeMap<String, Type> {
    let types = [
        ("a", Type::Bool),
        ("b", Type::Bool),
        ("i", Type::Int),
        ("j", Type::Int),
        ("k", Type::Int),
        ("s", Type::String),
        ("t", Type::String),
        ("l", Type::List),
        ("v", Type::Vector(3)),
        ("w", Type::Vector(3)),
    ];
    types.into_iter().map(|(name, of)| (name.to_owned(), of)).collect()
}

fn compile(source: &str) -> Result<Expression, ExpressionError> {
    Expression::compile(source, &declared())
}

fn attributes(given: &[(&str, Value)]) -> Attributes {
    given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn evaluate(source: &str, given: &[(&str, Value)]) -> Result<Value, EvaluationError> {
    let compiled = compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    compiled.evaluate(&attributes(given))
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}
