//! Text in an image, whose font is not known.

/// No common sans-serif font is wider than this, in pixels at this size. (The widest is DejaVu
/// Sans.)
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(share).sum::<f64>() * size
}

/// The width of a character as a share of the size.
fn share(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | '\'' | ':' | ';' | '|' | '!' | ' ' => 0.40,
        'f' | 'r' | 't' | '-' | '(' | ')' | '[' | ']' => 0.45,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.02,
        'a'..='z' | '0'..='9' => 0.65,
        '\0'..='\u{ff}' => 0.84,
        '\u{100}'..='\u{10ff}' => 1.0,
        // Chinese, Japanese, Korean, pictures.
        _ => 1.4,
    }
}

/// The text in lines of at most this width, broken between words where possible.
pub fn wrapped(text: &str, most: f64, size: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.pop().unwrap_or_default();
        let joined = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&joined, size) <= most {
            lines.push(joined);
            continue;
        }
        lines.extend((!line.is_empty()).then_some(line));
        let mut piece = String::new();
        for character in word.chars() {
            if !piece.is_empty() && width(&piece, size) + share(character) * size > most {
                lines.push(std::mem::take(&mut piece));
            }
            piece.push(character);
        }
        lines.push(piece);
    }
    lines
}

/// As the content of an element.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_and_lose_nothing() {
        let text = "How long do people commute on a day with much rain, or Donaudampfschifffahrt?";
        let lines = wrapped(text, 120.0, 13.0);
        assert!(
            lines.len() > 3 && lines.iter().all(|line| width(line, 13.0) <= 120.0),
            "{lines:?}"
        );
        assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        assert_eq!(wrapped("", 120.0, 13.0), [""]);
        assert_eq!(wrapped("東京", 1.0, 13.0), ["東", "京"]);
    }

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("<b> & </text>"), "&lt;b&gt; &amp; &lt;/text&gt;");
    }
}
