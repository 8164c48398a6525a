//! Asks idle helpers for a sign of life, so that `/readyz` knows before a job does.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::LeaderState;
use crate::shutdown::Shutdown;

/// How long a helper is left alone between two questions.
const PROBE_PAUSE: Duration = Duration::from_secs(10);

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    while !shutdown.begins_within(PROBE_PAUSE).await {
        let mut probes = JoinSet::new();
        let mut seen = HashSet::new();
        for task in leader.aggregator.tasks.all() {
            let Some(helper) = task.helper.as_ref().map(|helper| Arc::clone(&helper.base)) else {
                continue;
            };
            if !seen.insert(Arc::clone(&helper)) || !leader.pacing.is_idle(&helper) {
                continue;
            }
            let (leader, mut shutdown) = (Arc::clone(&leader), shutdown.clone());
            probes.spawn(async move {
                if let Some(outcome) = shutdown.or(leader.helper.probe(&task)).await {
                    leader.pacing.probed(&helper, &outcome);
                }
            });
        }
        probes.join_all().await;
    }
}
