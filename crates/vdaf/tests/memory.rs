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

/// Does some work for which only this many bytes may be allocated at once: one more ends the program.
fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + bytes).unwrap();
    let done = work();
    ALLOCATOR.set_limit(1 << 30).unwrap();
    done
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
        let vdaf = config.build().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (ctx, nonce, verify_key) = (b"memory", [7; 16], [8; 32]);
        let shares = vdaf.shard(ctx, &measurement, &nonce, &mut rng).unwrap();
        let most = VERIFYING * vdaf.sizes().leader_share;
        println!("{}", config.name());
        let params = VerifyParams { verify_key: &verify_key, ctx, agg_param: b"" };
        let public_share = &shares.public_share;
        let (input_share, bucket) = (&shares.leader, 0);
        let report = LeaderReport { nonce: &nonce, public_share, input_share, bucket };
        let batch = within(most, || vdaf.leader_init(&params, &[report]));
        let inbound = batch.outbound(0).unwrap();
        let input_share = &shares.helper;
        let report = HelperReport { nonce: &nonce, public_share, input_share, inbound, bucket };
        let mut sums = [vdaf.zero_share()];
        let answers = within(most, || vdaf.helper_verify(&params, &[report], &mut sums));
        let answer = answers[0].as_deref().unwrap();
        let results = within(most, || batch.finish(&[Some(answer)], &mut sums));
        assert_eq!(results, [Ok(())]);
    }
}
