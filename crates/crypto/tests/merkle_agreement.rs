//! Our trees and those of two other implementations: equal hashes, and each verifies the proofs of
//! the others.

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use sha2::Sha256;
use sotto_crypto::merkle::{
    Hashes, TileBuilder, TileHashes, leaf_hash, node_hash, prove_consistency, prove_inclusion,
    root, verify_consistency, verify_inclusion,
};
use sotto_wire::TreeHash;
use sotto_wire::tlog::TilePath;
use tlog_tiles::{Hash, HashReader, Tile};

fn entry(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

fn theirs(hash: &TreeHash) -> Hash {
    Hash(hash.0)
}

fn all_theirs(hashes: &[TreeHash]) -> Vec<Hash> {
    hashes.iter().map(theirs).collect()
}

fn ours(hashes: &[Hash]) -> Vec<TreeHash> {
    hashes.iter().map(|hash| TreeHash(hash.0)).collect()
}

/// The hashes that `tlog_tiles` wants stored.
struct Stored(Vec<Hash>);

impl Stored {
    fn new(size: u64) -> Self {
        let mut stored = Self(Vec::new());
        for index in 0..size {
            let more = tlog_tiles::stored_hashes(index, &entry(index), &stored).unwrap();
            stored.0.extend(more);
        }
        stored
    }
}

impl HashReader for Stored {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        Ok(indexes.iter().map(|index| self.0[*index as usize]).collect())
    }
}

/// Our view of the same hashes.
impl Hashes for &Stored {
    type Error = std::convert::Infallible;

    fn hash(&mut self, level: u8, index: u64) -> Result<TreeHash, Self::Error> {
        Ok(TreeHash(self.0[tlog_tiles::stored_hash_index(level, index) as usize].0))
    }
}

#[test]
fn with_tlog_tiles() {
    const SIZE: u64 = 200;
    let stored = Stored::new(SIZE);
    let hashes = &mut &stored;
    let left = leaf_hash(b"left");
    assert_eq!(theirs(&left), tlog_tiles::record_hash(b"left"));
    assert_eq!(
        theirs(&node_hash(&left, &left)),
        tlog_tiles::node_hash(theirs(&left), theirs(&left))
    );
    for size in 0..=SIZE {
        let Ok(tree_root) = root(size, hashes);
        assert_eq!(theirs(&tree_root), tlog_tiles::tree_hash(size, &stored).unwrap());
        for index in 0..size {
            let leaf = leaf_hash(&entry(index));
            let our_proof = prove_inclusion(index, size, hashes).unwrap();
            let their_proof = tlog_tiles::prove_record(size, index, &stored).unwrap();
            assert_eq!(all_theirs(&our_proof), their_proof);
            let (their_root, their_leaf) = (theirs(&tree_root), theirs(&leaf));
            let our_proof = all_theirs(&our_proof);
            tlog_tiles::check_record(&our_proof, size, their_root, index, their_leaf).unwrap();
            verify_inclusion(&leaf, index, size, &ours(&their_proof), &tree_root).unwrap();
        }
        for old in 1..=size {
            let Ok(old_root) = root(old, hashes);
            let our_proof = prove_consistency(old, size, hashes).unwrap();
            let their_proof = tlog_tiles::prove_tree(size, old, &stored).unwrap();
            assert_eq!(all_theirs(&our_proof), their_proof);
            let (new, old_hash) = (theirs(&tree_root), theirs(&old_root));
            tlog_tiles::check_tree(&all_theirs(&our_proof), size, new, old, old_hash).unwrap();
            verify_consistency(old, &old_root, size, &tree_root, &ours(&their_proof)).unwrap();
        }
    }
}

#[test]
fn with_ct_merkle() {
    const SIZE: u64 = 200;
    let stored = Stored::new(SIZE);
    let hashes = &mut &stored;
    let mut tree = MemoryBackedTree::<Sha256, Vec<u8>>::new();
    let mut roots: Vec<RootHash<Sha256>> = vec![tree.root()];
    for size in 1..=SIZE {
        tree.push(entry(size - 1));
        let their_root = tree.root();
        let tree_root = TreeHash((*their_root.as_bytes()).into());
        assert_eq!(root(size, hashes), Ok(tree_root));
        for index in 0..size {
            let our_proof = prove_inclusion(index, size, hashes).unwrap();
            let their_proof = tree.prove_inclusion(index as usize);
            assert_eq!(bytes(&our_proof), their_proof.as_bytes());
            let proof = InclusionProof::from_bytes(bytes(&our_proof));
            their_root.verify_inclusion(&entry(index), index, &proof).unwrap();
            let proof = split(their_proof.as_bytes());
            verify_inclusion(&leaf_hash(&entry(index)), index, size, &proof, &tree_root).unwrap();
        }
        for old in 1..size {
            let their_old_root = &roots[old as usize];
            let old_root = TreeHash((*their_old_root.as_bytes()).into());
            let our_proof = prove_consistency(old, size, hashes).unwrap();
            let their_proof = tree.prove_consistency((size - old) as usize);
            assert_eq!(bytes(&our_proof), their_proof.as_bytes());
            let proof = ConsistencyProof::try_from_bytes(bytes(&our_proof)).unwrap();
            their_root.verify_consistency(their_old_root, &proof).unwrap();
            let proof = split(their_proof.as_bytes());
            verify_consistency(old, &old_root, size, &tree_root, &proof).unwrap();
        }
        roots.push(their_root);
    }
}

#[test]
fn tiles() {
    const SIZE: u64 = 70_000;
    let stored = Stored::new(SIZE);
    let mut builder = TileBuilder::new();
    let mut tiles = Vec::new();
    (0..SIZE).for_each(|index| tiles.extend(builder.push(leaf_hash(&entry(index)))));
    tiles.extend(builder.partial_tiles());
    assert_eq!(theirs(&builder.root()), tlog_tiles::tree_hash(SIZE, &stored).unwrap());

    let path = |tile: &Tile| tile.path().replacen("tile/8/", "tile/", 1);
    let their_tiles = Tile::new_tiles(8, 0, SIZE);
    assert_eq!(their_tiles.len(), tiles.len());
    for their_tile in their_tiles {
        let path = path(&their_tile);
        let tile = tiles.iter().find(|tile| tile.path.to_path() == path).unwrap();
        assert_eq!(tile.to_bytes(), their_tile.read_data(&stored).unwrap(), "{path}");
        assert_eq!(TilePath::parse(&path), Ok(tile.path));
    }

    // Our proofs from these tiles, and theirs from the tree.
    let read = |path| tiles.iter().find(|tile| tile.path == path).map(|t| t.to_bytes()).ok_or(());
    let mut hashes = TileHashes::new(SIZE, read);
    for index in (0..SIZE).step_by(4_999) {
        let proof = prove_inclusion(index, SIZE, &mut hashes).unwrap();
        assert_eq!(all_theirs(&proof), tlog_tiles::prove_record(SIZE, index, &stored).unwrap());
        let proof = prove_consistency(index + 1, SIZE, &mut hashes).unwrap();
        assert_eq!(all_theirs(&proof), tlog_tiles::prove_tree(SIZE, index + 1, &stored).unwrap());
    }
}

fn bytes(hashes: &[TreeHash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn split(bytes: &[u8]) -> Vec<TreeHash> {
    bytes.as_chunks::<32>().0.iter().copied().map(TreeHash).collect()
}
