//! The error of the text formats: what is wrong, and on which line.

use std::borrow::Cow;

use thiserror::Error;

/// Text or bytes that do not follow their format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{reason}", LinePrefix(*.line))]
pub struct FormatError {
    reason: Cow<'static, str>,
    line: Option<usize>,
}

impl FormatError {
    /// An error with this reason: a clause that says what is wrong.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), line: None }
    }

    /// The same error, found on this line; the first line is 1.
    #[must_use]
    pub fn at_line(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The line on which it was found, if the format has lines.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

struct LinePrefix(Option<usize>);

impl std::fmt::Display for LinePrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, "line {line}: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_shown_where_there_is_one() {
        let error = FormatError::new("no quorum");
        assert_eq!(error.to_string(), "no quorum");
        assert_eq!(error.at_line(3).to_string(), "line 3: no quorum");
    }
}
