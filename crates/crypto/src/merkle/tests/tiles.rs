//! Tiles, the builder and the frontier.

use std::collections::BTreeMap;

use sotto_wire::tlog::TilePath;

use super::*;

/// All tiles that a log has written, by path.
type Files = BTreeMap<TilePath, Vec<u8>>;

/// Builds a tree, and writes partial tiles only at the given sizes.
fn write(leaves: &Leaves, checkpoints: &[usize]) -> Files {
    let mut files = Files::new();
    let mut builder = TileBuilder::new();
    for (index, leaf) in leaves.0.iter().enumerate() {
        for tile in builder.push(*leaf) {
            assert!(!tile.path.is_partial());
            assert!(files.insert(tile.path, tile.to_bytes()).is_none(), "written twice");
        }
        if checkpoints.contains(&(index + 1)) {
            files.extend(builder.partial_tiles().map(|tile| (tile.path, tile.to_bytes())));
        }
    }
    files
}

fn read(files: &Files) -> impl FnMut(TilePath) -> Result<Vec<u8>, TilePath> {
    |path| files.get(&path).cloned().ok_or(path)
}

#[test]
fn frontier_and_builder_agree_with_the_definition() {
    let leaves = Leaves::new(600);
    let mut frontier = Frontier::new();
    let mut builder = TileBuilder::new();
    for size in 0..=leaves.0.len() {
        let expected = leaves.root(size);
        assert_eq!((frontier.size(), builder.size()), (size as u64, size as u64));
        assert_eq!(frontier.root(), expected, "{size}");
        assert_eq!(builder.root(), expected, "{size}");
        let bytes = frontier.to_bytes();
        assert_eq!(Frontier::from_bytes(&bytes).as_ref(), Some(&frontier));
        assert_eq!(Frontier::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Frontier::from_bytes(&[&bytes[..], &[0; 32]].concat()), None);
        if let Some(leaf) = leaves.0.get(size) {
            frontier.append(*leaf);
            builder.push(*leaf);
        }
    }
    assert_eq!(Frontier::from_bytes(&[]), None);
    assert_eq!(Frontier::from_bytes(&[0xff; 8 + 64 * 32]), None);
}

#[test]
fn proofs_from_tiles() {
    let sizes = [1, 2, 255, 256, 257, 511, 512, 513, 700, 65_535, 65_536, 65_537, 66_000];
    let leaves = Leaves::new(66_000);
    let files = write(&leaves, &sizes);
    let roots: BTreeMap<_, _> = sizes.iter().map(|size| (*size, leaves.root(*size))).collect();
    for (&size, tree_root) in &roots {
        let n = size as u64;
        let mut hashes = TileHashes::new(n, read(&files));
        assert_eq!(root(n, &mut hashes).as_ref(), Ok(tree_root));
        let mut frontier = Frontier::read(n, &mut hashes).unwrap();
        assert_eq!((frontier.size(), frontier.root()), (n, *tree_root));
        if let Some(next) = leaves.0.get(size) {
            frontier.append(*next);
            assert_eq!(frontier.root(), leaves.root(size + 1));
        }
        for index in [0, 1, size / 3, size / 2, size.saturating_sub(2), size - 1] {
            let index = index.min(size - 1);
            let proof = prove_inclusion(index as u64, n, &mut hashes).unwrap();
            let leaf = &leaves.0[index];
            assert_eq!(verify_inclusion(leaf, index as u64, n, &proof, tree_root), Ok(()));
        }
        for (&old, old_root) in roots.range(..=size) {
            let proof = prove_consistency(old as u64, n, &mut hashes).unwrap();
            let result = verify_consistency(old as u64, old_root, n, tree_root, &proof);
            assert_eq!(result, Ok(()), "{old} to {size}");
        }
    }
}

#[test]
fn the_builder_resumes_from_partial_tiles() {
    let sizes = [0, 1, 255, 256, 257, 700, 65_536, 65_800];
    let leaves = Leaves::new(66_000);
    let files = write(&leaves, &sizes);
    for size in sizes {
        let mut asked = Vec::new();
        let mut resumed = TileBuilder::resume(size as u64, |path| {
            asked.push(path);
            read(&files)(path)
        })
        .unwrap();
        assert!(asked.iter().all(TilePath::is_partial));
        assert_eq!(resumed.root(), leaves.root(size));
        // It continues as if nothing had happened.
        let mut written = Files::new();
        for leaf in &leaves.0[size..] {
            written
                .extend(resumed.push(*leaf).into_iter().map(|tile| (tile.path, tile.to_bytes())));
        }
        assert_eq!(resumed.root(), leaves.root(leaves.0.len()));
        assert!(written.iter().all(|(path, bytes)| files[path] == *bytes));
        let full = |files: &Files| files.keys().filter(|path| !path.is_partial()).count();
        let before = size / 256 + size / 65_536;
        assert_eq!(before + full(&written), full(&files));
    }
    assert_eq!(TileBuilder::resume(u64::MAX, |_| Ok::<_, ()>([])), Err(TileError::OutOfRange));
}

#[test]
fn a_full_tile_stands_in_for_a_partial_one() {
    let leaves = Leaves::new(512);
    let files = write(&leaves, &[]);
    let full = |path: TilePath| {
        let full = TilePath::new(path.level(), path.index(), 256).unwrap();
        files.get(&full).cloned().ok_or(path)
    };
    // Level 1 has no full tile yet, and none of its hashes is needed below 256 leaves.
    let mut hashes = TileHashes::new(200, full);
    assert_eq!(root(200, &mut hashes), Ok(leaves.root(200)));
    assert_eq!(TileBuilder::resume(200, full).unwrap().root(), leaves.root(200));
}

#[test]
fn wrong_tiles_are_errors() {
    let leaves = Leaves::new(300);
    let files = write(&leaves, &[300]);
    let mut missing = TileHashes::new(300, Err::<Vec<u8>, _>);
    let path = TilePath::new(0, 1, 44).unwrap();
    assert_eq!(missing.hash(0, 299), Err(TileError::Read(path)));
    for cut in [1, 31, 32, 33] {
        let mut short = TileHashes::new(300, |path| {
            read(&files)(path).map(|bytes| bytes[..bytes.len() - cut].to_vec())
        });
        assert_eq!(short.hash(0, 0), Err(TileError::Length), "{cut}");
        assert_eq!(short.hash(0, 299), Err(TileError::Length), "{cut}");
    }
    let mut hashes = TileHashes::new(300, read(&files));
    for (level, index) in
        [(0, 300), (1, 150), (2, 75), (8, 1), (9, 0), (16, 0), (63, 0), (255, 0), (0, u64::MAX)]
    {
        assert_eq!(hashes.hash(level, index), Err(TileError::OutOfRange), "{level} {index}");
    }
    assert_eq!(hashes.hash(1, u64::MAX), Err(TileError::OutOfRange));
    assert_eq!(hashes.hash(8, 0), Ok(mth(&leaves.0[..256])));
    assert_eq!(hashes.hash(2, 74), Ok(mth(&leaves.0[296..300])));
}

#[test]
fn tiles_at_a_size() {
    let path = |level, index, size| tile_path(level, index, size).map(|path| path.to_path());
    assert_eq!(path(0, 273, 70_000).as_deref(), Some("tile/0/273.p/112"));
    assert_eq!(path(0, 272, 70_000).as_deref(), Some("tile/0/272"));
    assert_eq!(path(1, 1, 70_000).as_deref(), Some("tile/1/001.p/17"));
    assert_eq!(path(2, 0, 70_000).as_deref(), Some("tile/2/000.p/1"));
    assert_eq!(path(0, 274, 70_000), None);
    assert_eq!(path(3, 0, 70_000), None);
    assert_eq!(path(0, 1, 256), None);
    assert_eq!(path(1, 0, 256).as_deref(), Some("tile/1/000.p/1"));
    assert_eq!(path(7, 0, u64::MAX).as_deref(), Some("tile/7/000.p/255"));
    assert_eq!(path(8, 0, u64::MAX), None);
    assert_eq!(path(0, u64::MAX, u64::MAX), None);
}
