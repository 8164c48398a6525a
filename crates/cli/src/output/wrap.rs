//! Text in lines that fit: wrapped, with a hanging indent, or cut around a place that a caret
//! points at.

use unicode_width::UnicodeWidthStr;

/// No line is longer, however wide the terminal is: longer ones are hard to read.
const WIDEST: usize = 100;
/// Without a terminal.
const USUAL: usize = 80;
/// The narrowest width that is used.
const NARROWEST: usize = 20;
/// The indent of what is too long for more.
const LITTLE: usize = 4;

/// The number of columns: `COLUMNS`, else those of the terminal, else 80.
pub(super) fn width(terminal: Option<u16>) -> usize {
    let terminal = terminal.map(usize::from);
    set().or(terminal).unwrap_or(USUAL).clamp(NARROWEST, WIDEST)
}

/// `COLUMNS`.
pub(super) fn set() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// How many columns a text takes. Escape sequences, which change the style, take none.
pub(crate) fn columns(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().width();
    let styled = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest).width());
    first + styled.sum::<usize>()
}

/// `head`, then `text` in lines of at most `width` columns. Lines after the first begin below the
/// text, not below the head. Words are never broken, nor is what stands in backticks: ids, paths,
/// URLs and commands can be pasted. One that is too long for the indent gets less of it.
pub(crate) fn hang(head: &str, text: &str, width: usize) -> String {
    let indent = columns(head).min(width / 2);
    let mut lines = Vec::new();
    let mut text = text.lines();
    fold(head.to_owned(), text.next().unwrap_or_default(), indent, width, &mut lines);
    for line in text {
        fold(" ".repeat(indent), line, indent, width, &mut lines);
    }
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    trimmed.join("\n")
}

/// Adds `start`, followed by one line of text in as many lines as it takes.
fn fold(start: String, text: &str, indent: usize, width: usize, lines: &mut Vec<String>) {
    if columns(&start) + columns(text) <= width {
        lines.push(start + text);
        return;
    }
    let mut line = start;
    let mut is_empty = true;
    for unit in units(text) {
        let (used, length) = (columns(&line), columns(&unit));
        let space = usize::from(!is_empty);
        if used + space + length > width {
            if !line.trim().is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            let indent = if indent + length <= width { indent } else { indent.min(LITTLE) };
            line = " ".repeat(indent);
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(&unit);
        is_empty = false;
    }
    lines.push(line);
}

/// What is not broken: words, and words between backticks together.
fn units(line: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in line.split_whitespace() {
        match units.last_mut() {
            Some(last) if is_open => {
                last.push(' ');
                last.push_str(word);
            }
            _ => units.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    units
}

/// The line, and below it a caret at the character `column`, which counts from 1. A line that is
/// too long is cut on both sides of the caret.
pub(super) fn point(line: &str, column: usize, width: usize) -> [String; 2] {
    const CUT: &str = "...";
    // A tab is as wide as the terminal likes.
    let shown: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let at = column.saturating_sub(1).min(shown.len());
    let text = |from: usize, to: usize| shown.get(from..to).unwrap_or_default().iter();
    let wide = |from: usize, to: usize| columns(&text(from, to).collect::<String>());
    let (mut from, mut to) = (0, shown.len());
    if wide(0, shown.len()) > width {
        let room = width.saturating_sub(2 * CUT.len());
        (from, to) = (at, at);
        // What is before the caret explains more than what is after it.
        while from > 0 && wide(from - 1, to) <= room * 2 / 3 {
            from -= 1;
        }
        while to < shown.len() && wide(from, to + 1) <= room {
            to += 1;
        }
        while from > 0 && wide(from - 1, to) <= room {
            from -= 1;
        }
    }
    let before = if from > 0 { CUT } else { "" };
    let after = if to < shown.len() { CUT } else { "" };
    let excerpt: String = text(from, to).collect();
    let caret = " ".repeat(before.len() + wide(from, at)) + "^";
    [format!("{before}{excerpt}{after}"), caret]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        assert_eq!(hang("", "one two three", 7), "one two\nthree");
        assert_eq!(hang("", "one two three", 6), "one\ntwo\nthree");
        assert_eq!(hang("", "incomprehensible ideas", 4), "incomprehensible\nideas");
        assert_eq!(hang("", "", 4), "");
        assert_eq!(hang("", "one\ntwo three", 80), "one\ntwo three");
        assert_eq!(hang("a: ", "one two three", 10), "a: one two\n   three");
        assert_eq!(hang("a: ", "", 10), "a:");
        assert_eq!(hang("", "as  it  is", 10), "as  it  is");
        assert_eq!(hang("a head  ", "two longword", 14), "a head  two\n    longword");
        assert_eq!(hang("a head  ", "longword two", 14), "a head\n    longword\n       two");
        assert_eq!(hang("", "\x1b[1mone\x1b[0m two", 7), "\x1b[1mone\x1b[0m two");
    }

    #[test]
    fn what_is_pasted_stays_whole() {
        let text = "then run `sotto log verify x`, or not";
        assert_eq!(hang("", text, 24), "then run\n`sotto log verify x`, or\nnot");
        assert_eq!(hang("", "a quote ` alone", 10), "a quote\n` alone");
    }

    #[test]
    fn columns_are_what_a_terminal_shows() {
        assert_eq!(columns("█┊"), 2);
        assert_eq!(columns("東京"), 4);
        assert_eq!(columns("\x1b[1mbold\x1b[0m"), 4);
    }

    #[test]
    fn the_caret_is_below_its_character() {
        assert_eq!(point("a = b", 3, 80), ["a = b", "  ^"]);
        assert_eq!(point("東 = b", 3, 80), ["東 = b", "   ^"]);
        assert_eq!(point("a\tb", 3, 80), ["a b", "  ^"]);
        assert_eq!(point("abc", 4, 80), ["abc", "   ^"], "at the end");
        assert_eq!(point("abc", 99, 80), ["abc", "   ^"]);
        let long: String = ('a'..='z').cycle().take(200).collect();
        for column in [1, 2, 30, 100, 199, 200, 201] {
            let [line, caret] = point(&long, column, 40);
            assert!(columns(&line) <= 40 && columns(&caret) <= 40, "{column}: {line}");
            let expected = long.chars().nth(column - 1);
            assert_eq!(line.chars().nth(caret.len() - 1), expected, "{column}: {line}");
        }
    }
}
