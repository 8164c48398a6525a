//! Values from an option, from an answer on a terminal, or from a default.

use std::io::{BufRead, Write};

use anyhow::{Result, anyhow, bail};

/// A terminal with a person in front of it.
pub(super) struct Prompt<'a> {
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
}

impl<'a> Prompt<'a> {
    /// Questions go to `output`, answers come from `input`.
    pub(super) fn new(input: &'a mut dyn BufRead, output: &'a mut dyn Write) -> Self {
        Self { input, output }
    }

    /// One answer; the default if the line is empty. `None`: an empty line, and no default.
    fn ask(&mut self, question: &str, default: Option<&str>) -> Result<Option<String>> {
        match default {
            Some(default) if !default.is_empty() => {
                write!(self.output, "{question} [{default}]: ")?
            }
            _ => write!(self.output, "{question}: ")?,
        }
        self.output.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            bail!("no answer");
        }
        let line = line.trim();
        let answer = if line.is_empty() { default } else { Some(line) };
        Ok(answer.map(str::to_owned))
    }
}

/// Where values come from.
pub(super) struct Inquiry<'a> {
    prompt: Option<Prompt<'a>>,
}

impl<'a> Inquiry<'a> {
    /// Without a prompt, no questions are asked.
    pub(super) fn new(prompt: Option<Prompt<'a>>) -> Self {
        Self { prompt }
    }

    /// The value of an option: as given, as answered, or by default. An invalid option is an error;
    /// after an invalid answer the question is repeated.
    pub(super) fn value<T>(
        &mut self,
        option: &str,
        question: &str,
        given: Option<&str>,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        let named = |error: anyhow::Error| error.context(format!("{option} cannot be used"));
        if let Some(text) = given {
            return parse(text).map_err(named);
        }
        let Some(prompt) = &mut self.prompt else {
            let text = default.ok_or_else(|| anyhow!("missing: {option}"))?;
            return parse(text).map_err(named);
        };
        loop {
            let Some(answer) = prompt.ask(question, default)? else { continue };
            match parse(&answer) {
                Ok(value) => return Ok(value),
                Err(error) => writeln!(prompt.output, "  {error:#}")?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u64> {
        Ok(text.parse()?)
    }

    #[test]
    fn people_are_asked_until_they_answer() {
        let mut input: &[u8] = b"\nseven\n7\n\n";
        let mut shown = Vec::new();
        let mut inquiry = Inquiry::new(Some(Prompt::new(&mut input, &mut shown)));
        assert_eq!(inquiry.value("--n", "How many?", None, None, number).unwrap(), 7);
        assert_eq!(inquiry.value("--m", "And?", None, Some("3"), number).unwrap(), 3);
        assert_eq!(inquiry.value("--g", "Given?", Some("5"), Some("3"), number).unwrap(), 5);
        assert!(inquiry.value("--n", "End?", None, Some("3"), number).is_err());
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.matches("How many?").count(), 3, "{shown}");
        assert!(shown.contains("And? [3]: ") && !shown.contains("Given?"), "{shown}");
    }

    #[test]
    fn scripts_are_not_asked() {
        let mut inquiry = Inquiry::new(None);
        assert_eq!(inquiry.value("--n", "", None, Some("3"), number).unwrap(), 3);
        let missing = inquiry.value("--n", "", None, None, number).unwrap_err();
        assert_eq!(missing.to_string(), "missing: --n");
        let wrong = inquiry.value("--n", "", Some("x"), None, number).unwrap_err();
        assert!(wrong.to_string().starts_with("--n"), "{wrong}");
    }
}
