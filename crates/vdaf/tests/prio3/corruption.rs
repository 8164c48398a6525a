//! Reports and messages with altered bytes.
//!
//! The invariant: if the helper accepts, and the leader gets the helper's genuine answer, the
//! leader accepts. And nothing altered is accepted at all.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::prio3::exchange::{Aggregators, Case, Fate, TestReport, cases, rng};

/// Where a byte may be altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    PublicShare,
    LeaderShare,
    HelperShare,
    LeaderMessage,
    HelperMessage,
}

use Target::{HelperMessage, HelperShare, LeaderMessage, LeaderShare, PublicShare};

const TARGETS: [Target; 5] = [PublicShare, LeaderShare, HelperShare, LeaderMessage, HelperMessage];

#[derive(Clone, Copy, Debug)]
struct Alteration {
    target: Target,
    index: usize,
    /// Not zero.
    xor: u8,
}

impl Alteration {
    fn apply(self, target: Target, bytes: &mut [u8]) {
        if self.target == target && !bytes.is_empty() {
            let index = self.index % bytes.len();
            bytes[index] ^= self.xor;
        }
    }
}

fn run_altered(
    aggregators: &mut Aggregators,
    report: &TestReport,
    alterations: &[Alteration],
) -> Fate {
    let mut report = report.clone();
    let alter = |target, bytes: &mut [u8]| {
        alterations.iter().for_each(|alteration| alteration.apply(target, bytes));
    };
    alter(PublicShare, &mut report.shares.public_share);
    alter(LeaderShare, &mut report.shares.leader);
    alter(HelperShare, &mut report.shares.helper);
    aggregators.run(
        &report,
        |message| alter(LeaderMessage, message),
        |message| alter(HelperMessage, message),
    )
}

fn any_byte_but_zero(rng: &mut ChaCha20Rng) -> u8 {
    rng.next_u32() as u8 | 1
}

/// More bytes than this are sampled. All objects of Prio3 are shorter.
const SAMPLE: usize = 3_000;

#[test]
fn every_single_byte_matters() {
    for (seed, Case { config, measurements, .. }) in (0..).zip(cases()) {
        let mut aggregators = Aggregators::new(&config);
        let mut rng = rng(seed);
        let sizes = aggregators.vdaf.sizes();
        let report = TestReport::new(&*aggregators.vdaf, &measurements[0], &mut rng);
        assert_eq!(run_altered(&mut aggregators, &report, &[]), Fate::Accepted);
        for target in TARGETS {
            let length = match target {
                PublicShare => sizes.public_share,
                LeaderShare => sizes.leader_share,
                HelperShare => sizes.helper_share,
                LeaderMessage => sizes.leader_message,
                HelperMessage => sizes.helper_message,
            };
            // Reports of PINE are long even for short vectors: a sample of their bytes.
            let step = 1 + length / SAMPLE;
            for index in (rng.next_u32() as usize % step..length).step_by(step) {
                let alteration = Alteration { target, index, xor: any_byte_but_zero(&mut rng) };
                let fate = run_altered(&mut aggregators, &report, &[alteration]);
                let last = matches!(fate, Fate::RejectedByLeaderLast(_));
                assert_ne!(fate, Fate::Accepted, "{config:?}: {alteration:?}");
                assert_eq!(last, target == HelperMessage, "{config:?}: {alteration:?}: {fate:?}");
            }
        }
    }
}

#[test]
fn many_altered_bytes_never_split_the_aggregators() {
    for (seed, Case { config, measurements, .. }) in (1000..).zip(cases()) {
        let mut aggregators = Aggregators::new(&config);
        let mut rng = rng(seed);
        for round in 0..200 {
            let measurement = &measurements[round % measurements.len()];
            let report = TestReport::new(&*aggregators.vdaf, measurement, &mut rng);
            let count = 1 + rng.next_u32() % 4;
            let alterations: Vec<_> = (0..count)
                .map(|_| Alteration {
                    // All but the helper's message.
                    target: TARGETS[rng.next_u32() as usize % 4],
                    index: rng.next_u32() as usize,
                    xor: any_byte_but_zero(&mut rng),
                })
                .collect();
            let fate = run_altered(&mut aggregators, &report, &alterations);
            let split = matches!(fate, Fate::RejectedByLeaderLast(_));
            assert!(!split, "{config:?}: {alterations:?}: {fate:?}");
        }
    }
}
