//! The floor: what the cryptography alone costs, on one thread, with no server around it.
//!
//! For each report the leader must open its share, run its half of the VDAF and hash what it
//! received; so must the helper. All other CPU time of a process is our overhead.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use sotto_crypto::HpkeKeypair;
use sotto_crypto::hpke::Suite;
use sotto_crypto::server_hpke::Opener;
use sotto_protocol::Task;
use sotto_protocol::client::produce_report;
use sotto_vdaf::{HelperReport, LeaderReport, VerifyParams};
use sotto_wire::labels::{input_share_info, vdaf_context};
use sotto_wire::{
    Decode, Encode, HpkeCiphertext, HpkeConfigId, InputShareAad, PlaintextInputShare, Report, Role,
    Time,
};

use crate::workload::Workload;

/// The number of reports that are verified together: few enough that a run is rarely interrupted.
const BATCH: u64 = 16;
/// The number of runs. The fastest one counts, because other load on the machine can only add time.
const RUNS: usize = 200;

/// CPU microseconds per report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    pub(crate) leader_us: f64,
    pub(crate) helper_us: f64,
}

impl Floor {
    /// Both aggregators together.
    pub(crate) fn total_us(self) -> f64 {
        self.leader_us + self.helper_us
    }
}

/// Measures the floor.
pub(crate) fn measure(
    workload: Workload,
    suite: Suite,
    task: &Task,
    verify_key: &[u8; 32],
) -> Result<Floor> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let leader = HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng);
    let helper = HpkeKeypair::generate_for(suite, HpkeConfigId::new(2), &mut rng);
    let mut reports = Vec::new();
    for index in 0..BATCH {
        let (leader, helper) = (leader.config(), helper.config());
        let measurement = workload.measurement(index);
        reports.push(produce_report(
            task,
            leader,
            helper,
            &measurement,
            Time::new(1),
            None,
            &mut rng,
        )?);
    }
    let bench =
        Bench { task, verify_key, leader: Opener::new(&leader)?, helper: Opener::new(&helper)? };
    let mut best = bench.run(&reports)?;
    for _ in 1..RUNS {
        let floor = bench.run(&reports)?;
        best.leader_us = best.leader_us.min(floor.leader_us);
        best.helper_us = best.helper_us.min(floor.helper_us);
    }
    Ok(best)
}

struct Bench<'a> {
    task: &'a Task,
    verify_key: &'a [u8; 32],
    leader: Opener,
    helper: Opener,
}

impl Bench<'_> {
    /// One batch, through both halves.
    fn run(&self, reports: &[Vec<u8>]) -> Result<Floor> {
        let context = vdaf_context(self.task.id());
        let params = VerifyParams { verify_key: self.verify_key, ctx: &context, agg_param: &[] };
        let vdaf = self.task.vdaf();
        let decoded: Vec<Report<'_>> =
            reports.iter().map(|bytes| Report::from_bytes(bytes)).collect::<Result<_, _>>()?;

        let begin = Instant::now();
        let mut digest = Sha256::new();
        let mut shares = Vec::new();
        for (report, bytes) in decoded.iter().zip(reports) {
            digest.update(bytes);
            let sealed = &report.leader_encrypted_input_share;
            shares.push(self.open(&self.leader, Role::Leader, report, sealed)?);
        }
        let leader_reports: Vec<LeaderReport<'_>> = decoded
            .iter()
            .zip(&shares)
            .map(|(report, share)| LeaderReport {
                nonce: report.report_metadata.report_id.as_bytes(),
                public_share: report.public_share.as_bytes(),
                input_share: share,
                bucket: 0,
            })
            .collect();
        let batch = vdaf.leader_init(&params, &leader_reports);
        let leader_first = begin.elapsed();

        let begin = Instant::now();
        let mut shares = Vec::new();
        for (index, report) in decoded.iter().enumerate() {
            let outbound = batch.outbound(index)?;
            let sealed = &report.helper_encrypted_input_share;
            digest.update(sealed.payload());
            digest.update(outbound);
            shares.push((self.open(&self.helper, Role::Helper, report, sealed)?, outbound));
        }
        let helper_reports: Vec<HelperReport<'_>> = decoded
            .iter()
            .zip(&shares)
            .map(|(report, (share, inbound))| HelperReport {
                nonce: report.report_metadata.report_id.as_bytes(),
                public_share: report.public_share.as_bytes(),
                input_share: share,
                inbound,
                bucket: 0,
            })
            .collect();
        let mut accumulators = [vdaf.zero_share()];
        let answers = vdaf.helper_verify(&params, &helper_reports, &mut accumulators);
        let helper = begin.elapsed();

        let begin = Instant::now();
        let answers: Vec<Option<&[u8]>> =
            answers.iter().map(|answer| answer.as_deref().ok()).collect();
        let mut accumulators = [vdaf.zero_share()];
        let finished = batch.finish(&answers, &mut accumulators);
        let leader_last = begin.elapsed();
        ensure!(finished.iter().all(Result::is_ok), "a report was refused");
        ensure!(digest.finalize().len() == 32);
        let per_report = |total: Duration| total.as_secs_f64() * 1e6 / reports.len() as f64;
        Ok(Floor {
            leader_us: per_report(leader_first + leader_last),
            helper_us: per_report(helper),
        })
    }

    /// Opens one share and takes the VDAF's part out of it.
    fn open(
        &self,
        opener: &Opener,
        role: Role,
        report: &Report<'_>,
        sealed: &HpkeCiphertext<'_>,
    ) -> Result<Vec<u8>> {
        let aad = InputShareAad {
            task_id: *self.task.id(),
            task_configuration: self.task.encoded_configuration(),
            report_metadata: &report.report_metadata,
            public_share: &report.public_share,
        }
        .to_bytes();
        let plaintext = opener.open(&input_share_info(role), &aad, sealed)?;
        let share = PlaintextInputShare::from_bytes(&plaintext)?;
        Ok(share.payload.as_bytes().to_vec())
    }
}
