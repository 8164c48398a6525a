//! The gateway as a server of its own, in front of servers that are reached over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use sotto_wire::size_class::SizeClass;

use super::config::GatewayServerConfig;
use super::destination::{Destination, Target};
use super::origin::Origin;
use super::resource::{GatewayResource, Place};
use crate::aggregator::base_path;
use crate::error::{BindError, RunError};
use crate::metrics::MetricsRegistry;
use crate::outbound;
use crate::problem::Failure;
use crate::service::{self, Sockets, Vitals};
use crate::upkeep;

/// A gateway that listens and is not yet serving.
pub struct Gateway {
    router: Router,
    vitals: Vitals,
    sockets: Sockets,
}

impl Gateway {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(config: GatewayServerConfig) -> Result<Self, BindError> {
        let metrics = Arc::new(MetricsRegistry::new()?);
        let place = Place {
            destination: destination(&config)?,
            max_request: SizeClass::MAX_REQUEST.bytes(),
            body_timeout: config.http.body_timeout,
            metrics: &metrics,
        };
        let resource = Arc::new(GatewayResource::new(config.gateway, place)?);
        let router = resource
            .router(&base_path(&config.http.base_path)?)
            .fallback(async || Failure::NotFound.into_response())
            .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response());
        let sockets = Sockets::bind(&config.http).await?;
        let drain_deadline = config.http.drain_deadline;
        let vitals = Vitals { health: Arc::default(), metrics, drain_deadline };
        Ok(Self { router, vitals, sockets })
    }

    /// Where the gateway listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more and finishes requests in flight
    /// within the deadline. To end on the spot, drop the future.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { router, vitals, sockets } = self;
        let metrics = Arc::clone(&vitals.metrics);
        service::serve(vitals, sockets, router, shutdown, |loops| {
            loops.spawn("metrics", upkeep::fold_metrics(metrics, loops.shutdown()));
        })
        .await
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

fn destination(config: &GatewayServerConfig) -> Result<Destination, BindError> {
    if config.targets.is_empty() {
        return Err(BindError::Config("a gateway of its own needs at least one target".into()));
    }
    if config.gateway.origin.is_some() {
        let reason = "a gateway of its own has no origin: each of its targets has one";
        return Err(BindError::Config(reason.into()));
    }
    let targets = config.targets.iter().map(|target| {
        let refused = |reason| BindError::Config(format!("the target {}: {reason}", target.origin));
        let uri = outbound::target(&target.url, config.http.insecure_http).map_err(refused)?;
        // A path in front of that of the request could be left again with dots.
        if uri.path() != "/" {
            return Err(refused("its URL has a path"));
        }
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(refused("its URL does not parse"));
        };
        let origin = Origin::parse(&target.origin)?;
        let host = HeaderValue::from_str(origin.authority());
        let host = host.map_err(|_| refused("its origin is no value of a field"))?;
        Ok(Target { origin, host, scheme, authority })
    });
    Ok(Destination::Outside {
        targets: targets.collect::<Result<_, _>>()?,
        client: outbound::client(config.timeout, config.certificates.as_deref())?,
        timeout: config.timeout,
    })
}
