//! `sotto serve ROLE --check-config`: reads and checks all that a server would, and binds nothing.
//!
//! The server's own data is left alone, because the server may be running on it: an empty folder
//! takes its place.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::config::{RoleFile, Start};
use super::key_history;
use crate::output::{Outcome, Output};
use crate::vocabulary::Time;

/// What is printed about a configuration without mistakes.
#[derive(Serialize)]
struct Checked<'a> {
    role: &'static str,
    file: &'a Path,
    valid: bool,
    listen: std::net::SocketAddr,
    admin_listen: Option<std::net::SocketAddr>,
    /// The last second of the certificate's validity.
    #[serde(flatten)]
    certificate_expires: Option<Time>,
    /// How many tasks an aggregator serves.
    #[serde(rename = "task_count", skip_serializing_if = "Option::is_none")]
    tasks: Option<usize>,
}

pub(super) async fn run<T: RoleFile>(
    mut file: T,
    path: &Path,
    insecure_http: bool,
    output: &Output,
) -> Result<Outcome> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let data_dir = std::mem::replace(file.data_dir(), scratch.path().to_owned());
    ensure!(
        !data_dir.exists() || data_dir.is_dir(),
        "{} is not a folder, but the data should be there",
        data_dir.display()
    );
    key_history::copy(&data_dir, scratch.path())?;
    let (server, tasks) =
        file.bind(Start { insecure_http, check_only: true, data_dir: None }).await?;
    let checked = Checked {
        role: T::ROLE,
        file: path,
        valid: true,
        listen: server.addr(),
        admin_listen: server.admin_addr(),
        certificate_expires: server.certificates().map(|certificates| {
            let seconds = u64::try_from(certificates.expires()).unwrap_or_default();
            Time::new("certificate_expires", seconds)
        }),
        tasks,
    };
    if output.json() {
        output.value(&checked)?;
    } else {
        let tasks = tasks.map(|tasks| format!(" and {tasks} task files")).unwrap_or_default();
        output.prose(format!("{}: everything in it{tasks} can be used", path.display()))?;
    }
    Ok(Outcome::Yes)
}
