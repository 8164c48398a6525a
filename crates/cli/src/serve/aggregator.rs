//! Leader and helper: loads everything that their configuration files name.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use sotto_crypto::Secret;
use sotto_protocol::taskprov::TaskprovPolicy;
use sotto_protocol::trust::Trust;
use sotto_server::{
    AggregatorFile, AuthToken, GatewayTable, Helper, HelperConfig, HelperFile, HttpFile, Leader,
    LeaderConfig, LeaderFile, LeaderTables, ReceiptsConfig, RecipeAuthor, RecipeAuthorTable,
    RecipePeer, RecipePeerTable, RecipesConfig, RecipesTable, ServerConfig, TaskprovConfig,
    TaskprovTable,
};
use sotto_store::{HelperStore, LeaderStore, MemoryStore, SqliteOptions, SqliteStore};
use sotto_wire::{HttpUrl, KeyType, Role, Url, VerifierKey};

use super::config::{Bound, RoleFile, Start, load_authorities, load_http};
use super::{bound, database, gateway, keyring, tasks};
use crate::output::WithHint;
use crate::task_file::{hpke_config, secret_array};
use crate::{private_file, signer_file, trust_file};

impl RoleFile for LeaderFile {
    const ROLE: &'static str = "leader";

    fn is_secret(&self) -> bool {
        is_secret(&self.aggregator)
    }

    fn http(&self) -> &HttpFile {
        &self.aggregator.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.aggregator.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        let store = open_store(&self.aggregator, Self::ROLE, &start).await?;
        let LeaderTables { aggregation, gateway } = self.leader;
        let (server, helper_certificates) = load(Role::Leader, self.aggregator, gateway, start)?;
        let tasks = server.tasks.len();
        let config = LeaderConfig { server, aggregation, helper_certificates };
        let (server, _) = bound(Leader::bind(config, store).await)?;
        Ok((server, Some(tasks)))
    }
}

impl RoleFile for HelperFile {
    const ROLE: &'static str = "helper";

    fn is_secret(&self) -> bool {
        is_secret(&self.aggregator)
    }

    fn http(&self) -> &HttpFile {
        &self.aggregator.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.aggregator.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        let store = open_store(&self.aggregator, Self::ROLE, &start).await?;
        let (server, _) = load(Role::Helper, self.aggregator, self.leader.gateway, start)?;
        let tasks = server.tasks.len();
        let (server, _) = bound(Helper::bind(HelperConfig { server }, store).await)?;
        Ok((server, Some(tasks)))
    }
}

/// Whether the file has tables with secrets.
fn is_secret(file: &AggregatorFile) -> bool {
    file.taskprov.is_some() || file.recipes.is_some() || file.postgres.is_some()
}

/// A store of any kind, for either role.
trait Store: LeaderStore + HelperStore {}
impl<S: LeaderStore + HelperStore> Store for S {}

async fn open_store(
    file: &AggregatorFile,
    role: &'static str,
    start: &Start,
) -> Result<Arc<dyn Store>> {
    private_file::make_folder(&file.data_dir)?;
    let Some(table) = &file.postgres else {
        let store = SqliteStore::open(&file.data_dir, SqliteOptions::default())
            .with_context(|| format!("cannot open the store in {}", file.data_dir.display()))
            .hint("is another server running on this folder, or does it belong to another user?")?;
        return Ok(Arc::new(store));
    };
    if file.hpke_keys.is_empty() {
        return Err(anyhow!("`hpke_keys` is empty, but all processes on a database need the same"))
            .hint("make them with `sotto keys new`, and list the same files for every process");
    }
    if start.check_only {
        database::check(table, start.insecure_http).await?;
        return Ok(Arc::new(MemoryStore::new()));
    }
    Ok(Arc::new(database::open(table, role, start.insecure_http).await?))
}

/// Loads everything that the file names, and the authorities that may vouch for the peer. From then
/// on, watches the gateway's key files.
fn load(
    role: Role,
    file: AggregatorFile,
    gateway: Option<GatewayTable>,
    start: Start,
) -> Result<(ServerConfig, Option<Vec<u8>>)> {
    ensure!(
        role == Role::Leader || gateway.is_none(),
        "[gateway]: devices talk to the leader, not to the helper"
    );
    let public_url = file.http.public_url.clone();
    // The helper itself connects only to the log.
    let peer_certificates = match role == Role::Leader || file.recipes.is_some() {
        true => load_authorities(&file.http)?,
        false => None,
    };
    let http = load_http(file.http, start)?;
    let recipes = file.recipes.as_ref().map(|table| {
        let config = recipes(table, role, public_url.as_deref())?;
        anyhow::Ok(RecipesConfig { log_certificates: peer_certificates.clone(), ..config })
    });
    let taskprov = file.taskprov.as_ref().map(|table| taskprov(table, role));
    let mut server = ServerConfig {
        http,
        taskprov: taskprov.transpose().context("[taskprov]")?,
        recipes: recipes.transpose().context("[recipes]")?,
        hpke_keys: keyring::load(&file.hpke_keys, &file.data_dir)?,
        tasks: tasks::load(&file.tasks, role)?,
        ..file.server
    };
    if let Some(table) = gateway {
        server.gateway = Some(gateway::load(table, &file.data_dir, public_url.as_deref())?);
    }
    if server.tasks.is_empty() && server.taskprov.is_none() && server.recipes.is_none() {
        tracing::warn!("no task is configured: list task files under `tasks`");
    }
    Ok((server, peer_certificates))
}

fn taskprov(table: &TaskprovTable, role: Role) -> Result<TaskprovConfig> {
    ensure!(
        table.collector_authentication_token.is_some() == (role == Role::Leader),
        "the leader needs collector_authentication_token, and only the leader may have it"
    );
    let collector = table.collector_authentication_token.as_ref();
    let policy = TaskprovPolicy {
        role,
        verify_key_init: secret_array(&table.verify_key_init).context("verify_key_init")?,
        collector_hpke_config: hpke_config(&table.collector_hpke_config)
            .context("collector_hpke_config")?,
        leader_endpoint: Url::new(&*table.leader).context("leader")?,
        helper_endpoint: Url::new(&*table.helper).context("helper")?,
        min_batch_size: table.min_batch_size,
        max_lifetime_s: table.max_lifetime_s,
    };
    Ok(TaskprovConfig {
        policy,
        leader_token: token(&table.leader_authentication_token)?.into(),
        collector_token: collector.map(|text| token(text).map(Into::into)).transpose()?,
        max_tasks: table.max_tasks,
    })
}

fn recipes(table: &RecipesTable, role: Role, public_url: Option<&str>) -> Result<RecipesConfig> {
    let public_url = public_url.ok_or_else(|| anyhow!("`public_url` is not set")).hint(
        "set it to the URL that recipes name for this aggregator, exactly as they spell it",
    )?;
    ensure!(!table.poll.is_zero(), "poll_s must be at least 1");
    ensure!(!table.authors.is_empty(), "no author is listed under [[recipes.authors]]");
    let trust = trust_file::read(&table.trust)?;
    let log_url = table.log_url.clone().map_or_else(|| log_url(&trust), Ok)?;
    let receipts = table.receipts.as_ref().map(|table| {
        let log_url = table.log_url.as_ref().unwrap_or(&log_url).clone();
        anyhow::Ok(ReceiptsConfig { key: signer_file::read(&table.key)?, log_url })
    });
    Ok(RecipesConfig {
        operator: table.operator.parse().context("operator")?,
        public_url: public_url.to_owned(),
        log_url,
        log_certificates: None,
        peers: table.peers.iter().map(peer).collect::<Result<_>>()?,
        authors: table.authors.iter().map(|table| author(table, role)).collect::<Result<_>>()?,
        poll: table.poll,
        insecure_early_release: table.insecure_early_release,
        receipts: receipts.transpose().context("receipts")?,
        trust,
    })
}

fn peer(table: &RecipePeerTable) -> Result<RecipePeer> {
    let named = || format!("peers: {:?}", table.operator);
    let url = HttpUrl::parse_setting(&table.url).context("url").with_context(named)?;
    ensure!(url.query().is_none(), "peers: {:?}: url has a query", table.operator);
    Ok(RecipePeer {
        operator: table.operator.parse().with_context(named)?,
        url: table.url.clone(),
        token: token(&table.authentication_token)
            .context("authentication_token")
            .with_context(named)?
            .into(),
        verify_key_init: secret_array(&table.verify_key_init)
            .context("verify_key_init")
            .with_context(named)?,
        private_addresses: table.private_addresses,
    })
}

fn author(table: &RecipeAuthorTable, role: Role) -> Result<RecipeAuthor> {
    let key: VerifierKey = table
        .key
        .parse()
        .with_context(|| format!("authors: {:?} is not a public key", table.key))
        .hint("write it as `sotto keys signer` prints it: name+hash+key")?;
    let name = key.name();
    ensure!(key.key_type() == KeyType::Ed25519, "authors: {name}: this is a witness's key");
    ensure!(
        table.collector_authentication_token.is_some() == (role == Role::Leader),
        "authors: {name}: the leader needs collector_authentication_token, and only the leader may \
         have it"
    );
    let collector = table.collector_authentication_token.as_ref();
    let collector_token = collector.map(|text| token(text).map(Into::into)).transpose()?;
    Ok(RecipeAuthor { key, collector_token })
}

fn token(text: &Secret<String>) -> Result<AuthToken> {
    Ok(AuthToken::bearer(text.expose().as_str())?)
}

/// The URL of the policy's only log.
fn log_url(trust: &Trust) -> Result<String> {
    match trust.policy().logs() {
        [log] if log.url.is_some() => Ok(log.url.clone().unwrap_or_default()),
        _ => Err(anyhow!(
            "`log_url` is not set, and the policy does not have exactly one log with a URL"
        )),
    }
}

#[cfg(test)]
mod tests;
