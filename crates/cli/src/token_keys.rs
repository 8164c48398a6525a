//! Requests a token key of a recipe from an issuer.

use anyhow::{Context, Result, anyhow};
use sotto_client::{HttpRequest, Method, Transport, TransportError};
use sotto_crypto::note::NoteKey;
use sotto_wire::Note;
use sotto_wire::recipe::{EndorsedKey, TokenKeyRequest};
use zeroize::Zeroizing;

use crate::output::WithHint;
use crate::problem_words;

/// The longest answer that is read from an issuer: a key of a few hundred bytes.
const MAX_ANSWER_LEN: usize = 16 * 1024;

/// Requests a key from the issuer at `url`, signed by the author.
pub(crate) fn ask(
    transport: &dyn Transport,
    url: &str,
    request: &TokenKeyRequest,
    signer: &NoteKey,
) -> Result<EndorsedKey> {
    let text = request.text();
    let signature = signer.sign(&text);
    let note = Note::new(text)?.with_signature(signature).to_bytes();
    let url = url.trim_end_matches('/');
    let request = HttpRequest {
        method: Method::Post,
        url: format!("{url}/token-keys"),
        headers: vec![("content-type", Zeroizing::new("text/plain".to_owned()))],
        body: &note,
        response_limit: MAX_ANSWER_LEN,
    };
    let response = transport.send(&request).or_else(|error| unanswered(url, error))?;
    if response.status == 200 {
        return serde_json::from_slice(&response.body).context("cannot parse the issuer's answer");
    }
    let reason = problem_words::of(&response);
    let error = anyhow!("the issuer refuses (status {}): {reason}", response.status);
    match response.status {
        400 if reason.contains("policy window") => Err(error).hint(
            "make the recipe close earlier, give a smaller --grace, or ask the issuer's operator for a longer window_s",
        ),
        403 => Err(error).hint(format!(
            "ask the issuer's operator to list your key under `authors`: {}",
            signer.verifier()
        )),
        404 => Err(error).hint("is this the URL of an issuer?"),
        _ => Err(error),
    }
}

/// Why there is no answer, and what to check.
fn unanswered<T>(url: &str, error: TransportError) -> Result<T> {
    let hint = match &error {
        TransportError::InvalidUrl => "give the URL, like https://issuer.example, not the name",
        TransportError::NoConnection(_)
        | TransportError::Unreachable(_)
        | TransportError::Timeout => "is the issuer running there?",
        // These errors already say what to do.
        _ => return Err(error).with_context(|| format!("no answer from {url}")),
    };
    Err(error).with_context(|| format!("no answer from {url}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use sotto_client::HttpResponse;
    use sotto_crypto::Secret;

    use super::*;
    use crate::signer_file;

    /// Answers every request the same way.
    struct Answers(fn() -> Result<HttpResponse, TransportError>);

    impl Transport for Answers {
        fn send(&self, _: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
            (self.0)()
        }
    }

    fn refusal(status: u16, detail: &str) -> Result<HttpResponse, TransportError> {
        let body = serde_json::json!({ "detail": detail }).to_string().into_bytes();
        Ok(HttpResponse { status, headers: Vec::new(), body })
    }

    #[test]
    fn errors_say_what_to_do_next() {
        let author = NoteKey::from_seed("analytics.example".parse().unwrap(), Secret::new([1; 32]));
        let request = TokenKeyRequest {
            author: signer_file::public(&author),
            leader: "leader.example".parse().unwrap(),
            helper: "helper.example".parse().unwrap(),
            role: sotto_wire::Role::Leader,
            expires: 1_794_700_800,
            nonce: "A".repeat(43),
            participations: None,
        };
        let public = author.verifier().to_string();
        let cases: [(fn() -> _, &str); 5] = [
            (|| refusal(400, "the expiry is beyond the policy window of 60 seconds"), "--grace"),
            (|| refusal(403, "the author is not on this issuer's list"), &public),
            (|| refusal(404, ""), "the URL of an issuer"),
            (|| Err(TransportError::Timeout), "is the issuer running there?"),
            (|| Err(TransportError::InvalidUrl), "not the name"),
        ];
        for (answer, wanted) in cases {
            let error = ask(&Answers(answer), "https://i.example", &request, &author).unwrap_err();
            let hint = crate::output::hint_of(&error).unwrap_or_default();
            assert!(hint.contains(wanted), "{error:#}: {hint}");
        }
    }
}
