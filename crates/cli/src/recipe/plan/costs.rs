//! What a plan costs: bytes, time of the servers' processors, disk and tokens.
//!
//! The constants were measured; `docs/performance.md` has the tables and the machine. They are good
//! for an order of magnitude elsewhere.

use anyhow::Result;
use sotto_protocol::recipe::derive_vdaf;
use sotto_vdaf::VdafConfig;
use sotto_wire::recipe::Recipe;

use crate::task::{recipe_report_bytes, upload_bytes};

/// Microseconds of leader and helper together for a report with one number ("From ten thousand
/// reports to a million").
const NUMBER_US: f64 = 98.0;
/// The same for a report with buckets: a constant and what each bucket adds ("A report at the
/// aggregators", 256 and 1,000 elements).
const BUCKETS_US: (f64, f64) = (125.0, 0.29);
/// The same for vectors: what a number adds ("Vectors with a proven norm", AVX2, 1,000 to 1,000,000
/// elements), and what a kilobyte adds to move ("A report at the aggregators", beyond the floors).
const VECTOR_US: (f64, f64) = (310.0, 0.095);
const KILOBYTE_US: f64 = 1.9;
/// What the hybrid suite adds at both aggregators and the gateway ("The two suites").
const HYBRID_US: f64 = 47.0;
/// The relay, for a report or for cover, and gateway and leader for cover ("Cover and reports").
const RELAY_US: f64 = 58.0;
const COVER_US: f64 = 170.0;
/// Issuer and attester for one token, hybrid suite ("Tokens").
const TOKEN_US: f64 = 388.0 + 15.0 + 192.0;
/// What the leader writes per uploaded byte, and what the helper writes per report ("A report at the
/// aggregators").
const WRITTEN: f64 = 1.13;
const HELPER_BYTES: f64 = 1_500.0;
/// A device gets one for the leader and one for the helper.
const TOKENS: u64 = 2;

/// What a plan costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// One report, with the hybrid suite.
    pub(super) report_bytes: usize,
    /// What each device uploads, whether it answers or not: a size class.
    pub(super) device_bytes: usize,
    /// Seconds of processors for the reports, at leader and helper.
    pub(super) reports_s: f64,
    /// For cover and the relay.
    pub(super) cover_s: f64,
    /// For tokens.
    pub(super) tokens_s: f64,
    /// What leader and helper write.
    pub(super) disk_bytes: f64,
    pub(super) tokens: u64,
}

impl Costs {
    /// Of a recipe that asks so many devices and gets so many reports, in all of its rounds.
    pub(super) fn of(recipe: &Recipe, devices: u64, reports: f64) -> Result<Self> {
        let vdaf = derive_vdaf(&sotto_protocol::recipe::mechanism(recipe)?);
        let rounds = recipe.series.as_ref().map_or(1, |series| series.most_reports());
        let (times, all) = (rounds as f64, devices as f64);
        let report_bytes = recipe_report_bytes(recipe, &vdaf.build()?.sizes());
        let report_us = report_us(&vdaf, report_bytes) + HYBRID_US;
        let cover = (all - reports).max(0.0) * recipe.sampling.cover.to_f64();
        let tokens = devices.saturating_mul(TOKENS).saturating_mul(rounds);
        Ok(Self {
            report_bytes,
            device_bytes: upload_bytes(report_bytes).unwrap_or(report_bytes),
            reports_s: times * reports * report_us / 1e6,
            cover_s: times * ((reports + cover) * RELAY_US + cover * COVER_US) / 1e6,
            tokens_s: tokens as f64 * TOKEN_US / 1e6,
            disk_bytes: times * reports * (WRITTEN * report_bytes as f64 + HELPER_BYTES),
            tokens,
        })
    }

    /// All seconds.
    pub(super) fn server_s(&self) -> f64 {
        self.reports_s + self.cover_s + self.tokens_s
    }
}

fn report_us(vdaf: &VdafConfig, bytes: usize) -> f64 {
    let (constant, each) = match vdaf {
        VdafConfig::Prio3Histogram { length, .. }
        | VdafConfig::Prio3MultihotCountVec { length, .. } => {
            (BUCKETS_US.0, BUCKETS_US.1 * f64::from(*length))
        }
        VdafConfig::Pine { dimension, .. } => {
            let moved = KILOBYTE_US * bytes as f64 / 1e3;
            (VECTOR_US.0, VECTOR_US.1 * f64::from(*dimension) + moved)
        }
        _ => (NUMBER_US, 0.0),
    };
    constant + each
}
