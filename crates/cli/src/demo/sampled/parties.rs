//! The parties of the demo: log, witnesses, two attesters, two issuers, leader, helper, relay,
//! author and collector.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use sotto_client::{AuthToken as ClientToken, Collector, HttpTransport, Transport};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::recipe::Assessment;
use sotto_protocol::trust::Trust;
use sotto_server::{
    AuthToken, Helper, HelperConfig, Leader, LeaderConfig, RecipeAuthor, RecipePeer, RecipesConfig,
    ServerConfig,
};
use sotto_store::{Counters, SqliteStore, TaskStore};
use sotto_wire::{Entry, EntryKind, VerifierKey};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::audience;
use super::carried::{Branching, Carried};
use super::operators::{
    Keys, LOG_OPERATOR, Published, gateway_config, key_set, relay, transparency, trust,
};
use super::recipe::{HELPER, LEADER, Places, recipe};
use super::tokens::{Manufacturer, chain, with_token_keys};
use crate::connection::ConnectionArgs;
use crate::demo::Plan;
use crate::demo::result::DemoSize;
use crate::demo::servers::{Server, loopback, open_store};
use crate::log_source::LogSource;
use crate::output::Output;
use crate::{keys, random, signer_file};

/// The number of connections that all devices together keep open.
const CONNECTIONS: usize = 64;

/// Everything that runs. Fields are dropped in order: servers, stores, then the folder.
pub(super) struct Parties {
    runtime: Runtime,
    servers: Vec<Server>,
    leader_store: Arc<SqliteStore>,
    _helper_store: Arc<SqliteStore>,
    /// The trust file of every device.
    pub(super) trust: Arc<Trust>,
    pub(super) log_url: String,
    attester_urls: [String; 2],
    /// The index of the recipe in the log.
    pub(super) log_index: u64,
    /// How many key sets are in the log.
    pub(super) key_sets: usize,
    /// The recipe and what is derived from it.
    pub(super) assessment: Assessment,
    collector_key: HpkeKeypair,
    collector_token: String,
    /// For the collector.
    transport: Arc<HttpTransport>,
    /// For devices: to the relay only.
    carried: Arc<Carried>,
    /// For devices: to each attester, which knows them anyway.
    pub(super) to_attesters: [Arc<Carried>; 2],
    pub(super) manufacturer: Manufacturer,
    _folder: TempDir,
}

impl Parties {
    /// Starts log and witnesses, attesters and issuers, publishes keys and recipe, and starts the
    /// aggregators, which find both in the log. The relay knows the gateways of leader and log, and
    /// devices know the relay and the attesters.
    pub(super) fn start(plan: &Plan, now: Moment, output: &Output) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let keys = Keys::generate()?;
        let log_gateway = keys::generate_hybrid(4);
        let log_gateway_config = log_gateway.config().clone();
        let (mut servers, policy, log_url) =
            runtime.block_on(transparency(folder.path(), &keys, log_gateway))?;
        let leader = Aggregator::new(1)?;
        let helper = Aggregator::new(2)?;
        let gateways = [(LEADER, leader.url()), (LOG_OPERATOR, format!("{log_url}/"))];
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
        let trust = trust(plan, &policy, &keys, &log_gateway_config, relay_url, &attester_urls)?;
        let log = LogSource::open(&log_url, &ConnectionArgs::default())?;
        let publish = |kind, json: Vec<u8>, key: &NoteKey| {
            let entry = signer_file::sign(kind, json, key)?;
            anyhow::Ok(log.submit(&entry, Some(trust.policy()), output)?.index)
        };
        let leader_gateway = keys::generate_hybrid(5);
        let leader_gateway_config = leader_gateway.config().clone();
        let nothing = Published::default();
        let (leader_url, helper_url) = (leader.url(), helper.url());
        let key_sets = [
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
            publish(EntryKind::KeySet, key_set(key, published, now).to_json(), key)?;
        }
        let audience = audience::certified(plan, &keys, now)?;
        if let Some(entry) = &audience {
            log.submit(entry, Some(trust.policy()), output)?;
        }
        let collector_key = keys::generate_hybrid(3);
        let log_key = keys.log.verifier();
        let places = Places {
            leader_url: leader.url(),
            helper_url: helper.url(),
            collector: collector_key.config(),
            log: log_key.name(),
            certified: audience.as_ref().map(Entry::id),
        };
        let transport = ConnectionArgs::default().transport(CONNECTIONS)?;
        let recipe = recipe(plan, &keys.author, places, now)?;
        let recipe = with_token_keys(recipe, &keys.author, &issuer_urls, transport.as_ref())?;
        let log_index = publish(EntryKind::Recipe, recipe.to_json(), &keys.author)?;
        let assessment = Assessment::certified(recipe, audience.map(|_| plan.devices()))?;
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
            log_index,
            key_sets: key_sets.len(),
            assessment,
            collector_key,
            collector_token: secrets.collector,
            manufacturer,
            carried: Arc::new(Carried::new(transport.clone())),
            to_attesters: [0, 1].map(|_| Arc::new(Carried::new(transport.clone()))),
            transport,
            _folder: folder,
        })
    }

    /// The transports of a device, which count what goes to the relay and to each attester.
    pub(super) fn device_transport(&self) -> Arc<dyn Transport> {
        Arc::new(Branching {
            attesters: self.to_attesters.clone(),
            attester_urls: self.attester_urls.clone(),
            relay: Arc::clone(&self.carried),
        })
    }

    /// How many requests of each length the relay received.
    pub(super) fn carried(&self) -> Vec<DemoSize> {
        let lengths = self.carried.lengths();
        lengths.into_iter().map(|(bytes, requests)| DemoSize { bytes, requests }).collect()
    }

    /// The collector.
    pub(super) fn collector(&self) -> Result<Collector> {
        let token = ClientToken::Bearer(Secret::new(self.collector_token.clone()));
        let key = keys::duplicate(&self.collector_key)?;
        Ok(Collector::new(self.assessment.task().clone(), key, token, self.transport.clone()))
    }

    /// Reports that are summed or refused.
    pub(super) fn summed(&self) -> Result<u64> {
        let counters = self.counters()?;
        Ok(counters.aggregated + counters.rejections.total())
    }

    /// Refused reports by reason.
    pub(super) fn rejections(&self) -> Result<BTreeMap<String, u64>> {
        let counters = self.counters()?;
        Ok(counters.rejections.iter().map(|(why, count)| (why.name().to_owned(), count)).collect())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(self.runtime.block_on(self.leader_store.counters(*self.assessment.task().id()))?)
    }

    /// Shuts the servers down cleanly.
    pub(super) fn stop(mut self) {
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
}

impl Aggregator {
    fn new(id: u8) -> Result<Self> {
        // The system picks a free port. We assume that it stays free until the server binds it.
        let address = TcpListener::bind(loopback())?.local_addr()?;
        Ok(Self { address, key: keys::generate_hybrid(id) })
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
            poll: Duration::from_secs(60),
            insecure_early_release: true,
            receipts: None,
        });
        Ok(server)
    }
}
