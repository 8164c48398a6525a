//! The problem documents that aggregators answer with (DAP "Errors", RFC 9457).

use std::fmt;

use serde::Deserialize;
use sotto_wire::{PROBLEM_MEDIA_TYPE, ProblemType};

use crate::transport::HttpResponse;

/// How many characters of a peer's text are kept.
const MAX_TEXT_CHARS: usize = 500;

/// An aggregator's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The problem type, if it is a DAP type.
    pub problem_type: Option<ProblemType>,
    /// The aggregator's explanation, without control characters. For people; do not trust it.
    pub detail: String,
}

impl Problem {
    /// Reads the problem from an answer with an error status. An answer without a problem document
    /// is a problem of unknown type.
    pub(crate) fn from_response(response: &HttpResponse) -> Self {
        let document = Document::read(response);
        let text = if document.detail.is_empty() { &document.title } else { &document.detail };
        Self {
            status: response.status,
            problem_type: ProblemType::from_urn(&document.r#type),
            detail: text.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect(),
        }
    }

    /// Whether it is this DAP problem.
    pub fn is(&self, problem_type: ProblemType) -> bool {
        self.problem_type == Some(problem_type)
    }
}

/// Whether an answer is a problem document that names this type.
pub(crate) fn is_problem(response: &HttpResponse, expected: &str) -> bool {
    response.is_media_type(PROBLEM_MEDIA_TYPE) && Document::read(response).r#type == expected
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    r#type: String,
    title: String,
    detail: String,
}

impl Document {
    /// An answer without a problem document reads as an empty one.
    fn read(response: &HttpResponse) -> Self {
        serde_json::from_slice(&response.body).unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status)?;
        if let Some(problem_type) = self.problem_type {
            write!(f, ", {}", problem_type.token())?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}
