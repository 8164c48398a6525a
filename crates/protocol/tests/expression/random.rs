//! Random valid expressions as text, and random attributes.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use sotto_protocol::expression::{Attributes, Type, Value};

use crate::expression::declared;

const INTS: [i64; 12] =
    [i64::MIN, i64::MIN + 1, -(1 << 32), -7, -1, 0, 1, 2, 7, 3_037_000_500, i64::MAX - 1, i64::MAX];
const STRINGS: [&str; 8] = ["", "a", "A", "DE", "DEF", "é", "it's \"q\"", "\u{1F600}\n"];

pub(crate) fn below(bound: u32, rng: &mut ChaCha20Rng) -> u32 {
    rng.next_u32() % bound
}

fn pick<T: Copy>(from: &[T], rng: &mut ChaCha20Rng) -> T {
    from[below(from.len() as u32, rng) as usize]
}

/// Attributes of which about one in eight is missing.
pub(crate) fn attributes(rng: &mut ChaCha20Rng) -> Attributes {
    let mut given = Attributes::new();
    for (name, of) in declared() {
        let value = match of {
            Type::Bool => Value::Bool(below(2, rng) == 0),
            Type::Int => Value::Int(pick(&INTS, rng)),
            Type::String => Value::String(pick(&STRINGS, rng).to_owned()),
            Type::List => {
                let texts = (0..below(4, rng)).map(|_| pick(&STRINGS, rng).to_owned());
                Value::List(texts.map(Value::String).collect())
            }
            // One in four has another length.
            Type::Vector(length) => {
                let length = if below(4, rng) == 0 { below(5, rng) } else { length };
                let numbers = (0..length).map(|_| f64::from(below(100, rng)) / 8.0 - 5.0);
                Value::Vector(numbers.collect::<Vec<_>>().into())
            }
        };
        if below(8, rng) > 0 {
            given.insert(name, value);
        }
    }
    given
}

pub(crate) fn any_type(rng: &mut ChaCha20Rng) -> Type {
    match below(16, rng) {
        0 | 1 => Type::List,
        2 => Type::Vector(3),
        _ => single_type(rng),
    }
}

/// A type of one value.
fn single_type(rng: &mut ChaCha20Rng) -> Type {
    pick(&[Type::Bool, Type::Bool, Type::Int, Type::Int, Type::String], rng)
}

/// An expression of a type, in brackets or not, as precedence requires.
pub(crate) fn expression(of: Type, depth: u32, rng: &mut ChaCha20Rng) -> String {
    if depth == 0 || below(8, rng) == 0 {
        return leaf(of, rng);
    }
    let depth = depth - 1;
    if below(6, rng) == 0 {
        let condition = operand(Type::Bool, depth, rng);
        let (then, otherwise) = (operand(of, depth, rng), expression(of, depth, rng));
        return format!("{condition} ? {then} : {otherwise}");
    }
    match of {
        Type::Bool => boolean(depth, rng),
        Type::Int if below(8, rng) == 0 => format!("-({})", expression(Type::Int, depth, rng)),
        Type::Int => {
            let sign = pick(&["+", "-", "*", "/", "%"], rng);
            format!("{} {sign} {}", operand(of, depth, rng), operand(of, depth, rng))
        }
        Type::String => leaf(of, rng),
        Type::List => {
            let elements = 0..below(4, rng);
            let elements: Vec<String> = elements
                .map(|_| expression(pick(&[Type::Int, Type::String], rng), depth, rng))
                .collect();
            format!("[{}]", elements.join(", "))
        }
        Type::Vector(_) => leaf(of, rng),
    }
}

fn boolean(depth: u32, rng: &mut ChaCha20Rng) -> String {
    match below(9, rng) {
        0 => format!("!({})", expression(Type::Bool, depth, rng)),
        8 => format!("{} in l", operand(Type::String, depth, rng)),
        1 => {
            let of = single_type(rng);
            let literals: Vec<String> = (0..1 + below(4, rng)).map(|_| literal(of, rng)).collect();
            format!("{} in [{}]", operand(of, depth, rng), literals.join(", "))
        }
        2..=4 => {
            // Without brackets: how && and || bind is up to the parser.
            let sign = pick(&["&&", "||"], rng);
            let terms: Vec<String> =
                (0..2 + below(3, rng)).map(|_| operand(Type::Bool, depth, rng)).collect();
            terms.join(&format!(" {sign} "))
        }
        _ => {
            let of = single_type(rng);
            let signs = ["==", "!=", "<", "<=", ">", ">="];
            let sign = pick(if of == Type::Bool { &signs[..2] } else { &signs }, rng);
            format!("{} {sign} {}", operand(of, depth, rng), operand(of, depth, rng))
        }
    }
}

fn operand(of: Type, depth: u32, rng: &mut ChaCha20Rng) -> String {
    let inner = expression(of, depth, rng);
    // A word or a literal needs no brackets.
    let is_simple = inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_simple && !inner.starts_with("-(") { inner } else { format!("({inner})") }
}

fn leaf(of: Type, rng: &mut ChaCha20Rng) -> String {
    if below(3, rng) == 0 {
        return literal(of, rng);
    }
    let names: Vec<String> = declared()
        .into_iter()
        .filter(|(_, declared)| *declared == of)
        .map(|(name, _)| name)
        .collect();
    names[below(names.len() as u32, rng) as usize].clone()
}

fn literal(of: Type, rng: &mut ChaCha20Rng) -> String {
    match of {
        Type::Bool => (below(2, rng) == 0).to_string(),
        Type::Int => pick(&INTS, rng).to_string(),
        Type::String => {
            let text = pick(&STRINGS, rng).replace('\n', "\\n");
            format!("'{}'", text.replace('\'', "\\'"))
        }
        Type::List => format!("[{}]", literal(pick(&[Type::Int, Type::String], rng), rng)),
        // There is none.
        Type::Vector(_) => "v".to_owned(),
    }
}
