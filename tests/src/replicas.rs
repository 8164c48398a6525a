//! Several leaders and several helpers, each group on one PostgreSQL database and behind one address.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sotto_testing::ports::free_port;
use sotto_testing::postgres::Database;
use sotto_wire::Role;
use tempfile::TempDir;

use crate::balancer::Balancer;
use crate::pair::Aggregator;
use crate::process::run_json;
use crate::task::TaskFiles;

/// All processes of one role.
#[derive(Debug)]
pub struct Group {
    /// The processes. All serve the same.
    pub members: Vec<Aggregator>,
    /// What is in front of them.
    pub balancer: Balancer,
    /// What they share.
    pub database: Database,
}

/// Both groups. Dropping it kills them, and drops their databases.
#[derive(Debug)]
pub struct Replicas {
    /// They take uploads and drive the aggregation.
    pub leaders: Group,
    /// They answer the leaders.
    pub helpers: Group,
    folder: PathBuf,
    // Removed when dropped; must be the last field, after the processes.
    _temporary: TempDir,
}

impl Replicas {
    /// So many of each. Nothing runs yet. `None` if there is no PostgreSQL server.
    pub fn new(leaders: usize, helpers: usize, settings: &str) -> Result<Option<Self>> {
        let temporary = TempDir::with_prefix("sotto-replicas-")?;
        let folder = temporary.path().to_path_buf();
        let Some(leaders) = Group::new(&folder, Role::Leader, leaders, settings)? else {
            return Ok(None);
        };
        let Some(helpers) = Group::new(&folder, Role::Helper, helpers, settings)? else {
            return Ok(None);
        };
        Ok(Some(Self { leaders, helpers, folder, _temporary: temporary }))
    }

    /// Makes a task and gives all processes their parts.
    pub fn add_task(&mut self, name: &str, options: &[&str]) -> Result<TaskFiles> {
        let folder = self.folder.join("tasks").join(name);
        let (leader, helper) = (self.leaders.balancer.url(), self.helpers.balancer.url());
        let files = TaskFiles::make(&folder, &leader, &helper, options)?;
        for (group, part) in [(&mut self.leaders, "leader"), (&mut self.helpers, "helper")] {
            group.members.iter_mut().for_each(|member| member.serve_task(files.path(part)));
        }
        Ok(files)
    }

    /// Starts all and waits until they serve.
    pub fn start(&mut self) -> Result<()> {
        let members = self.helpers.members.iter_mut().chain(&mut self.leaders.members);
        let mut members: Vec<&mut Aggregator> = members.collect();
        members.iter_mut().try_for_each(|member| member.spawn())?;
        members.into_iter().try_for_each(Aggregator::wait_until_ready)
    }

    /// The group of a role.
    pub fn group(&mut self, role: Role) -> &mut Group {
        if role == Role::Leader { &mut self.leaders } else { &mut self.helpers }
    }
}

impl Group {
    fn new(folder: &Path, role: Role, count: usize, settings: &str) -> Result<Option<Self>> {
        let Some(database) = Database::new() else { return Ok(None) };
        let name = if role == Role::Leader { "leader" } else { "helper" };
        let file = |what: &str| -> Result<String> {
            let path = folder.join(format!("{name}-{what}"));
            Ok(path.to_str().context("the folder's name is not UTF-8")?.to_owned())
        };
        let (key, hpke) = (file("store.key")?, file("hpke.toml")?);
        run_json(["--json", "keys", "store", "--out", &key])?;
        run_json(["--json", "keys", "new", "--suite", "x25519", "--out", &hpke])?;
        let shared = format!(
            "hpke_keys = [{hpke:?}]\n{settings}\n[postgres]\nurl = {:?}\nkeys = [{key:?}]\n\
             max_connections = 8",
            database.url()
        );
        let config = file("migrate.toml")?;
        fs::write(&config, &shared)?;
        run_json(["--json", "db", "migrate", "--config", &config])?;
        let mut members = Vec::new();
        for number in 0..count {
            let suffix = format!("-{number}");
            let mut member = Aggregator::named(folder, role, suffix, free_port()?, free_port()?);
            member.configure(&shared)?;
            members.push(member);
        }
        let addresses: Vec<SocketAddr> = members.iter().map(Aggregator::address).collect();
        Ok(Some(Self { members, balancer: Balancer::before(addresses)?, database }))
    }
}
