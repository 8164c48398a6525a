//! A short slice of the log campaign. `cargo xtask campaign log` runs it at full length.

use std::process::Command;

use sotto_tests::log;

#[test]
fn a_grown_log_agrees_with_independent_implementations() {
    let folder = tempfile::tempdir().unwrap();
    let growth = log::grow(folder.path(), 5_000, 1_234, 3, &mut |_| {}).unwrap();
    assert_eq!(growth.entries, 5_000);
    // 19 full tiles and four or five partial ones of level 0, and one of level 1 per batch.
    assert!(growth.tiles >= 28, "{growth:?}");
}

#[test]
fn a_killed_log_loses_nothing_and_never_forks() {
    let folder = tempfile::tempdir().unwrap();
    let command = |run: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_log-campaign"));
        command.args(["--appender", &run.to_string()]).arg("--folder").arg(folder.path());
        command
    };
    let kills = log::kills(folder.path(), 8, 5, &command, &mut |_| {}).unwrap();
    assert!(kills.kills == 8 && kills.acknowledged > 0, "{kills:?}");
}
