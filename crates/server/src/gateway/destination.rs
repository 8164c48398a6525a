//! The servers behind a gateway, and what passes to and from them.
//!
//! Only fields on a short list pass, in requests and in answers. So nothing about a connection, no
//! credentials and no cookie can get through, no matter who sends it. Fields that decide something
//! must not be repeated: the gateway and the server could each use a different one.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE, DATE, HOST, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use sotto_wire::bhttp::{self, Field};
use sotto_wire::taskprov;
use tower::ServiceExt;

use super::origin::Origin;
use crate::environment;
use crate::error::BindError;
use crate::http::Counted;
use crate::outbound::OutboundClient;
use crate::problem::Failure;

/// The fields of a request that pass.
static PASSED: [HeaderName; 3] = [CONTENT_TYPE, ACCEPT, HeaderName::from_static(taskprov::HEADER)];

/// Fields that are read here but do not pass. No request may repeat a field of either list.
static READ: [HeaderName; 2] = [DATE, HOST];

/// The fields of an answer that pass.
static RETURNED: [HeaderName; 3] = [CONTENT_TYPE, RETRY_AFTER, DATE];

/// Where the requests of a gateway go.
pub(crate) enum Destination {
    /// To resources of this process: only those of `router`.
    Inside {
        /// Requests for other origins are refused. If unset, requests for any origin are accepted.
        origin: Option<Origin>,
        /// The resources.
        router: Router,
    },
    /// To servers over HTTP.
    Outside {
        /// The servers.
        targets: Vec<Target>,
        /// Used for all of them.
        client: OutboundClient<Body>,
        /// How long a server may take to start its answer.
        timeout: Duration,
    },
}

/// A server over HTTP.
pub(crate) struct Target {
    pub(super) origin: Origin,
    /// The authority of the origin. A server may serve several origins, and tells them apart by
    /// this.
    pub(super) host: HeaderValue,
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
}

impl Destination {
    /// To resources of this process: those of `router`, under this origin.
    pub(crate) fn inside(origin: Option<&str>, router: Router) -> Result<Self, BindError> {
        Ok(Self::Inside { origin: origin.map(Origin::parse).transpose()?, router })
    }

    /// Whether it is harmless to serve a request twice. An upload is counted once, by its report
    /// id, and files of a log are public; a replayer cannot open the answer. What a server over
    /// HTTP does is not known here.
    pub(super) fn bears_replays(&self) -> bool {
        matches!(self, Self::Inside { .. })
    }

    /// The request that is sent to the server, without its content.
    pub(super) fn address(&self, inner: &bhttp::Request<'_>) -> Result<Request<()>, Undeliverable> {
        let path: PathAndQuery = inner.path.parse().map_err(|_| Undeliverable::Malformed)?;
        if !path.path().starts_with('/') || repeats(inner) {
            return Err(Undeliverable::Malformed);
        }
        let method = Method::from_bytes(inner.method.as_bytes());
        let mut request = Request::new(());
        *request.method_mut() = method.map_err(|_| Undeliverable::Malformed)?;
        *request.uri_mut() = match self {
            Self::Inside { origin: None, .. } => Uri::from(path),
            Self::Inside { origin: Some(origin), .. } => {
                if !is_for(origin, inner) {
                    return Err(Undeliverable::Misdirected);
                }
                Uri::from(path)
            }
            Self::Outside { targets, .. } => {
                let target = targets.iter().find(|target| is_for(&target.origin, inner));
                let target = target.ok_or(Undeliverable::Misdirected)?;
                request.headers_mut().insert(HOST, target.host.clone());
                let uri = Uri::builder()
                    .scheme(target.scheme.clone())
                    .authority(target.authority.clone())
                    .path_and_query(path);
                uri.build().map_err(|_| Undeliverable::Malformed)?
            }
        };
        for field in &inner.fields {
            let Some(name) = PASSED.iter().find(|name| name.as_str() == field.name) else {
                continue;
            };
            let value = HeaderValue::from_bytes(field.value);
            let value = value.map_err(|_| Undeliverable::Malformed)?;
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }

    /// The answer of the server.
    pub(super) async fn deliver(&self, request: Request) -> Result<Response, Failure> {
        match self {
            Self::Inside { router, .. } => {
                let mut request = request;
                request.extensions_mut().insert(Counted);
                let Ok(response) = router.clone().oneshot(request).await;
                Ok(response)
            }
            // Other methods of a server over HTTP are not for strangers.
            Self::Outside { .. }
                if ![Method::GET, Method::HEAD, Method::POST].contains(request.method()) =>
            {
                Err(Failure::MethodNotAllowed)
            }
            Self::Outside { client, timeout, .. } => {
                let refused = |status, detail: &str| Failure::refused(status, detail);
                let response = environment::timeout(*timeout, client.request(request)).await;
                let response = response
                    .map_err(|_| refused(StatusCode::GATEWAY_TIMEOUT, "The server took too long."))?
                    .map_err(|_| refused(StatusCode::BAD_GATEWAY, "The server does not answer."))?;
                if response.status().is_informational() {
                    return Err(refused(StatusCode::BAD_GATEWAY, "The server switches protocols."));
                }
                Ok(response.map(Body::new))
            }
        }
    }
}

/// The fields of an answer that pass, in the form for the sealed response.
pub(super) fn returned(headers: &HeaderMap) -> Vec<Field<'_>> {
    let fields = RETURNED.iter().filter_map(|name| {
        let value = headers.get(name)?;
        Some(Field { name: name.as_str(), value: value.as_bytes() })
    });
    fields.collect()
}

/// Why a request does not reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undeliverable {
    /// It is not an HTTP request.
    Malformed,
    /// There is no such server behind this gateway.
    Misdirected,
}

fn repeats(inner: &bhttp::Request<'_>) -> bool {
    PASSED.iter().chain(&READ).any(|name| {
        let with_name = inner.fields.iter().filter(|field| name.as_str() == field.name);
        with_name.count() > 1
    })
}

fn is_for(origin: &Origin, inner: &bhttp::Request<'_>) -> bool {
    // RFC 9292 §3.3 allows the authority to be left to the `host` field.
    let host = inner.field("host").and_then(|host| std::str::from_utf8(host).ok());
    let authority = match inner.authority {
        "" => host.unwrap_or_default(),
        authority => authority,
    };
    origin.is(inner.scheme, authority)
}
