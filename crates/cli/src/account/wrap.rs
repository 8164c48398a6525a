//! Wraps sentences into lines.

/// The longest line, however wide the terminal is.
const LONGEST: usize = 100;

/// The narrowest width that is used.
const SHORTEST: usize = 20;

/// Wraps `text` to the width of the terminal, at most 100 characters.
pub(crate) fn wrapped(text: &str) -> String {
    // The table only serves to detect the width of the terminal.
    let terminal = comfy_table::Table::new().width().map_or(LONGEST, usize::from);
    lines(text, terminal.clamp(SHORTEST, LONGEST))
}

fn lines(text: &str, width: usize) -> String {
    let mut result = String::with_capacity(text.len());
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used == 0 {
            used = length;
        } else if used + 1 + length <= width {
            result.push(' ');
            used += 1 + length;
        } else {
            result.push('\n');
            used = length;
        }
        result.push_str(word);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        assert_eq!(lines("one two three", 7), "one two\nthree");
        assert_eq!(lines("one two three", 6), "one\ntwo\nthree");
        assert_eq!(lines("incomprehensible ideas", 4), "incomprehensible\nideas");
        assert_eq!(lines("", 4), "");
        let text = wrapped(&"word ".repeat(200));
        assert!(text.lines().all(|line| line.len() <= LONGEST), "{text}");
    }
}
