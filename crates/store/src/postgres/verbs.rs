//! The verbs: each runs on the store's threads, and is repeated if that is worthwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Client;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::leader::aggregate::{FormedJobs, LeaderOutcome};
use sotto_protocol::{Bucket, Digest, Moment, Rejection, ReplayScope};
use sotto_wire::{BatchSelector, CollectionJobId, HpkeConfigId, Query, ReportId, TaskId};

use super::backlog::{Limits, Part};
use super::helper::Collecting;
use super::pipeline::{Pipeline, params};
use super::values::array;
use super::{
    Inner, PostgresStore, Verdict, backlog, collections, end, fixing, helper, jobs, receipts, tasks,
};
use crate::{
    Backlog, Batch, Closing, CollectionCreated, CollectionDeleted, CollectionState, Committed,
    Counters, Fixed, HelperStore, LeaderStore, Lease, LeasedCollection, LeasedJob,
    ListedCollection, Load, LogCheckpoint, NewReport, OwedReceipts, Release, Result, StoredTask,
    Stretch, TaskFilter, TaskJobs, TaskStore, Turn,
};

/// A verb of one step: arguments are cloned for each repetition.
macro_rules! verb {
    ($self:ident, |$inner:ident, $client:ident| $($argument:ident),* => $work:expr) => {
        $self.verb(move |$inner: Arc<Inner>| {
            $(let $argument = $argument.clone();)*
            async move {
                let $client = $inner.client().await?;
                $work.await
            }
        }).await
    };
}

/// The same in a transaction.
macro_rules! transaction {
    ($self:ident, |$inner:ident, $client:ident| $($argument:ident),* => $work:expr) => {
        $self.verb(move |$inner: Arc<Inner>| {
            $(let $argument = $argument.clone();)*
            async move {
                let $client = $inner.client().await?;
                let done = $work.await;
                end($client, done).await
            }
        }).await
    };
}

#[async_trait]
impl TaskStore for PostgresStore {
    async fn put_task(&self, task_id: TaskId, task: StoredTask) -> Result<()> {
        transaction!(self, |inner, client| task => tasks::put(&client, task_id, &task))
    }

    async fn tasks(&self) -> Result<Vec<(TaskId, StoredTask)>> {
        verb!(self, |inner, client| => async {
            rows(&client, tasks::STORED, tasks::stored).await
        })
    }

    async fn put_log_checkpoint(&self, checkpoint: LogCheckpoint) -> Result<()> {
        verb!(self, |inner, client| checkpoint => async {
            let sql = "INSERT INTO public_logs VALUES ($1, $2, $3) ON CONFLICT (origin)
                       DO UPDATE SET size = excluded.size, root = excluded.root";
            let LogCheckpoint { origin, size, root } = checkpoint;
            let mut pipeline = Pipeline::new(&client);
            pipeline.add(sql, params![origin, size as i64, root.to_vec()]).await?;
            pipeline.run().await.map(drop)
        })
    }

    async fn log_checkpoint(&self, origin: String) -> Result<Option<LogCheckpoint>> {
        verb!(self, |inner, client| origin => async {
            let sql = "SELECT size, root FROM public_logs WHERE origin = $1";
            let mut pipeline = Pipeline::new(&client);
            let found = pipeline.add(sql, params![origin.clone()]).await?;
            let answers = pipeline.run().await?;
            let Some(row) = answers.of(found).first() else { return Ok(None) };
            let size = row.try_get::<_, i64>(0)? as u64;
            Ok(Some(LogCheckpoint { origin, size, root: array(row.try_get(1)?)? }))
        })
    }

    async fn forget_task(&self, task_id: TaskId) -> Result<()> {
        transaction!(self, |inner, client| => tasks::forget(&inner, &client, task_id))
    }

    async fn forgotten_tasks(&self) -> Result<Vec<TaskId>> {
        verb!(self, |inner, client| => async {
            rows(&client, "SELECT task_id FROM tombstones", |row| tasks::task_id(row.try_get(0)?))
                .await
        })
    }

    async fn next_receipts(&self, now: Moment) -> Result<OwedReceipts> {
        transaction!(self, |inner, client| => receipts::next(&client, now))
    }

    async fn receipt_sent(&self, task_id: TaskId, number: u64) -> Result<()> {
        transaction!(self, |inner, client| => receipts::sent(&client, task_id, number))
    }

    async fn counters(&self, task_id: TaskId) -> Result<Counters> {
        verb!(self, |inner, client| => tasks::counters(&client, task_id))
    }

    async fn load(&self) -> Result<Load> {
        verb!(self, |inner, client| => inner.load(&client))
    }
}

#[async_trait]
impl LeaderStore for PostgresStore {
    async fn accept_reports(
        &self,
        reports: Vec<NewReport>,
    ) -> Result<Vec<std::result::Result<(), Rejection>>> {
        match reports.is_empty() {
            true => Ok(Vec::new()),
            false => self.accepting.offer(reports).await,
        }
    }

    async fn backlog(
        &self,
        max_reports: usize,
        max_bytes: usize,
        is_served: TaskFilter,
    ) -> Result<Backlog> {
        let limits = Limits { max_reports, max_bytes };
        verb!(self, |inner, client| is_served =>
            backlog::backlog(&inner, &client, limits, &is_served))
    }

    async fn fix_jobs(&self, stretch: Stretch, formed: FormedJobs) -> Result<Fixed> {
        let part: Arc<Part> = Arc::new(stretch.get::<Part>()?.clone());
        let formed = Arc::new(formed);
        transaction!(self, |inner, client| part, formed =>
            fixing::fix_jobs(&inner, &client, &part, &formed))
    }

    async fn lease_job(&self, duration: Duration, turn: Turn) -> Result<Option<LeasedJob>> {
        verb!(self, |inner, client| turn => jobs::lease(&inner, &client, duration, &turn))
    }

    async fn jobs_by_task(&self) -> Result<HashMap<TaskId, TaskJobs>> {
        verb!(self, |inner, client| => jobs::by_task(&client))
    }

    async fn mark_sent(&self, lease: Lease, digest: Digest) -> Result<()> {
        verb!(self, |inner, client| => jobs::mark_sent(&client, lease, digest))
    }

    async fn commit_job(&self, lease: Lease, outcome: LeaderOutcome) -> Result<()> {
        let outcome = Arc::new(outcome);
        transaction!(self, |inner, client| outcome =>
            jobs::commit(&inner, &client, lease, &outcome))
    }

    async fn release(&self, lease: Lease, pause: Duration) -> Result<()> {
        verb!(self, |inner, client| => jobs::release(&inner, &client, lease, pause))
    }

    async fn abandon_job(&self, lease: Lease) -> Result<()> {
        transaction!(self, |inner, client| => jobs::abandon(&inner, &client, lease))
    }

    async fn create_collection(
        &self,
        task_id: TaskId,
        request: Vec<u8>,
        query: Query,
    ) -> Result<CollectionCreated> {
        transaction!(self, |inner, client| request =>
            collections::create(&inner, &client, task_id, &request, query))
    }

    async fn collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<Option<CollectionState>> {
        verb!(self, |inner, client| => collections::state(&client, task_id, id))
    }

    async fn delete_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted> {
        transaction!(self, |inner, client| => collections::delete(&client, task_id, id, false))
    }

    async fn cancel_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted> {
        transaction!(self, |inner, client| => collections::delete(&client, task_id, id, true))
    }

    async fn collections(&self, task_id: TaskId) -> Result<Vec<ListedCollection>> {
        verb!(self, |inner, client| => collections::list(&client, task_id))
    }

    async fn lease_collection(
        &self,
        duration: Duration,
        turn: Turn,
    ) -> Result<Option<LeasedCollection>> {
        verb!(self, |inner, client| turn => collections::lease(&inner, &client, duration, &turn))
    }

    async fn close_batch(&self, lease: Lease, min_batch_size: u64) -> Result<Closing> {
        transaction!(self, |inner, client| =>
            collections::close(&client, lease, min_batch_size))
    }

    async fn finish_collection(&self, lease: Lease, release: Release) -> Result<()> {
        transaction!(self, |inner, client| release =>
            collections::finish(&client, lease, &release))
    }

    async fn fail_collection(&self, lease: Lease, problem: String, detail: String) -> Result<()> {
        verb!(self, |inner, client| problem, detail =>
            collections::fail(&client, lease, &problem, &detail))
    }

    async fn live_hpke_configs(&self) -> Result<Vec<HpkeConfigId>> {
        let mut ids: Vec<HpkeConfigId> = verb!(self, |inner, client| => async {
            let sql = "SELECT DISTINCT configs FROM segments";
            rows(&client, sql, |row| Ok(row.try_get::<_, Vec<u8>>(0)?)).await
        })?
        .into_iter()
        .flatten()
        .map(HpkeConfigId::new)
        .collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

#[async_trait]
impl HelperStore for PostgresStore {
    async fn response(&self, task_id: TaskId, digest: Digest) -> Result<Option<Vec<u8>>> {
        verb!(self, |inner, client| => helper::response(&client, task_id, digest))
    }

    async fn spent_reports(
        &self,
        task_id: TaskId,
        scope: ReplayScope,
        reports: Vec<(Bucket, ReportId)>,
    ) -> Result<Vec<Option<Rejection>>> {
        verb!(self, |inner, client| reports =>
            helper::spent_reports(&client, task_id, scope, &reports))
    }

    async fn commit_helper_job(
        &self,
        task_id: TaskId,
        digest: Digest,
        outcome: HelperOutcome,
    ) -> Result<Committed> {
        let outcome = Arc::new(outcome);
        transaction!(self, |inner, client| outcome =>
            helper::commit(&inner, &client, task_id, digest, &outcome))
    }

    async fn forget_response(&self, task_id: TaskId, digest: Digest) -> Result<()> {
        verb!(self, |inner, client| => helper::forget_response(&client, task_id, digest))
    }

    async fn batch(&self, task_id: TaskId, selector: BatchSelector) -> Result<Batch> {
        verb!(self, |inner, client| => helper::batch(&client, task_id, &selector))
    }

    async fn collect_batch(
        &self,
        task_id: TaskId,
        selector: BatchSelector,
        expected: (u64, [u8; 32]),
        digest: Digest,
        release: Release,
    ) -> Result<Committed> {
        let asked = Arc::new(Collecting { task_id, selector, expected, digest, release });
        transaction!(self, |inner, client| asked => helper::collect(&inner, &client, &asked))
    }
}

impl Inner {
    pub(super) async fn load(&self, client: &Client) -> Verdict<Load> {
        let sql = "SELECT COALESCE((SELECT sum(waiting_bytes) FROM segments), 0)::bigint
                        + COALESCE((SELECT sum(bytes) FROM requeued), 0)::bigint,
                   COALESCE((SELECT sum(bytes) FROM segments), 0)::bigint,
                   (SELECT count(*) FROM jobs),
                   (SELECT count(*) FROM collections WHERE state < 2)";
        let mut pipeline = Pipeline::new(client);
        let found = pipeline.add(sql, Vec::new()).await?;
        let answers = pipeline.run().await?;
        let number = |index: usize| -> Verdict<u64> {
            let row = answers.of(found).first();
            Ok(row.map_or(Ok(0), |row| row.try_get::<_, i64>(index))? as u64)
        };
        Ok(Load {
            backlog_bytes: number(0)?,
            segment_bytes: number(1)?,
            jobs: number(2)?,
            collections: number(3)?,
        })
    }
}

/// All rows of a statement without values.
async fn rows<T>(
    client: &Client,
    sql: &str,
    read: impl Fn(&tokio_postgres::Row) -> Verdict<T>,
) -> Verdict<Vec<T>> {
    let mut pipeline = Pipeline::new(client);
    let found = pipeline.add(sql, Vec::new()).await?;
    pipeline.run().await?.of(found).iter().map(read).collect()
}
