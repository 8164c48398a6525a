//! Databases of a throw-away PostgreSQL server, one for each test.
//!
//! `cargo xtask test` starts the server and says in `SOTTO_POSTGRES` how to reach it. Without it,
//! tests of the store on PostgreSQL say that they are skipped; with `CI=true` they fail.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A database, dropped when its test ends.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// An empty database. `None` if there is no server.
    pub fn new() -> Option<Self> {
        Self::create("")
    }

    /// A copy of another database, which nobody may be connected to.
    pub fn copy_of(template: &Self) -> Option<Self> {
        // Version 14 knows no other way than this one, and no name for it.
        static COPIES: OnceLock<&str> = OnceLock::new();
        let copies = COPIES.get_or_init(|| {
            let version = template.sql("SHOW server_version_num");
            if version.as_str() < "150000" { "" } else { "STRATEGY file_copy" }
        });
        Self::create(&format!(" TEMPLATE {} {copies}", template.name))
    }

    fn create(template: &str) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Ok(server) = std::env::var("SOTTO_POSTGRES") else {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "SOTTO_POSTGRES is not set: run the tests with `cargo xtask test`"
            );
            println!("skipped: no PostgreSQL server; `cargo xtask test` starts one");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("test_{}_{number}", std::process::id());
        let database = Self { server, name };
        database.run("postgres", &format!("CREATE DATABASE {}{template}", database.name));
        Some(database)
    }

    /// How to connect to it.
    pub fn url(&self) -> String {
        format!("{} dbname={}", self.server, self.name)
    }

    /// Runs SQL in it, and returns what `psql` prints: a line for each row, columns separated by |.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        self.run(&self.name, sql)
    }

    #[track_caller]
    fn run(&self, database: &str, sql: &str) -> String {
        let target = format!("{} dbname={database}", self.server);
        let mut psql = Command::new("psql");
        psql.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-d", &target, "-c", sql]);
        let done = psql.output().unwrap();
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.run("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
        }
    }
}
