//! `sotto log fsck`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::log::entries::{key_sets, recipe, recipe_entry};
use crate::log::folder::{Folder, LOG, Run};

fn fsck(world: &Folder, more: &[&str]) -> Run {
    world.run(&[&["log", "fsck", LOG, "--policy", "policy"], more].concat())
}

/// The only file below a folder whose path ends with this.
fn file(folder: &Path, ending: &str) -> PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                found.push(path);
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    found.pop().unwrap()
}

#[test]
fn every_file_is_checked() {
    let [leader, helper] = key_sets();
    let entry = recipe_entry(&recipe("one"));
    let world = Folder::with(&[leader, helper, entry.clone()]);
    let said = fsck(&world, &[]).says(0);
    assert_eq!(said, "3 entries checked: nothing is wrong\n");
    let found = fsck(&world, &["--json"]).json(0);
    assert_eq!(
        found,
        serde_json::json!({
            "schema": "sotto/1", "command": "log fsck",
            "size": 3, "clean": true, "differences": [], "more": 0
        })
    );

    let bucket = entry.id().to_string()[..4].to_owned();
    let public = world.path(LOG);
    let cases = [
        (file(&public, "tile/0/000.p/3"), 70, "tile/0/000.p/3: it is not what the entries give"),
        (
            file(&public, "tile/entries/000.p/3"),
            60,
            "checkpoint: the root is not that of the entries",
        ),
        (file(&public, "first/000"), 40, "first/000"),
        (file(&public, &format!("by-id/{bucket}")), 39, "by-id: entry 2 is given as 3"),
        (file(&public, "public/checkpoint"), 15, "checkpoint: "),
    ];
    for (path, at, words) in cases {
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, bad).unwrap();
        let said = fsck(&world, &[]).says(1);
        assert!(said.contains(words), "{path:?}: {said}");
        assert!(said.ends_with(": something is wrong\n"), "{path:?}: {said}");
        assert_eq!(fsck(&world, &["--json"]).json(1)["clean"], false);
        fs::write(&path, good).unwrap();
    }
    assert_eq!(fsck(&world, &[]).says(0), said);
}

#[test]
fn a_check_that_cannot_be_made_is_neither() {
    let world = Folder::new();
    let said = fsck(&world, &[]).fails();
    assert!(said.contains("data/public is not a folder") && said.contains("hint:"), "{said}");
    fs::create_dir_all(world.path(LOG)).unwrap();
    assert!(fsck(&world, &[]).says(1).contains("there is no checkpoint"));
    world.write("policy", "quorum what\n");
    assert!(fsck(&world, &[]).fails().contains("policy cannot be used"));
}
