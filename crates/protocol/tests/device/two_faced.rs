//! A log that gives two answers to one question.

use std::collections::BTreeMap;

use sotto_crypto::merkle::leaf_hash;
use sotto_protocol::log::{Fetch, FetchError, Reader};
use sotto_testing::log::Files;
use sotto_testing::world::Plan;
use sotto_wire::{Checkpoint, EntryBundle, TreeHash};

/// Serves forged files at first, each a given number of times.
struct TwoFaced {
    forged: Files,
    honest: Files,
    times: usize,
    asked: BTreeMap<String, usize>,
}

impl Fetch for TwoFaced {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let asked = self.asked.entry(path.to_owned()).or_default();
        *asked += 1;
        if *asked <= self.times && self.forged.contains_key(path) {
            return self.forged.fetch(path, limit);
        }
        self.honest.fetch(path, limit)
    }
}

#[test]
fn entries_are_proved_by_their_own_hashes() {
    let world = Plan::new().build();
    let tree = Checkpoint::parse(world.log.view.text()).unwrap();
    let honest = world.log.files.clone();
    let path = |part: &str| {
        let suffix = format!(".p/{}", tree.size);
        honest.keys().find(|p| p.starts_with(part) && p.ends_with(&suffix)).unwrap().clone()
    };
    let (bundle, tile) = (path("tile/entries/"), path("tile/0/"));
    let entries: Vec<Vec<u8>> =
        (0..tree.size).map(|n| format!("forged {n}").into_bytes()).collect();
    let hashes: Vec<TreeHash> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    let hashes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
    let forged_bundle = EntryBundle::encode(&entries).unwrap();
    for with_tile in [false, true] {
        let mut forged = Files::from([(bundle.clone(), forged_bundle.clone())]);
        if with_tile {
            forged.insert(tile.clone(), hashes.clone());
        }
        for times in 1..5 {
            let log = TwoFaced {
                forged: forged.clone(),
                honest: honest.clone(),
                times,
                asked: BTreeMap::new(),
            };
            let mut reader = Reader::new(log);
            for _ in 0..6 {
                if let Ok(read) = reader.entries(0..tree.size, &tree) {
                    assert!(read.iter().all(|entry| !entry.starts_with(b"forged")));
                }
            }
        }
    }
    let mut reader = Reader::new(honest.clone());
    assert_eq!(reader.entries(0..tree.size, &tree).unwrap().len() as u64, tree.size);
}
