//! The parties of the demo: two servers with their stores, and what devices and collector need.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use sotto_client::{AuthToken, Collector, HttpTransport};
use sotto_crypto::Secret;
use sotto_protocol::Task;
use sotto_server::{AuthScheme, Helper, HelperConfig, Leader, LeaderConfig, ServerConfig};
use sotto_store::{Counters, SqliteStore, TaskStore};
use sotto_vdaf::VdafConfig;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::connection::ConnectionArgs;
use crate::demo::Plan;
use crate::serve::served;
use crate::stage::servers::{Server, loopback, open_store};
use crate::task::{NewTask, new_task};
use crate::task_file::{BatchModeName, CollectorPart, TaskFields};
use crate::{keys, random};

/// One hour: long enough that the demo fits into one unit.
const TIME_PRECISION_S: u64 = 3_600;

/// Everything that runs. Fields are dropped in order: servers, stores, then the folder.
pub(super) struct Parties {
    runtime: Runtime,
    servers: Vec<Server>,
    pub(super) leader_store: Arc<SqliteStore>,
    pub(super) helper_store: Arc<SqliteStore>,
    collector: CollectorPart,
    /// How devices and collector reach the servers.
    pub(super) transport: Arc<HttpTransport>,
    _folder: TempDir,
}

impl Parties {
    /// Starts leader and helper on free ports and gives them their task.
    pub(super) fn start(plan: &Plan) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let leader_store = open_store(&folder.path().join("leader"))?;
        let helper_store = open_store(&folder.path().join("helper"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let (servers, collector) = runtime.block_on(async {
            let leader =
                LeaderConfig { server: server()?, ..LeaderConfig::new(loopback(), Vec::new()) };
            let leader = Leader::bind(leader, leader_store.clone()).await?;
            let helper = HelperConfig { server: server()? };
            let helper = Helper::bind(helper, helper_store.clone()).await?;
            let task = task(plan, leader.addr(), helper.addr())?;
            for (server, task) in [(&leader, task.leader), (&helper, task.helper)] {
                let tasks = server.tasks().context("an aggregator has tasks")?;
                tasks.add(served(task, AuthScheme::Bearer)?)?;
            }
            let servers = vec![
                Server::spawn(|stop| leader.run(stop)),
                Server::spawn(|stop| helper.run(stop)),
            ];
            anyhow::Ok((servers, task.collector))
        })?;
        let transport = ConnectionArgs::default().transport(super::DEVICES_AT_ONCE)?;
        Ok(Self {
            runtime,
            servers,
            leader_store,
            helper_store,
            collector,
            transport,
            _folder: folder,
        })
    }

    /// The task that all take part in.
    pub(super) fn task(&self) -> &Task {
        &self.collector.task
    }

    /// The collector.
    pub(super) fn collector(&self) -> Result<Collector> {
        let CollectorPart { task, token, key } = &self.collector;
        let token = AuthToken::Bearer(Secret::new(token.expose().clone()));
        Ok(Collector::new(task.clone(), keys::duplicate(key)?, token, self.transport.clone()))
    }

    /// What the operator of this aggregator sees.
    pub(super) fn counters(&self, store: &SqliteStore) -> Result<Counters> {
        Ok(self.runtime.block_on(store.counters(*self.task().id()))?)
    }

    /// Shuts the servers down cleanly.
    pub(super) fn stop(mut self) {
        for server in self.servers.drain(..) {
            server.stop(&self.runtime);
        }
    }
}

fn server() -> Result<ServerConfig> {
    let mut server = ServerConfig::new(loopback(), vec![keys::generate(1)]);
    server.insecure_plain_tasks = true;
    Ok(server)
}

fn task(plan: &Plan, leader: SocketAddr, helper: SocketAddr) -> Result<NewTask> {
    let fields = TaskFields {
        leader: format!("http://{leader}/"),
        helper: format!("http://{helper}/"),
        vdaf: VdafConfig::histogram(u32::try_from(plan.question.labels.len())?),
        batch_mode: BatchModeName::TimeInterval,
        min_batch_size: plan.min_batch_size,
        time_precision: TIME_PRECISION_S,
        task_start: None,
        task_end: None,
        task_info: random::text::<16>().to_string(),
        encoded: String::new(),
    };
    new_task(fields.configuration()?)
}
