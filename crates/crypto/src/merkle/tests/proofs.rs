//! Proofs: all small trees with every single mistake, and large trees.

use super::*;

const SMALL: usize = 300;

/// The same proof with one mistake, in every possible way: a hash changed, omitted, or added.
fn spoilt(proof: &[TreeHash]) -> Vec<Vec<TreeHash>> {
    let mut all = Vec::new();
    for at in 0..proof.len() {
        let mut changed = proof.to_vec();
        changed[at].0[at % 32] ^= 1 << (at % 8);
        all.push(changed);
        let mut dropped = proof.to_vec();
        dropped.remove(at);
        all.push(dropped);
        let mut repeated = proof.to_vec();
        repeated.insert(at, proof[at]);
        all.push(repeated);
    }
    all.push([proof, &[TreeHash::default()]].concat());
    all.push([&[TreeHash::default()], proof].concat());
    all
}

#[test]
fn inclusion_in_all_small_trees() {
    let mut leaves = Leaves::new(SMALL);
    let roots: Vec<_> = (0..=SMALL).map(|size| leaves.root(size)).collect();
    let mut refused = 0u64;
    for size in 1..=SMALL {
        for index in 0..size {
            let leaf = leaves.0[index];
            let (n, i, root) = (size as u64, index as u64, roots[size]);
            let proof = prove_inclusion(i, n, &mut leaves).unwrap();
            assert_eq!(verify_inclusion(&leaf, i, n, &proof, &root), Ok(()), "{index} in {size}");
            let mut refuse = |leaf: &TreeHash, i: u64, n: u64, proof: &[TreeHash], root| {
                let result = verify_inclusion(leaf, i, n, proof, root);
                assert_eq!(result, Err(ProofError), "{index} in {size}: {i} in {n}");
                refused += 1;
            };
            for wrong in spoilt(&proof) {
                refuse(&leaf, i, n, &wrong, &root);
            }
            // Another leaf, and another tree.
            refuse(&leaf_hash(b"other"), i, n, &proof, &root);
            refuse(&leaf, i, n, &proof, &roots[size - 1]);
            // Another index; and another size with the root of that size.
            for other in [0, i.wrapping_sub(1), i + 1, i ^ 1, i ^ 2, n - 1, n, u64::MAX] {
                if other != i {
                    refuse(&leaf, other, n, &proof, &root);
                }
            }
            for other in [0, 1, size / 2, size - 1, (size + 1).min(SMALL)] {
                if other != size {
                    refuse(&leaf, i, other as u64, &proof, &roots[other]);
                }
            }
        }
        assert_eq!(
            prove_inclusion(size as u64, size as u64, &mut leaves),
            Err(ProveError::OutOfRange)
        );
    }
    assert!(refused > 1_000_000, "{refused}");
}

#[test]
fn an_index_outside_the_tree_is_refused() {
    let leaf = leaf_hash(b"leaf");
    for (index, size) in [(0, 0), (1, 1), (u64::MAX, 1), (u64::MAX, u64::MAX)] {
        assert_eq!(verify_inclusion(&leaf, index, size, &[], &leaf), Err(ProofError));
    }
    assert_eq!(verify_inclusion(&leaf, 0, 1, &[], &leaf), Ok(()));
    // A path that ends at the given root, but is too short for a tree of this size.
    for size in [2, 3, u64::MAX] {
        assert_eq!(verify_inclusion(&leaf, 0, size, &[], &leaf), Err(ProofError));
    }
}

#[test]
fn consistency_of_all_small_trees() {
    let mut leaves = Leaves::new(SMALL);
    let roots: Vec<_> = (0..=SMALL).map(|size| leaves.root(size)).collect();
    for new in 0..=SMALL {
        for old in 0..=new {
            let (n, o) = (new as u64, old as u64);
            let (new_root, old_root) = (&roots[new], &roots[old]);
            let proof = prove_consistency(o, n, &mut leaves).unwrap();
            let check = |proof: &[TreeHash]| verify_consistency(o, old_root, n, new_root, proof);
            assert_eq!(check(&proof), Ok(()), "{old} to {new}");
            for wrong in spoilt(&proof) {
                assert_eq!(check(&wrong), Err(ProofError), "{old} to {new}");
            }
            let refuse = |o: u64, old_root: &TreeHash, n: u64, new_root: &TreeHash| {
                let result = verify_consistency(o, old_root, n, new_root, &proof);
                assert_eq!(result, Err(ProofError), "{old} to {new}: {o} to {n}");
            };
            let other = TreeHash([7; 32]);
            refuse(o, &other, n, new_root);
            // The empty tree is a prefix of any tree, whatever its root.
            if old > 0 || new == 0 {
                refuse(o, old_root, n, &other);
            }
            if old != new {
                refuse(n, new_root, o, old_root);
            }
            // Other sizes, with the roots of those sizes.
            if old > 0 && new < SMALL {
                refuse(o, old_root, n + 1, &roots[new + 1]);
            }
            if old > 1 {
                refuse(o - 1, &roots[old - 1], n, new_root);
            }
            if old > 0 && old < new {
                refuse(o + 1, &roots[old + 1], n, new_root);
            }
        }
        let larger = new as u64 + 1;
        assert_eq!(prove_consistency(larger, new as u64, &mut leaves), Err(ProveError::OutOfRange));
    }
}

#[test]
fn empty_and_equal_trees() {
    let (empty, one, other) = (empty_root(), leaf_hash(b"1"), leaf_hash(b"2"));
    let check = |old_size, old_root, new_size, new_root, proof: &[TreeHash]| {
        verify_consistency(old_size, old_root, new_size, new_root, proof).is_ok()
    };
    assert!(check(0, &empty, 0, &empty, &[]));
    assert!(check(0, &empty, 5, &one, &[]));
    assert!(check(1, &one, 1, &one, &[]));
    assert!(!check(0, &empty, 5, &one, &[one]));
    assert!(!check(0, &one, 5, &one, &[]));
    assert!(!check(0, &one, 0, &one, &[]));
    assert!(!check(0, &empty, 0, &one, &[]));
    assert!(!check(1, &one, 1, &other, &[]));
    assert!(!check(1, &one, 1, &one, &[one]));
    assert!(!check(1, &one, 0, &empty, &[]));
    // An empty proof where there must be one.
    assert!(!check(1, &one, 2, &other, &[]));
    assert!(!check(3, &one, 5, &other, &[]));
    assert!(!check(3, &one, 5, &one, &[]));
    // The old tree passed off as the larger one.
    assert!(!check(1, &one, 2, &one, &[]));
    assert!(!check(4, &one, 8, &one, &[]));
}

#[test]
fn large_trees() {
    let sizes = [
        255,
        256,
        257,
        65_535,
        65_536,
        65_537,
        1_000_003,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        (1 << 40) + 12_345,
        (1 << 62) + (1 << 61) + 3,
        MAX_TREE_SIZE - 1,
        MAX_TREE_SIZE,
    ];
    for size in sizes {
        for special in [0, 1, size / 3, size / 2, size - 2, size - 1] {
            let mut tree = Sparse::new(special);
            let leaf = Sparse::special_leaf();
            let Ok(tree_root) = root(size, &mut tree);
            let proof = prove_inclusion(special, size, &mut tree).unwrap();
            assert!(proof.len() <= 63);
            let check = |index, proof: &[TreeHash]| {
                verify_inclusion(&leaf, index, size, proof, &tree_root).is_ok()
            };
            assert!(check(special, &proof));
            assert!(!check(special ^ 1, &proof));
            assert!(spoilt(&proof).iter().all(|wrong| !check(special, wrong)));
            // Distant leaves differ only in their position: the special one is on their path.
            let far = if special == 0 { size - 1 } else { 0 };
            let proof = prove_inclusion(far, size, &mut tree).unwrap();
            let plain = tree.plain[0];
            assert_eq!(verify_inclusion(&plain, far, size, &proof, &tree_root), Ok(()));

            for old in [1, 2, 3, special.max(1), special + 1, size / 2 + 1, size - 1] {
                let Ok(old_root) = root(old, &mut tree);
                let proof = prove_consistency(old, size, &mut tree).unwrap();
                assert!(proof.len() <= 64);
                let check = |proof: &[TreeHash]| {
                    verify_consistency(old, &old_root, size, &tree_root, proof).is_ok()
                };
                assert!(check(&proof), "{old} to {size}");
                assert!(spoilt(&proof).iter().all(|wrong| !check(wrong)), "{old} to {size}");
                // Another leaf under the old root.
                let Ok(fork) = root(old, &mut Sparse::new((old / 2) ^ 1));
                if fork != old_root {
                    let result = verify_consistency(old, &fork, size, &tree_root, &proof);
                    assert_eq!(result, Err(ProofError));
                }
            }
        }
    }
}
