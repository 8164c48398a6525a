//! `GET .well-known/private-token-issuer-directory` (rate-limited tokens, "Configuration").
//!
//! Token keys are not in it: each belongs to one recipe, which contains it with its endorsement.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sotto_wire::Encode;

use super::IssuerState;
use crate::http::content;

const MEDIA_TYPE: &str = "application/private-token-issuer-directory";

/// How long others may cache it. It is short because a new key must be here before the first device
/// uses it.
const MAX_AGE: &str = "max-age=300";

pub(super) async fn get(State(state): State<Arc<IssuerState>>) -> Response {
    let keys = state.encapsulation_keys.keys();
    let keys: Vec<_> = keys.iter().map(|key| URL_SAFE_NO_PAD.encode(key.to_bytes())).collect();
    let directory = json!({
        "issuer-policy-window": state.key_service.window_s(),
        // Relative to this directory's URL.
        "issuer-request-uri": format!("{}/token-request", state.base_path),
        "encap-keys": keys,
    });
    let mut response = content(MEDIA_TYPE, directory.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
    response
}
