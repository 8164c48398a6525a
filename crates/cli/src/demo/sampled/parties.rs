//! The parties of the demo: log, witnesses, leader, helper, author and collector.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sotto_client::{AuthToken as ClientToken, Collector, HttpLog, HttpTransport};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::log::admit::Signers;
use sotto_protocol::recipe::Assessment;
use sotto_protocol::trust::{BudgetFile, Floors, PinnedOperator, Trust, TrustFile};
use sotto_server::{
    AuthToken, Helper, HelperConfig, Leader, LeaderConfig, Log, LogConfig, RecipeAuthor,
    RecipesConfig, ServerConfig, Witness, WitnessConfig,
};
use sotto_store::{Counters, LogDir, SqliteStore, TaskStore, WitnessDir};
use sotto_wire::{Entry, EntryKind, KeySet, Note, TlogPolicy, VerifierKey};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::recipe::{HELPER, LEADER, Places, recipe, signer};
use crate::connection::ConnectionArgs;
use crate::demo::Plan;
use crate::demo::servers::{Server, loopback, open_store};
use crate::log_source::LogSource;
use crate::output::Output;
use crate::{keys, random};

/// Two of them must cosign.
const WITNESSES: [&str; 3] = ["alder.demo", "birch.demo", "cedar.demo"];

/// Connections that the devices keep open together.
const CONNECTIONS: usize = 16;

/// How long the key sets of the demo live.
const KEYS_LIVE_S: u64 = 7 * 86_400;

/// Everything that runs. Fields are dropped in order: servers, stores, then the folder.
pub(super) struct Parties {
    runtime: Runtime,
    servers: Vec<Server>,
    leader_store: Arc<SqliteStore>,
    _helper_store: Arc<SqliteStore>,
    trust: Trust,
    log_url: String,
    log_index: u64,
    assessment: Assessment,
    collector_key: HpkeKeypair,
    collector_token: String,
    transport: Arc<HttpTransport>,
    _folder: TempDir,
}

/// Who signs what.
struct Keys {
    author: NoteKey,
    leader: NoteKey,
    helper: NoteKey,
    log: NoteKey,
}

impl Keys {
    fn generate() -> Result<Self> {
        let key = |name: &str| anyhow::Ok(NoteKey::generate(name.parse()?, &mut random::system()));
        Ok(Self {
            author: key("analyst.demo")?,
            leader: key(LEADER)?,
            helper: key(HELPER)?,
            log: key("log.demo")?,
        })
    }
}

impl Parties {
    /// Starts log and witnesses, publishes keys and recipe, and starts the aggregators, which find both in the log.
    pub(super) fn start(plan: &Plan, now: Moment, output: &Output) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let keys = Keys::generate()?;
        let log_key = keys.log.verifier();
        let (mut servers, policy, log_url) =
            runtime.block_on(transparency(folder.path(), &keys))?;
        let trust = trust(plan, &policy, &keys)?;
        let log = LogSource::open(&log_url, &ConnectionArgs::default())?;
        let publish = |kind, json: Vec<u8>, key: &NoteKey| {
            let text = Entry::text(kind, &String::from_utf8(json)?);
            let signature = key.sign(&text);
            let entry = Entry::from_note(Note::new(text)?.with_signature(signature))?;
            anyhow::Ok(log.submit(&entry, Some(trust.policy()), output)?.index)
        };
        let leader = Aggregator::new(1)?;
        let helper = Aggregator::new(2)?;
        for (aggregator, key) in [(&leader, &keys.leader), (&helper, &keys.helper)] {
            publish(EntryKind::KeySet, aggregator.key_set(key, now).to_json(), key)?;
        }
        let collector_key = keys::generate(3);
        let places = Places {
            leader_url: leader.url(),
            helper_url: helper.url(),
            collector: collector_key.config(),
            log: log_key.name(),
        };
        let recipe = recipe(plan, &keys.author.verifier(), places, now)?;
        let log_index = publish(EntryKind::Recipe, recipe.to_json(), &keys.author)?;
        let assessment = Assessment::new(recipe)?;
        let leader_store = open_store(&folder.path().join("leader"))?;
        let helper_store = open_store(&folder.path().join("helper"))?;
        let secrets = Secrets::generate();
        let author = keys.author.verifier();
        servers.extend(runtime.block_on(async {
            let server = leader.server(LEADER, &trust, &log_url, &author, &secrets)?;
            let config = LeaderConfig { server, ..LeaderConfig::new(leader.address, Vec::new()) };
            let leader = Leader::bind(config, leader_store.clone()).await?;
            let server = helper.server(HELPER, &trust, &log_url, &author, &secrets)?;
            let helper = Helper::bind(HelperConfig { server }, helper_store.clone()).await?;
            anyhow::Ok([
                Server::spawn(|stop| leader.run(stop)),
                Server::spawn(|stop| helper.run(stop)),
            ])
        })?);
        Ok(Self {
            runtime,
            servers,
            leader_store,
            _helper_store: helper_store,
            trust,
            log_url,
            log_index,
            assessment,
            collector_key,
            collector_token: secrets.collector,
            transport: ConnectionArgs::default().transport(CONNECTIONS)?,
            _folder: folder,
        })
    }

    /// What every device takes on trust.
    pub(super) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The log, as devices read it.
    pub(super) fn log(&self) -> HttpLog {
        HttpLog::new(&self.log_url, self.transport.clone())
    }

    /// The place of the recipe in the log.
    pub(super) fn log_index(&self) -> u64 {
        self.log_index
    }

    /// How many witnesses there are.
    pub(super) fn witnesses(&self) -> usize {
        WITNESSES.len()
    }

    /// The recipe and what follows from it.
    pub(super) fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    /// How devices and collector reach the servers.
    pub(super) fn transport(&self) -> Arc<HttpTransport> {
        self.transport.clone()
    }

    /// The collector.
    pub(super) fn collector(&self) -> Result<Collector> {
        let token = ClientToken::Bearer(Secret::new(self.collector_token.clone()));
        let private_key = Secret::new(*self.collector_key.private_key().expose());
        let key = HpkeKeypair::from_parts(self.collector_key.config().clone(), private_key)?;
        Ok(Collector::new(self.assessment.task().clone(), key, token, self.transport()))
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

    /// Ends the servers in good order.
    pub(super) fn stop(mut self) {
        for server in self.servers.drain(..).rev() {
            server.stop(&self.runtime);
        }
    }
}

/// Starts the witnesses and the log. Gives the policy that devices pin, and the log's address.
async fn transparency(folder: &Path, keys: &Keys) -> Result<(Vec<Server>, String, String)> {
    let log_key = keys.log.verifier();
    let mut servers = Vec::new();
    let mut policy = String::new();
    for name in WITNESSES {
        let key = NoteKey::generate(name.parse()?, &mut random::system());
        let cosigner = key.cosigner();
        let config = WitnessConfig::new(loopback(), vec![log_key.clone()]);
        let witness = Witness::bind(config, WitnessDir::open(&folder.join(name), key)?).await?;
        policy += &format!("witness {name} {cosigner} http://{}\n", witness.addr());
        servers.push(Server::spawn(|stop| witness.run(stop)));
    }
    policy += &format!("group two 2 {}\nquorum two\n", WITNESSES.join(" "));
    let listed = [&keys.author, &keys.leader, &keys.helper];
    let listed = listed.map(|key| signer(&key.verifier()).key);
    let seed = Secret::new(*keys.log.seed().expose());
    let dir = LogDir::open(&folder.join("log"), NoteKey::from_seed(keys.log.name().clone(), seed))?;
    let mut config = LogConfig::new(
        loopback(),
        TlogPolicy::parse(&format!("log {log_key}\n{policy}"))?,
        Signers::Listed(listed.into()),
    );
    config.batch_delay = Duration::from_millis(10);
    let log = Log::bind(config, dir).await?;
    let url = format!("http://{}", log.addr());
    servers.push(Server::spawn(|stop| log.run(stop)));
    Ok((servers, format!("log {log_key} {url}\n{policy}"), url))
}

fn trust(plan: &Plan, policy: &str, keys: &Keys) -> Result<Trust> {
    let operators = [&keys.leader, &keys.helper];
    let file = TrustFile {
        operators: operators.map(|key| PinnedOperator { key: key.verifier().to_string() }).into(),
        // A demo has few devices; real floors are far above.
        floors: Floors {
            min_batch: plan.min_batch_size,
            min_population: plan.held.len() as u64,
            ..Floors::default()
        },
        // Enough for the one recipe, however few devices there are.
        budget: BudgetFile { epsilon: 8.0, delta: 1e-5, period_s: 28 * 86_400 },
        insecure_no_min_age: true,
        insecure_direct: true,
        insecure_fresh_start: true,
        ..TrustFile::new(policy)
    };
    Ok(Trust::try_from(file)?)
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
            leader: URL_SAFE_NO_PAD.encode(random::bytes::<32>()),
            collector: URL_SAFE_NO_PAD.encode(random::bytes::<32>()),
        }
    }
}

/// An aggregator before it starts: the recipe must name its address, and its operator log its key.
struct Aggregator {
    address: SocketAddr,
    key: HpkeKeypair,
}

impl Aggregator {
    fn new(id: u8) -> Result<Self> {
        // The system gives a port that is free; it stays so for the moment until the server takes it.
        let address = TcpListener::bind(loopback())?.local_addr()?;
        Ok(Self { address, key: keys::generate(id) })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn key_set(&self, operator: &NoteKey, now: Moment) -> KeySet {
        KeySet {
            version: 1,
            operator: signer(&operator.verifier()),
            seq: 1,
            not_before: now.0.saturating_sub(60),
            not_after: now.0 + KEYS_LIVE_S,
            hpke_configs: vec![KeySet::config_text(self.key.config())],
        }
    }

    fn server(
        &self,
        operator: &str,
        trust: &Trust,
        log_url: &str,
        author: &VerifierKey,
        secrets: &Secrets,
    ) -> Result<ServerConfig> {
        let private_key = Secret::new(*self.key.private_key().expose());
        let key = HpkeKeypair::from_parts(self.key.config().clone(), private_key)?;
        let mut server = ServerConfig::new(self.address, vec![key]);
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
            verify_key_init: Secret::new(secrets.verify_key_init),
            leader_token: Arc::new(AuthToken::bearer(&secrets.leader)?),
            authors: vec![RecipeAuthor { key: author.clone(), collector_token }],
            poll: Duration::from_secs(60),
        });
        Ok(server)
    }
}
