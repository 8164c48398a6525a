//! Devices that send the worst vector that is valid, and devices that send one that is not.
//!
//! 396 devices tell the truth, four cheat: 1 %. The mean moves by what rho says, no more; what is
//! invalid changes nothing.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_dp::Adjacency;
use sotto_dp::mechanism::gaussian::{Gaussian, Noise};
use sotto_dp::mechanism::vector::clip;
use sotto_dp::mechanism::{Mechanism, Value};
use sotto_protocol::Rejection;
use sotto_protocol::recipe::derive_vdaf;
use sotto_testing::aggregators::{Craft, NOW, Parties, assert_same_books};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{BatchMode, Encode};

const DIMENSION: u32 = 16;
const HONEST: usize = 396;
const CHEATING: usize = 4;
const FRACTION_BITS: u32 = 15;
const CLIP: u64 = 1 << FRACTION_BITS;

fn mechanism() -> Gaussian {
    let noise = Noise {
        sigma_micro: 4_000_000,
        contributions: HONEST as u64,
        most_contributions: 1 << 40,
        rounds: 1,
        epsilon_micro: 2_000_000,
        delta: 1e-6,
        adjacency: Adjacency::Replace,
    };
    Gaussian::vectors(DIMENSION, CLIP, &noise).unwrap()
}

/// The sums of what both aggregators accept, and how many reports they refuse.
fn summed(parties: &Parties, reports: &[Vec<u8>]) -> (Vec<i128>, u64) {
    let (leader, helper) = parties.aggregate(reports);
    let refused = leader.rejections.total();
    assert!(leader.rejections.iter().all(|(why, _)| why == Rejection::VdafVerifyError));
    let accepted = assert_same_books(&leader.buckets, &helper.buckets);
    assert_eq!(accepted + refused, reports.len() as u64);
    let share =
        |buckets: sotto_protocol::BucketAggregates| buckets.into_values().next().unwrap().share;
    let (leader, helper) = (share(leader.buckets), share(helper.buckets));
    let sum = parties.leader.task.vdaf().unshard(&leader, &helper, accepted).unwrap();
    (sum.as_slice().to_vec(), refused)
}

/// How far two means of so many devices are apart, in units of the clip.
fn apart(one: &[i128], other: &[i128], devices: usize) -> f64 {
    let square: f64 = one.iter().zip(other).map(|(a, b)| ((a - b) as f64).powi(2)).sum();
    square.sqrt() / CLIP as f64 / devices as f64
}

#[test]
fn cheating_devices_move_the_mean_by_at_most_rho_and_invalid_vectors_change_nothing() {
    let gaussian = mechanism();
    let (rho, mechanism) = (gaussian.rho(), Mechanism::from(gaussian));
    let vdaf = derive_vdaf(&mechanism);
    let VdafConfig::Pine { norm_bound, .. } = vdaf else { panic!("{vdaf:?}") };
    let mut parties = Parties::new(&vdaf, BatchMode::TimeInterval);
    let time = parties.leader.task.time(NOW);
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let mut honest = Vec::new();
    let mut truth = vec![0_i128; DIMENSION as usize];
    for _ in 0..HONEST {
        let vector: Vec<f64> =
            (0..DIMENSION).map(|_| f64::from(rng.next_u32()) / 2f64.powi(33)).collect();
        let whole = clip(&vector, DIMENSION, FRACTION_BITS, CLIP);
        let Value::Vector(sent) = mechanism.randomize(Value::Vector(whole), &mut rng) else {
            panic!("not a vector")
        };
        truth.iter_mut().zip(&sent).for_each(|(sum, number)| *sum += i128::from(*number));
        honest.push(parties.report(&Measurement::Vector(sent), time));
    }
    // Exact in the integers.
    assert_eq!(summed(&parties, &honest), (truth.clone(), 0));

    // All in the same direction.
    let mut worst = vec![0; DIMENSION as usize];
    worst[3] = norm_bound as i64;
    let worst = Measurement::Vector(worst);
    let cheating: Vec<_> = (0..CHEATING).map(|_| parties.report(&worst, time)).collect();
    let (poisoned, refused) = summed(&parties, &[honest.clone(), cheating].concat());
    assert_eq!(refused, 0, "it is valid");
    let devices = HONEST + CHEATING;
    let moved = apart(&poisoned, &truth, devices);
    let most = rho * CHEATING as f64 / devices as f64;
    assert!(moved <= most && moved > 0.999 * most, "{moved} {most}");
    let page = include_str!("../../../../docs/threat-model.md");
    let figure = format!("rho is {rho:.2}, and the mean moves by {moved:.4} times the clip");
    assert!(page.contains(&figure), "docs/threat-model.md lacks: {figure}");

    // As long again, with a proof for another bound or with altered shares.
    let larger = VdafConfig::pine64(DIMENSION, norm_bound + norm_bound / 1_000);
    let mut others = Parties::new(&larger, BatchMode::TimeInterval);
    // Other report ids than those of the honest reports.
    others.rng = ChaCha20Rng::seed_from_u64(8);
    let mut longer = vec![0; DIMENSION as usize];
    longer[3] = (norm_bound + norm_bound / 1_000) as i64;
    let mut invalid = Vec::new();
    for number in 0..CHEATING {
        let mut craft = match number % 2 {
            0 => Craft::new(&mut others, &Measurement::Vector(longer.clone())),
            _ => Craft::new(&mut parties, &worst),
        };
        if number % 2 == 1 {
            // The last byte of a coordinate: far beyond the bound.
            craft.leader_share[8 * number + 6] ^= 0x40;
        }
        invalid.push(craft.seal(&mut parties).to_bytes());
    }
    let (sums, refused) = summed(&parties, &[honest, invalid].concat());
    assert_eq!((sums, refused), (truth, CHEATING as u64));
}
