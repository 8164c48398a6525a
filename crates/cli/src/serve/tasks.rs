//! The tasks of an aggregator: files, or folders of files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use sotto_protocol::{AggregatorTask, ReleaseRules};
use sotto_server::{AuthScheme, AuthToken, ServedTask};
use sotto_wire::Role;

use super::config::toml_files;
use crate::output::WithHint;
use crate::task_file::{AggregatorPart, TaskFile};

/// Loads all listed tasks. A file must be for this role; in a folder, files of other parties are
/// skipped.
pub(super) fn load(listed: &[PathBuf], role: Role) -> Result<Vec<ServedTask>> {
    let mut tasks = Vec::new();
    for path in listed {
        if !path.is_dir() {
            tasks.push(read(path, role)?);
            continue;
        }
        for file in toml_files(path)? {
            let (task, _) = TaskFile::read(&file)?;
            if task.party.aggregator() == Some(role) {
                tasks.push(read(&file, role)?);
            } else {
                let party = task.party.name();
                tracing::info!(file = %file.display(), party, "skipped another party's task file");
            }
        }
    }
    Ok(tasks)
}

/// An aggregator's part of a task, in the form that its server uses.
pub(crate) fn served(part: AggregatorPart, scheme: AuthScheme) -> Result<ServedTask> {
    let token = |token: &str| AuthToken::new(scheme, token).map(Arc::new);
    let leader_token = token(part.leader_token.expose())?;
    let task = AggregatorTask {
        task: part.task,
        role: part.role,
        verify_key: part.verify_key,
        collector_hpke_config: part.collector_hpke_config,
        taskprov: false,
        tokens: None,
        series: None,
        release: ReleaseRules::default(),
    };
    Ok(match part.collector_token {
        Some(collector) => ServedTask::leader(task, leader_token, token(collector.expose())?)?,
        None => ServedTask::helper(task, leader_token)?,
    })
}

fn read(path: &Path, role: Role) -> Result<ServedTask> {
    let part = TaskFile::read_aggregator(path)?;
    if part.role != role {
        return Err(anyhow!("{} is the other aggregator's file", path.display()))
            .hint("leader and helper each have their own file for a task");
    }
    served(part, AuthScheme::Bearer).with_context(|| format!("{} cannot be used", path.display()))
}
