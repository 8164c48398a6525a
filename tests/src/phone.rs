//! Devices of a [`World`] in this process: the engine of `sotto device run`, step by step, over any transport.
//!
//! [`Source`] is a transport that comes from an address of its own, and says so in every header that it can think of.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use sotto_client::{
    Delivery, HttpLog, HttpRequest, HttpResponse, LogRoute, RetryPolicy, Routes, TokenRound,
    Transport, TransportError, deliver, fetch_tokens,
};
use sotto_protocol::Moment;
use sotto_protocol::admission::{Admitted, Silence, Watch, WatchError};
use sotto_protocol::device::tokens::Live;
use sotto_protocol::device::{DeviceStore, Host, MemoryState, Pass, Pending, follow, pass};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::token::Attestor;
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_wire::EntryId;

use crate::http::{Connection, Response, head};
use crate::world::World;

/// What the time is.
pub fn now() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// What a device of this world takes on trust.
pub fn trust(world: &World) -> Result<Arc<Trust>> {
    let file: TrustFile = toml::from_str(&fs::read_to_string(world.path("trust.toml"))?)?;
    Ok(Arc::new(file.try_into()?))
}

/// A device.
pub struct Phone {
    trust: Arc<Trust>,
    routes: Routes,
    /// To the attester.
    transport: Arc<dyn Transport>,
    log_route: LogRoute,
    watch: Watch<HttpLog>,
    state: Box<dyn DeviceStore>,
    /// Without one it asks for no tokens.
    attestor: Option<Box<dyn Attestor>>,
    rng: ChaCha20Rng,
}

impl Phone {
    /// A device of this world. Devices that send at the same time need seeds of their own: gateways take nothing twice.
    pub fn new(
        world: &World,
        trust: &Arc<Trust>,
        transport: Arc<dyn Transport>,
        seed: u64,
    ) -> Result<Self> {
        let drawn = AtomicU64::new(0);
        let random = move || {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            rng.set_stream(1 + drawn.fetch_add(1, Ordering::Relaxed));
            Box::new(rng) as Box<dyn CryptoRng>
        };
        let routes = Routes::new(Arc::clone(&transport), Arc::new(now), Arc::new(random));
        let state = Box::new(MemoryState::default());
        let log_route = routes.to_log(state.state(), trust)?;
        let watch = Watch::new(HttpLog::new(&world.log.url(), log_route.transport()));
        let rng = ChaCha20Rng::seed_from_u64(seed);
        let trust = Arc::clone(trust);
        Ok(Self { trust, routes, transport, log_route, watch, state, attestor: None, rng })
    }

    /// The same with something to show the attester: it asks for tokens.
    #[must_use]
    pub fn attested(mut self, attestor: impl Attestor + 'static) -> Self {
        self.attestor = Some(Box::new(attestor));
        self
    }

    /// The same with this memory.
    #[must_use]
    pub fn remembering(mut self, state: impl DeviceStore + 'static) -> Self {
        self.state = Box::new(state);
        self
    }

    /// Takes the newest view of the log.
    pub fn read_log(&mut self) -> Result<()> {
        self.log_route.renew(self.state.state(), &self.trust);
        while let Err(error) = self.watch.refresh(&self.trust, now()) {
            match error {
                WatchError::Behind { .. } => {}
                error => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Asks once for the tokens that are due.
    pub fn ask_for_tokens(&mut self) -> Result<TokenRound> {
        let attestor = self.attestor.as_deref().context("nothing to show the attester")?;
        let Self { state, watch, trust, transport, rng, .. } = self;
        let view = follow(state.as_mut(), watch, trust, now())?;
        let live = Live { view: &view, recipes: watch.recipes() };
        let transport = transport.as_ref();
        Ok(fetch_tokens(state.as_mut(), &live, trust, attestor, transport, now(), rng)?)
    }

    /// The recipes of the log, each admitted or not.
    pub fn recipes(&self) -> &BTreeMap<EntryId, Result<Arc<Admitted>, Silence>> {
        self.watch.recipes()
    }

    /// The admitted recipe of this name.
    pub fn admitted(&self, name: &str) -> Result<Arc<Admitted>> {
        let mut admitted = self.recipes().values().flatten();
        let found = admitted.find(|admitted| admitted.assessment.recipe().name == name);
        let silent = || self.recipes().values().filter_map(|admitted| admitted.as_ref().err());
        found
            .cloned()
            .with_context(|| format!("{name} is not admitted: {:?}", silent().collect::<Vec<_>>()))
    }

    /// Decides about the open recipes.
    pub fn consider(&mut self, minutes: i64) -> Result<Pass> {
        let attributes: Attributes = [("minutes".to_owned(), Value::Int(minutes))].into();
        let host = Host { conditions_met: true, attributes: &attributes };
        let Self { state, watch, trust, rng, .. } = self;
        Ok(pass(state.as_mut(), watch, trust, &host, now(), rng)?)
    }

    /// Sends what waits to be sent.
    pub fn deliver(&mut self, retry: &RetryPolicy) -> Result<Delivery> {
        let ways = self.routes.to_leaders(self.state.state(), &self.watch, &self.trust);
        let mut route = |id: &_| ways.get(id).cloned();
        Ok(deliver(self.state.as_mut(), &mut route, retry, &mut self.rng)?)
    }

    /// Reads, asks for tokens, decides, sends: one report, taken at once. `retry` is for uploads; the log is read once.
    pub fn answer(&mut self, minutes: i64, retry: &RetryPolicy) -> Result<()> {
        self.read_log().context("the log")?;
        if self.attestor.is_some() {
            self.ask_for_tokens()?;
        }
        let done = self.consider(minutes)?;
        ensure!(done.considered.len() == 1, "not considered: {:?}", done.silent);
        let delivery = self.deliver(retry)?;
        let taken = Delivery { accepted: 1, ..Delivery::default() };
        ensure!(delivery == taken, "not taken: {delivery:?}");
        Ok(())
    }

    /// Another device in its place, which has read the log as far.
    pub fn replace(&mut self) {
        self.state = Box::new(MemoryState::default());
    }

    /// The answers that wait to be sent.
    pub fn pending(&self) -> Vec<Pending> {
        self.state.state().pending().map(|(_, pending)| pending.clone()).collect()
    }
}

/// A transport from an address of its own, with a new connection for each request.
#[derive(Debug)]
pub struct Source {
    address: IpAddr,
    sent: Mutex<Vec<Vec<u8>>>,
}

impl Source {
    /// From this address of this machine.
    pub fn new(address: IpAddr) -> Self {
        Self { address, sent: Mutex::default() }
    }

    /// Every request that was sent, with its head.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One exchange.
    pub fn exchange(
        &self,
        url: &str,
        method: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        let (server, path) = split(url)?;
        // What a proxy before the relay would add, or a careless program: all of it must end at the relay.
        let text = self.address.to_string();
        let told = ["forwarded", "x-forwarded-for", "x-real-ip", "via", "user-agent", "cookie"];
        let mut fields = fields.to_vec();
        fields.extend(told.map(|name| (name, text.as_str())));
        let head = head(method, path, &fields, body.len());
        let mut connection = Connection::open_from(self.address, server)?;
        let request = [&head, body].concat();
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Ok(connection.exchange(&head, body)?)
    }
}

impl Transport for Source {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let fields: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let method = request.method.as_str();
        let response = self
            .exchange(&request.url, method, &fields, request.body)
            .map_err(|error| TransportError::Unreachable(format!("{error:#}")))?;
        let Response { status, headers, body } = response;
        if body.len() > request.response_limit {
            return Err(TransportError::ResponseTooLong);
        }
        Ok(HttpResponse { status, headers, body })
    }
}

/// The server and the path of a URL.
fn split(url: &str) -> Result<(SocketAddr, &str)> {
    let rest = url.strip_prefix("http://").context("plain http")?;
    let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Ok((server.parse()?, if path.is_empty() { "/" } else { path }))
}
