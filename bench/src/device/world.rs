//! A log of a million entries around one recipe: only the hashes on the path to the root exist.

use anyhow::Result;
use sotto_crypto::merkle::{leaf_hash, node_hash};
use sotto_protocol::Moment;
use sotto_protocol::admission::{Evidence, Offer, View};
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_testing::keys::{key, witness};
use sotto_testing::log::{ORIGIN, at, policy, signed};
use sotto_testing::recipe::{
    DAY, key_set, key_set_entry, pinned, recipe_at, recipe_entry, reclaim, set_query,
};
use sotto_wire::recipe::{AttributeType, Query, Randomizer};
use sotto_wire::{Checkpoint, Note, Probability, Recipe, TlogProof, TreeHash};

const NOW: u64 = 1_800_000_000;
const LEVELS: u32 = 20;

/// What a device reads.
pub(crate) struct Shown {
    pub(super) trust: Trust,
    pub(super) view: View,
    pub(super) checkpoint: Note,
    pub(crate) offer: Offer,
    pub(crate) now: Moment,
}

impl Shown {
    pub(crate) fn new() -> Result<Self> {
        let mut file = TrustFile::new(policy(&key(ORIGIN), &[0, 1, 2].map(witness), 2));
        file.operators = pinned(&["leader.example", "helper.example"]);
        file.insecure_direct = true;
        file.insecure_fresh_start = true;
        file.insecure_no_tokens = true;
        let trust = Trust::try_from(file)?;
        let [leader_keys, helper_keys] = [("leader.example", 1), ("helper.example", 2)]
            .map(|(name, seq)| key_set_entry(&key_set(&key(name), seq, NOW - 8 * DAY), &key(name)));
        // The first three leaves of a perfect tree; the rest is one hash per level.
        let leaves = [recipe_entry(&recipe()?), leader_keys, helper_keys];
        let tree = Tree::new(&leaves);
        let checkpoint = tree.checkpoint(NOW - 60);
        let first = tree.checkpoint(NOW - 10 * DAY);
        let evidence = |index: usize| Evidence {
            entry: leaves[index].clone(),
            index: index as u64,
            inclusion: tree.proof(index),
            first: TlogProof {
                extra: None,
                index: index as u64,
                hashes: tree.proof(index),
                checkpoint: first.clone(),
            },
        };
        let offer = Offer {
            recipe: evidence(0),
            header: None,
            leader_keys: evidence(1),
            helper_keys: evidence(2),
            leader_issuer_keys: None,
            helper_issuer_keys: None,
            certified: None,
        };
        let view = View::open(&checkpoint.to_bytes(), &trust)?;
        Ok(Self { trust, view, checkpoint, offer, now: Moment(NOW) })
    }
}

/// A perfect tree of which the first four leaves matter.
struct Tree {
    leaves: [TreeHash; 4],
    siblings: Vec<TreeHash>,
    root: TreeHash,
}

impl Tree {
    fn new(entries: &[Vec<u8>; 3]) -> Self {
        let leaf = |index: usize| entries.get(index).map_or(TreeHash([9; 32]), |e| leaf_hash(e));
        let leaves = [leaf(0), leaf(1), leaf(2), leaf(3)];
        let siblings: Vec<TreeHash> =
            (2..LEVELS as u8).map(|level| TreeHash([level; 32])).collect();
        let pair = |a: usize| node_hash(&leaves[a], &leaves[a + 1]);
        let start = node_hash(&pair(0), &pair(2));
        let root = siblings.iter().fold(start, |left, right| node_hash(&left, right));
        Self { leaves, siblings, root }
    }

    fn checkpoint(&self, time: u64) -> Note {
        let text = Checkpoint::new(ORIGIN, 1 << LEVELS, self.root).to_text();
        signed(&text, at(time), &key(ORIGIN))
    }

    fn proof(&self, index: usize) -> Vec<TreeHash> {
        let other = ((index / 2) * 2) ^ 2;
        let mut hashes = vec![self.leaves[index ^ 1]];
        hashes.push(node_hash(&self.leaves[other], &self.leaves[other + 1]));
        hashes.extend(&self.siblings);
        hashes
    }
}

fn recipe() -> Result<Recipe> {
    let mut recipe = recipe_at("commute", NOW);
    recipe.attributes = [("minutes".parse()?, AttributeType::Int)].into();
    recipe.when.opens = NOW - NOW % DAY;
    recipe.when.closes = recipe.when.opens + 7 * DAY;
    recipe.when.window_s = DAY;
    recipe.sampling.rate = Probability::new(1, 50)?;
    recipe.randomizer = Randomizer::RandomizedResponse { epsilon_micro: 4_000_000 };
    let mapping = "minutes < 150 ? minutes / 10 : 15".to_owned();
    let query = Query::Histogram { buckets: 16, labels: None, mapping, fallback: 0 };
    set_query(&mut recipe, query);
    recipe.aggregation.min_batch = 10_000;
    reclaim(&mut recipe);
    Ok(recipe)
}
