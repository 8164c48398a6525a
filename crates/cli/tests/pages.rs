//! The examples in documents and in help texts. Also compiled into the unit tests of the program,
//! which alone know its command line.

use std::fs;
use std::path::{Path, PathBuf};

/// A block of shell commands.
pub(crate) struct Block {
    /// The page or the command, and the line.
    pub(crate) place: String,
    pub(crate) text: String,
    /// Why it is not run, from `<!-- not run: REASON -->` in the line before it.
    pub(crate) exempt: Option<String>,
}

/// The pages with commands: README and all documents.
pub(crate) fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(ending) if ending == "md" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The blocks of a page that are fenced as `sh`, in order.
pub(crate) fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (number, _) in lines.iter().enumerate().filter(|(_, line)| **line == "```sh") {
        let inside = lines[number + 1..].iter().take_while(|line| **line != "```");
        let before = lines[..number].iter().rfind(|line| !line.is_empty());
        let exempt = before.and_then(|line| line.strip_prefix("<!-- not run: "));
        found.push(Block {
            place: format!("{}:{}", page.file_name().unwrap().display(), number + 1),
            text: inside.map(|line| format!("{line}\n")).collect(),
            exempt: exempt.map(|reason| reason.trim_end_matches(" -->").to_owned()),
        });
    }
    found
}

/// The examples in a help text: the indented lines below a line that ends in a colon, if they begin
/// with a command.
pub(crate) fn help_examples(command: &str, help: &str) -> Vec<Block> {
    let lines: Vec<&str> = help.lines().collect();
    let mut found = Vec::new();
    for (number, _) in lines.iter().enumerate().filter(|(_, line)| line.ends_with(':')) {
        let inside = lines[number + 1..].iter().take_while(|line| line.starts_with("  "));
        let text: String = inside.map(|line| format!("{}\n", &line[2..])).collect();
        let first = text.split(' ').next().unwrap_or_default();
        if ["sotto", "echo", "seq", "eval"].contains(&first) && !text.contains("  Print") {
            let place = format!("sotto {command} --help");
            found.push(Block { place, text, exempt: None });
        }
    }
    found
}

/// The command lines of `sotto` in a block, as the shell would split them. `values` gives the
/// values of variables.
pub(crate) fn command_lines(block: &str, values: &[(&str, &str)]) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = block.chars().peekable();
    let mut end = |words: &mut Vec<String>| {
        let words = std::mem::take(words);
        if words.first().is_some_and(|first| first == "sotto") {
            found.push(words);
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some(other) => word.get_or_insert_default().push(other),
            },
            '\'' => {
                let word = word.get_or_insert_default();
                word.extend(std::iter::from_fn(|| characters.next_if(|c| *c != '\'')));
                characters.next();
            }
            '"' => {
                let word = word.get_or_insert_default();
                let mut inside: String =
                    std::iter::from_fn(|| characters.next_if(|c| *c != '"')).collect();
                characters.next();
                for (name, value) in values {
                    inside = inside.replace(&format!("${name}"), value);
                }
                word.push_str(&inside);
            }
            '#' if word.is_none() => while characters.next_if(|c| *c != '\n').is_some() {},
            // Whatever comes after it is another command, or where output goes.
            '\n' | '|' | ';' | '&' | '>' | '<' | '(' | ')' => {
                words.extend(word.take());
                end(&mut words);
            }
            ' ' => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.take());
    end(&mut words);
    found
}
