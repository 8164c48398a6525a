//! No text of an author exhausts a device's stack. Every case runs on a stack of 512 KiB, a quarter
//! of a thread's usual stack: an overflow would end the test run.

use std::thread;

use sotto_protocol::expression::{
    ExpressionError, MAX_BRACKETS, MAX_LIST, MAX_NODES, MAX_OPERATORS, MAX_SOURCE_LEN, Reason,
};

use crate::expression::{attributes, compile};

const STACK: usize = 512 * 1024;

fn on_a_small_stack(source: String) -> Result<(), ExpressionError> {
    let run = move || {
        let expression = compile(&source)?;
        // The value does not matter, only that there is one or an error.
        drop(expression.clone().evaluate(&attributes(&[])));
        Ok(())
    };
    thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap()
}

fn reason(source: String) -> Reason {
    on_a_small_stack(source).unwrap_err().reason
}

#[test]
fn one_byte_too_long() {
    let fits = format!("{}1", " ".repeat(MAX_SOURCE_LEN - 1));
    assert!(on_a_small_stack(fits.clone()).is_ok());
    assert_eq!(reason(format!(" {fits}")), Reason::TooLong);
}

#[test]
fn long_runs_of_one_token() {
    assert_eq!(reason("(".repeat(MAX_SOURCE_LEN)), Reason::TooDeep);
    assert_eq!(reason("[".repeat(MAX_SOURCE_LEN)), Reason::TooDeep);
    assert_eq!(reason("{".repeat(MAX_SOURCE_LEN)), Reason::TooDeep);
    assert_eq!(reason("!(".repeat(MAX_SOURCE_LEN / 2)), Reason::TooDeep);
    for token in ["!", "-", "! ", "- "] {
        assert!(matches!(reason(token.repeat(MAX_SOURCE_LEN / token.len())), Reason::Syntax(_)));
    }
    for token in [
        "i+", "i-", "i*", "i/", "i%", "i==", "i<", "a?", "a?1:", "i in ", "i.", "i[0]", "1.", "?",
        "i -",
    ] {
        let source = token.repeat(MAX_SOURCE_LEN / token.len());
        assert_eq!(reason(source), Reason::TooManyOperators, "{token}");
    }
    for token in
        [")", "]", "' ", "&&", "||", ",", ":", "i ", "i,", "1 ", "'' ", "\\", "`", "//", "\n", "é"]
    {
        let source = token.repeat(MAX_SOURCE_LEN / token.len());
        assert!(matches!(reason(source), Reason::Syntax(_)), "{token}");
    }
}

#[test]
fn the_deepest_that_is_allowed() {
    let (open, close) = ("(".repeat(MAX_BRACKETS), ")".repeat(MAX_BRACKETS));
    let chain = "+1".repeat(MAX_OPERATORS);
    let choices = "a?1:".repeat(MAX_OPERATORS);
    for source in [
        format!("{open}i{close}"),
        format!("i{chain}"),
        format!("{choices}i"),
        format!("{open}i{chain}{close}"),
        format!("{open}i{close}{chain}"),
        format!("{open}{choices}i{close}"),
        format!("{choices}{open}i{close}"),
        format!("{}i{}", "-(".repeat(MAX_BRACKETS), ")".repeat(MAX_BRACKETS)),
        format!("{}a{}", "!(".repeat(MAX_BRACKETS), ")".repeat(MAX_BRACKETS)),
        // Chains at each depth of brackets, before and after the inner ones.
        format!("{}i{}", "(".repeat(16), "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1)".repeat(16)),
        format!("{}i{}", "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+(".repeat(16), ")".repeat(16)),
        format!("{}i{}", "a?1:a?1:a?1:a?1:a?1:a?1:a?1:(".repeat(16), ")".repeat(16)),
        format!("{}a{}", "(".repeat(16), "&&a||a&&a||a)".repeat(16)),
        format!("a{}", "&&a".repeat(400)),
        format!("a{}", "||a&&a".repeat(240)),
    ] {
        assert_eq!(on_a_small_stack(source.clone()), Ok(()), "{source}");
    }
    assert_eq!(reason(format!("({open}i{close})")), Reason::TooDeep);
    assert_eq!(reason(format!("i{chain}+1")), Reason::TooManyOperators);
    assert_eq!(reason(format!("{choices}a?1:i")), Reason::TooManyOperators);
    // At the limits and not closed: the parser reports from the innermost level.
    for source in [
        open.clone(),
        // Only the last branch of a choice may be a choice without brackets.
        format!("{}1{}", "a?".repeat(MAX_OPERATORS), ":1".repeat(MAX_OPERATORS)),
        format!("{choices}{open}"),
        format!("{open}{choices}"),
        format!("{}{}", "a?1:(".repeat(MAX_BRACKETS), "a?1:".repeat(MAX_OPERATORS - MAX_BRACKETS)),
        format!("{open}i{chain}"),
        format!("{}[", "a in [".repeat(MAX_BRACKETS - 1)),
        format!("{}(", "f(".repeat(MAX_BRACKETS - 1)),
        format!("{}{{", "{1:".repeat(MAX_BRACKETS - 1)),
    ] {
        assert!(matches!(reason(source.clone()), Reason::Syntax(_)), "{source}");
    }
    // Outside of the subset, at the limits.
    for source in [
        format!("s{}", ".x".repeat(MAX_OPERATORS)),
        format!("s{}", "[0]".repeat(MAX_OPERATORS)),
        format!("{}i{}", "f(".repeat(MAX_BRACKETS), ")".repeat(MAX_BRACKETS)),
        format!("{}i{}", "[1].map(x,".repeat(MAX_BRACKETS), ")".repeat(MAX_BRACKETS)),
        format!("{}i{}", "{1:".repeat(MAX_BRACKETS), "}".repeat(MAX_BRACKETS)),
        format!("{}i{}", "[".repeat(MAX_BRACKETS), "]".repeat(MAX_BRACKETS)),
    ] {
        assert!(matches!(reason(source.clone()), Reason::Unsupported(_)), "{source}");
    }
}

/// Whatever the scan takes for a string or a comment, so does the parser: no bracket gets past it.
#[test]
fn brackets_cannot_hide() {
    let many = "(".repeat(2_000);
    for source in [
        format!("'\\q{many}"),
        format!("'\\q{many}'"),
        format!("'\\u12{many}'"),
        format!("'\n{many}'"),
        format!("r'\\'{many}'"),
        format!("'''' {many}'"),
        format!("''' ' {many}'''"),
        format!("b'{many}"),
        format!("`{many}`"),
        format!("1'{many}"),
        format!("i /{many}"),
        format!("// c\n{many}"),
        format!("/* {many} */"),
        format!("é{many}"),
    ] {
        assert!(on_a_small_stack(source.clone()).is_err(), "{source}");
    }
    // In a string or a comment they are harmless.
    assert_eq!(on_a_small_stack(format!("s == '{many}'")), Ok(()));
    assert_eq!(on_a_small_stack(format!("s == \"\\\\\\\"{many}\"")), Ok(()));
    assert_eq!(on_a_small_stack(format!("i // {many}")), Ok(()));
    assert_eq!(on_a_small_stack(format!("i // '\n + 1 // {many}")), Ok(()));
}

#[test]
fn lists_and_nodes() {
    let list = |length: usize| format!("i in [{}]", vec!["-1"; length].join(","));
    assert_eq!(on_a_small_stack(list(MAX_LIST)), Ok(()));
    assert_eq!(reason(list(MAX_LIST + 1)), Reason::ListTooLong);
    // A conjunction of n attributes has 2 n - 1 nodes.
    let conjunction = |length: usize| vec!["a"; length].join("&&");
    assert_eq!(on_a_small_stack(conjunction(MAX_NODES / 2)), Ok(()));
    assert_eq!(reason(conjunction(MAX_NODES / 2 + 1)), Reason::TooManyNodes);
    let lists = vec![list(MAX_LIST - 8); 4].join("||");
    assert_eq!(reason(lists), Reason::TooManyNodes);
}
