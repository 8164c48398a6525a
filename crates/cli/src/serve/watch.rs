//! Reloads files that change while a server uses them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Result;

use crate::signals::Hangups;

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

/// Calls `reload` at every SIGHUP, and whenever the state is no longer the one that was loaded,
/// forever. If `reload` fails, what was loaded before stays in use, and the next check tries again:
/// half of the files may not have been written yet. It returns how many keys there are, if it loads
/// keys.
pub(super) async fn follow(
    what: String,
    mut loaded: State,
    state: impl Fn() -> State,
    reload: impl Fn() -> Result<Option<usize>>,
) {
    let mut hangups = match Hangups::new() {
        Ok(hangups) => hangups,
        Err(error) => return tracing::error!(%error, "the {what} cannot be reloaded"),
    };
    let mut failure = String::new();
    loop {
        let asked = tokio::select! {
            () = tokio::time::sleep(CHECK_AGAIN) => false,
            () = hangups.next() => true,
        };
        let now = state();
        if now == loaded && !asked {
            continue;
        }
        match reload() {
            Ok(keys) => {
                tracing::info!(keys, "the {what} were reloaded");
                loaded = now;
                failure.clear();
            }
            Err(error) => {
                let error = format!("{error:#}");
                if asked || error != failure {
                    tracing::error!(
                        error,
                        "the {what} have changed and cannot be used: the old ones stay in use"
                    );
                }
                failure = error;
            }
        }
    }
}
