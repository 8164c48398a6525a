//! A log of a million entries around one recipe: only the hashes on the way to the root exist.

use anyhow::Result;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::merkle::{leaf_hash, node_hash};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_dp::published;
use sotto_protocol::Moment;
use sotto_protocol::device::{Evidence, Offer, View};
use sotto_protocol::recipe::{judgement, recipe_vdaf};
use sotto_protocol::trust::{PinnedOperator, Trust, TrustFile};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeType, Parties, Privacy, Query,
    Randomizer, Sampling, Tokens, When, Who,
};
use sotto_wire::{
    BatchMode, Checkpoint, Entry, EntryKind, HpkeConfigId, KeySet, Note, Probability, PublicKey,
    Recipe, Signer, TlogProof, TreeHash,
};

const NOW: u64 = 1_800_000_000;
const LEVELS: u32 = 20;
const DAY_S: u64 = 86_400;

/// What a device is shown.
pub(crate) struct World {
    pub(super) trust: Trust,
    pub(super) view: View,
    pub(super) checkpoint: Note,
    pub(crate) offer: Offer,
    pub(crate) now: Moment,
}

impl World {
    pub(crate) fn new() -> Result<Self> {
        let keys = Keys::new()?;
        let mut file = TrustFile::new(keys.policy());
        file.operators = [&keys.leader, &keys.helper]
            .map(|key| PinnedOperator { key: key.verifier().to_string() })
            .into();
        file.insecure_direct = true;
        file.insecure_fresh_start = true;
        file.insecure_no_tokens = true;
        let trust = Trust::try_from(file)?;
        let recipe = keys.entry(EntryKind::Recipe, recipe(&keys)?.to_json(), &keys.author)?;
        let sets = [(&keys.leader, 1), (&keys.helper, 2)]
            .map(|(key, id)| keys.entry(EntryKind::KeySet, key_set(key, id).to_json(), key));
        let [leader_keys, helper_keys] = sets;
        // The first three leaves of a perfect tree; the rest of it is one hash for each level.
        let leaves = [recipe, leader_keys?, helper_keys?];
        let tree = Tree::new(&leaves);
        let checkpoint = keys.checkpoint(&tree, NOW - 60);
        let first = keys.checkpoint(&tree, NOW - 10 * DAY_S);
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
            leader_keys: evidence(1),
            helper_keys: evidence(2),
            issuer_keys: None,
            certified: None,
        };
        let view = View::open(&checkpoint.to_bytes(), &trust)?;
        Ok(Self { trust, view, checkpoint, offer, now: Moment(NOW) })
    }
}

struct Keys {
    author: NoteKey,
    leader: NoteKey,
    helper: NoteKey,
    log: NoteKey,
    witnesses: Vec<NoteKey>,
}

impl Keys {
    fn new() -> Result<Self> {
        let key = |name: &str, seed: u8| {
            anyhow::Ok(NoteKey::from_seed(name.parse()?, Secret::new([seed; 32])))
        };
        Ok(Self {
            author: key("author.example", 1)?,
            leader: key("leader.example", 2)?,
            helper: key("helper.example", 3)?,
            log: key("log.example", 4)?,
            witnesses: (0..3)
                .map(|w| key(&format!("w{w}.example"), 5 + w))
                .collect::<Result<_>>()?,
        })
    }

    fn policy(&self) -> String {
        let mut text = format!("log {}\n", self.log.verifier());
        for (number, witness) in self.witnesses.iter().enumerate() {
            text += &format!("witness w{number} {}\n", witness.cosigner());
        }
        text + "group two 2 w0 w1 w2\nquorum two\n"
    }

    fn entry(&self, kind: EntryKind, json: Vec<u8>, key: &NoteKey) -> Result<Vec<u8>> {
        let text = Entry::text(kind, &String::from_utf8(json)?);
        let signature = key.sign(&text);
        Ok(Note::new(text)?.with_signature(signature).to_bytes())
    }

    fn checkpoint(&self, tree: &Tree, time: u64) -> Note {
        let text = Checkpoint::new("log.example", 1 << LEVELS, tree.root).to_text();
        let signatures = self.witnesses.iter().map(|witness| witness.cosign(&text, time));
        let signatures = std::iter::once(self.log.sign(&text)).chain(signatures);
        // The text of a checkpoint is that of a note.
        let note = Note::new(text.clone()).unwrap_or_else(|_| unreachable!());
        signatures.fold(note, Note::with_signature)
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

    fn proof(&self, index: usize) -> Vec<TreeHash> {
        let other = ((index / 2) * 2) ^ 2;
        let mut hashes = vec![self.leaves[index ^ 1]];
        hashes.push(node_hash(&self.leaves[other], &self.leaves[other + 1]));
        hashes.extend(&self.siblings);
        hashes
    }
}

fn signer(key: &NoteKey) -> Signer {
    let key = key.verifier();
    Signer { name: key.name().clone(), key: PublicKey::new(*key.public_key()) }
}

fn config(id: u8) -> String {
    let mut rng = ChaCha20Rng::seed_from_u64(u64::from(id));
    KeySet::config_text(HpkeKeypair::generate(HpkeConfigId::new(id), &mut rng).config())
}

fn key_set(key: &NoteKey, id: u8) -> KeySet {
    KeySet {
        version: 1,
        operator: signer(key),
        seq: 1,
        not_before: NOW - 8 * DAY_S,
        not_after: NOW + 30 * DAY_S,
        hpke_configs: vec![config(id)],
        gateway_configs: None,
        encapsulation_configs: None,
    }
}

fn recipe(keys: &Keys) -> Result<Recipe> {
    let query = Query::Histogram {
        buckets: 16,
        labels: None,
        mapping: "minutes < 150 ? minutes / 10 : 15".to_owned(),
        fallback: 0,
    };
    let opens = NOW - NOW % DAY_S;
    let claim = |epsilon_micro| {
        let delta = Probability::new(1, 1_000_000_000)?;
        let (adjacency, accountant) = (Adjacency::Replace, Accountant::Best);
        anyhow::Ok(Privacy::Claim { epsilon_micro, delta, adjacency, accountant, rounds: 1 })
    };
    let party = |operator: &str| -> Result<Aggregator> {
        Ok(Aggregator { operator: operator.parse()?, url: format!("https://{operator}/") })
    };
    let randomizer = Randomizer::RandomizedResponse { epsilon_micro: 4_000_000 };
    let mut recipe = Recipe {
        version: 1,
        name: "commute".to_owned(),
        purpose: "How long do people commute?".to_owned(),
        author: signer(&keys.author),
        attributes: [("minutes".parse()?, AttributeType::Int)].into(),
        who: Who { population: 1_000_000, targeting: None },
        when: When { opens, closes: opens + 7 * DAY_S, window_s: DAY_S, max_window_s: DAY_S },
        sampling: Sampling { rate: Probability::new(1, 50)? },
        aggregation: Aggregation {
            vdaf: recipe_vdaf(&query, &randomizer)?,
            min_batch: 10_000,
            batch_mode: BatchMode::TimeInterval,
        },
        query,
        randomizer,
        privacy: claim(1)?,
        parties: Parties {
            leader: party("leader.example")?,
            helper: party("helper.example")?,
            collector_hpke_config: config(3),
            log: "log.example".to_owned(),
            tokens: Tokens::InsecureNone,
        },
    };
    let judged = judgement(&recipe)?.ok_or_else(|| anyhow::anyhow!("a claim"))?;
    recipe.privacy = claim(published(judged.epsilon)?)?;
    Ok(recipe)
}
