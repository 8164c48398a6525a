//! Asking an issuer for the token keys of a recipe.

use anyhow::{Context, Result, anyhow};
use sotto_client::{HttpRequest, Method, Transport};
use sotto_crypto::note::NoteKey;
use sotto_protocol::issuer::author::TokenKeys;
use sotto_wire::Note;
use sotto_wire::recipe::TokenKeyRequest;
use zeroize::Zeroizing;

use crate::output::WithHint;
use crate::problem_words;

/// The longest answer of an issuer that is read: two keys of some hundred bytes.
const MAX_ANSWER_LEN: usize = 16 * 1024;

/// Asks the issuer at `url`, as the author who signs.
pub(crate) fn ask(
    transport: &dyn Transport,
    url: &str,
    request: &TokenKeyRequest,
    signer: &NoteKey,
) -> Result<TokenKeys> {
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
    let response = transport.send(&request).with_context(|| format!("no answer from {url}"))?;
    if response.status == 200 {
        return serde_json::from_slice(&response.body)
            .context("the issuer's answer is not understood");
    }
    let reason = problem_words::of(&response);
    let error = anyhow!("the issuer refuses (status {}): {reason}", response.status);
    match response.status {
        403 => Err(error).hint("ask the issuer's operator to list your key"),
        404 => Err(error).hint("is this the URL of an issuer?"),
        _ => Err(error),
    }
}
