//! Fuzz target: the expressions of recipes, from text to value.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sotto_protocol::expression::{Attributes, Expression, Type, Value};

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    let declared = BTreeMap::from([
        ("a", Type::Bool),
        ("b", Type::Bool),
        ("i", Type::Int),
        ("j", Type::Int),
        ("s", Type::String),
        ("t", Type::String),
    ]);
    let Ok(expression) = Expression::compile(source, &declared) else { return };
    // Some attributes are missing, and one is of a wrong type.
    let given = Attributes::from([
        ("a".to_owned(), Value::Bool(true)),
        ("i".to_owned(), Value::Int(i64::MIN)),
        ("j".to_owned(), Value::Int(-1)),
        ("s".to_owned(), Value::String("DE".to_owned())),
        ("t".to_owned(), Value::Int(7)),
    ]);
    if let Ok(value) = expression.evaluate(&given) {
        assert_eq!(value.type_of(), expression.result_type());
    }
});
