//! Forwards DAP requests to the servers behind the test API.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sotto_client::{self as client, HttpRequest, HttpResponse, HttpTransport, Transport};
use sotto_wire::limits::{MAX_AGGREGATION_JOB_LEN, MAX_COLLECTION_JOB_RESP_LEN};
use zeroize::Zeroizing;

use crate::connection::ConnectionArgs;

/// The request headers that DAP uses.
const REQUEST_HEADERS: [&str; 4] =
    ["content-type", "authorization", "dap-auth-token", "dap-taskprov"];

/// The response headers that DAP uses.
const RESPONSE_HEADERS: [&str; 4] = ["content-type", "location", "retry-after", "cache-control"];

/// The two servers of this process, each on its own port.
#[derive(Debug)]
pub(super) struct Forwarder {
    transport: Arc<HttpTransport>,
    leader: SocketAddr,
    helper: SocketAddr,
}

impl Forwarder {
    pub(super) fn new(leader: SocketAddr, helper: SocketAddr) -> Result<Self> {
        Ok(Self { transport: ConnectionArgs::default().transport(16)?, leader, helper })
    }

    /// Forwards a request to the server whose resource it names.
    pub(super) async fn forward(&self, request: Request) -> Response {
        match self.answer(request).await {
            Ok(response) => response,
            Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}\n")).into_response(),
        }
    }

    async fn answer(&self, request: Request) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let method = match parts.method {
            Method::GET => client::Method::Get,
            Method::POST => client::Method::Post,
            Method::DELETE => client::Method::Delete,
            _ => return Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
        };
        let body = axum::body::to_bytes(body, MAX_AGGREGATION_JOB_LEN).await?;
        let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("http://{}{target}", self.server(parts.uri.path()));
        let headers = request_headers(&parts.headers);
        let transport = self.transport.clone();
        let send = move || {
            let response_limit = MAX_COLLECTION_JOB_RESP_LEN;
            transport.send(&HttpRequest { method, url, headers, body: &body, response_limit })
        };
        let response = tokio::task::spawn_blocking(send).await.context("the call panicked")??;
        convert(response)
    }

    /// The helper's resources are recognized by their names; all others belong to the leader.
    fn server(&self, path: &str) -> SocketAddr {
        let helper = |name| matches!(name, "aggregation_jobs" | "aggregate_shares");
        if path.split('/').any(helper) { self.helper } else { self.leader }
    }
}

fn request_headers(headers: &HeaderMap) -> Vec<(&'static str, Zeroizing<String>)> {
    let value = |name| Some(Zeroizing::new(headers.get(name)?.to_str().ok()?.to_owned()));
    REQUEST_HEADERS.into_iter().filter_map(|name| Some((name, value(name)?))).collect()
}

fn convert(response: HttpResponse) -> Result<Response> {
    let mut builder = Response::builder().status(response.status);
    for name in RESPONSE_HEADERS {
        if let Some(value) = response.header(name) {
            builder = builder.header(name, value);
        }
    }
    let length = response.body.len();
    builder
        .header(header::CONTENT_LENGTH, length)
        .body(Body::from(Bytes::from(response.body)))
        .map_err(|error| anyhow!(error))
}
