//! The test API of the aggregators, with DAP itself on the same port.
//!
//! One process can be leader of some tasks and helper of others: it runs both servers, each on its
//! own loopback port, and forwards each DAP request to the server whose resource it names.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_server::{
    AuthScheme, Helper, HelperConfig, Leader, LeaderConfig, ServerConfig, TaskRegistry,
};
use sotto_store::MemoryStore;
use sotto_wire::Role;

use super::api::{self, TaskDescription, answer, request, success};
use super::forward::Forwarder;
use crate::keys;
use crate::serve::served;
use crate::task_file::{AggregatorPart, Party, hpke_config, optional_secret, secret, secret_array};

/// `/internal/test/add_task`
#[derive(Deserialize)]
struct AddTaskRequest {
    #[serde(flatten)]
    task: TaskDescription,
    role: Party,
    #[serde(deserialize_with = "secret")]
    vdaf_verify_key: Secret<String>,
    #[serde(deserialize_with = "secret")]
    leader_authentication_token: Secret<String>,
    #[serde(default, deserialize_with = "optional_secret")]
    collector_authentication_token: Option<Secret<String>>,
    collector_hpke_config: String,
}

struct Aggregators {
    leader_tasks: Arc<TaskRegistry>,
    helper_tasks: Arc<TaskRegistry>,
    dap: Forwarder,
}

pub(super) async fn router() -> Result<Router> {
    let state = Arc::new(start().await?);
    Ok(Router::new()
        .route("/internal/test/ready", post(api::ready))
        .route("/internal/test/endpoint_for_task", post(endpoint_for_task))
        .route("/internal/test/add_task", post(add_task))
        .fallback(dap)
        .with_state(state))
}

/// Starts both servers with the same HPKE key: `hpke_config` is one resource for both.
async fn start() -> Result<Aggregators> {
    let key = keys::generate(1);
    let leader =
        LeaderConfig { server: server(&key)?, ..LeaderConfig::new(loopback(), Vec::new()) };
    let leader = Leader::bind(leader, Arc::new(MemoryStore::new())).await?;
    let helper = HelperConfig { server: server(&key)? };
    let helper = Helper::bind(helper, Arc::new(MemoryStore::new())).await?;
    let aggregators = Aggregators {
        leader_tasks: leader.tasks().context("a leader has tasks")?,
        helper_tasks: helper.tasks().context("a helper has tasks")?,
        dap: Forwarder::new(leader.addr(), helper.addr())?,
    };
    tokio::spawn(leader.run(std::future::pending()));
    tokio::spawn(helper.run(std::future::pending()));
    Ok(aggregators)
}

fn server(key: &HpkeKeypair) -> Result<ServerConfig> {
    let mut server = ServerConfig::new(loopback(), vec![keys::duplicate(key)?]);
    server.insecure_plain_tasks = true;
    server.http.insecure_http = true;
    Ok(server)
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn endpoint_for_task() -> Json<Value> {
    Json(json!({ "status": "success", "endpoint": "/" }))
}

async fn add_task(State(state): State<Arc<Aggregators>>, body: Bytes) -> Json<Value> {
    answer(request(&body).and_then(|request| state.add_task(request)))
}

/// Everything that is not the test API is DAP.
async fn dap(State(state): State<Arc<Aggregators>>, request: Request) -> Response {
    if request.uri().path().starts_with("/internal/") {
        return StatusCode::NOT_FOUND.into_response();
    }
    state.dap.forward(request).await
}

impl Aggregators {
    fn add_task(&self, request: AddTaskRequest) -> Result<Value> {
        let role = request.role.aggregator().context("role: not an aggregator")?;
        ensure!(
            role == Role::Helper || request.collector_authentication_token.is_some(),
            "collector_authentication_token is missing"
        );
        let part = AggregatorPart {
            task: request.task.task()?,
            role,
            verify_key: secret_array(&request.vdaf_verify_key).context("vdaf_verify_key")?,
            leader_token: request.leader_authentication_token,
            // Some drivers send it to the helper too, which does not need it.
            collector_token: request
                .collector_authentication_token
                .filter(|_| role == Role::Leader),
            collector_hpke_config: hpke_config(&request.collector_hpke_config)
                .context("collector_hpke_config")?,
        };
        let tasks = if role == Role::Leader { &self.leader_tasks } else { &self.helper_tasks };
        tasks.add(served(part, AuthScheme::DapAuthToken)?)?;
        Ok(success())
    }
}
