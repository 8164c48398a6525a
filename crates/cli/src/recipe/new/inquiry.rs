//! Values from an option, from an answer on a terminal, or from a default.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::output::{hang, place_of};

/// A terminal with a person in front of it.
pub(in crate::recipe) struct Prompt<'a> {
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
    /// The columns of the terminal.
    width: usize,
}

impl<'a> Prompt<'a> {
    /// Questions go to `output`, answers come from `input`.
    pub(super) fn new(input: &'a mut dyn BufRead, output: &'a mut dyn Write, width: usize) -> Self {
        Self { input, output, width }
    }

    /// Shows a line, indented.
    fn show(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.output, "{}", hang("  ", text, self.width))?)
    }

    /// One answer; the default if the line is empty. `None`: an empty line, and no default.
    fn ask(&mut self, question: &str, default: Option<&str>) -> Result<Option<String>> {
        let default_shown = default.filter(|default| !default.is_empty());
        let default_shown = default_shown.map(|default| format!(" [{default}]"));
        let question = format!("{question}{}:", default_shown.unwrap_or_default());
        write!(self.output, "{} ", hang("", &question, self.width))?;
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
pub(in crate::recipe) struct Inquiry<'a> {
    prompt: Option<Prompt<'a>>,
    /// Where answers are kept until the recipe is written.
    kept: Option<PathBuf>,
    /// What was answered, by option, now or before an interruption.
    answers: BTreeMap<String, String>,
}

impl<'a> Inquiry<'a> {
    /// Without a prompt, no questions are asked.
    pub(in crate::recipe) fn new(prompt: Option<Prompt<'a>>) -> Self {
        Self { prompt, kept: None, answers: BTreeMap::new() }
    }

    /// Keeps the answers of a person in this file. Those of an earlier, interrupted run become the
    /// defaults.
    pub(super) fn keep_in(&mut self, path: &Path) -> Result<()> {
        let Some(prompt) = &mut self.prompt else { return Ok(()) };
        if let Ok(text) = std::fs::read_to_string(path) {
            self.answers = serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged: delete it", path.display()))?;
            let path = path.display();
            prompt.show(&format!("Your answers from before are in brackets ({path})."))?;
        }
        self.kept = Some(path.to_owned());
        Ok(())
    }

    /// The answers are not needed any more.
    pub(super) fn forget(&mut self) -> Result<()> {
        match self.kept.take() {
            Some(path) if path.exists() => std::fs::remove_file(&path)
                .with_context(|| format!("cannot remove {}", path.display())),
            _ => Ok(()),
        }
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
        let before = self.answers.get(option).cloned();
        let default = before.as_deref().or(default);
        loop {
            let Some(answer) = prompt.ask(question, default)? else { continue };
            match parse(&answer) {
                Ok(value) => {
                    self.answers.insert(option.to_owned(), answer);
                    if let Some(path) = &self.kept {
                        std::fs::write(path, serde_json::to_string_pretty(&self.answers)?)
                            .with_context(|| format!("cannot write {}", path.display()))?;
                    }
                    return Ok(value);
                }
                Err(error) => {
                    prompt.show(&format!("{error:#}"))?;
                    if let Some(place) = place_of(&error) {
                        writeln!(prompt.output, "{}", place.shown("  ", prompt.width))?;
                    }
                }
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
        let mut inquiry = Inquiry::new(Some(Prompt::new(&mut input, &mut shown, 80)));
        assert_eq!(inquiry.value("--n", "How many?", None, None, number).unwrap(), 7);
        assert_eq!(inquiry.value("--m", "And?", None, Some("3"), number).unwrap(), 3);
        assert_eq!(inquiry.value("--g", "Given?", Some("5"), Some("3"), number).unwrap(), 5);
        assert!(inquiry.value("--n", "End?", None, Some("3"), number).is_err());
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.matches("How many?").count(), 3, "{shown}");
        assert!(shown.contains("And? [3]: ") && !shown.contains("Given?"), "{shown}");
    }

    #[test]
    fn answers_survive_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("commute.toml.answers");
        let ask = |mut input: &[u8], done: bool| {
            let mut shown = Vec::new();
            let mut inquiry = Inquiry::new(Some(Prompt::new(&mut input, &mut shown, 80)));
            inquiry.keep_in(&path).unwrap();
            let first = inquiry.value("--n", "How many?", None, None, number);
            let second = inquiry.value("--m", "And?", None, Some("3"), number);
            if done {
                inquiry.forget().unwrap();
            }
            (first.ok(), second.ok(), String::from_utf8(shown).unwrap())
        };
        // Interrupted at the second question, as by Ctrl-C.
        assert_eq!(ask(b"7\n", false).1, None);
        let (first, second, shown) = ask(b"\n4\n", true);
        assert_eq!((first, second), (Some(7), Some(4)), "Enter keeps the answer from before");
        assert!(shown.contains("How many? [7]: "), "{shown}");
        assert!(!path.exists());
        // A script neither reads nor writes them.
        Inquiry::new(None).keep_in(&path).unwrap();
        assert!(!path.exists());
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
