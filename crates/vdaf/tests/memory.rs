//! What verifying a long report takes: leaders and helpers set memory aside by it
//! (`sotto_protocol::memory`).
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests.

use std::alloc::System;

use cap::Cap;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use sotto_vdaf::{HelperReport, LeaderReport, Measurement, VdafConfig, VerifyParams};

/// This program has only one test, so nothing else allocates meanwhile.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, 1 << 30);

/// `sotto_protocol::memory` sets this many times the leader's share aside, beside the share.
const VERIFYING: usize = 6;

/// The most that was allocated during `work`, beside what was allocated before.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.allocated();
    ALLOCATOR.reset_stats();
    let done = work();
    (done, ALLOCATOR.max_allocated() - before)
}

#[test]
fn verifying_takes_a_small_multiple_of_the_share() {
    let zeros = |length| vec![0; length];
    for (config, measurement) in [
        (VdafConfig::histogram(1 << 17), Measurement::Histogram(7)),
        (VdafConfig::sum_vec(1 << 13, 65_535), Measurement::SumVec(zeros(1 << 13))),
        (VdafConfig::l1_bound_sum(8_000, 65_535), Measurement::L1BoundSum(zeros(8_000))),
        (VdafConfig::pine64(100_000, 1_000), Measurement::Vector(vec![1; 100_000])),
    ] {
        let (vdaf, name) = (config.build().unwrap(), config.name());
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (ctx, nonce, verify_key) = (b"memory", [7; 16], [8; 32]);
        let sharding = || vdaf.shard(ctx, &measurement, &nonce, &mut rng).unwrap();
        let (shares, device) = peak(sharding);
        let params = VerifyParams { verify_key: &verify_key, ctx, agg_param: b"" };
        let public_share = &shares.public_share;
        let (input_share, bucket) = (&shares.leader, 0);
        let report = LeaderReport { nonce: &nonce, public_share, input_share, bucket };
        let (batch, leader) = peak(|| vdaf.leader_init(&params, &[report]));
        let inbound = batch.outbound(0).unwrap();
        let input_share = &shares.helper;
        let report = HelperReport { nonce: &nonce, public_share, input_share, inbound, bucket };
        let mut sums = [vdaf.zero_share()];
        let (answers, helper) = peak(|| vdaf.helper_verify(&params, &[report], &mut sums));
        let answer = answers[0].as_deref().unwrap();
        let (results, finish) = peak(|| batch.finish(&[Some(answer)], &mut sums));
        assert_eq!(results, [Ok(())]);
        let share = vdaf.sizes().leader_share;
        let times = |bytes: usize| bytes as f64 / share as f64;
        println!(
            "{name}: share of {share} bytes; device {:.1}, leader {:.1}, helper {:.1}, finishing \
             {:.1} times that",
            times(device),
            times(leader),
            times(helper),
            times(finish)
        );
        assert!(leader.max(helper).max(finish) <= VERIFYING * share, "{name}");
    }
}
