//! What is computed in a faster way, against the plain way.

use prio::field::{Field64, Field128};
use prio::flp::Flp;
use rand_chacha::rand_core::Rng;

use super::{CTX, KEY, NONCE, randomness, rng};
use crate::Instructions;
use crate::aggregate_share::ShareField;
use crate::goldilocks::Goldilocks;
use crate::pine::circuit::{Checks, NormEquality};
use crate::pine::instance::{InputShare, Instance};
use crate::pine::{Parameters, PineField};
use crate::proof;

fn elements<F: ShareField>(seed: u64, length: usize) -> Vec<F> {
    let mut rng = rng(seed);
    (0..length).map(|_| F::from_number(u128::from(rng.next_u64() >> 1))).collect()
}

/// The circuits use the proof system of `prio` unless they are told otherwise.
fn proofs_agree<C: Flp<Field: ShareField>>(circuit: &C, seed: u64) {
    // Any elements: shares are that, too.
    let input = elements(seed, circuit.input_len());
    let forged = elements(seed + 1, circuit.proof_len());
    let joint: Vec<C::Field> = elements(seed + 2, circuit.joint_rand_len());
    let (seeds, point) = (elements(seed + 3, circuit.prove_rand_len()), elements(seed + 4, 1));
    let proof = circuit.prove(&input, &seeds, &joint).unwrap();
    for instructions in Instructions::available() {
        let ours = proof::prove(circuit, instructions, &input, &seeds, &joint);
        assert_eq!(ours.unwrap(), proof, "{}", instructions.name());
        let query = |input: &[_], proof: &[_], point: &[_]| {
            proof::query(circuit, instructions, input, proof, point, &joint, 2)
        };
        for proof in [&proof, &forged] {
            let expected = circuit.query(&input, proof, &point, &joint, 2).unwrap();
            assert_eq!(query(&input, proof, &point).unwrap(), expected, "{}", instructions.name());
        }
        assert!(query(&input, &proof, &elements(seed, 2)).is_err());
        assert!(query(&input, &proof[1..], &point).is_err());
        assert!(query(&input[1..], &proof, &point).is_err());
    }
}

fn all_proofs_agree<F: ShareField>(field: PineField) {
    for (dimension, chunk) in [(1, 1), (5, 2), (7, 7), (8, 3), (64, 9), (100, 1), (31, 40)] {
        let parameters = Parameters {
            chunk_length: chunk,
            chunk_length_norm_equality: chunk,
            wr_checks: 10,
            ..Parameters::new(field, dimension, 100)
        };
        proofs_agree(&NormEquality::<F>::new(parameters), dimension as u64);
        proofs_agree(&Checks::<F>::new(parameters), dimension as u64);
    }
}

#[test]
fn the_proofs_are_those_of_prio() {
    all_proofs_agree::<Field64>(PineField::Field64);
    all_proofs_agree::<Goldilocks>(PineField::Field64);
    all_proofs_agree::<Field128>(PineField::Field128);
}

/// All that two aggregators and a client send, for an honest report and for one with a leader share
/// of random elements.
fn transcript<F: ShareField>(parameters: Parameters, instructions: Instructions) -> Vec<u8> {
    let instance = Instance::<F>::new(1, parameters).with(instructions);
    let rand = randomness(&mut rng(9));
    let values: Vec<i64> = (0..parameters.dimension as i64).map(|at| at % 7 - 3).collect();
    let (public_share, leader, helper) = instance.shard(CTX, &values, &NONCE, &rand).unwrap();
    let helper = instance.expand(CTX, 1, &helper);
    let garbage = InputShare {
        measurement: elements(10, parameters.encoded_len()),
        proofs: elements(11, instance.proofs_len()),
        ..leader
    };
    let mut bytes = public_share.encode();
    leader.encode_into(&mut bytes);
    for (agg_id, share) in [(0, leader), (1, helper), (0, garbage)] {
        let own = instance.parts(CTX, agg_id, &NONCE, &share);
        let common = (&KEY, CTX, &NONCE);
        let (state, share) =
            instance.verify_init(common, agg_id, &public_share, share, own).unwrap();
        share.encode_into(&mut bytes);
        state.seeds.encode_into(&mut bytes);
        crate::aggregate_share::encode_elements(&state.output, &mut bytes);
    }
    bytes
}

/// Around the block of the vector instructions (1,024 elements) too.
#[test]
fn every_path_gives_the_same_bytes() {
    for dimension in [1, 2, 19, 1_023, 1_030] {
        let parameters = Parameters::new(PineField::Field64, dimension, 1 << 15);
        let expected = transcript::<Field64>(parameters, Instructions::SCALAR);
        for instructions in Instructions::available() {
            let ours = transcript::<Goldilocks>(parameters, instructions);
            assert!(ours == expected, "{}, {dimension} elements", instructions.name());
        }
    }
}
