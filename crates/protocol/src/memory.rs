//! How much memory jobs take, and whether there is room for another one.
//!
//! A job's request to the helper is short, but its reports may be long: of each the leader holds
//! the report, the opened share, and then the output share until the helper has answered. So jobs
//! are formed by this size ([`report`]), and an attempt at one begins only if there is room for it
//! ([`admits_job`]).

use sotto_vdaf::Sizes;

use crate::leader::aggregate::JobLimits;
use crate::task::MAX_REPORT_HEAD;

/// Verifying a report takes at most this many times its share, beside the share. Tested with long
/// measurements of each kind (`crates/vdaf/tests/memory.rs`).
const VERIFYING: usize = 6;

/// A collection holds a batch this many times: merged, with noise, encoded, sealed, in the answer
/// and in the store.
const COLLECTING: usize = 6;

/// The bytes that one report of a job takes: `raw` as it came, then opened, then its output share.
pub fn report(sizes: &Sizes, raw: usize) -> usize {
    raw.saturating_add(sizes.leader_share).saturating_add(sizes.aggregate_share)
}

/// What verifying one report takes beside that, at leader and helper alike: the helper expands its
/// share to the length of the leader's.
pub fn verifying(sizes: &Sizes) -> usize {
    sizes.leader_share.max(sizes.aggregate_share).saturating_mul(VERIFYING)
}

/// The most that an attempt at an aggregation job takes: its reports, the sum, and verifying one of
/// them after the other.
pub fn aggregation(sizes: &Sizes, limits: JobLimits) -> u64 {
    let raw = sizes.public_share + sizes.leader_share + sizes.helper_share + MAX_REPORT_HEAD;
    let one = report(sizes, raw).saturating_add(sizes.aggregate_share);
    let full = one.saturating_mul(limits.max_job_reports).min(limits.max_job_bytes);
    full.max(one).saturating_add(verifying(sizes)) as u64
}

/// What an attempt at a collection takes, at leader and helper alike.
pub fn collection(sizes: &Sizes) -> u64 {
    sizes.aggregate_share.saturating_mul(COLLECTING) as u64
}

/// Whether another job of this size may begin, if the jobs in flight hold `all` of `max` bytes, and
/// those for the same helper `here`.
///
/// The jobs for one helper get at most three quarters: if it is slow, the jobs for others go on. A
/// job that is too large for that runs alone.
pub fn admits_job(max: u64, all: u64, here: u64, job: u64) -> bool {
    let fits = job <= max.saturating_sub(all);
    let within_share = here == 0 || here.saturating_add(job) <= max / 4 * 3;
    all == 0 || (fits && within_share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        public_share: 0,
        leader_share: 1_000_000,
        helper_share: 96,
        leader_message: 1_000,
        helper_message: 32,
        aggregate_share: 800_000,
    };

    #[test]
    fn a_job_takes_what_its_reports_take_up_to_the_limits() {
        let limits = |max_job_reports, max_job_bytes| JobLimits { max_job_reports, max_job_bytes };
        let one = 1_000_096 + 4_096 + 1_000_000 + 2 * 800_000;
        let work = 6_000_000;
        assert_eq!(aggregation(&SIZES, limits(1, usize::MAX)), one + work);
        assert_eq!(aggregation(&SIZES, limits(3, usize::MAX)), 3 * one + work);
        assert_eq!(aggregation(&SIZES, limits(3, 2 * one as usize)), 2 * one + work);
        assert_eq!(aggregation(&SIZES, limits(512, 1)), one + work, "a single one always fits");
        assert!(aggregation(&SIZES, limits(usize::MAX, usize::MAX)) > 1 << 60);
    }

    #[test]
    fn one_helper_leaves_a_quarter_to_others() {
        for (all, here, job, may_begin) in [
            (0, 0, 75, true),
            (0, 0, 1_000, true),
            (25, 25, 50, true),
            (25, 25, 51, false),
            // Another helper's first job.
            (75, 0, 25, true),
            (75, 0, 26, false),
            (75, 10, 25, true),
            (100, 0, 1, false),
            (1_000, 0, 1, false),
        ] {
            assert_eq!(admits_job(100, all, here, job), may_begin, "{all} {here} {job}");
        }
    }
}
