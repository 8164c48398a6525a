//! `POST token-keys`: an author's signed note in, the endorsed token key for one aggregator of a
//! recipe out.
//!
//! Keys are made one at a time, on one thread of the pool, so that making them never keeps all
//! threads from issuing tokens. A key is durable before the author learns of it, and the same note
//! gets the same key: an author whose connection broke can retry.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_crypto::note::NoteKey;
use sotto_protocol::issuer::Origin;
use sotto_protocol::issuer::author::{
    AuthorRefusal, AuthorRules, RecipeKey, check_one_role, consume_token_key_request,
    produce_token_key, request_id,
};
use sotto_protocol::{Fault, Moment};
use sotto_store::IssuerDb;
use sotto_wire::recipe::TokenKeyRequest;
use tokio::sync::{Mutex, Semaphore};

use super::{IssuerRules, IssuerState};
use crate::environment::{Environment, spawn, spawn_blocking};
use crate::health::StoreWork;
use crate::http::content;
use crate::problem::Failure;
use crate::shutdown::Shutdown;

/// The longest note, in bytes. Names and a nonce take far less.
const MAX_BODY: usize = 16 * 1024;

/// Authors who may wait for keys at once: a few seconds' work.
const MAX_WAITING: usize = 16;

/// How often to look for expired keys.
const EXPIRY_PAUSE: Duration = Duration::from_secs(60);

/// What is needed to make keys.
pub(super) struct KeyService {
    db: Arc<IssuerDb>,
    operator: NoteKey,
    rules: AuthorRules,
    max_live_keys: usize,
    both_roles: bool,
    key_grace: Duration,
    waiting: Semaphore,
    /// Held from the check whether the keys exist until they do.
    making: Mutex<()>,
}

impl KeyService {
    pub(super) fn new(db: IssuerDb, operator: NoteKey, rules: IssuerRules) -> Self {
        let authors = AuthorRules { authors: rules.authors, window_s: rules.window_s };
        Self {
            db: Arc::new(db),
            operator,
            rules: authors,
            max_live_keys: rules.max_live_keys,
            both_roles: rules.insecure_both_roles,
            key_grace: rules.key_grace,
            waiting: Semaphore::new(MAX_WAITING),
            making: Mutex::new(()),
        }
    }

    pub(super) fn window_s(&self) -> u64 {
        self.rules.window_s
    }
}

pub(super) async fn post(
    State(state): State<Arc<IssuerState>>,
    body: Body,
) -> Result<Response, Failure> {
    let body = state.bodies.read(body, MAX_BODY).await?;
    let (rules, operator) = (&state.key_service.rules, &state.key_service.operator);
    let request = consume_token_key_request(body.bytes(), rules, operator, state.environment.now())
        .map_err(|refusal| refused(&refusal))?;
    // A retry is answered even while no keys can be made.
    if let Some(known) = known(&state, &request)? {
        return Ok(known);
    }
    let place = state.key_service.waiting.try_acquire();
    let _place = place.map_err(|_| Failure::unavailable("Too many authors wait for keys."))?;
    // A separate task: a connection that breaks must not cancel it between the disk and the table.
    let made = spawn(make(Arc::clone(&state), request));
    made.await.map_err(|error| Fault(error.to_string()))?
}

/// Makes, stores and returns the requested key.
async fn make(state: Arc<IssuerState>, request: TokenKeyRequest) -> Result<Response, Failure> {
    let service = &state.key_service;
    let _one = service.making.lock().await;
    if let Some(known) = known(&state, &request)? {
        return Ok(known);
    }
    let made = state.table.current();
    if !service.both_roles {
        check_one_role(&request, made.requests()).map_err(|refusal| refused(&refusal))?;
    }
    let live = made.live_keys(&request.author.key, state.environment.now());
    if live >= service.max_live_keys {
        let detail = "The author has as many live token keys as this issuer allows.";
        return Err(Failure::refused(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    let environment = state.environment.clone();
    let key = state.pool.run(move || generate(request, &environment)).await??;
    let (db, stored) = (Arc::clone(&service.db), key.clone());
    let stored = spawn_blocking(move || db.insert(&stored)).await;
    let stored = stored.map_err(|error| Fault(error.to_string()))?;
    let stored = state.health.noted(StoreWork::Commit, stored);
    stored.map_err(|_| Failure::unavailable("The issuer had an internal error."))?;
    let response = show(&state, &key)?;
    state.table.change(|table| table.insert(key));
    state.metrics.keys_made.increment(1);
    measure(&state);
    Ok(response)
}

/// The answer, if the key was made before.
fn known(state: &IssuerState, request: &TokenKeyRequest) -> Result<Option<Response>, Failure> {
    let keys = state.table.current();
    keys.of_request(&request_id(request)).map(|key| show(state, key)).transpose()
}

fn show(state: &IssuerState, key: &RecipeKey) -> Result<Response, Failure> {
    let key = produce_token_key(key, &state.key_service.operator);
    let body = serde_json::to_vec(&key).map_err(|error| Fault(error.to_string()))?;
    Ok(content("application/json", body))
}

fn generate(request: TokenKeyRequest, environment: &Environment) -> Result<RecipeKey, Fault> {
    let key = IssuerKey::generate().map_err(|error| Fault(error.to_string()))?;
    let secret = Secret::new(**environment.secret()?);
    let origin = Origin::new(key, secret, Moment(request.expires));
    let origin = Arc::new(origin.with_participations(request.participations));
    Ok(RecipeKey { request, origin })
}

/// The status of each refusal, for authors.
fn refused(refusal: &AuthorRefusal) -> Failure {
    let status = match refusal {
        AuthorRefusal::UnknownAuthor | AuthorRefusal::Signature => StatusCode::FORBIDDEN,
        AuthorRefusal::Malformed(_)
        | AuthorRefusal::Past
        | AuthorRefusal::BeyondWindow(_)
        | AuthorRefusal::IsAggregator => StatusCode::BAD_REQUEST,
        AuthorRefusal::BothRoles => StatusCode::CONFLICT,
    };
    Failure::Refused(status, format!("No keys are made: {refusal}."))
}

/// Deletes keys some time after they have expired, until the shutdown begins.
pub(super) async fn delete_expired(state: Arc<IssuerState>, mut shutdown: Shutdown) {
    loop {
        let before =
            Moment(state.environment.now().0.saturating_sub(state.key_service.key_grace.as_secs()));
        for id in state.table.current().expired_before(before) {
            let db = Arc::clone(&state.key_service.db);
            let Ok(deleted) = spawn_blocking(move || db.remove(&id)).await else {
                continue;
            };
            // What is still on disk stays in the table, so that it is retried.
            if state.health.noted(StoreWork::Forget, deleted).is_ok() {
                state.table.change(|table| table.remove(&id));
                state.metrics.keys_deleted.increment(1);
            }
        }
        measure(&state);
        if shutdown.begins_within(EXPIRY_PAUSE).await {
            return;
        }
    }
}

fn measure(state: &IssuerState) {
    state.metrics.live_keys.set(state.table.current().len() as f64);
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn each_refusal_of_an_author_has_its_status_and_no_problem_type_of_its_own() {
        for (refusal, status) in [
            (AuthorRefusal::UnknownAuthor, 403),
            (AuthorRefusal::Signature, 403),
            (AuthorRefusal::Malformed("a reason".into()), 400),
            (AuthorRefusal::Past, 400),
            (AuthorRefusal::BeyondWindow(60), 400),
            (AuthorRefusal::IsAggregator, 400),
            (AuthorRefusal::BothRoles, 409),
        ] {
            let (head, body) = refused(&refusal).into_response().into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(head.status.as_u16(), status, "{refusal:?}");
            assert_eq!(problem["status"], status, "{refusal:?}");
            assert_eq!(problem["type"], "about:blank", "{refusal:?}");
            assert_eq!(problem["detail"], format!("No keys are made: {refusal}."));
        }
    }
}
