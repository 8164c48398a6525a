//! The operator's listener: `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::health::Health;
use crate::metrics::MetricsRegistry;
use crate::service::with_fallbacks;

/// What the operator's listener serves.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<MetricsRegistry>,
}

pub(crate) fn router(admin: Admin) -> Router {
    let router = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics));
    with_fallbacks(router).with_state(admin)
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let (ready, document) = admin.health.report();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(CONTENT_TYPE, "application/json")], format!("{document}\n")).into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], admin.metrics.render()).into_response()
}
