//! `POST add`: accepts an entry, returns the proof that it is public.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use sotto_protocol::Fault;
use sotto_protocol::log::Reader;
use sotto_protocol::log::admit::{Refused, check_entry, check_receipt};
use sotto_store::{FolderFetch, LogDirError};
use sotto_wire::{Checkpoint, Entry, EntryId, Recipe};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::LogState;
use super::folder::first_proof;
use super::sequencer::{NotPublished, Submission};
use crate::environment::spawn_blocking;
use crate::http::{NOTE_MEDIA_TYPE, content};
use crate::problem::Failure;

/// The longest body, in bytes. An entry has one byte less.
const MAX_BODY: usize = 64 * 1024;

pub(super) async fn post(State(state): State<Arc<LogState>>, body: Body) -> Response {
    let response = add(&state, body).await.into_response();
    if response.status().is_client_error() {
        state.metrics.refused.increment(1);
    }
    response
}

async fn add(state: &LogState, body: Body) -> Result<Response, Failure> {
    // Counted against the memory for bodies until the answer: a waiting entry takes memory, too.
    let body = state.bodies.read(body, MAX_BODY).await?;
    let entry = Entry::parse(body.bytes()).map_err(|error| {
        Failure::Refused(StatusCode::BAD_REQUEST, format!("This is not an entry: {error}."))
    })?;
    check_entry(&state.rules, &entry).map_err(|refused| refusal(&refused))?;
    // A retry is answered even while nothing can be published.
    if let Some(proof) = published(state, entry.id()).await? {
        state.metrics.known.increment(1);
        return Ok(content(NOTE_MEDIA_TYPE, proof));
    }
    if let Some(receipt) = entry.receipt() {
        let recipe = recipe(state, receipt.recipe).await?;
        check_receipt(receipt, recipe.as_ref()).map_err(|refused| refusal(&refused))?;
    }
    let (sender, receiver) = oneshot::channel();
    state.inbox.try_send(Submission { entry, answer: sender }).map_err(|error| match error {
        TrySendError::Full(_) => Failure::unavailable("Too many entries are already waiting."),
        TrySendError::Closed(_) => Failure::unavailable("The log is shutting down."),
    })?;
    let outcome = receiver.await.unwrap_or(Err(NotPublished::Failed));
    outcome.map(|proof| content(NOTE_MEDIA_TYPE, proof)).map_err(failure)
}

/// The proof of an entry that is already public, from the public files alone.
async fn published(state: &LogState, id: EntryId) -> Result<Option<Vec<u8>>, Failure> {
    let public = state.public.clone();
    let found = spawn_blocking(move || {
        let mut reader = Reader::new(FolderFetch::new(public));
        let Some(index) = reader.find(&id)? else { return Ok(None) };
        first_proof(&mut reader, index).map(|proof| Some(proof.to_bytes()))
    });
    let found = found.await.map_err(|error| Fault(error.to_string()))?;
    found.map_err(|error| failed(&error.into()))
}

/// A public recipe.
async fn recipe(state: &LogState, id: EntryId) -> Result<Option<Recipe>, Failure> {
    let public = state.public.clone();
    let found = spawn_blocking(move || {
        let mut reader = Reader::new(FolderFetch::new(public));
        let (Some(newest), Some(index)) = (reader.checkpoint()?, reader.find(&id)?) else {
            return Ok(None);
        };
        let entry = reader.entry(index, &Checkpoint::parse(newest.text())?)?;
        Ok(Entry::parse(&entry)?.recipe().cloned())
    });
    let found = found.await.map_err(|error| Fault(error.to_string()))?;
    found.map_err(|error: LogDirError| failed(&error))
}

fn refusal(refused: &Refused) -> Failure {
    let status = match refused {
        Refused::Signature(_)
        | Refused::NotListed(_)
        | Refused::UnknownRecipe
        | Refused::OtherOperator(_) => StatusCode::FORBIDDEN,
        Refused::ExtraSignature | Refused::OtherLog(_) => StatusCode::BAD_REQUEST,
        Refused::Outdated => StatusCode::CONFLICT,
    };
    Failure::Refused(status, format!("The log does not accept this entry: {refused}."))
}

fn failure(reason: NotPublished) -> Failure {
    match reason {
        NotPublished::Outdated => refusal(&Refused::Outdated),
        NotPublished::NoQuorum(pause) => Failure::Unavailable(
            "Not enough witnesses answer. An entry that waits for them keeps its place: submit the same \
             bytes again."
                .to_owned(),
            pause,
        ),
        NotPublished::Disputed(reason, pause) => Failure::Unavailable(
            format!(
                "A witness says that it has seen another tree, and nothing is appended until that is \
                 settled: {reason}."
            ),
            pause,
        ),
        NotPublished::Halted(reason, pause) => {
            Failure::Unavailable(format!("The log has stopped for good: {reason}."), pause)
        }
        NotPublished::Failed => Failure::unavailable("The log had an internal error."),
    }
}

fn failed(error: &LogDirError) -> Failure {
    tracing::error!(%error, "the log's files failed");
    failure(NotPublished::Failed)
}
