//! The same bytes as `prio`'s own proof system, over all fields.

use prio::field::{Field64, Field128, NttFriendlyFieldElement};
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::SumVec;
use prio::flp::{Flp, FlpError};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{prove, query};
use crate::goldilocks::Goldilocks;
use crate::simd::Instructions;
use crate::vector_field::VectorField;

type Circuit<F> = SumVec<F, ParallelSum<F, Mul>>;

fn random<F: NttFriendlyFieldElement>(rng: &mut ChaCha20Rng, count: usize) -> Vec<F> {
    let mut element = || loop {
        let mut bytes = vec![0; F::ENCODED_SIZE];
        rng.fill_bytes(&mut bytes);
        if let Ok(element) = F::try_from_random(&bytes) {
            break element;
        }
    };
    (0..count).map(|_| element()).collect()
}

/// Inputs need not be valid, nor proofs honest: both are arbitrary functions of all they are given.
fn compare<F: VectorField>(circuit: &Circuit<F>, rng: &mut ChaCha20Rng) {
    let input = random::<F>(rng, circuit.input_len());
    let joint = random::<F>(rng, circuit.joint_rand_len());
    let seeds = random::<F>(rng, circuit.prove_rand_len());
    let point = random::<F>(rng, circuit.query_rand_len());
    let forged = random::<F>(rng, circuit.proof_len());
    let proof = circuit.prove(&input, &seeds, &joint).unwrap();
    for instructions in Instructions::available() {
        let name = instructions.name();
        assert_eq!(prove(circuit, instructions, &input, &seeds, &joint).unwrap(), proof, "{name}");
        for proof in [&proof, &forged] {
            let expected = circuit.query(&input, proof, &point, &joint, 2).unwrap();
            let ours = query(circuit, instructions, &input, proof, &point, &joint, 2);
            assert_eq!(ours.unwrap(), expected, "{name}");
        }
    }
}

fn compare_all<F: VectorField>(seed: u64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let one = F::Integer::try_from(1).unwrap_or_else(|_| panic!("1 is an integer"));
    // One call and many; full and partial last calls; exactly a power of two less one.
    for (length, chunk) in
        [(1, 1), (1, 4), (2, 1), (3, 1), (4, 1), (7, 3), (30, 2), (31, 1), (45, 3), (100, 9)]
    {
        compare::<F>(&SumVec::new(one, length, chunk).unwrap(), &mut rng);
    }
}

#[test]
fn proofs_and_verifier_shares_are_those_of_prio() {
    compare_all::<Field64>(1);
    compare_all::<Field128>(2);
    compare_all::<Goldilocks>(3);
}

#[test]
fn roots_of_unity_and_wrong_lengths_are_refused() {
    let circuit: Circuit<Goldilocks> = SumVec::new(1, 7, 1).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let input = random::<Goldilocks>(&mut rng, circuit.input_len());
    let joint = random::<Goldilocks>(&mut rng, circuit.joint_rand_len());
    let proof = random::<Goldilocks>(&mut rng, circuit.proof_len());
    let query = |proof: &[Goldilocks], point: Goldilocks| {
        let theirs = circuit.query(&input, proof, &[point], &joint, 2);
        let ours = query(&circuit, Instructions::SCALAR, &input, proof, &[point], &joint, 2);
        assert_eq!(ours.is_ok(), theirs.is_ok());
        ours
    };
    // Roots of order 8 and below are those of the wires. One of order 16 is not, although the
    // gadget polynomial has a value there.
    for order in 0..=3 {
        let root = Goldilocks::root(order).unwrap();
        assert!(matches!(query(&proof, root), Err(FlpError::Query(_))));
    }
    assert!(query(&proof, Goldilocks::root(4).unwrap()).is_ok());
    assert!(query(&proof[1..], Goldilocks::from(3)).is_err());
    assert!(query(&[], Goldilocks::from(3)).is_err());
}
