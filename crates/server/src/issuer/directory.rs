//! `GET .well-known/private-token-issuer-directory` (rate-limited tokens, "Configuration").
//!
//! Token keys are not in it: each belongs to one recipe, which contains it with its endorsement.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sotto_wire::Encode;

use super::IssuerState;
use crate::service::answer;

const MEDIA_TYPE: &str = "application/private-token-issuer-directory";

/// How long others may cache it. It is short because a new key must be here before the first device
/// uses it.
const MAX_AGE: &str = "max-age=300";

pub(super) async fn get(State(state): State<Arc<IssuerState>>) -> Response {
    answer(&state.metrics.directory, async {
        let keys = state.encapsulation_keys.keys();
        let keys: Vec<_> = keys.iter().map(|key| URL_SAFE_NO_PAD.encode(key.to_bytes())).collect();
        let directory = json!({
            "issuer-policy-window": state.key_service.window_s(),
            // Relative to this directory's URL.
            "issuer-request-uri": format!("{}/token-request", state.base_path),
            "encap-keys": keys,
        });
        let mut response = Response::new(Body::from(directory.to_string()));
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
        Ok(response)
    })
    .await
}
