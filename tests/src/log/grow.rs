//! Grows a log in batches and compares every tile and many proofs with two other implementations.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::Sha256;
use sotto_protocol::log::Reader;
use sotto_protocol::log::tiles::bundle_path;
use sotto_protocol::log::witnessing::Cosigned;
use sotto_store::{FolderFetch, LogDir, fsck};
use sotto_wire::{Checkpoint, EntryBundle, TreeHash};
use tlog_tiles::{Hash, HashReader, Tile};

use super::{ORIGIN, WITNESS, entry, key, policy};

/// Proofs of each kind that are checked after a batch.
const PROOFS_PER_BATCH: u64 = 20;
/// Inclusion proofs that are checked at the end.
const FINAL_PROOFS: u64 = 2_000;

/// The measurements of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    /// Entries appended.
    pub entries: u64,
    /// Tiles whose bytes were compared.
    pub tiles: u64,
    /// Proofs that both other implementations verified.
    pub proofs: u64,
    /// Time to build the entries.
    pub building: Duration,
    /// Time to stage: rows looked up, tiles and the signed checkpoint durable.
    pub staging: Duration,
    /// Time to publish: first checkpoints and checkpoint durable.
    pub publishing: Duration,
    /// Time to write the last rows; earlier ones are counted in `publishing`.
    pub indexing: Duration,
    /// Time to open the grown log again.
    pub opening: Duration,
    /// Time to check every file.
    pub checking: Duration,
}

/// Grows a new log in `folder`.
pub fn grow(
    folder: &Path,
    entries: u64,
    batch: u64,
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Growth> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut log = LogDir::open(folder, key(ORIGIN)?)?;
    let (policy, witness) = (policy()?, key(WITNESS)?);
    let (mut other, mut growth, mut trees) = (Other::default(), Growth::default(), Vec::new());
    while growth.entries < entries {
        let (from, to) = (growth.entries, entries.min(growth.entries + batch));
        let batch = timed(&mut growth.building, || {
            (from..to).map(|number| entry(seed, number)).collect::<Result<Vec<_>>>()
        })?;
        for entry in &batch {
            other.push(&entry.to_bytes())?;
        }
        let staged = timed(&mut growth.staging, || log.stage(&batch))?;
        let signature = witness.cosign(staged.note.text(), to);
        let cosigned = Cosigned::new(staged.note.with_signature(signature), &policy)?;
        timed(&mut growth.publishing, || log.publish(&cosigned))?;
        growth.entries = to;
        trees.push(cosigned.checkpoint().clone());
        growth.tiles += other.compare_tiles(log.public(), from, to)?;
        growth.proofs += check_proofs(&other, log.public(), &trees, PROOFS_PER_BATCH, &mut rng)?;
        progress(to);
    }
    timed(&mut growth.indexing, || log.write_index())?;
    growth.proofs += check_proofs(&other, log.public(), &trees, FINAL_PROOFS, &mut rng)?;
    drop(log);
    let key = key(ORIGIN)?;
    let log = timed(&mut growth.opening, || LogDir::open(folder, key))?;
    ensure!(log.signed_size() == entries && log.pending().is_none());
    let found = timed(&mut growth.checking, || fsck(log.public(), &policy, &mut |_, _| {}))?;
    ensure!(found.is_clean(), "{:?}", found.differences);
    Ok(growth)
}

fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = work();
    *total += begin.elapsed();
    result
}

/// Checks proofs from the files, some for the newest tree and some between trees.
fn check_proofs(
    other: &Other,
    public: &Path,
    trees: &[Checkpoint],
    count: u64,
    rng: &mut ChaCha20Rng,
) -> Result<u64> {
    let mut reader = Reader::new(FolderFetch::new(public));
    let new = trees.last().context("a tree")?;
    let new_root = root(new);
    for _ in 0..count {
        let index = rng.next_u64() % new.size;
        let proof = reader.inclusion(index, new.size)?;
        let leaf = other.leaf(index)?;
        tlog_tiles::check_record(&hashes(&proof), new.size, Hash(new.root.0), index, leaf)?;
        let bytes = reader.entry(index, new)?;
        new_root
            .verify_inclusion(&bytes, index, &InclusionProof::from_bytes(concat(&proof)))
            .map_err(|error| anyhow::anyhow!("ct-merkle: entry {index}: {error}"))?;
        let old = &trees[(rng.next_u64() % trees.len() as u64) as usize];
        let proof = reader.consistency(old.size, new.size)?;
        let (size, old_hash) = (new.size, Hash(old.root.0));
        tlog_tiles::check_tree(&hashes(&proof), size, Hash(new.root.0), old.size, old_hash)?;
        let proof = ConsistencyProof::try_from_bytes(concat(&proof))
            .map_err(|error| anyhow::anyhow!("ct-merkle: {error}"))?;
        if old.size < new.size {
            new_root
                .verify_consistency(&root(old), &proof)
                .map_err(|error| anyhow::anyhow!("ct-merkle: {} to {size}: {error}", old.size))?;
        }
    }
    Ok(2 * count)
}

fn root(tree: &Checkpoint) -> RootHash<Sha256> {
    RootHash::new(tree.root.0.into(), tree.size)
}

fn hashes(proof: &[TreeHash]) -> Vec<Hash> {
    proof.iter().map(|hash| Hash(hash.0)).collect()
}

fn concat(proof: &[TreeHash]) -> Vec<u8> {
    proof.iter().flat_map(|hash| hash.0).collect()
}

/// The tree of `tlog_tiles`, in memory.
#[derive(Default)]
struct Other {
    size: u64,
    stored: Vec<Hash>,
}

impl HashReader for Other {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        let hash = |index: &u64| self.stored.get(*index as usize).copied();
        let found: Option<Vec<Hash>> = indexes.iter().map(hash).collect();
        found.ok_or(tlog_tiles::Error::IndexesNotInTree)
    }
}

impl Other {
    fn push(&mut self, entry: &[u8]) -> Result<()> {
        let hashes = tlog_tiles::stored_hashes(self.size, entry, self)?;
        self.stored.extend(hashes);
        self.size += 1;
        Ok(())
    }

    fn leaf(&self, index: u64) -> Result<Hash> {
        let place = tlog_tiles::stored_hash_index(0, index);
        self.stored.get(place as usize).copied().context("a leaf")
    }

    /// Compares the files that an append wrote, byte by byte.
    fn compare_tiles(&self, public: &Path, old: u64, new: u64) -> Result<u64> {
        let tiles = Tile::new_tiles(8, old, new);
        for tile in &tiles {
            // The other implementation puts the tile height into its paths; C2SP's is always 8.
            let path = tile.path().replacen("tile/8/", "tile/", 1);
            let file = std::fs::read(public.join(&path)).with_context(|| path.clone())?;
            ensure!(file == tile.read_data(self)?, "{path} differs");
        }
        for bundle in old / 256..new.div_ceil(256) {
            let path = bundle_path(bundle, new).context("a bundle")?.to_path();
            let file = std::fs::read(public.join(&path)).with_context(|| path.clone())?;
            for (entry, index) in EntryBundle::parse(&file)?.into_iter().zip(bundle * 256..) {
                ensure!(tlog_tiles::record_hash(entry) == self.leaf(index)?, "{path} differs");
            }
        }
        Ok(tiles.len() as u64)
    }
}
