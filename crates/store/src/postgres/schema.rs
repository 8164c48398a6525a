//! The tables, by version, and the steps from one version to the next.
//!
//! A program works with the newest version that it knows and with the one before, so that processes
//! can be replaced one after the other: first the programs, then the schema.

use deadpool_postgres::Client;

use super::connect::{Failure, PostgresUrl};
use crate::{Result, StoreError};

/// One step.
struct Step {
    what: &'static str,
    sql: &'static str,
}

/// From an empty database to the newest version; step n leads to version n.
const STEPS: [Step; 1] = [Step { what: "creates all tables", sql: include_str!("schema/1.sql") }];

/// The newest version that this program knows.
const NEWEST: i32 = STEPS.len() as i32;

/// What a migration does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationPlan {
    /// The version of the database; 0 if it is empty.
    pub from: i32,
    /// The version afterwards.
    pub to: i32,
    /// What each step does.
    pub steps: Vec<&'static str>,
}

/// Says what [`migrate`] would do.
pub async fn migration_plan(url: &PostgresUrl) -> Result<MigrationPlan> {
    on_tokio(plan_of(url.clone())).await
}

/// Brings the schema to the newest version, in one transaction for each step. Processes may run
/// meanwhile, if they are not older than the version before.
pub async fn migrate(url: &PostgresUrl) -> Result<MigrationPlan> {
    let url = url.clone();
    on_tokio(async move {
        let plan = plan_of(url.clone()).await?;
        let client = client(&url).await?;
        for (number, step) in (1..).zip(&STEPS).skip(plan.from as usize) {
            take(&client, number, step).await.map_err(Failure::into_store)?;
        }
        Ok(plan)
    })
    .await
}

/// Takes a step, unless somebody else has taken it meanwhile.
async fn take(client: &Client, number: i32, step: &Step) -> std::result::Result<(), Failure> {
    client.batch_execute("BEGIN").await?;
    let taken = async {
        if number > 1 {
            let sql = "SELECT version FROM store FOR UPDATE";
            if client.query_one(sql, &[]).await?.get::<_, i32>(0) >= number {
                return Ok(());
            }
        }
        client.batch_execute(step.sql).await?;
        let sql = "INSERT INTO store (only_row, version) VALUES (true, $1)
                   ON CONFLICT (only_row) DO UPDATE SET version = excluded.version";
        client.execute(sql, &[&number]).await.map(drop)
    };
    match taken.await {
        Ok(()) => client.batch_execute("COMMIT").await?,
        Err(error) => {
            client.batch_execute("ROLLBACK").await?;
            // Somebody else may have made the first tables at the same time.
            if number > 1 || !version(client).await.is_ok_and(|found| found >= number) {
                return Err(error.into());
            }
        }
    }
    Ok(())
}

async fn plan_of(url: PostgresUrl) -> Result<MigrationPlan> {
    let from = version(&client(&url).await?).await?;
    if from > NEWEST {
        return Err(too_new(from));
    }
    let steps = STEPS.iter().skip(from as usize).map(|step| step.what).collect();
    Ok(MigrationPlan { from, to: NEWEST, steps })
}

async fn client(url: &PostgresUrl) -> Result<Client> {
    url.pool(1)?.get().await.map_err(|error| Failure::from(error).into_store())
}

/// The version of the database; 0 if it has no tables of ours.
async fn version(client: &Client) -> Result<i32> {
    let failed = |error| Failure::Database(error).into_store();
    let row = client.query_one("SELECT to_regclass('store') IS NOT NULL", &[]).await;
    if !row.map_err(failed)?.get::<_, bool>(0) {
        return Ok(0);
    }
    Ok(client.query_one("SELECT version FROM store", &[]).await.map_err(failed)?.get(0))
}

/// Fails if this program does not know the schema.
pub(super) async fn check(client: &Client) -> Result<()> {
    match version(client).await? {
        0 => Err(StoreError::Backend(
            "the database has no tables yet: run `sotto db migrate`".into(),
        )),
        found if found > NEWEST => Err(too_new(found)),
        found if found + 1 < NEWEST => Err(StoreError::Backend(format!(
            "the database has schema version {found}, this program needs {} or {NEWEST}: run \
             `sotto db migrate`",
            NEWEST - 1
        ))),
        _ => Ok(()),
    }
}

/// As [`check`], on a connection of its own.
pub async fn check_schema(url: &PostgresUrl) -> Result<()> {
    let url = url.clone();
    on_tokio(async move { check(&client(&url).await?).await }).await
}

/// Takes the database for a role. Fails if it belongs to another.
pub(super) async fn claim(client: &Client, role: &'static str) -> std::result::Result<(), Failure> {
    let sql = "UPDATE store SET role = $1 WHERE role IS NULL";
    client.execute(sql, &[&role]).await?;
    let owner: String = client.query_one("SELECT role FROM store", &[]).await?.try_get(0)?;
    match owner == role {
        true => Ok(()),
        false => Err(Failure::broken(format!(
            "the database belongs to a {owner}: a {role} needs one of its own"
        ))),
    }
}

fn too_new(found: i32) -> StoreError {
    StoreError::Backend(format!(
        "the database has schema version {found}, this program knows {NEWEST}: use a newer program"
    ))
}

/// Runs a future that needs tokio, for callers with any runtime.
async fn on_tokio<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::Backend(error.to_string()))?;
    let done = super::run_on(&runtime, work).await;
    runtime.shutdown_background();
    done
}
