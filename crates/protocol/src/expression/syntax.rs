//! What is wrong with a text that is not CEL, in our words. The parser's are about its grammar, and
//! say nothing about what to write.

use cel::ParseErrors;

use super::error::{ExpressionError, Position, Reason};

/// Operators of other languages, and what they are called here.
const SPELLINGS: [(&str, &str); 9] = [
    ("=>", ">="),
    ("=<", "<="),
    ("<>", "!="),
    ("=", "=="),
    ("&", "&&"),
    ("|", "||"),
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
];

/// How many characters of a word or a text are quoted.
const MAX_SHOWN: usize = 20;

const CHOICE: &str = "write `condition ? value : other value`";

/// The first error of the parser.
pub(super) fn explain(errors: &ParseErrors, source: &str) -> ExpressionError {
    // Other errors are more exact than what follows from them.
    let all = &errors.errors;
    let first = all.iter().find(|error| !error.msg.starts_with("Incomplete")).or(all.first());
    let Some(first) = first else {
        return Reason::Syntax("not an expression".to_owned()).at(None);
    };
    let position = match (usize::try_from(first.pos.0), usize::try_from(first.pos.1)) {
        (Ok(line), Ok(column)) if line > 0 && column > 0 => Some(Position { line, column }),
        _ => None,
    };
    let at = position.map_or(source.len(), |position| position.offset(source));
    let (before, rest) = source.split_at(at);
    Reason::Syntax(words(&first.msg, before, rest)).at(position)
}

fn words(message: &str, before: &str, rest: &str) -> String {
    if message.contains("int literal") {
        return "the number is too large: it must fit into 64 bits".to_owned();
    }
    if message.contains("string literal") {
        return "the text has an escape that is no character".to_owned();
    }
    if let Some(word) = message.strip_prefix("reserved identifier: ") {
        return match word {
            "if" | "else" => format!("`{word}` is a reserved word: {CHOICE}"),
            _ => format!("`{word}` is a reserved word: no attribute can have this name"),
        };
    }
    let token = token(rest);
    if let Some((wrong, right)) = misspelt(before, token) {
        return format!("`{wrong}` is not an operator: write `{right}`");
    }
    let wants_value = message.contains("IDENTIFIER");
    if token.is_empty() {
        return at_end(message, before, wants_value);
    }
    let shown: String = token.chars().take(MAX_SHOWN).collect();
    if message.contains("missing ':'") {
        return format!("`:` is missing before `{shown}`: {CHOICE}");
    }
    match token {
        _ if wants_value => format!("a value is missing before `{shown}`"),
        ")" | "]" | "}" => match open_brackets(before).last() {
            Some((open, close)) if *close != token => unclosed(*open, close),
            _ => format!("`{token}` closes nothing: remove it"),
        },
        ":" => format!("`:` belongs to no `?`: {CHOICE}"),
        "," => "`,` is only for lists: write `x in [1, 2]`".to_owned(),
        _ if token.starts_with(|c: char| c.is_alphanumeric() || "_'\"".contains(c)) => {
            format!("an operator is missing before `{shown}`")
        }
        _ => format!("`{shown}` has no meaning here"),
    }
}

fn at_end(message: &str, before: &str, wants_value: bool) -> String {
    match open_brackets(before).last() {
        _ if before.trim().is_empty() => "it is empty: write an expression".to_owned(),
        _ if message.contains("':'") => format!("`:` and the other value are missing: {CHOICE}"),
        Some((open, close)) if !wants_value => unclosed(*open, close),
        _ => "a value is missing at the end".to_owned(),
    }
}

fn unclosed(open: char, close: &str) -> String {
    format!("`{open}` is not closed: write `{close}`")
}

/// An operator that is spelt as elsewhere.
fn misspelt(before: &str, token: &str) -> Option<(&'static str, &'static str)> {
    let last = before.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
    let wrong = match token {
        ">" if before.ends_with('<') => "<>",
        _ if last == Some("not") => "not",
        other => other,
    };
    SPELLINGS.into_iter().find(|(spelling, _)| *spelling == wrong)
}

/// The token at the beginning; empty at the end of the text.
fn token(rest: &str) -> &str {
    let rest = rest.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let length = match rest.chars().next() {
        None => 0,
        Some(first) if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        Some(quote @ ('\'' | '"')) => {
            rest.get(1..).and_then(|text| text.find(quote)).map_or(1, |end| end + 2)
        }
        Some(first) => {
            let two = rest.get(..2).unwrap_or_default();
            let is_pair = ["=>", "=<", "<>", "==", "!=", "<=", ">=", "&&", "||"].contains(&two);
            if is_pair { 2 } else { first.len_utf8() }
        }
    };
    rest.get(..length).unwrap_or(rest)
}

/// The brackets that are open at the end of a text, with what closes them. The scan has made sure
/// that strings have an end.
fn open_brackets(text: &str) -> Vec<(char, &'static str)> {
    let mut open: Vec<(char, &'static str)> = Vec::new();
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => drop(characters.next()),
            (Some(end), _) if end == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '/') if characters.peek() == Some(&'/') => {
                while characters.next_if(|next| *next != '\n').is_some() {}
            }
            (None, '(') => open.push((character, ")")),
            (None, '[') => open.push((character, "]")),
            (None, '{') => open.push((character, "}")),
            (None, ')' | ']' | '}') => drop(open.pop()),
            (None, _) => {}
        }
    }
    open
}
