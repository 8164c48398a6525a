//! Trees by the recursive definition, for comparison.

mod proofs;
mod tiles;

use std::convert::Infallible;

use super::*;

/// The leaf hashes of a tree, and those of its complete subtrees by the definition.
struct Leaves(Vec<TreeHash>, Vec<Vec<TreeHash>>);

impl Leaves {
    /// A tree of this many different leaves.
    fn new(count: usize) -> Self {
        let leaves: Vec<_> =
            (0..count).map(|index| leaf_hash(&(index as u64).to_be_bytes())).collect();
        let subtrees = (0..=count.ilog2())
            .map(|level| leaves.chunks_exact(1 << level).map(mth).collect())
            .collect();
        Self(leaves, subtrees)
    }

    /// The root of the first `size` leaves.
    fn root(&self, size: usize) -> TreeHash {
        mth(&self.0[..size])
    }
}

impl Hashes for Leaves {
    type Error = Infallible;

    fn hash(&mut self, level: u8, index: u64) -> Result<TreeHash, Infallible> {
        Ok(self.1[usize::from(level)][index as usize])
    }
}

/// RFC 9162 "Definition of the Merkle Tree".
fn mth(leaves: &[TreeHash]) -> TreeHash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            node_hash(&mth(&leaves[..split]), &mth(&leaves[split..]))
        }
    }
}

/// A tree of any size whose leaves are all equal except one.
struct Sparse {
    special: u64,
    /// The roots of complete subtrees of equal leaves, by level.
    plain: Vec<TreeHash>,
}

impl Sparse {
    fn new(special: u64) -> Self {
        let mut plain = vec![leaf_hash(b"plain")];
        for level in 0..63 {
            plain.push(node_hash(&plain[level], &plain[level]));
        }
        Self { special, plain }
    }

    fn special_leaf() -> TreeHash {
        leaf_hash(b"special")
    }
}

impl Hashes for Sparse {
    type Error = Infallible;

    fn hash(&mut self, level: u8, index: u64) -> Result<TreeHash, Infallible> {
        Ok(match level {
            _ if self.special >> level != index => self.plain[usize::from(level)],
            0 => Self::special_leaf(),
            _ => {
                let Ok(left) = self.hash(level - 1, 2 * index);
                let Ok(right) = self.hash(level - 1, 2 * index + 1);
                node_hash(&left, &right)
            }
        })
    }
}

#[test]
fn known_roots() {
    // From the tests of RFC 6962 implementations.
    let entries = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    let roots = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let mut frontier = Frontier::new();
    let mut builder = TileBuilder::new();
    for (size, expected) in roots.iter().enumerate() {
        if let Some(entry) = size.checked_sub(1).map(|last| entries[last]) {
            let leaf = leaf_hash(&hex::decode(entry).unwrap());
            frontier.append(leaf);
            builder.push(leaf);
        }
        assert_eq!(hex::encode(frontier.root().0), *expected, "{size}");
        assert_eq!(builder.root(), frontier.root());
    }
}
