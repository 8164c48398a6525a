//! A server's reason for a refusal, as text for people.

use serde::Deserialize;
use sotto_client::HttpResponse;

/// The text of a problem document, without control characters.
pub(crate) fn of(response: &HttpResponse) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Problem {
        title: String,
        detail: String,
    }
    let problem: Problem = serde_json::from_slice(&response.body).unwrap_or_default();
    let text = if problem.detail.is_empty() { problem.title } else { problem.detail };
    let text: String = text.chars().filter(|c| !c.is_control()).take(500).collect();
    if text.is_empty() { "it gives no reason".to_owned() } else { text }
}
