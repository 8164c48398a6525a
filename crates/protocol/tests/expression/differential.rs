//! Our evaluation against the interpreter of the crate `cel`: the same value, or an error on both
//! sides.

use cel::{Context, Program};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::expression::{Attributes, Value};

use crate::expression::compile;
use crate::expression::random::{any_type, attributes, below, expression};

const EXPRESSIONS: u32 = 20_000;
const ATTRIBUTE_SETS: u32 = 3;

fn interpret(program: &Program, given: &Attributes) -> Option<Value> {
    let mut context = Context::default();
    for (name, value) in given {
        match value {
            Value::Bool(value) => context.add_variable_from_value(name.as_str(), *value),
            Value::Int(value) => context.add_variable_from_value(name.as_str(), *value),
            Value::String(text) => context.add_variable_from_value(name.as_str(), text.clone()),
            Value::List(list) => {
                let texts = list.iter().map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => panic!("an attribute with {other:?} in a list"),
                });
                context.add_variable_from_value(name.as_str(), texts.collect::<Vec<_>>());
            }
            // Of another length than declared: ours has no value.
            Value::Vector(vector) if vector.as_slice().len() != 3 => {}
            Value::Vector(vector) => {
                context.add_variable_from_value(name.as_str(), vector.as_slice().to_vec());
            }
        }
    }
    Some(ours(program.execute(&context).ok()?))
}

fn ours(value: cel::Value) -> Value {
    match value {
        cel::Value::Bool(value) => Value::Bool(value),
        cel::Value::Int(value) => Value::Int(value),
        cel::Value::String(text) => Value::String(text.to_string()),
        cel::Value::List(list) if list.iter().any(|one| matches!(one, cel::Value::Float(_))) => {
            let number = |value: &cel::Value| match value {
                cel::Value::Float(number) => *number,
                other => panic!("a vector with {other:?}"),
            };
            Value::Vector(list.iter().map(number).collect::<Vec<_>>().into())
        }
        cel::Value::List(list) => Value::List(list.iter().cloned().map(ours).collect()),
        other => panic!("an expression of the subset gave {other:?}"),
    }
}

#[test]
fn random_expressions() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let (mut values, mut errors, mut trues) = (0, 0, 0);
    for _ in 0..EXPRESSIONS {
        let (of, depth) = (any_type(&mut rng), 1 + below(4, &mut rng));
        let source = expression(of, depth, &mut rng);
        let ours = match compile(&source) {
            Ok(ours) => ours,
            Err(error) => panic!("{source}: {error}"),
        };
        assert_eq!(ours.result_type(), of, "{source}");
        let theirs = Program::compile(&source).unwrap();
        for _ in 0..ATTRIBUTE_SETS {
            let given = attributes(&mut rng);
            let (ours, theirs) = (ours.evaluate(&given).ok(), interpret(&theirs, &given));
            assert!(ours == theirs, "{source}: we {ours:?}, they {theirs:?}");
            values += u32::from(ours.is_some());
            errors += u32::from(ours.is_none());
            trues += u32::from(ours == Some(Value::Bool(true)));
        }
    }
    // The test says nothing if one outcome hardly ever occurs.
    assert!(values > EXPRESSIONS && errors > EXPRESSIONS / 2 && trues > EXPRESSIONS / 4);
}

/// Overflow and division by zero at all limits of the range, as attributes and as literals.
#[test]
fn arithmetic_at_the_edges() {
    let edges = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 2, i64::MAX - 1, i64::MAX];
    for sign in ["+", "-", "*", "/", "%", "<", "=="] {
        for left in edges {
            for right in edges {
                let given = Attributes::from([
                    ("i".to_owned(), Value::Int(left)),
                    ("j".to_owned(), Value::Int(right)),
                ]);
                for source in [format!("i {sign} j"), format!("{left} {sign} {right}")] {
                    let ours = compile(&source).unwrap().evaluate(&given).ok();
                    let theirs = interpret(&Program::compile(&source).unwrap(), &given);
                    assert!(ours == theirs, "{source} with {left} and {right}");
                }
            }
        }
    }
}
