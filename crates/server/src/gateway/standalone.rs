//! The standalone gateway, in front of servers that are reached over HTTP.

use axum::Router;
use axum::http::HeaderValue;
use sotto_wire::size_class::SizeClass;

use super::config::GatewayServerConfig;
use super::destination::{Destination, Target};
use super::origin::Origin;
use super::resource::GatewayResource;
use crate::config::HttpConfig;
use crate::environment::Environment;
use crate::error::BindError;
use crate::outbound::{self, Reach};
use crate::service::{Role, Server};

/// The standalone gateway, for [`Server::bind`].
#[derive(Debug)]
pub struct Gateway {
    /// What its operator decides.
    pub config: GatewayServerConfig,
}

impl Gateway {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(config: GatewayServerConfig) -> Result<Server, BindError> {
        Server::bind(Self { config }, Environment::default()).await
    }
}

impl Role for Gateway {
    fn http(&self) -> &HttpConfig {
        &self.config.http
    }

    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config } = self;
        let (destination, body_timeout) = (destination(&config)?, config.http.body_timeout);
        let max_request = SizeClass::MAX_REQUEST.bytes();
        let gateway = config.gateway;
        let memory = server.memory.all();
        let resource =
            GatewayResource::new(gateway, destination, max_request, memory, body_timeout, server)?;
        Ok(resource.router(&server.base_path, &server.metrics))
    }
}

fn destination(config: &GatewayServerConfig) -> Result<Destination, BindError> {
    if config.targets.is_empty() {
        return Err(BindError::Config("a standalone gateway needs at least one target".into()));
    }
    if config.gateway.origin.is_some() {
        let reason = "a standalone gateway has no origin: each of its targets has one";
        return Err(BindError::Config(reason.into()));
    }
    let targets = config.targets.iter().map(|target| {
        let refused =
            |reason: String| BindError::Config(format!("the target {}: {reason}", target.origin));
        let url = outbound::target(&target.url, config.http.insecure_http).map_err(refused)?;
        // A request could escape from a path prefix with dots.
        if url.path() != "/" {
            return Err(refused("its URL has a path".into()));
        }
        let broken = |_| refused("its URL does not parse".into());
        let scheme = url.scheme().parse().map_err(broken)?;
        let authority = url.authority().parse().map_err(broken)?;
        let origin = Origin::parse(&target.origin)?;
        let host = HeaderValue::from_str(origin.authority());
        let host = host.map_err(|_| refused("its origin is not a valid field value".into()))?;
        Ok(Target { origin, host, scheme, authority })
    });
    Ok(Destination::Outside {
        targets: targets.collect::<Result<_, _>>()?,
        client: outbound::client(Reach::Anywhere, config.timeout, config.certificates.as_deref())?,
        timeout: config.timeout,
    })
}
