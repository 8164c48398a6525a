//! What the tests here share: cases for all VDAFs, and one report on its way through both
//! aggregators.

use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_vdaf::{
    AggregateResult, AggregateShare, HelperReport, LeaderReport, Measurement, Shares, Vdaf,
    VdafConfig, VerifyError, VerifyParams,
};

pub(crate) const CTX: &[u8] = b"dap-18 and a task id";
pub(crate) const VERIFY_KEY: [u8; 32] = [42; 32];
pub(crate) const PARAMS: VerifyParams<'static> =
    VerifyParams { verify_key: &VERIFY_KEY, ctx: CTX, agg_param: b"" };

pub(crate) struct Case {
    pub(crate) config: VdafConfig,
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) result: AggregateResult,
}

/// All VDAFs, with parameters that divide evenly and that do not.
pub(crate) fn cases() -> Vec<Case> {
    use AggregateResult::{Scalar, Vector};
    use Measurement::{Count, Histogram, L1BoundSum, MultihotCountVec, Sum, SumVec};
    let vectors = [vec![-9, 0, 4, 1, -1], vec![0, 10, 0, 0, 0], vec![-4, 4, -4, 4, -4]];
    let vectors = vectors.map(Measurement::Vector);
    let case = |config, measurements, result| Case { config, measurements, result };
    let (t, f) = (true, false);
    vec![
        case(VdafConfig::count(), [t, f, t, t].map(Count).into(), Scalar(3)),
        case(VdafConfig::sum(255), [0, 255, 17].map(Sum).into(), Scalar(272)),
        case(VdafConfig::sum(1_000), [0, 1_000, 1_000].map(Sum).into(), Scalar(2_000)),
        case(
            VdafConfig::sum_vec(3, 5),
            vec![SumVec(vec![0, 5, 1]), SumVec(vec![5, 5, 5]), SumVec(vec![0, 0, 1])],
            Vector(vec![5, 10, 7]),
        ),
        case(
            VdafConfig::sum_vec(12, 1),
            vec![SumVec(vec![1; 12]), SumVec([vec![1], vec![0; 11]].concat())],
            Vector([vec![2], vec![1; 11]].concat()),
        ),
        case(
            VdafConfig::sum_vec(2, u64::MAX),
            vec![SumVec(vec![u64::MAX, 0]), SumVec(vec![u64::MAX, 1])],
            Vector(vec![2 * i128::from(u64::MAX), 1]),
        ),
        case(
            VdafConfig::histogram(5),
            [0, 4, 4, 2].map(Histogram).into(),
            Vector(vec![1, 0, 1, 0, 2]),
        ),
        case(
            VdafConfig::multihot_count_vec(4, 2),
            vec![
                MultihotCountVec(vec![t, f, f, t]),
                MultihotCountVec(vec![f; 4]),
                MultihotCountVec(vec![f, f, f, t]),
            ],
            Vector(vec![1, 0, 0, 2]),
        ),
        case(
            VdafConfig::l1_bound_sum(3, 10),
            vec![L1BoundSum(vec![10, 0, 0]), L1BoundSum(vec![3, 3, 4]), L1BoundSum(vec![0, 0, 0])],
            Vector(vec![13, 3, 4]),
        ),
        case(VdafConfig::pine64(5, 10), vectors.clone().into(), Vector(vec![-13, 14, 0, 5, -5])),
        case(VdafConfig::pine128(5, 10), vectors.into(), Vector(vec![-13, 14, 0, 5, -5])),
    ]
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// A report as the client made it, or as someone altered it.
#[derive(Clone)]
pub(crate) struct TestReport {
    pub(crate) nonce: [u8; 16],
    pub(crate) shares: Shares,
    pub(crate) bucket: usize,
}

impl TestReport {
    pub(crate) fn new(vdaf: &dyn Vdaf, measurement: &Measurement, rng: &mut ChaCha20Rng) -> Self {
        let mut nonce = [0; 16];
        rng.fill_bytes(&mut nonce);
        let shares = vdaf.shard(CTX, measurement, &nonce, rng).unwrap();
        Self { nonce, shares, bucket: 0 }
    }

    pub(crate) fn for_leader(&self) -> LeaderReport<'_> {
        LeaderReport {
            nonce: &self.nonce,
            public_share: &self.shares.public_share,
            input_share: &self.shares.leader,
            bucket: self.bucket,
        }
    }

    pub(crate) fn for_helper<'a>(&'a self, inbound: &'a [u8]) -> HelperReport<'a> {
        HelperReport {
            nonce: &self.nonce,
            public_share: &self.shares.public_share,
            input_share: &self.shares.helper,
            inbound,
            bucket: self.bucket,
        }
    }
}

/// How far one report came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    RejectedByLeaderFirst(VerifyError),
    RejectedByHelper(VerifyError),
    /// The case that must not exist unless the helper's answer was altered on its way.
    RejectedByLeaderLast(VerifyError),
    Accepted,
}

/// Two aggregators with one bucket each.
pub(crate) struct Aggregators {
    pub(crate) vdaf: Arc<dyn Vdaf>,
    pub(crate) leader: AggregateShare,
    pub(crate) helper: AggregateShare,
}

impl Aggregators {
    /// Their accumulators are not zero, so that one which was set to zero would be noticed.
    pub(crate) fn new(config: &VdafConfig) -> Self {
        let vdaf = config.build().unwrap();
        let bytes = vec![1; vdaf.sizes().aggregate_share];
        let share = vdaf.decode_aggregate_share(&bytes).unwrap();
        Self { vdaf, leader: share.clone(), helper: share }
    }

    /// Runs one report; `leader_message` and `helper_message` may alter what travels. Checks that
    /// an aggregator's sum changes if and only if it accepts.
    pub(crate) fn run(
        &mut self,
        report: &TestReport,
        leader_message: impl Fn(&mut Vec<u8>),
        helper_message: impl Fn(&mut Vec<u8>),
    ) -> Fate {
        let (leader_before, helper_before) = (self.leader.clone(), self.helper.clone());
        let fate = self.run_unchecked(report, leader_message, helper_message);
        let accepted = fate == Fate::Accepted;
        let helper_accepted = accepted || matches!(fate, Fate::RejectedByLeaderLast(_));
        assert_eq!(self.leader != leader_before, accepted, "{fate:?}");
        assert_eq!(self.helper != helper_before, helper_accepted, "{fate:?}");
        fate
    }

    fn run_unchecked(
        &mut self,
        report: &TestReport,
        leader_message: impl Fn(&mut Vec<u8>),
        helper_message: impl Fn(&mut Vec<u8>),
    ) -> Fate {
        let leader = std::slice::from_mut(&mut self.leader);
        let helper = std::slice::from_mut(&mut self.helper);

        let pending = self.vdaf.leader_init(&PARAMS, &[report.for_leader()]);
        let mut message = match pending.outbound(0) {
            Ok(message) => message.to_vec(),
            Err(error) => {
                // Even if the helper's answer came from somewhere, the leader stays with it.
                assert_eq!(pending.finish(&[Some(b"")], leader), [Err(error)]);
                return Fate::RejectedByLeaderFirst(error);
            }
        };
        leader_message(&mut message);
        let answer =
            self.vdaf.helper_verify(&PARAMS, &[report.for_helper(&message)], helper).remove(0);
        let mut message = match answer {
            Ok(message) => message,
            Err(error) => {
                let finished = pending.finish(&[None], leader);
                assert_eq!(finished, [Err(VerifyError::RejectedByPeer)]);
                return Fate::RejectedByHelper(error);
            }
        };
        helper_message(&mut message);
        match pending.finish(&[Some(&message)], leader).remove(0) {
            Ok(()) => Fate::Accepted,
            Err(error) => Fate::RejectedByLeaderLast(error),
        }
    }
}
