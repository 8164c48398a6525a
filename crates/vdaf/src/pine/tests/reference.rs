//! What is computed in a faster way, against the plain way.

use prio::field::{Field64, Field128};
use prio::flp::{Flp, FlpError, Gadget};
use rand_chacha::rand_core::Rng;

use super::rng;
use crate::aggregate_share::ShareField;
use crate::pine::circuit::NormEquality;
use crate::pine::kernels::ternary_dots;
use crate::pine::{Parameters, PineField};

/// The same circuit, with all that `prio` does itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain<F>(NormEquality<F>);

impl<F: ShareField> Flp for Plain<F> {
    type Field = F;

    fn gadget(&self) -> Vec<Box<dyn Gadget<F>>> {
        self.0.gadget()
    }

    fn num_gadgets(&self) -> usize {
        self.0.num_gadgets()
    }

    fn valid(
        &self,
        gadgets: &mut Vec<Box<dyn Gadget<F>>>,
        input: &[F],
        joint_rand: &[F],
        num_shares: usize,
    ) -> Result<Vec<F>, FlpError> {
        self.0.valid(gadgets, input, joint_rand, num_shares)
    }

    fn input_len(&self) -> usize {
        self.0.input_len()
    }

    fn proof_len(&self) -> usize {
        self.0.proof_len()
    }

    fn verifier_len(&self) -> usize {
        self.0.verifier_len()
    }

    fn joint_rand_len(&self) -> usize {
        self.0.joint_rand_len()
    }

    fn eval_output_len(&self) -> usize {
        self.0.eval_output_len()
    }

    fn prove_rand_len(&self) -> usize {
        self.0.prove_rand_len()
    }
}

fn elements<F: ShareField>(seed: u64, length: usize) -> Vec<F> {
    let mut rng = rng(seed);
    (0..length).map(|_| F::from_number(u128::from(rng.next_u64() >> 1))).collect()
}

fn queries_agree<F: ShareField>(field: PineField) {
    for (dimension, chunk) in [(1, 1), (5, 2), (7, 7), (8, 3), (64, 9), (100, 1), (31, 40)] {
        let parameters = Parameters {
            chunk_length_norm_equality: chunk,
            ..Parameters::new(field, dimension, 100)
        };
        let circuit = NormEquality::<F>::new(parameters);
        let plain = Plain(circuit.clone());
        // Any elements: shares are that, too.
        let input = elements(dimension as u64, circuit.input_len());
        let proof = elements(1, circuit.proof_len());
        let point = elements(2, 1);
        let expected = plain.query(&input, &proof, &point, &[], 2).unwrap();
        assert_eq!(circuit.query(&input, &proof, &point, &[], 2).unwrap(), expected);

        let one = [F::one()];
        assert!(circuit.query(&input, &proof, &one, &[], 2).is_err());
        assert!(circuit.query(&input, &proof[1..], &point, &[], 2).is_err());
        assert!(circuit.query(&input[1..], &proof, &point, &[], 2).is_err());
    }
}

#[test]
fn the_queries_of_the_norm_are_those_of_prio() {
    queries_agree::<Field64>(PineField::Field64);
    queries_agree::<Field128>(PineField::Field128);
}

fn dots_agree<F: ShareField>() {
    for length in [1, 2, 3, 4, 5, 8, 30, 1_001] {
        // The largest elements are among them.
        let mut vector = elements::<F>(3, length);
        vector[0] = F::zero() - F::one();
        let mut all_signs = rng(4);
        let mut used = Vec::new();
        let dots = ternary_dots(&vector, 3, |bytes| {
            all_signs.fill_bytes(bytes);
            used.push(bytes.to_vec());
        });
        let plain = |signs: &Vec<u8>| {
            vector.iter().enumerate().fold(F::zero(), |sum, (at, element)| {
                match signs[at / 4] >> (2 * (at % 4)) & 3 {
                    0 => sum - *element,
                    3 => sum + *element,
                    _ => sum,
                }
            })
        };
        assert_eq!(dots, used.iter().map(plain).collect::<Vec<_>>(), "{length}");
    }
}

#[test]
fn dot_products_are_sums_of_signed_elements() {
    dots_agree::<Field64>();
    dots_agree::<Field128>();
}
