//! All parties of a trial in one process: log, witnesses, two attesters, two issuers, leader,
//! helper, relay, author and collector. For `sotto demo` and `sotto train --story`.

mod carried;
pub(crate) mod operators;
pub(crate) mod servers;
pub(crate) mod tokens;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use axum::Router;
use axum::extract::{Path as RequestPath, State};
use axum::http::StatusCode;
use axum::routing::get;
use sotto_client::{AuthToken as ClientToken, Collector, HttpTransport, Transport};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::recipe::derive_task;
use sotto_protocol::trust::{BudgetFile, Trust};
use sotto_protocol::{Moment, Task};
use sotto_server::{
    AuthToken, Gateway, GatewayConfig, GatewayKeys, GatewayServerConfig, GatewayTarget, Helper,
    HelperConfig, Leader, LeaderConfig, RecipeAuthor, RecipePeer, RecipesConfig, ServerConfig,
};
use sotto_store::{Counters, SqliteStore, TaskStore};
use sotto_wire::recipe::{Aggregator as Named, PartiesDraft, TokensDraft};
use sotto_wire::{Entry, EntryKind, KeySet, Recipe, TaskId, VerifierKey};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::carried::{Branching, Carried};
use self::operators::{
    Keys, LOG_OPERATOR, Published, gateway_config, key_set, relay, transparency, trust,
};
use self::servers::{Server, loopback, open_store};
use self::tokens::{Manufacturer, chain, with_token_keys};
use crate::connection::ConnectionArgs;
use crate::log_source::LogSource;
use crate::output::Output;
use crate::{keys, random, signer_file};

/// The number of connections that all devices together keep open.
const CONNECTIONS: usize = 64;

/// How long the aggregators may take for a round.
const PATIENCE: Duration = Duration::from_secs(600);

/// The operators of the aggregators.
const LEADER: &str = "leader.demo";
const HELPER: &str = "helper.demo";

/// How many key sets are in the log.
pub(crate) const KEY_SETS: usize = 5;

/// What differs between trials.
pub(crate) struct Terms {
    /// How many dishonest devices the floors of devices allow for.
    pub(crate) dishonest_devices: u64,
    /// The smallest certified audience that devices accept.
    pub(crate) min_population: u64,
    /// The attributes that predicates may read.
    pub(crate) targeting_attributes: Vec<String>,
    /// What devices may spend.
    pub(crate) budget: BudgetFile,
    /// Whether devices answer recipes without a claim.
    pub(crate) insecure_exact: bool,
    /// How often the aggregators read the log.
    pub(crate) poll: Duration,
    /// A folder of models, which devices read through the gateway of the log.
    pub(crate) models: Option<PathBuf>,
}

/// Everything that runs. Fields are dropped in order: servers, stores, then the folder.
pub(crate) struct Stage {
    runtime: Runtime,
    servers: Vec<Server>,
    leader_store: Arc<SqliteStore>,
    _helper_store: Arc<SqliteStore>,
    /// The trust file of every device.
    pub(crate) trust: Arc<Trust>,
    pub(crate) log_url: String,
    attester_urls: [String; 2],
    issuer_urls: [String; 2],
    /// Where devices find models, if there are any.
    pub(crate) models_url: Option<String>,
    pub(crate) keys: Keys,
    pub(crate) log: LogSource,
    leader_url: String,
    helper_url: String,
    collector_key: HpkeKeypair,
    collector_token: String,
    /// For the collector.
    transport: Arc<HttpTransport>,
    /// For devices: to the relay only.
    carried: Arc<Carried>,
    /// For devices: to each attester, which knows them anyway.
    pub(crate) to_attesters: [Arc<Carried>; 2],
    pub(crate) manufacturer: Manufacturer,
    _folder: TempDir,
}

impl Stage {
    /// Starts log and witnesses, attesters and issuers, publishes keys, and starts the aggregators,
    /// which find recipes in the log. The relay knows the gateways of leader and log, and devices
    /// know the relay and the attesters.
    pub(crate) fn start(terms: &Terms, now: Moment, output: &Output) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let keys = Keys::generate()?;
        let log_gateway = keys::generate_hybrid(4);
        let log_gateway_config = log_gateway.config().clone();
        let own_gateway = terms.models.is_none().then(|| keys::duplicate(&log_gateway));
        let (mut servers, policy, log_url) =
            runtime.block_on(transparency(folder.path(), &keys, own_gateway.transpose()?))?;
        let (mut log_gateway_url, mut models_url) = (format!("{log_url}/"), None);
        if let Some(models) = &terms.models {
            let started = runtime.block_on(models_and_gateway(models, log_gateway, &log_url))?;
            servers.push(started.gateway);
            (log_gateway_url, models_url) = (started.gateway_url, Some(started.models_url));
        }
        let leader = Aggregator::new(1, terms.poll)?;
        let helper = Aggregator::new(2, terms.poll)?;
        let gateways = [(LEADER, leader.url()), (LOG_OPERATOR, log_gateway_url)];
        let (relay, relay_url) = runtime.block_on(relay(&gateways))?;
        servers.push(relay);
        let manufacturer = Manufacturer::new()?;
        let encapsulation = [keys::generate_hybrid(6), keys::generate_hybrid(7)];
        let encapsulation_configs = encapsulation.each_ref().map(|key| key.config().clone());
        let [key_a, key_b] = encapsulation;
        let start = |number, key| chain(number, folder.path(), &keys, key, &manufacturer);
        let chains = [runtime.block_on(start(0, key_a))?, runtime.block_on(start(1, key_b))?];
        let attester_urls = chains.each_ref().map(|chain| chain.attester_url.clone());
        let issuer_urls = chains.each_ref().map(|chain| chain.issuer_url.clone());
        servers.extend(chains.into_iter().flat_map(|chain| chain.servers));
        let trust = trust(terms, &policy, &keys, &log_gateway_config, relay_url, &attester_urls)?;
        let log = LogSource::open(&log_url, &ConnectionArgs::default())?;
        let leader_gateway = keys::generate_hybrid(5);
        let leader_gateway_config = leader_gateway.config().clone();
        let nothing = Published::default();
        let (leader_url, helper_url) = (leader.url(), helper.url());
        let key_sets: [_; KEY_SETS] = [
            (
                &keys.leader,
                Published {
                    hpke: Some(leader.key.config()),
                    gateway: Some(&leader_gateway_config),
                    url: Some(&leader_url),
                    ..nothing
                },
            ),
            (
                &keys.helper,
                Published { hpke: Some(helper.key.config()), url: Some(&helper_url), ..nothing },
            ),
            (&keys.log_operator, Published { gateway: Some(&log_gateway_config), ..nothing }),
            (
                &keys.issuers[0],
                Published { encapsulation: Some(&encapsulation_configs[0]), ..nothing },
            ),
            (
                &keys.issuers[1],
                Published { encapsulation: Some(&encapsulation_configs[1]), ..nothing },
            ),
        ];
        for (key, published) in key_sets {
            let set = key_set(key, published, now).to_json();
            let entry = signer_file::sign(EntryKind::KeySet, set, key)?;
            log.submit(&entry, Some(trust.policy()), output)?;
        }
        let transport = ConnectionArgs::default().transport(CONNECTIONS)?;
        let leader_store = open_store(&folder.path().join("leader"))?;
        let helper_store = open_store(&folder.path().join("helper"))?;
        let secrets = Secrets::generate();
        let author = keys.author.verifier();
        servers.extend(runtime.block_on(async {
            let peer = secrets.peer(HELPER, &helper)?;
            let mut server = leader.server(LEADER, peer, &trust, &log_url, &author, &secrets)?;
            server.gateway = Some(gateway_config(leader_gateway, &leader.url())?);
            let config = LeaderConfig { server, ..LeaderConfig::new(leader.address, Vec::new()) };
            let leader_server = Leader::bind(config, leader_store.clone()).await?;
            let peer = secrets.peer(LEADER, &leader)?;
            let server = helper.server(HELPER, peer, &trust, &log_url, &author, &secrets)?;
            let helper_server = Helper::bind(HelperConfig { server }, helper_store.clone()).await?;
            anyhow::Ok([
                Server::spawn(|stop| leader_server.run(stop)),
                Server::spawn(|stop| helper_server.run(stop)),
            ])
        })?);
        Ok(Self {
            runtime,
            servers,
            leader_store,
            _helper_store: helper_store,
            trust: Arc::new(trust),
            log_url,
            attester_urls,
            issuer_urls,
            models_url,
            keys,
            log,
            leader_url,
            helper_url,
            collector_key: keys::generate_hybrid(3),
            collector_token: secrets.collector,
            manufacturer,
            carried: Arc::new(Carried::new(transport.clone())),
            to_attesters: [0, 1].map(|_| Arc::new(Carried::new(transport.clone()))),
            transport,
            _folder: folder,
        })
    }

    /// The transports of a device, which count what goes to the relay and to each attester.
    pub(crate) fn device_transport(&self) -> Arc<dyn Transport> {
        Arc::new(Branching {
            attesters: self.to_attesters.clone(),
            attester_urls: self.attester_urls.clone(),
            relay: Arc::clone(&self.carried),
        })
    }

    /// How many requests of each length the relay received.
    pub(crate) fn carried(&self) -> Vec<(usize, u64)> {
        self.carried.lengths().into_iter().collect()
    }

    /// The parties, as a recipe names them.
    pub(crate) fn named(&self) -> Result<PartiesDraft> {
        let aggregator = |operator: &str, url: &str| {
            anyhow::Ok(Named { operator: operator.parse()?, url: url.to_owned() })
        };
        Ok(PartiesDraft {
            leader: aggregator(LEADER, &self.leader_url)?,
            helper: aggregator(HELPER, &self.helper_url)?,
            collector_hpke_config: KeySet::config_text(self.collector_key.config()),
            log: self.keys.log.verifier().name().to_string(),
            tokens: TokensDraft::InsecureNone,
        })
    }

    /// Publishes an entry, and returns its index.
    pub(crate) fn submit(&self, entry: &Entry, output: &Output) -> Result<u64> {
        Ok(self.log.submit(entry, Some(self.trust.policy()), output)?.index)
    }

    /// Publishes a recipe of the author.
    pub(crate) fn publish(&self, recipe: &Recipe, output: &Output) -> Result<u64> {
        let entry = signer_file::sign(EntryKind::Recipe, recipe.to_json(), &self.keys.author)?;
        self.submit(&entry, output)
    }

    /// The recipe with token keys that the author gets from both issuers.
    pub(crate) fn with_token_keys(&self, recipe: Recipe) -> Result<Recipe> {
        with_token_keys(recipe, &self.keys.author, &self.issuer_urls, self.transport.as_ref())
    }

    /// The collector of a task.
    pub(crate) fn collector(&self, task: Task) -> Result<Collector> {
        let token = ClientToken::Bearer(Secret::new(self.collector_token.clone()));
        let key = keys::duplicate(&self.collector_key)?;
        Ok(Collector::new(task, key, token, self.transport.clone()))
    }

    /// What the leader counted.
    pub(crate) fn counters(&self, task: TaskId) -> Result<Counters> {
        Ok(self.runtime.block_on(self.leader_store.counters(task))?)
    }

    /// Waits until the leader has summed or refused this many reports of a recipe.
    pub(crate) fn wait_until_summed(&self, recipe: &Recipe, reports: u64) -> Result<()> {
        let task = derive_task(recipe).map_err(|reason| anyhow!(reason))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counters = self.counters(*task.id())?;
            if counters.aggregated + counters.rejections.total() >= reports {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "leader and helper do not finish their sums");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Shuts the servers down cleanly.
    pub(crate) fn stop(mut self) {
        for server in self.servers.drain(..).rev() {
            server.stop(&self.runtime);
        }
    }
}

/// What the aggregators share with each other and with the collector.
struct Secrets {
    verify_key_init: [u8; 32],
    leader: String,
    collector: String,
}

impl Secrets {
    fn generate() -> Self {
        Self {
            verify_key_init: random::bytes(),
            leader: random::text::<32>().to_string(),
            collector: random::text::<32>().to_string(),
        }
    }

    /// An aggregator as the other one lists it.
    fn peer(&self, operator: &str, aggregator: &Aggregator) -> Result<RecipePeer> {
        Ok(RecipePeer {
            operator: operator.parse()?,
            url: aggregator.url(),
            token: Arc::new(AuthToken::bearer(&self.leader)?),
            verify_key_init: Secret::new(self.verify_key_init),
            // All parties are on this machine.
            private_addresses: true,
        })
    }
}

/// An aggregator before it starts: the recipe must name its address, and its operator must put its
/// key into the log.
struct Aggregator {
    address: SocketAddr,
    key: HpkeKeypair,
    poll: Duration,
}

impl Aggregator {
    fn new(id: u8, poll: Duration) -> Result<Self> {
        Ok(Self { address: free_address()?, key: keys::generate_hybrid(id), poll })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn server(
        &self,
        operator: &str,
        peer: RecipePeer,
        trust: &Trust,
        log_url: &str,
        author: &VerifierKey,
        secrets: &Secrets,
    ) -> Result<ServerConfig> {
        let mut server = ServerConfig::new(self.address, vec![keys::duplicate(&self.key)?]);
        let collector_token = match operator {
            LEADER => Some(Arc::new(AuthToken::bearer(&secrets.collector)?)),
            _ => None,
        };
        server.recipes = Some(RecipesConfig {
            trust: trust.clone(),
            operator: operator.parse()?,
            public_url: self.url(),
            log_url: log_url.to_owned(),
            log_certificates: None,
            peers: vec![peer],
            authors: vec![RecipeAuthor { key: author.clone(), collector_token }],
            poll: self.poll,
            insecure_early_release: true,
            receipts: None,
        });
        Ok(server)
    }
}

/// An address with a port that is free, below those that the system gives to outgoing connections: one
/// of these could take it before the server does.
fn free_address() -> Result<SocketAddr> {
    let any = || 10_000 + u16::from_le_bytes(random::bytes()) % 20_000;
    let mut addresses = (0..1_000).map(|_| SocketAddr::from(([127, 0, 0, 1], any())));
    let free = addresses.find(|address| TcpListener::bind(address).is_ok());
    free.context("no port of this machine is free")
}

/// A server of models, and the gateway through which devices reach it and the log.
struct ModelsAndGateway {
    gateway: Server,
    gateway_url: String,
    models_url: String,
}

async fn models_and_gateway(
    folder: &std::path::Path,
    key: HpkeKeypair,
    log_url: &str,
) -> Result<ModelsAndGateway> {
    std::fs::create_dir_all(folder)?;
    let files = Router::new().route("/{model}/{piece}", get(piece)).with_state(folder.to_owned());
    let listener = tokio::net::TcpListener::bind(loopback()).await?;
    let models_url = format!("http://{}", listener.local_addr()?);
    // It ends with the runtime.
    tokio::spawn(async move { axum::serve(listener, files).await });
    let target = |url: &str| GatewayTarget { origin: url.to_owned(), url: url.to_owned() };
    let config = GatewayServerConfig::new(
        loopback(),
        GatewayConfig::new(Arc::new(GatewayKeys::new(vec![key])?)),
        vec![target(log_url), target(&models_url)],
    );
    let gateway = Gateway::bind(config).await?;
    let gateway_url = format!("http://{}/", gateway.addr());
    Ok(ModelsAndGateway {
        gateway: Server::spawn(|stop| gateway.run(stop)),
        gateway_url,
        models_url,
    })
}

/// A piece of a model: its digest is hexadecimal, its number a number, so neither is another path.
async fn piece(
    State(folder): State<PathBuf>,
    RequestPath((model, piece)): RequestPath<(sotto_wire::EntryId, u32)>,
) -> Result<Vec<u8>, StatusCode> {
    let path = folder.join(model.to_string()).join(piece.to_string());
    // A piece is small, and in the cache of the system.
    std::fs::read(path).map_err(|_| StatusCode::NOT_FOUND)
}
