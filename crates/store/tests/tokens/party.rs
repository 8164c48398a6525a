//! An aggregator with its own store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_executor::block_on;
use sotto_crypto::HpkeKeypair;
use sotto_protocol::recipe::derive_task;
use sotto_protocol::token::TokenTerms;
use sotto_protocol::{AggregatorTask, Bucket, HpkeKeyring, ReleaseRules};
use sotto_store::{
    Batch, Clock, HelperStore, LeaderStore, MemoryStore, SqliteOptions, SqliteStore,
};
use sotto_testing::aggregators::aggregator_task;
use sotto_testing::keys::keypair;
use sotto_wire::recipe::Recipe;
use sotto_wire::{BatchSelector, Decode, Report, Role};
use tempfile::TempDir;

/// How long a job is leased.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) trait Store: LeaderStore + HelperStore {}
impl<S: LeaderStore + HelperStore> Store for S {}

/// Where an aggregator's state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
}

pub(crate) const BOTH_STORES: [Kind; 2] = [Kind::Memory, Kind::Sqlite];

/// An aggregator.
pub(crate) struct Party {
    pub(crate) task: AggregatorTask,
    pub(crate) keys: HpkeKeyring,
    pub(crate) pair: HpkeKeypair,
    kind: Kind,
    clock_ms: Arc<AtomicU64>,
    store: Option<Arc<dyn Store>>,
    dir: TempDir,
}

impl Party {
    pub(crate) fn new(kind: Kind, role: Role, recipe: &Recipe, collector: &HpkeKeypair) -> Self {
        let pair = keypair(if role == Role::Leader { 1 } else { 2 });
        let mut party = Self {
            task: task_of(role, recipe, collector),
            keys: HpkeKeyring::new(std::slice::from_ref(&pair)).unwrap(),
            pair,
            kind,
            clock_ms: Arc::new(AtomicU64::new(1_000_000)),
            store: None,
            dir: TempDir::new().unwrap(),
        };
        party.restart();
        party
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }

    /// From now on it serves another recipe, with the same store.
    pub(crate) fn serve(&mut self, recipe: &Recipe, collector: &HpkeKeypair) {
        self.task = task_of(self.task.role, recipe, collector);
    }

    /// The process ends without warning and starts again. A memory store cannot restart: only its
    /// leases expire.
    pub(crate) fn restart(&mut self) {
        self.clock_ms.fetch_add(2 * LEASE.as_millis() as u64, Ordering::SeqCst);
        if self.kind == Kind::Memory && self.store.is_some() {
            return;
        }
        let reader = Arc::clone(&self.clock_ms);
        let clock: Clock = Arc::new(move || reader.load(Ordering::SeqCst));
        // One process per folder.
        self.store = None;
        self.store = Some(match self.kind {
            Kind::Memory => Arc::new(MemoryStore::with_clock(clock)),
            Kind::Sqlite => {
                let options = SqliteOptions { clock: Some(clock), ..SqliteOptions::default() };
                Arc::new(SqliteStore::open(self.dir.path(), options).unwrap())
            }
        });
    }

    /// Rejected reports, by the name of the reason.
    pub(crate) fn refused(&self) -> BTreeMap<&'static str, u64> {
        let counters = block_on(self.store().counters(*self.task.task.id())).unwrap();
        counters.rejections.iter().map(|(reason, count)| (reason.name(), count)).collect()
    }

    pub(crate) fn batch(&self, selector: BatchSelector) -> Batch {
        block_on(self.store().batch(*self.task.task.id(), selector)).unwrap()
    }

    /// Whether the id of a report is taken.
    pub(crate) fn has_id_of(&self, report: &[u8]) -> bool {
        let metadata = Report::from_bytes(report).unwrap().report_metadata;
        let named = vec![(Bucket::Time(metadata.time), metadata.report_id)];
        let (task_id, scope) = (*self.task.task.id(), self.task.replay_scope());
        let spent = block_on(self.store().spent_reports(task_id, scope, named)).unwrap();
        spent[0].is_some()
    }
}

fn task_of(role: Role, recipe: &Recipe, collector: &HpkeKeypair) -> AggregatorTask {
    let terms = TokenTerms::of(recipe, role);
    AggregatorTask {
        taskprov: true,
        tokens: terms.map(|terms| terms.unwrap().verifier().unwrap()),
        series: recipe.round().map(|_| recipe.series_id()),
        release: ReleaseRules::of(recipe, None),
        ..aggregator_task(&derive_task(recipe).unwrap(), role, collector)
    }
}
