//! Checkpoints: what a log signs (C2SP tlog-checkpoint).

use crate::format::FormatError;
use crate::tlog::{TreeHash, parse_decimal};

/// The text of a checkpoint: the state of a log at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's origin: one line, not empty. Equal to the name of the log's key.
    pub origin: String,
    /// How many leaves the tree has.
    pub size: u64,
    /// The root of the tree of this size.
    pub root: TreeHash,
    /// Further lines, none of them empty. We write none; other logs may.
    pub extensions: Vec<String>,
}

impl Checkpoint {
    /// A checkpoint without extension lines.
    pub fn new(origin: impl Into<String>, size: u64, root: TreeHash) -> Self {
        Self { origin: origin.into(), size, root, extensions: Vec::new() }
    }

    /// Parses the text of a note as a checkpoint.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let body = text
            .strip_suffix('\n')
            .ok_or(FormatError::new("the checkpoint does not end in a newline"))?;
        if body.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
            return Err(FormatError::new("there is a control character"));
        }
        let mut lines = body.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(FormatError::new("a checkpoint has at least three lines"));
        };
        if origin.is_empty() {
            return Err(FormatError::new("the origin is empty").at_line(1));
        }
        let size = parse_decimal(size).map_err(|error| error.at_line(2))?;
        let root = root.parse().map_err(|error: FormatError| error.at_line(3))?;
        let mut extensions = Vec::new();
        for (index, line) in lines.enumerate() {
            if line.is_empty() {
                return Err(FormatError::new("an extension line is empty").at_line(4 + index));
            }
            extensions.push(line.to_owned());
        }
        Ok(Self { origin: origin.to_owned(), size, root, extensions })
    }

    /// The text to sign.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\n", self.origin, self.size, self.root);
        for line in &self.extensions {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}
