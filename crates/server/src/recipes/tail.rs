//! Reads the public log: its newest view, with a proof that it extends every view that was acted on
//! before, even by an earlier process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sotto_protocol::admission::{Admitted, Check, Silence, View, Watch, WatchError};
use sotto_protocol::log::{Comparison, compare};
use sotto_protocol::trust::Trust;
use sotto_protocol::{MAX_CLOCK_SKEW_S, Moment};
use sotto_store::{LogCheckpoint, StoreError, TaskStore};
use sotto_wire::recipe::KeySet;
use sotto_wire::{Checkpoint, EntryId, KeyName, TreeHash};
use tokio::sync::mpsc;

use super::fetch::{self, Ask, LogClient, LogFiles};
use crate::config::RecipesConfig;
use crate::environment::spawn_blocking;

type Verdicts = BTreeMap<EntryId, Result<Arc<Admitted>, Silence>>;

/// What the log contains now.
pub(super) struct Reading {
    /// The number of entries.
    pub(super) size: u64,
    /// The witnessed time.
    pub(super) time: u64,
    /// The open recipes that name this server's operator, each with the verdict of a device.
    pub(super) recipes: Verdicts,
    /// The newest key set of this server's operator.
    pub(super) keys: Result<KeySet, Silence>,
}

/// Why reading failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// Files are missing, broken or unreachable: nothing is proved either way.
    #[error("{0}")]
    Unreachable(String),
    /// The log shows something that is not accepted. It may show something better later.
    #[error("{0}")]
    Refused(String),
    /// It is proved that the log has signed two trees that contradict each other.
    #[error("{0}")]
    Forked(String),
    /// What was read could not be stored.
    #[error("the store failed")]
    Store(StoreError),
}

/// A reader at the end of the log.
pub(super) struct Tail {
    trust: Arc<Trust>,
    operator: KeyName,
    watch: Arc<Mutex<Watch<LogFiles>>>,
    asks: mpsc::UnboundedReceiver<Ask>,
    client: Arc<LogClient>,
    store: Arc<dyn TaskStore>,
}

impl Tail {
    pub(super) fn new(
        config: &RecipesConfig,
        client: Arc<LogClient>,
        store: Arc<dyn TaskStore>,
    ) -> Self {
        let (files, asks) = fetch::bridge();
        Self {
            trust: Arc::new(config.trust.clone().with_any_suite()),
            operator: config.operator.clone(),
            watch: Arc::new(Mutex::new(Watch::new(files))),
            asks,
            client,
            store,
        }
    }

    /// Reads what is new. The view is durable before anybody acts on it.
    pub(super) async fn read(&mut self, now: Moment) -> Result<Reading, ReadError> {
        let (trust, operator) = (Arc::clone(&self.trust), self.operator.clone());
        let (checkpoint, reading) = self
            .with_watch(move |watch| {
                let view = refresh(watch, &trust, now)?;
                let reading = Reading {
                    size: view.checkpoint().size,
                    time: view.time(),
                    recipes: named(watch, &operator),
                    keys: watch.key_set(&operator, &trust),
                };
                Ok((view.checkpoint().clone(), reading))
            })
            .await?;
        self.check_stored(checkpoint).await?;
        Ok(reading)
    }

    /// Compares a view with the one that was last acted on, and stores it instead.
    async fn check_stored(&mut self, new: Checkpoint) -> Result<(), ReadError> {
        let newest = LogCheckpoint { origin: new.origin.clone(), size: new.size, root: new.root.0 };
        let stored = self.store.log_checkpoint(new.origin.clone()).await;
        let Some(old) = stored.map_err(ReadError::Store)? else {
            return self.store.put_log_checkpoint(newest).await.map_err(ReadError::Store);
        };
        if old == newest {
            return Ok(());
        }
        if new.size < old.size {
            return Err(ReadError::Refused(behind(new.size, old.size)));
        }
        let old = Checkpoint::new(old.origin, old.size, TreeHash(old.root));
        self.with_watch(move |watch| check_extends(watch, &old, &new)).await?;
        self.store.put_log_checkpoint(newest).await.map_err(ReadError::Store)
    }

    /// Runs the blocking reader on a separate thread, and fetches what it asks for.
    async fn with_watch<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Watch<LogFiles>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let watch = Arc::clone(&self.watch);
        let mut working =
            spawn_blocking(move || work(&mut watch.lock().unwrap_or_else(PoisonError::into_inner)));
        loop {
            tokio::select! {
                worked = &mut working => {
                    return worked.unwrap_or_else(|_| {
                        Err(ReadError::Refused("what the log holds made its reader panic".to_owned()))
                    });
                }
                Some(ask) = self.asks.recv() => self.client.answer(ask).await,
            }
        }
    }
}

/// The recipes that name an operator. Those that do not define a task are included: it is not known
/// whom they name.
fn named(watch: &mut Watch<LogFiles>, operator: &KeyName) -> Verdicts {
    let mut verdicts = watch.recipes().clone();
    verdicts.retain(|id, _| match watch.assess(id) {
        Some(Ok(assessment)) => {
            let parties = &assessment.recipe().parties;
            parties.leader.operator == *operator || parties.helper.operator == *operator
        }
        _ => true,
    });
    verdicts
}

/// The newest view, if it is accepted and fresh.
fn refresh(watch: &mut Watch<LogFiles>, trust: &Trust, now: Moment) -> Result<View, ReadError> {
    let view = match watch.refresh(trust, now) {
        Ok(view) => view.clone(),
        Err(WatchError::Refused(silence)) if silence.check == Check::Consistency => {
            return Err(contradiction(watch, trust, &silence));
        }
        Err(WatchError::Refused(silence)) => return Err(ReadError::Refused(silence.to_string())),
        Err(error) => return Err(unreachable(error)),
    };
    let age = now.0.saturating_sub(view.time());
    if age > trust.settings().max_checkpoint_age_s {
        return Err(ReadError::Refused(format!("the log's newest checkpoint is {age} s old")));
    }
    if view.time() > now.0.saturating_add(MAX_CLOCK_SKEW_S) {
        let ahead = view.time() - now.0;
        return Err(ReadError::Refused(format!("the log's checkpoint is {ahead} s ahead")));
    }
    Ok(view)
}

/// What it means if a checkpoint does not seem to extend the previous one. An older one may come
/// from a cache between the log and us: it is not used, but proves nothing. Nor do files that
/// belong to neither checkpoint.
fn contradiction(watch: &mut Watch<LogFiles>, trust: &Trust, silence: &Silence) -> ReadError {
    let refused = || ReadError::Refused(silence.to_string());
    let Some(old) = watch.view().map(|view| view.checkpoint().clone()) else { return refused() };
    let shown = match watch.reader().checkpoint() {
        Ok(shown) => shown,
        Err(error) => return unreachable(error),
    };
    let shown = shown.and_then(|note| View::open(&note.to_bytes(), trust).ok());
    match shown.as_ref().map(View::checkpoint) {
        Some(new) if new.origin != old.origin => refused(),
        Some(new) if new.size < old.size => ReadError::Refused(behind(new.size, old.size)),
        Some(new) => check_extends(watch, &old, new).err().unwrap_or_else(unproved),
        None => refused(),
    }
}

/// Whether a signed tree extends an older one. Only a proved contradiction is called a fork: the
/// files are not signed, and one bit flipped in transit must not end the use of the log for good.
fn check_extends(
    watch: &mut Watch<LogFiles>,
    old: &Checkpoint,
    new: &Checkpoint,
) -> Result<(), ReadError> {
    match compare(watch.reader(), old, new).map_err(unreachable)? {
        Comparison::Extends => Ok(()),
        Comparison::Split(_) => Err(ReadError::Forked(format!(
            "the log {} signed a tree of {} entries with root {}, and one of {} with root {} that does not extend it",
            new.origin, old.size, old.root, new.size, new.root
        ))),
        Comparison::Unproved => Err(unproved()),
    }
}

fn unproved() -> ReadError {
    ReadError::Refused(
        "the log's files do not belong to its checkpoint; they will be read again".to_owned(),
    )
}

fn behind(size: u64, before: u64) -> String {
    format!("the log shows {size} entries, but had {before}")
}

fn unreachable(error: impl std::fmt::Display) -> ReadError {
    ReadError::Unreachable(error.to_string())
}
