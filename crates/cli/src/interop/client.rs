//! The test API of the client.

use std::sync::Arc;

use anyhow::{Result, bail};
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use sotto_client::{HttpTransport, UploadOutcome, Uploader};
use sotto_protocol::Moment;
use sotto_vdaf::Measurement;

use super::api::{self, Integer, TaskDescription, answer, blocking, request, success};
use crate::connection::ConnectionArgs;
use crate::random;
use crate::time_text::now;

/// `/internal/test/upload`
#[derive(Debug, Deserialize)]
struct UploadRequest {
    #[serde(flatten)]
    task: TaskDescription,
    measurement: Value,
    /// POSIX seconds, instead of the clock.
    time: Option<Integer>,
}

pub(super) fn router() -> Result<Router> {
    let connection = ConnectionArgs { insecure_http: true, ..ConnectionArgs::default() };
    let transport = connection.transport(4)?;
    Ok(Router::new()
        .route("/internal/test/ready", post(api::ready))
        .route("/internal/test/upload", post(upload))
        .with_state(transport))
}

async fn upload(State(transport): State<Arc<HttpTransport>>, body: Bytes) -> Json<Value> {
    answer(blocking(move || upload_now(&request(&body)?, transport)).await)
}

fn upload_now(request: &UploadRequest, transport: Arc<HttpTransport>) -> Result<Value> {
    let task = request.task.task()?;
    let measurement = Measurement::parse(task.vdaf().config(), &request.measurement)?;
    let moment = match request.time {
        Some(seconds) => Moment(seconds.0),
        None => now()?,
    };
    match Uploader::new(task, transport).send(&measurement, moment, &mut random::system())? {
        UploadOutcome::Accepted => Ok(success()),
        UploadOutcome::Rejected(error) => bail!("the leader refused the report: {}", error.name()),
    }
}
