//! `sotto log`, `sotto device` and `sotto collect --recipe` on logs that the test itself keeps:
//! what auditors and devices print, and their exit codes.

mod collect;
mod device;
mod entries;
mod folder;
mod fsck;
mod list;
mod monitor;
mod verify;
mod web;

use folder::Folder;

#[test]
fn help_says_what_there_is() {
    let commands: [&[&str]; 9] = [
        &["log"],
        &["log", "verify"],
        &["log", "monitor"],
        &["log", "list"],
        &["log", "memory"],
        &["log", "fsck"],
        &["device"],
        &["device", "run"],
        &["device", "log"],
    ];
    let world = Folder::new();
    for command in commands {
        let arguments = [command, &["--help"]].concat();
        let name = ["help"].iter().chain(command).copied().collect::<Vec<_>>().join("_");
        insta::assert_snapshot!(name, world.run(&arguments).says(0));
    }
}
