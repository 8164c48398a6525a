//! The operator's listener: `/livez`, `/readyz`, `/status`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use sotto_protocol::Moment;
use sotto_wire::utc;

use crate::health::{Concern, Health};
use crate::listener::Certificates;
use crate::memory::Memory;
use crate::metrics::{MetricsRegistry, table};
use crate::service::with_fallbacks;
use crate::tasks::{ServedTask, TaskRegistry};

/// What the operator's listener serves.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) started: Moment,
    pub(crate) listen: SocketAddr,
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Those of an aggregator.
    pub(crate) tasks: Option<Arc<TaskRegistry>>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<MetricsRegistry>,
    pub(crate) memory: Memory,
}

impl Admin {
    /// Whether requests should be sent here, and why not, with the memory that is held.
    fn report(&self) -> (bool, Value) {
        let (memory, refused) = self.memory.report();
        self.health.set(Concern::MemoryFull, refused);
        let (ready, mut document) = self.health.report();
        document["memory_limit_bytes"] = memory.limit.into();
        document["memory_held_bytes"] = memory.held.into();
        (ready, document)
    }
}

pub(crate) fn router(admin: Admin) -> Router {
    let router = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .route("/metrics", get(metrics));
    with_fallbacks(router).with_state(admin)
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let (ready, document) = admin.report();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(CONTENT_TYPE, "application/json")], format!("{document}\n")).into_response()
}

/// What this server serves, and why not the rest.
async fn status(State(admin): State<Admin>) -> Response {
    let (_, mut document) = admin.report();
    document["version"] = env!("CARGO_PKG_VERSION").into();
    put_time(&mut document, "started", admin.started.0);
    document["listen"] = admin.listen.to_string().into();
    if let Some(certificates) = &admin.certificates {
        let expires = u64::try_from(certificates.expires()).unwrap_or_default();
        put_time(&mut document, "certificate_expires", expires);
    }
    if let Some(tasks) = &admin.tasks {
        let mut served: Vec<_> = tasks.all().iter().map(|task| described(task)).collect();
        served.sort_by_key(|task| task["task_id"].to_string());
        document["tasks"] = served.into();
        let not_served = tasks.not_served().into_iter();
        let not_served =
            not_served.map(|(id, reason)| json!({ "recipe_id": id.to_string(), "reason": reason }));
        document["not_served"] = not_served.collect();
    }
    ([(CONTENT_TYPE, "application/json")], format!("{document}\n")).into_response()
}

fn described(task: &ServedTask) -> Value {
    let mut described = json!({ "task_id": task.id().to_string() });
    if let Some(recipe) = &task.recipe {
        described["recipe_id"] = recipe.id().to_string().into();
        described["name"] = recipe.name.as_str().into();
        described["author"] = recipe.author.name.as_str().into();
        put_time(&mut described, "closes", recipe.answer_times().closes);
    }
    described
}

/// As text and in seconds, like all times in the JSON of Sotto's commands.
fn put_time(document: &mut Value, name: &str, seconds: u64) {
    document[name] = utc::format(seconds).into();
    document[format!("{name}_s")] = seconds.into();
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let (ready, document) = admin.report();
    let reasons = document["reasons"].as_array().map_or(0, Vec::len);
    admin.metrics.gauge(&table::READY).set(if ready { 1.0 } else { 0.0 });
    admin.metrics.gauge(&table::REASONS).set(reasons as f64);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], admin.metrics.render()).into_response()
}
