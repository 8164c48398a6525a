//! Wrong sizes, garbage and the caller's own mistakes: an error each, never a panic.

use rand_chacha::rand_core::Rng;
use sotto_vdaf::{
    HelperReport, LeaderReport, Measurement, ShardError, UnshardError, VdafConfig, VerifyError,
    VerifyParams,
};

use crate::prio3::exchange::{CTX, Case, PARAMS, TestReport, VERIFY_KEY, cases, rng};

/// All the ways to get the length wrong by little, and by much.
fn resized(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut longer = bytes.to_vec();
    longer.push(0);
    let mut all = vec![longer, [bytes, bytes, &[0]].concat()];
    if let Some((_, shorter)) = bytes.split_last() {
        all.extend([Vec::new(), shorter.to_vec(), bytes[..bytes.len() / 2].to_vec()]);
    }
    all
}

#[test]
fn wrong_sizes_are_rejected() {
    for (seed, Case { config, measurements, .. }) in (0..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let report = TestReport::new(&*vdaf, &measurements[0], &mut rng(seed));
        let leader = report.for_leader();
        let first = |report: LeaderReport<'_>| {
            let batch = vdaf.leader_init(&PARAMS, &[report]);
            batch.outbound(0).map(<[u8]>::to_vec)
        };
        let message = first(leader).unwrap();
        let helper = report.for_helper(&message);
        let mut sum = [vdaf.zero_share()];
        let mut answer =
            |report: HelperReport<'_>| vdaf.helper_verify(&PARAMS, &[report], &mut sum).remove(0);

        for public_share in &resized(leader.public_share) {
            let error = Err(VerifyError::PublicShare);
            assert_eq!(first(LeaderReport { public_share, ..leader }), error, "{config:?}");
            assert_eq!(answer(HelperReport { public_share, ..helper }), error, "{config:?}");
        }
        for input_share in &resized(leader.input_share) {
            let error = Err(VerifyError::InputShare);
            assert_eq!(first(LeaderReport { input_share, ..leader }), error, "{config:?}");
        }
        for input_share in &resized(helper.input_share) {
            let error = Err(VerifyError::InputShare);
            assert_eq!(answer(HelperReport { input_share, ..helper }), error, "{config:?}");
        }
        for inbound in &resized(helper.inbound) {
            let error = Err(VerifyError::PeerMessage);
            assert_eq!(answer(HelperReport { inbound, ..helper }), error, "{config:?}");
        }
        assert_eq!(sum[0], vdaf.zero_share());

        let answer = vdaf.helper_verify(&PARAMS, &[helper], &mut sum).remove(0).unwrap();
        let mut sum = [vdaf.zero_share()];
        for inbound in &resized(&answer) {
            let batch = vdaf.leader_init(&PARAMS, &[leader]);
            let finished = batch.finish(&[Some(inbound)], &mut sum);
            assert_eq!(finished, [Err(VerifyError::PeerMessage)], "{config:?}");
        }
        assert_eq!(sum[0], vdaf.zero_share());
    }
}

#[test]
fn garbage_is_rejected() {
    for (seed, Case { config, .. }) in (50..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let sizes = vdaf.sizes();
        let mut rng = rng(seed);
        for round in 0..100 {
            // Of the right length, so that it gets past the first check, and of any length.
            let mut garbage = |right: usize| {
                let any = rng.next_u32() as usize % 300;
                let mut bytes = vec![0; if round % 2 == 0 { right } else { any }];
                rng.fill_bytes(&mut bytes);
                bytes
            };
            let public_share = garbage(sizes.public_share);
            let (leader, helper) = (garbage(sizes.leader_share), garbage(sizes.helper_share));
            let mut inbound = garbage(sizes.leader_message);
            if round % 4 == 0 {
                inbound[0] = 0;
                let length = (inbound.len() - 5) as u32;
                inbound[1..5].copy_from_slice(&length.to_be_bytes());
            }
            let report = LeaderReport {
                nonce: &[1; 16],
                public_share: &public_share,
                input_share: &leader,
                bucket: 0,
            };
            let mut sum = [vdaf.zero_share()];
            let batch = vdaf.leader_init(&PARAMS, &[report]);
            let spoke = batch.outbound(0).is_ok();
            // Without joint randomness the leader cannot know; the helper does.
            assert!(!spoke || sizes.public_share == 0, "{config:?}");
            let finished = batch.finish(&[Some(&inbound)], &mut sum);
            assert!(finished[0].is_err(), "{config:?}");

            let report = HelperReport {
                nonce: &[1; 16],
                public_share: &public_share,
                input_share: &helper,
                inbound: &inbound,
                bucket: 0,
            };
            assert!(vdaf.helper_verify(&PARAMS, &[report], &mut sum)[0].is_err(), "{config:?}");
            assert_eq!(sum[0], vdaf.zero_share());
        }
        for wrong in resized(&vdaf.zero_share().encode()) {
            assert!(vdaf.decode_aggregate_share(&wrong).is_err(), "{config:?}");
        }
        let not_canonical = vec![0xff; sizes.aggregate_share];
        assert!(vdaf.decode_aggregate_share(&not_canonical).is_err(), "{config:?}");
    }
}

#[test]
fn one_bad_report_does_not_spoil_a_batch() {
    let vdaf = VdafConfig::histogram(5).build().unwrap();
    let mut rng = rng(7);
    let mut reports: Vec<_> = (0..3)
        .map(|index| TestReport::new(&*vdaf, &Measurement::Histogram(index), &mut rng))
        .collect();
    reports[1].shares.helper[0] ^= 1;
    let batch =
        vdaf.leader_init(&PARAMS, &reports.iter().map(TestReport::for_leader).collect::<Vec<_>>());
    let for_helper: Vec<_> =
        (0..3).map(|i| reports[i].for_helper(batch.outbound(i).unwrap())).collect();
    let (mut leader, mut helper) = ([vdaf.zero_share()], [vdaf.zero_share()]);
    let answers = vdaf.helper_verify(&PARAMS, &for_helper, &mut helper);
    assert_eq!(answers[1], Err(VerifyError::JointRandomness));
    let inbound: Vec<_> = answers.iter().map(|answer| answer.as_deref().ok()).collect();
    let finished = batch.finish(&inbound, &mut leader);
    assert_eq!(finished, [Ok(()), Err(VerifyError::RejectedByPeer), Ok(())]);
    let result = vdaf.unshard(&leader[0], &helper[0], 2).unwrap();
    assert_eq!(result.as_slice(), [1, 0, 1, 0, 0]);
}

#[test]
fn the_callers_mistakes_are_errors() {
    let vdaf = VdafConfig::histogram(5).build().unwrap();
    let report = TestReport::new(&*vdaf, &Measurement::Histogram(1), &mut rng(8));
    let batch = vdaf.leader_init(&PARAMS, &[report.for_leader()]);
    assert_eq!(batch.outbound(1), Err(VerifyError::OutOfRange));
    let message = batch.outbound(0).unwrap().to_vec();

    let no_such_bucket = HelperReport { bucket: 1, ..report.for_helper(&message) };
    let mut sum = [vdaf.zero_share()];
    let answers = vdaf.helper_verify(&PARAMS, &[no_such_bucket], &mut sum);
    assert_eq!(answers, [Err(VerifyError::OutOfRange)]);

    for other in [VdafConfig::count(), VdafConfig::histogram(6)] {
        let mut sum = [other.build().unwrap().zero_share()];
        let answers = vdaf.helper_verify(&PARAMS, &[report.for_helper(&message)], &mut sum);
        assert_eq!(answers, [Err(VerifyError::Accumulator)]);
        let wrong = vdaf.unshard(&sum[0], &vdaf.zero_share(), 0);
        assert!(matches!(wrong, Err(UnshardError::Share(_))));
        assert!(vdaf.zero_share().merge(&sum[0]).is_err());
    }

    // Fewer answers than reports: as if the helper had rejected the rest.
    assert_eq!(batch.finish(&[], &mut sum), [Err(VerifyError::RejectedByPeer)]);
    assert!(vdaf.leader_init(&PARAMS, &[]).is_empty());
}

#[test]
fn aggregation_parameter_and_context() {
    let vdaf = VdafConfig::count().build().unwrap();
    assert!(vdaf.is_valid_agg_param(b""));
    assert!(!vdaf.is_valid_agg_param(b"x"));
    let report = TestReport::new(&*vdaf, &Measurement::Count(true), &mut rng(9));
    let long = vec![0; 65_528];
    let mut sum = [vdaf.zero_share()];
    for (params, error) in [
        (VerifyParams { agg_param: b"x", ..PARAMS }, VerifyError::AggParam),
        (VerifyParams { ctx: &long, ..PARAMS }, VerifyError::Context),
    ] {
        let batch = vdaf.leader_init(&params, &[report.for_leader()]);
        assert_eq!(batch.outbound(0), Err(error));
        let answers = vdaf.helper_verify(&params, &[report.for_helper(b"")], &mut sum);
        assert_eq!(answers, [Err(error)]);
    }
    let sharded = vdaf.shard(&long, &Measurement::Count(true), &[0; 16], &mut rng(9));
    assert!(matches!(sharded, Err(ShardError::Context)));
    let longest = &long[..65_527];
    assert!(vdaf.shard(longest, &Measurement::Count(true), &[0; 16], &mut rng(9)).is_ok());
}

#[test]
fn another_key_context_or_nonce_is_rejected() {
    for (seed, Case { config, measurements, .. }) in (300..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let report = TestReport::new(&*vdaf, &measurements[0], &mut rng(seed));
        let batch = vdaf.leader_init(&PARAMS, &[report.for_leader()]);
        let message = batch.outbound(0).unwrap();
        let mut sum = [vdaf.zero_share()];
        let other_key = VerifyParams { verify_key: &[1; 32], ..PARAMS };
        let other_ctx = VerifyParams { ctx: b"another task", ..PARAMS };
        for params in [other_key, other_ctx] {
            let helper = report.for_helper(message);
            assert!(vdaf.helper_verify(&params, &[helper], &mut sum)[0].is_err(), "{config:?}");
        }
        let other_nonce = HelperReport { nonce: &[0; 16], ..report.for_helper(message) };
        assert!(vdaf.helper_verify(&PARAMS, &[other_nonce], &mut sum)[0].is_err(), "{config:?}");
        assert_eq!(sum[0], vdaf.zero_share());
    }
    assert_eq!((PARAMS.verify_key, PARAMS.ctx), (&VERIFY_KEY, CTX));
}

#[test]
fn invalid_measurements_are_not_sharded() {
    let bad = [
        (VdafConfig::count(), Measurement::Sum(1)),
        (VdafConfig::sum(10), Measurement::Sum(11)),
        (VdafConfig::sum(10), Measurement::Count(true)),
        (VdafConfig::sum_vec(2, 5), Measurement::SumVec(vec![6, 0])),
        (VdafConfig::sum_vec(2, 5), Measurement::SumVec(vec![0])),
        (VdafConfig::sum_vec(2, 5), Measurement::L1BoundSum(vec![0, 0])),
        (VdafConfig::histogram(4), Measurement::Histogram(4)),
        (VdafConfig::histogram(4), Measurement::Histogram(u32::MAX)),
        (VdafConfig::multihot_count_vec(3, 1), Measurement::MultihotCountVec(vec![true; 3])),
        (VdafConfig::multihot_count_vec(3, 1), Measurement::MultihotCountVec(vec![true; 1])),
        (VdafConfig::l1_bound_sum(2, 5), Measurement::L1BoundSum(vec![3, 3])),
        (VdafConfig::l1_bound_sum(2, 5), Measurement::L1BoundSum(vec![u64::MAX, u64::MAX])),
        (VdafConfig::l1_bound_sum(2, 5), Measurement::L1BoundSum(vec![])),
        (VdafConfig::pine64(2, 5), Measurement::Vector(vec![3, -5])),
        (VdafConfig::pine64(2, 5), Measurement::Vector(vec![i64::MIN, i64::MIN])),
        (VdafConfig::pine64(2, 5), Measurement::Vector(vec![3])),
        (VdafConfig::pine64(2, 5), Measurement::SumVec(vec![3, 4])),
        (VdafConfig::pine128(3, 1 << 58), Measurement::Vector(vec![i64::MIN; 3])),
    ];
    for (config, measurement) in bad {
        let vdaf = config.build().unwrap();
        let sharded = vdaf.shard(CTX, &measurement, &[0; 16], &mut rng(1));
        assert!(matches!(sharded, Err(ShardError::Measurement(_))), "{config:?}");
    }
}
