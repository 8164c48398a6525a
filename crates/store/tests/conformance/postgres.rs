//! What only the store on PostgreSQL promises: what processes on one database do to each other, and
//! what the database holds.

use std::sync::Arc;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use sotto_store::{
    Closing, LeaderStore, PostgresUrl, StoreError, StoreKey, StoreKeys, check_schema, migrate,
    migration_plan,
};
use sotto_testing::postgres::Database;
use sotto_wire::{BatchSelector, Query};

use super::bench::{Bench, Kind, LEASE};
use super::driver::run;
use super::reports::{Report, assert_holds, interval, interval_task, report, reports};

/// Waits for what a store does now and then.
#[track_caller]
fn eventually(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not happen");
        sleep(Duration::from_millis(50));
    }
}

fn count(bench: &Bench, table: &str) -> String {
    bench.database().sql(&format!("SELECT count(*) FROM {table}"))
}

#[test]
fn nothing_is_left_of_what_was_collected() {
    let Some(mut bench) = Bench::new(Kind::Postgres) else { return };
    let task = interval_task(1);
    let all: Vec<Report> =
        reports(task, 0..8, 10).into_iter().map(|report| report.padded(9_000)).collect();
    bench.accept(&all);
    assert_ne!(count(&bench, "segments"), "0");
    bench.form();
    bench.work();
    // The keys of the bodies are gone with the jobs.
    assert_eq!(count(&bench, "segments"), "0");
    bench.collect(task, Query::TimeInterval(interval(10, 1)));
    for table in ["bodies_0", "bodies_1", "bodies_2", "bodies_3", "report_ids", "purges"] {
        eventually(|| count(&bench, table) == "0");
    }
}

#[test]
fn the_database_does_not_see_reports() {
    let Some(mut bench) = Bench::new(Kind::Postgres) else { return };
    bench.accept(&[report(interval_task(1), 0x2a, 10).padded(300)]);
    let seen =
        "SELECT count(*) FROM bodies_0 WHERE position('\\x2a2a2a2a2a2a2a2a'::bytea IN body) > 0";
    assert_eq!(
        (count(&bench, "bodies_0").as_str(), bench.database().sql(seen).as_str()),
        ("1", "0")
    );
}

#[test]
fn an_old_key_opens_and_a_missing_one_is_named() {
    let Some(mut bench) = Bench::new(Kind::Postgres) else { return };
    let report = report(interval_task(1), 3, 10);
    bench.accept(&[report]);
    bench.advance(LEASE);
    let keys = |current, previous: &[u8]| StoreKeys {
        current: StoreKey::new([current; 32]),
        previous: previous.iter().map(|key| StoreKey::new([*key; 32])).collect(),
    };
    let backlog = |keys| {
        let store = bench.another(|options| options.keys = keys).unwrap();
        block_on(store.backlog(9, 999, Arc::new(|_| true)))
    };
    assert_eq!(backlog(keys(8, &[7])).unwrap().records.len(), 1);
    let Err(StoreError::Backend(why)) = backlog(keys(8, &[9])) else { panic!("opened") };
    assert!(why.contains("is a key of the store missing"), "{why}");
}

#[test]
fn reports_of_a_process_that_is_gone_are_found() {
    let Some(mut bench) = Bench::new(Kind::Postgres) else { return };
    let task = interval_task(1);
    bench.offer(&reports(task, 0..3, 10));
    let other = bench.another(|_| {}).unwrap();
    let found = |other: &dyn LeaderStore| {
        run(other.backlog(9, usize::MAX, Arc::new(|_| true))).records.len()
    };
    // `offer` let a minute pass, in which their process could have taken them.
    assert_eq!(found(&other), 3);
    run(other.accept_reports(vec![report(task, 3, 10).upload()]));
    assert_eq!((found(&other), found(&**bench.store())), (4, 3));
}

/// What one process accepts is in the batch that another one closes, or was refused.
#[test]
fn a_process_that_closes_a_batch_excludes_nobody_halfway() {
    for cells in [16, 24, 32, 48] {
        let Some(mut bench) = Bench::new(Kind::Postgres) else { return };
        let task = interval_task(1);
        bench.aggregate(&[report(task, 63, 10)]);
        bench.create(task, Query::TimeInterval(interval(10, 1)));
        let other = bench.another(|_| {}).unwrap();
        let accepted = scope(|scope| {
            let uploads = scope.spawn(|| {
                let upload = |cell: &u8| {
                    let verdicts =
                        run(other.accept_reports(vec![report(task, *cell, 10).upload()]));
                    verdicts[0].is_ok()
                };
                (0..cells).filter(upload).collect::<Vec<u8>>()
            });
            sleep(Duration::from_millis(u64::from(cells) / 4));
            let closing = bench.close(1);
            assert!(matches!(closing, Closing::Draining | Closing::Drained { .. }));
            uploads.join().unwrap()
        });
        assert!(run(other.accept_reports(vec![report(task, 62, 10).upload()]))[0].is_err());
        bench.form();
        bench.work();
        let (selector, aggregate) = bench.drained();
        assert_eq!(selector, BatchSelector::TimeInterval(interval(10, 1)));
        let all: Vec<u8> = accepted.into_iter().chain([63]).collect();
        assert_holds(&aggregate, &reports(task, all, 10));
    }
}

#[test]
fn a_database_belongs_to_one_role() {
    let Some(bench) = Bench::new(Kind::Postgres) else { return };
    let Err(StoreError::Backend(why)) = bench.another(|options| options.role = "helper") else {
        panic!("opened for another role");
    };
    assert_eq!(why, "the database belongs to a leader and helper: a helper needs one of its own");
}

#[test]
fn tables_are_made_once_and_versions_are_checked() {
    let Some(database) = Database::new() else { return };
    let url = PostgresUrl::new(&database.url(), None).unwrap();
    let refused = |url| match block_on(check_schema(url)) {
        Err(StoreError::Backend(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&url).contains("run `sotto db migrate`"), "{}", refused(&url));
    let plan = block_on(migration_plan(&url)).unwrap();
    assert_eq!((plan.from, plan.to as usize), (0, plan.steps.len()));
    // Two operators at once, and once more.
    scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| block_on(migrate(&url)).unwrap()));
        both.into_iter().for_each(|one| drop(one.join().unwrap()));
    });
    assert_eq!(block_on(migrate(&url)).unwrap().steps, Vec::<&str>::new());
    block_on(check_schema(&url)).unwrap();
    let newest = plan.to;
    database.sql(&format!("UPDATE store SET version = {}", newest + 1));
    assert!(refused(&url).contains("use a newer program"), "{}", refused(&url));
}

#[test]
fn a_connection_in_the_open_is_noticed_and_passwords_are_not_printed() {
    let is_protected = |text: &str| PostgresUrl::new(text, None).unwrap().is_protected();
    assert!(is_protected("host=/run/postgresql user=sotto"));
    assert!(is_protected("postgres://sotto:secret@127.0.0.1/leader"));
    assert!(!is_protected("postgres://sotto:secret@database.example/leader"));
    assert!(!is_protected("host=127.0.0.1,database.example"));
    let url = PostgresUrl::new("postgres://sotto:secret@localhost/leader", None).unwrap();
    assert_eq!(format!("{url:?}"), "PostgresUrl");
    let error = PostgresUrl::new("postgres://sotto:secret@localhost/x?sslmode=require", None);
    assert!(!error.unwrap_err().to_string().contains("secret"));
}
