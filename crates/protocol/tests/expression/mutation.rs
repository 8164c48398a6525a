//! No text causes a panic, and every accepted text has a value or an error.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::expression::compile;
use crate::expression::random::{any_type, attributes, below, expression};

const TEXTS: u32 = 20_000;

const FRAGMENTS: [&str; 64] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    " in ",
    "?",
    ":",
    ",",
    ".",
    "a",
    "i",
    "s",
    "1",
    "0x1F",
    "9223372036854775808",
    "1u",
    "1.5",
    "1e3",
    "'x'",
    "\"y\"",
    "'''",
    "r'",
    "b\"",
    "'",
    "\"",
    "\\",
    "true",
    "null",
    "\n",
    "//",
    "`",
    "é",
    "\u{1F600}",
    "\u{0}",
    "\u{feff}",
    "@",
    "&",
    "|",
    "=",
    "has(",
    "s.all(x,",
    "[1].map(x,x)",
    "f(",
    "T{x:",
    "'\\u12'",
    "'\\ud800'",
    "\r",
    "while",
];

fn mutate(text: &mut Vec<char>, rng: &mut ChaCha20Rng) {
    let at = below(text.len() as u32 + 1, rng) as usize;
    match below(4, rng) {
        0 if at < text.len() => drop(text.remove(at)),
        1 if at < text.len() => text[at] = char::from(rng.next_u32() as u8),
        2 if at < text.len() => {
            let other = below(text.len() as u32, rng) as usize;
            text.swap(at, other);
        }
        _ => {
            let fragment = FRAGMENTS[below(FRAGMENTS.len() as u32, rng) as usize];
            text.splice(at..at, fragment.chars());
        }
    }
}

#[test]
fn mutated_texts() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..TEXTS {
        let (of, depth) = (any_type(&mut rng), below(4, &mut rng));
        let mut text: Vec<char> = match below(3, &mut rng) {
            0 => Vec::new(),
            _ => expression(of, depth, &mut rng).chars().collect(),
        };
        let mutations =
            if text.is_empty() { 1 + below(20, &mut rng) } else { 1 + below(3, &mut rng) };
        for _ in 0..mutations {
            mutate(&mut text, &mut rng);
        }
        let text: String = text.into_iter().collect();
        match compile(&text) {
            Ok(compiled) => {
                accepted += 1;
                if let Ok(value) = compiled.evaluate(&attributes(&mut rng)) {
                    assert_eq!(value.type_of(), compiled.result_type(), "{text}");
                }
                // Every accepted text is CEL.
                assert!(cel::Program::compile(&text).is_ok(), "{text}");
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(accepted > TEXTS / 20 && refused > TEXTS / 2, "{accepted} and {refused}");
}
