//! Devices of a [`World`] in this process: a [`Participant`] over any transport.
//!
//! [`Source`] is a transport with its own source address, which it also puts into every header that
//! could carry one.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use sotto_client::{
    Delivery, Host, HttpRequest, HttpResponse, Log, Participant, PassReport, Transport,
    TransportError,
};
use sotto_protocol::Moment;
use sotto_protocol::admission::{Admitted, Silence};
use sotto_protocol::device::{DeviceStore, MemoryState, Pending};
use sotto_protocol::expression::Value;
use sotto_protocol::token::Attestor;
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_wire::EntryId;

use crate::http::{Connection, Response, head};
use crate::world::World;

/// The current time.
pub fn now() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// The trust file of a device of this world.
pub fn trust(world: &World) -> Result<Arc<Trust>> {
    let file: TrustFile = toml::from_str(&fs::read_to_string(world.path("trust.toml"))?)?;
    Ok(Arc::new(file.try_into()?))
}

/// A device. It tries each upload once per delivery.
pub struct Phone {
    device: Participant<Box<dyn DeviceStore>>,
    trust: Arc<Trust>,
    circumstances: Arc<Circumstances>,
}

/// What a test decides about the next pass of a device.
#[derive(Debug, Default)]
struct Circumstances {
    minutes: AtomicI64,
    busy: AtomicBool,
    /// Nothing reaches the leader.
    cut_off: AtomicBool,
}

impl Phone {
    /// A device of this world. Devices that send at the same time need different seeds: gateways
    /// accept nothing twice.
    pub fn new(
        world: &World,
        trust: &Arc<Trust>,
        transport: Arc<dyn Transport>,
        seed: u64,
    ) -> Result<Self> {
        let circumstances = Arc::<Circumstances>::default();
        let transport = Uplink { inner: transport, circumstances: Arc::clone(&circumstances) };
        let mut host = Host::new(Arc::new(transport));
        let drawn = AtomicU64::new(0);
        host.random = Arc::new(move || {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            rng.set_stream(drawn.fetch_add(1, Ordering::Relaxed));
            Box::new(rng) as Box<dyn CryptoRng>
        });
        let (one, other) = (Arc::clone(&circumstances), Arc::clone(&circumstances));
        host.conditions = Box::new(move || Ok(!one.busy.load(Ordering::SeqCst)));
        host.attributes = Box::new(move || {
            let minutes = Value::Int(other.minutes.load(Ordering::SeqCst));
            Ok([("minutes".to_owned(), minutes)].into())
        });
        let log = Log::at(&world.log.url(), &host, trust)?;
        let state: Box<dyn DeviceStore> = Box::new(MemoryState::default());
        let device = Participant::new(host, Arc::clone(trust), state, log);
        Ok(Self { device, trust: Arc::clone(trust), circumstances })
    }

    /// The same after a change.
    fn changed(self, change: impl FnOnce(&mut Host, &mut Box<dyn DeviceStore>)) -> Self {
        let Self { device, trust, circumstances } = self;
        let (mut host, mut state, log) = device.into_parts();
        change(&mut host, &mut state);
        let device = Participant::new(host, Arc::clone(&trust), state, log);
        Self { device, trust, circumstances }
    }

    /// The same with an attestation for the attester: it requests tokens.
    #[must_use]
    pub fn attested(self, attestor: impl Attestor + Send + 'static) -> Self {
        self.changed(|host, _| host.attestor = Some(Box::new(attestor)))
    }

    /// The same with this state.
    #[must_use]
    pub fn remembering(self, memory: impl DeviceStore + 'static) -> Self {
        self.changed(|_, state| *state = Box::new(memory))
    }

    /// A whole pass of a device with this many minutes.
    pub fn pass(&mut self, minutes: i64) -> Result<PassReport> {
        self.circumstances.minutes.store(minutes, Ordering::SeqCst);
        Ok(self.device.pass()?)
    }

    /// A whole pass while the device is busy: it considers nothing.
    pub fn pass_busy(&mut self) -> Result<PassReport> {
        self.circumstances.busy.store(true, Ordering::SeqCst);
        let done = self.pass(0);
        self.circumstances.busy.store(false, Ordering::SeqCst);
        done
    }

    /// A whole pass in which nothing reaches the leader: answers are made and kept for later.
    pub fn pass_cut_off(&mut self, minutes: i64) -> Result<PassReport> {
        self.circumstances.cut_off.store(true, Ordering::SeqCst);
        let done = self.pass(minutes);
        self.circumstances.cut_off.store(false, Ordering::SeqCst);
        done
    }

    /// A pass that sends one report, which is accepted at once.
    pub fn answer(&mut self, minutes: i64) -> Result<()> {
        let done = self.pass(minutes)?;
        ensure!(done.considered.len() == 1, "not considered: {:?}", done.silent);
        let delivery = done.insecure_delivery;
        let taken = Delivery { accepted: 1, ..Delivery::default() };
        ensure!(delivery == taken, "not accepted: {delivery:?}");
        Ok(())
    }

    /// The recipes of the log, each admitted or not.
    pub fn recipes(&self) -> &BTreeMap<EntryId, Result<Arc<Admitted>, Silence>> {
        self.device.log().recipes()
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

    /// Replaces it by another device that has read the log up to the same point.
    #[must_use]
    pub fn replaced(self) -> Self {
        self.remembering(MemoryState::default())
    }

    /// The answers that are waiting to be sent.
    pub fn pending(&self) -> Vec<Pending> {
        self.device.insecure_pending().cloned().collect()
    }
}

/// The device's transport, until it is cut off from the leader's gateway.
struct Uplink {
    inner: Arc<dyn Transport>,
    circumstances: Arc<Circumstances>,
}

impl Transport for Uplink {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let to_leader = request.url.ends_with("/leader.example");
        if to_leader && self.circumstances.cut_off.load(Ordering::SeqCst) {
            return Err(TransportError::Unreachable("cut off".to_owned()));
        }
        self.inner.send(request)
    }
}

/// A transport with its own source address and a new connection for each request.
#[derive(Debug)]
pub struct Source {
    address: IpAddr,
    sent: Mutex<Vec<Vec<u8>>>,
}

impl Source {
    /// A transport from this address of this machine.
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
        // Headers that a proxy in front of the relay, or a careless program, would add: the relay
        // must drop all of them.
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
