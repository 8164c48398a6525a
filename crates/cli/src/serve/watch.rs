//! Reloads files that change while a server uses them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Result;

/// How often the files are checked for changes.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// Files, with the time of the last change and the length of each.
pub(super) type State = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

/// The state of these files.
pub(super) fn state(files: Vec<PathBuf>) -> State {
    let of_file = |file: PathBuf| {
        let data = std::fs::metadata(&file).ok();
        let state = data.and_then(|data| Some((data.modified().ok()?, data.len())));
        (file, state)
    };
    files.into_iter().map(of_file).collect()
}

/// Calls `reload` whenever the state is no longer the one that was seen, forever. If `reload`
/// fails, what was loaded before stays in use. It returns how many keys there are, if it loads keys.
pub(super) async fn follow(
    what: String,
    mut seen: State,
    state: impl Fn() -> State,
    reload: impl Fn() -> Result<Option<usize>>,
) {
    loop {
        tokio::time::sleep(CHECK_AGAIN).await;
        let now = state();
        if now == seen {
            continue;
        }
        seen = now;
        match reload() {
            Ok(keys) => tracing::info!(keys, "the {what} were reloaded"),
            Err(error) => tracing::error!(
                error = format!("{error:#}"),
                "the {what} have changed and cannot be used: the old ones stay in use"
            ),
        }
    }
}
