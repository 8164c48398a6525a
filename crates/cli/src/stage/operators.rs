//! The operators of a trial: their keys, what they publish, the log with its witnesses, and the
//! relay.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::log::admit::Signers;
use sotto_protocol::relay::PoolRule;
use sotto_protocol::trust::{
    Floors, LogGatewayFile, PinnedOperator, PinnedServer, Trust, TrustFile,
};
use sotto_server::{
    GatewayConfig, GatewayKeys, Log, LogConfig, Relay, RelayConfig, RelayGateway, Witness,
    WitnessConfig,
};
use sotto_store::{LogDir, WitnessDir};
use sotto_wire::{HpkeConfig, KeySet, TlogPolicy};

use super::servers::{Server, loopback};
use super::tokens::{ISSUERS, tokens_file};
use super::{HELPER, LEADER, Terms};
use crate::{random, signer_file};

/// The witnesses. Two of them must cosign.
pub(crate) const WITNESSES: [&str; 3] = ["alder.demo", "birch.demo", "cedar.demo"];

/// The operators of the log and of the relay.
pub(crate) const LOG_OPERATOR: &str = "log-operator.demo";
const RELAY: &str = "relay.demo";

/// How long the relay holds requests. A real one waits for ten seconds.
const POOL: PoolRule = PoolRule { min: 8, wait_ms: 30 };

/// How long the key sets of the demo live.
const KEYS_LIVE_S: u64 = 7 * 86_400;

/// The signing keys of all parties.
pub(crate) struct Keys {
    pub(crate) author: NoteKey,
    pub(crate) leader: NoteKey,
    pub(crate) helper: NoteKey,
    pub(crate) log_operator: NoteKey,
    /// Of the leader's tokens, and of the helper's.
    pub(crate) issuers: [NoteKey; 2],
    pub(crate) log: NoteKey,
}

/// A copy of a key, for a server that owns its key.
pub(crate) fn duplicate(key: &NoteKey) -> NoteKey {
    NoteKey::from_seed(key.name().clone(), Secret::new(*key.seed().expose()))
}

impl Keys {
    pub(crate) fn generate() -> Result<Self> {
        let key = |name: &str| anyhow::Ok(NoteKey::generate(name.parse()?, &mut random::system()));
        Ok(Self {
            author: key("analyst.demo")?,
            leader: key(LEADER)?,
            helper: key(HELPER)?,
            log_operator: key(LOG_OPERATOR)?,
            issuers: [key(ISSUERS[0])?, key(ISSUERS[1])?],
            log: key("log.demo")?,
        })
    }
}

/// Starts the witnesses and the log. Returns the policy that devices pin, and the log's address.
pub(crate) async fn transparency(
    folder: &Path,
    keys: &Keys,
    gateway: Option<HpkeKeypair>,
) -> Result<(Vec<Server>, String, String)> {
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
    let operators = [&keys.author, &keys.leader, &keys.helper, &keys.log_operator];
    let listed = operators.into_iter().chain(&keys.issuers);
    let listed: Vec<_> = listed.map(|key| signer_file::public(key).key).collect();
    let dir = LogDir::open(&folder.join("log"), duplicate(&keys.log))?;
    let mut config = LogConfig::new(
        loopback(),
        TlogPolicy::parse(&format!("log {log_key}\n{policy}"))?,
        Signers::Listed(listed.into_iter().collect()),
    );
    config.batch_delay = Duration::from_millis(10);
    if let Some(gateway) = gateway {
        config.gateway = Some(GatewayConfig::new(Arc::new(GatewayKeys::new(vec![gateway])?)));
    }
    let log = Log::bind(config, dir).await?;
    let url = format!("http://{}", log.addr());
    servers.push(Server::spawn(|stop| log.run(stop)));
    Ok((servers, format!("log {log_key} {url}\n{policy}"), url))
}

/// Starts the relay for these operators and their gateways. Returns its address.
pub(crate) async fn relay(gateways: &[(&str, String)]) -> Result<(Server, String)> {
    let gateway = |(operator, url): &(&str, String)| {
        let url = format!("{url}gateway");
        anyhow::Ok(RelayGateway { operator: operator.parse()?, url, pool: None })
    };
    let gateways = gateways.iter().map(gateway).collect::<Result<_>>()?;
    let mut config = RelayConfig::new(loopback(), gateways);
    config.pool = POOL;
    // All devices have the same address here.
    config.source_limit = None;
    let relay = Relay::bind(config).await?;
    let url = format!("http://{}/", relay.addr());
    Ok((Server::spawn(|stop| relay.run(stop)), url))
}

/// The gateway of the server at `url`, with this key.
pub(crate) fn gateway_config(key: HpkeKeypair, url: &str) -> Result<GatewayConfig> {
    let mut config = GatewayConfig::new(Arc::new(GatewayKeys::new(vec![key])?));
    config.origin = Some(url.trim_end_matches('/').to_owned());
    Ok(config)
}

/// The keys that an operator publishes, where it has them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Published<'a> {
    /// Shares are sealed to it.
    pub(crate) hpke: Option<&'a HpkeConfig>,
    /// Requests to its gateway are sealed to it.
    pub(crate) gateway: Option<&'a HpkeConfig>,
    /// Token requests are sealed to it.
    pub(crate) encapsulation: Option<&'a HpkeConfig>,
    /// Where its aggregator is.
    pub(crate) url: Option<&'a str>,
}

/// A key set that is in force.
pub(crate) fn key_set(operator: &NoteKey, keys: Published<'_>, now: Moment) -> KeySet {
    let listed = |config: &HpkeConfig| vec![KeySet::config_text(config)];
    KeySet {
        version: 1,
        operator: signer_file::public(operator),
        seq: 1,
        not_before: now.0.saturating_sub(60),
        not_after: now.0 + KEYS_LIVE_S,
        hpke_configs: keys.hpke.map(listed).unwrap_or_default(),
        gateway_configs: keys.gateway.map(listed),
        encapsulation_configs: keys.encapsulation.map(listed),
        url: keys.url.map(str::to_owned),
        receipt_key: None,
    }
}

/// The trust file of every device.
pub(crate) fn trust(
    terms: &Terms,
    policy: &str,
    keys: &Keys,
    log_gateway: &HpkeConfig,
    relay_url: String,
    attester_urls: &[String; 2],
) -> Result<Trust> {
    let operators = [&keys.leader, &keys.helper, &keys.log_operator].into_iter();
    let operators = operators.chain(&keys.issuers);
    let file = TrustFile {
        relays: vec![PinnedServer { operator: RELAY.to_owned(), key: None, url: relay_url }],
        log_gateway: Some(LogGatewayFile {
            operator: LOG_OPERATOR.to_owned(),
            hpke_configs: vec![KeySet::config_text(log_gateway)],
        }),
        operators: operators
            .map(|key| PinnedOperator { key: key.verifier().to_string() })
            .collect(),
        // A demo has few devices; real floors are much higher.
        floors: Floors {
            dishonest_devices: terms.dishonest_devices,
            min_population: terms.min_population,
            ..Floors::default()
        },
        // A device's owner lists what predicates may read; these agree with the recipe.
        targeting_attributes: terms.targeting_attributes.iter().cloned().collect(),
        budget: terms.budget,
        insecure_exact: terms.insecure_exact,
        insecure_no_min_age: true,
        insecure_fresh_start: true,
        tokens: Some(tokens_file(attester_urls)),
        ..TrustFile::new(policy)
    };
    Ok(Trust::try_from(file)?)
}
