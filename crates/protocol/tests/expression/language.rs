//! What is part of the language, what it means, and what is rejected, with its message and
//! position.

use std::collections::BTreeMap;

use sotto_protocol::expression::{EvaluationError, Expression, Position, Reason, Type, Value};
use sotto_wire::{AttributeName, AttributeType};

use crate::expression::{compile, evaluate, text};

#[test]
fn values() {
    let given = [
        ("a", Value::Bool(true)),
        ("i", Value::Int(17)),
        ("j", Value::Int(-5)),
        ("s", text("DE")),
        ("t", text("Österreich")),
    ];
    let cases = [
        ("true", Value::Bool(true)),
        ("-9223372036854775808", Value::Int(i64::MIN)),
        ("0x1F", Value::Int(31)),
        ("'it\\'s \\u00e9 \\x41 \\101'", text("it's é A A")),
        ("i + j * 2 - -1", Value::Int(8)),
        ("(i + j) * 2", Value::Int(24)),
        ("i / j", Value::Int(-3)),
        ("i % j", Value::Int(2)),
        ("j % 3", Value::Int(-2)),
        ("-i", Value::Int(-17)),
        ("-(-(i))", Value::Int(17)),
        ("i < 18 ? 0 : i < 65 ? 1 : 2", Value::Int(0)),
        ("a ? s : 'none'", text("DE")),
        ("s in ['AT', 'DE', 'CH']", Value::Bool(true)),
        ("i in [-17, 16,]", Value::Bool(false)),
        ("!a in [false]", Value::Bool(true)),
        ("a == (i > 3) && s != 'FR'", Value::Bool(true)),
        ("t == \"Österreich\"", Value::Bool(true)),
        ("s < 'DEF' && s >= 'DE' && 'Z' < 'a' && 'z' < t", Value::Bool(true)),
        ("i >= 17 && i <= 17 && !(i > 17)", Value::Bool(true)),
        ("i // the age\n + 1 // next year", Value::Int(18)),
        ("i\r\n\t+ 1", Value::Int(18)),
        ("a || i == 3 || s == 'X'", Value::Bool(true)),
    ];
    for (source, expected) in cases {
        let expression = compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(expression.result_type(), expected.type_of(), "{source}");
        let value = evaluate(source, &given).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert!(value == expected, "{source}");
        assert_eq!(expression.to_string(), source);
    }
}

#[test]
fn errors_of_evaluation() {
    use EvaluationError::{DivisionByZero, Missing, Overflow};
    let given = [("a", Value::Bool(false)), ("i", Value::Int(i64::MIN)), ("j", Value::Int(-1))];
    let cases = [
        ("i + j", Err(Overflow)),
        ("i - 1", Err(Overflow)),
        ("i * j", Err(Overflow)),
        ("i / j", Err(Overflow)),
        ("i % j", Err(Overflow)),
        ("-i", Err(Overflow)),
        ("j / 0", Err(DivisionByZero)),
        ("i % 0", Err(DivisionByZero)),
        ("k + 1", Err(Missing("k".to_owned()))),
        // An error does not matter where the other side decides.
        ("j / 0 == 1 && a", Ok(Value::Bool(false))),
        ("a && j / 0 == 1", Ok(Value::Bool(false))),
        ("j / 0 == 1 || !a", Ok(Value::Bool(true))),
        ("!a || k == 1", Ok(Value::Bool(true))),
        ("k == 1 || j == -1", Ok(Value::Bool(true))),
        ("j / 0 == 1 && !a", Err(DivisionByZero)),
        ("!a && j / 0 == 1", Err(DivisionByZero)),
        ("a || j / 0 == 1", Err(DivisionByZero)),
        ("j / 0 == 1 || a", Err(DivisionByZero)),
        // Only one branch is evaluated.
        ("a ? j / 0 : 3", Ok(Value::Int(3))),
        ("a ? 3 : j / 0", Err(DivisionByZero)),
        ("k == 1 ? 3 : 4", Err(Missing("k".to_owned()))),
    ];
    for (source, expected) in cases {
        assert!(evaluate(source, &given) == expected, "{source}");
    }
}

#[test]
fn an_attribute_of_another_type_is_an_error() {
    for (source, declared, found) in [
        ("i == 1", Type::Int, text("1")),
        ("a", Type::Bool, Value::Int(1)),
        ("s == ''", Type::String, Value::Bool(true)),
    ] {
        let name = source.chars().next().unwrap().to_string();
        let error = evaluate(source, &[(&name, found.clone())]).unwrap_err();
        let expected = EvaluationError::WrongType { name, declared, found: found.type_of() };
        assert_eq!(error, expected);
    }
}

#[test]
fn lists_of_texts_and_lists_as_results() {
    let apps = ("l", Value::List(["maps", "mail"].map(text).into()));
    let list = |values: &[Value]| Value::List(values.to_vec());
    let given = [apps.clone(), ("i", Value::Int(7)), ("s", text("mail"))];
    for (source, value) in [
        ("'mail' in l", Value::Bool(true)),
        ("s in l", Value::Bool(true)),
        ("'chess' in l", Value::Bool(false)),
        ("l", apps.1.clone()),
        ("[]", list(&[])),
        ("[i, i + 1, s]", list(&[Value::Int(7), Value::Int(8), text("mail")])),
        ("i > 3 ? l : ['none']", apps.1),
        ("i > 9 ? l : ['none']", list(&[text("none")])),
        ("[i > 3 ? 1 : 0]", list(&[Value::Int(1)])),
    ] {
        assert_eq!(evaluate(source, &given), Ok(value), "{source}");
    }
    // One element without a value leaves none to the list.
    assert_eq!(evaluate("[1, i / 0]", &given), Err(EvaluationError::DivisionByZero));
    assert_eq!(evaluate("'x' in l", &[]), Err(EvaluationError::Missing("l".to_owned())));
    for wrong in [text("maps"), list(&[text("maps"), Value::Int(1)])] {
        let error = evaluate("l", &[("l", wrong)]).unwrap_err();
        assert!(
            matches!(error, EvaluationError::WrongType { declared: Type::List, .. }),
            "{error}"
        );
    }
    let constants = |source| compile(source).unwrap().constants();
    let found = constants("a ? [1, 'x', i] : b ? [2 * 3] : l");
    assert_eq!(found, [Value::Int(1), text("x"), Value::Int(6)]);
}

#[test]
fn attributes_that_are_read() {
    let expression = compile("a ? i : j + i").unwrap();
    assert_eq!(expression.attributes().iter().collect::<Vec<_>>(), ["a", "i", "j"]);
    assert!(compile("1 in [1]").unwrap().attributes().is_empty());
}

#[test]
fn attributes_as_a_recipe_declares_them() {
    let name: AttributeName = "age".parse().unwrap();
    let declared = BTreeMap::from([(name, AttributeType::Int)]);
    assert_eq!(Expression::compile("age / 10", &declared).unwrap().result_type(), Type::Int);
    assert!(Expression::compile("i", &declared).is_err());
}

#[test]
fn refused_on_the_syntax_tree() {
    let cases = [
        ("size(s) > 3", "the function \"size\"", 5),
        ("f()", "the function \"f\"", 2),
        ("i == int('3')", "the function \"int\"", 9),
        ("dyn(i) == 1", "the function \"dyn\"", 4),
        ("s.startsWith('D')", "the method \"startsWith\"", 13),
        ("s.matches('D.*')", "the method \"matches\"", 10),
        ("matches(s, 'D.*')", "the function \"matches\"", 8),
        ("has(s.x)", "the macro has", 4),
        ("[1].all(x, x > 0)", "a macro over a list (all, exists, map, filter)", 8),
        ("a && [1].exists(x, x > 0)", "a macro over a list (all, exists, map, filter)", 16),
        ("i in [1].map(x, x)", "`in` something that is not a list of literals", 13),
        ("i in [1].filter(x, x > 0)", "`in` something that is not a list of literals", 16),
        ("s.x == 1", "selection of the field \"x\"", 2),
        ("i in s.x", "`in` something that is not a list of literals", 7),
        ("[1, 2][0]", "an index", 7),
        ("s[0] == 'D'", "an index", 2),
        ("{'x': 1}", "a map", 1),
        ("i in {1: 2}", "`in` something that is not a list of literals", 6),
        ("T{x: 1}", "a struct", 2),
        ("[[1]]", "a list in a list", 2),
        ("[l]", "a list in a list", 2),
        ("i in [j]", "an element of a list that is not a literal", 7),
        ("i in [1, -(2)]", "an element of a list that is not a literal", 10),
        ("i in [[1]]", "an element of a list that is not a literal", 7),
        ("i in s", "`in` something that is not a list of literals", 6),
        ("1.5 > 1.0", "a floating-point number", 1),
        ("i > 1e3", "a floating-point number", 5),
        ("i == 3u", "an unsigned integer", 6),
        ("s == null", "null", 6),
        // Rejected before parsing, because the scan must know what is in a string.
        ("s == b'x'", "a string with a prefix (raw or bytes)", 6),
        ("s == r'x'", "a string with a prefix (raw or bytes)", 6),
        ("s == '''x'''", "a string in triple quotes", 6),
    ];
    for (source, what, column) in cases {
        let error = compile(source).expect_err(source);
        assert_eq!(error.reason, Reason::Unsupported(what.to_owned()), "{source}");
        assert_eq!(error.position, Some(Position { line: 1, column }), "{source}");
    }
}

#[test]
fn types_that_do_not_fit() {
    let cases = [
        ("i == 's'", "`==` compares two values of one type, not int and string", 3),
        ("a != 1", "`!=` compares two values of one type, not bool and int", 3),
        ("a < b", "`<` compares two ints or two strings, not bool and bool", 3),
        ("1 < i < 3", "`<` compares two ints or two strings, not bool and int", 7),
        ("s + t", "`+` takes two ints, not string and string", 3),
        ("i + a", "`+` takes two ints, not int and bool", 3),
        ("i && a", "`&&` is for bool, not for int", 1),
        ("a || s", "`||` is for bool, not for string", 6),
        ("!i", "`!` is for bool, not for int", 2),
        ("-a", "`-` is for int, not for bool", 2),
        ("i ? 1 : 2", "`?` is for bool, not for int", 1),
        ("a ? 1 : 's'", "the branches of `?` are int and string: one type only", 3),
        ("i in ['x']", "the elements after `in` must be of the type int", 7),
        ("s in ['x', 1]", "the elements after `in` must be of the type string", 12),
        ("i in []", "`in` an empty list", 6),
        ("i in l", "`l` holds strings, so no int", 6),
        ("l in ['x']", "`in` is for one bool, int or string, not for list", 1),
        ("l == l", "`==` compares two values of one type, not list and list", 3),
        ("[1] + [2]", "`+` takes two ints, not list and list", 5),
        ("[1, a]", "the elements of a list are ints or strings, not bool", 5),
        ("a ? l : s", "the branches of `?` are list and string: one type only", 3),
    ];
    for (source, what, column) in cases {
        let error = compile(source).expect_err(source);
        assert_eq!(error.reason, Reason::Types(what.to_owned()), "{source}");
        assert_eq!(error.position, Some(Position { line: 1, column }), "{source}");
    }
}

#[test]
fn undeclared_attributes() {
    for (source, name, line, column) in
        [("x", "x", 1, 1), ("'é' == s &&\n  y", "y", 2, 3), (".i == 1", ".i", 1, 2)]
    {
        let error = compile(source).expect_err(source);
        assert_eq!(error.reason, Reason::Undeclared(name.to_owned()), "{source}");
        assert_eq!(error.position, Some(Position { line, column }), "{source}");
    }
    assert_eq!(
        compile("i\n+ x").unwrap_err().to_string(),
        "line 2, column 3: no attribute `x` is declared"
    );
}

#[test]
fn not_cel_at_all() {
    for source in [
        "",
        " ",
        "// nothing",
        "i +",
        "+ i",
        "(i",
        "i)",
        "i i",
        "i = 1",
        "a & b",
        "a | b",
        "i ? 1",
        "a ? : 1",
        "'x",
        "'x\n'",
        "\"x'",
        "'\\q'",
        "'\\x4'",
        "'\\u12g4'",
        "'\\ud800'",
        "'\\477'",
        "1x",
        "0x",
        "0xg",
        "9223372036854775808",
        "-9223372036854775809",
        "1in [1]",
        "i.",
        "i?.x",
        "s[?0]",
        "[?1]",
        "`i`",
        "i; j",
        "i # c",
        "é",
        "@in(i)",
        "\u{0}",
        "i\u{a0}+ 1",
        "while",
        "a ?? b",
        "!-i",
        "!!a",
        "--i",
        "- -i",
        "-/**/i",
        "$i",
        "has(i)",
        "i in 1, 2",
    ] {
        let error = compile(source).expect_err(source);
        assert!(matches!(error.reason, Reason::Syntax(_)), "{source:?}: {error:?}");
    }
    let error = compile("a &&\n !!b").unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 3: two unary operators in a row: use brackets");
}

/// The place, and what to write: the parser's own words are about its grammar.
#[test]
fn mistakes_in_our_words() {
    for (source, column, words) in [
        ("", 1, "it is empty: write an expression"),
        ("i = 1", 3, "`=` is not an operator: write `==`"),
        ("'é' = s", 5, "`=` is not an operator: write `==`"),
        ("i => 3", 3, "`=>` is not an operator: write `>=`"),
        ("i =< 3", 3, "`=<` is not an operator: write `<=`"),
        ("i <> 3", 4, "`<>` is not an operator: write `!=`"),
        ("a & b", 3, "`&` is not an operator: write `&&`"),
        ("i == 1 and a", 8, "`and` is not an operator: write `&&`"),
        ("i == 1 or a", 8, "`or` is not an operator: write `||`"),
        ("not a", 5, "`not` is not an operator: write `!`"),
        ("if a then 1", 1, "`if` is a reserved word: write `condition ? value : other value`"),
        ("while", 1, "`while` is a reserved word: no attribute can have this name"),
        ("i < 3 ? 1", 10, "`:` and the other value are missing: write `condition ? value"),
        ("a ? 1 2", 7, "`:` is missing before `2`: write `condition ? value : other value`"),
        ("a ? 1 :", 8, "a value is missing at the end"),
        ("a ? : 1", 5, "a value is missing before `:`"),
        ("a ? 1 : 2 : 3", 11, "`:` belongs to no `?`: write `condition ? value : other value`"),
        ("i <", 4, "a value is missing at the end"),
        ("* i", 1, "a value is missing before `*`"),
        ("(i + 2", 7, "`(` is not closed: write `)`"),
        ("i in [1, ')'", 13, "`[` is not closed: write `]`"),
        ("i + 2)", 6, "`)` closes nothing: remove it"),
        ("(i + 2]", 7, "`(` is not closed: write `)`"),
        ("i in (1, 2)", 8, "`,` is only for lists: write `x in [1, 2]`"),
        ("i 3", 3, "an operator is missing before `3`"),
        ("s == 'x' 'yes'", 10, "an operator is missing before `'yes'`"),
        ("i == 99999999999999999999", 6, "the number is too large: it must fit into 64 bits"),
        ("s == '\\ud800'", 6, "the text has an escape that is no character"),
        ("s == 'x", 6, "a text without an end: write the quote again"),
        ("s == 'c:\\q'", 6, "an unknown escape: write \\\\ for a backslash"),
        ("i == 15min", 6, "a number that runs into a word: write a space, or quotes"),
        ("i # c", 3, "`#` has no meaning here: comments begin with `//`"),
        ("s == Ä", 6, "`Ä` has no meaning here: write text in quotes"),
        ("i\u{a0}+ 1", 2, "a character that cannot be seen: remove it, or write a space"),
    ] {
        let error = compile(source).expect_err(source);
        let expected = format!("column {column}: {words}");
        assert!(error.to_string().starts_with(&expected), "{source}: {error}");
    }
    let error = compile("size(s) > 3").unwrap_err().to_string();
    assert!(error.contains("the function \"size\": not part of the language"), "{error}");
    assert!(error.contains("`x in [1, 2]`"), "{error}");
}

#[test]
fn values_stay_out_of_debug_output() {
    assert_eq!(format!("{:?}", text("secret")), "Value(string, redacted)");
}

#[test]
fn constants_that_can_be_the_value() {
    let of = |source: &str| compile(source).unwrap().constants();
    assert_eq!(of("i < 3 ? 0 : i < 9 ? 1 : -2"), [0, 1, -2].map(Value::Int));
    assert_eq!(of("(a ? 2 * 3 : i) "), [Value::Int(6)]);
    assert_eq!(of("a ? s : i == 7 ? 'x' : 'y'"), [text("x"), text("y")]);
    let place = |source: &str, value| compile(source).unwrap().position_of(&value);
    assert_eq!(place("i < 3 ? 0 : 9", Value::Int(9)), Some(Position { line: 1, column: 13 }));
    assert_eq!(place("i < 3 ? 'é' : 'x'", text("x")), Some(Position { line: 1, column: 15 }));
    assert_eq!(place("i < 3 ? -1 : 2", Value::Int(-1)), Some(Position { line: 1, column: 10 }));
    assert_eq!(place("i < 9 ? 0 : 9", Value::Int(9)), None, "which of them?");
    for none in ["i", "s", "i + 1", "i in [7, 8]", "s == 'x'", "a ? i : 1 / 0"] {
        assert_eq!(of(none), [], "{none}");
    }
}
