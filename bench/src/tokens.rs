//! What tokens cost the servers: `cargo xtask bench tokens`.
//!
//! [`verify`] measures an aggregator's work per token, compared with a bare RSA-PSS verification
//! and with the crate `privacypass`. [`issue`] measures the work of issuer, attester and device per
//! token, compared with the crate `blind-rsa-signatures`. Everything runs on one thread, in
//! alternation within one run, without HTTP and without disk; the tokens come from the real
//! protocol between [`parties`].

mod issue;
mod parties;
mod verify;

use anyhow::Result;
use serde_json::{Value, json};

use self::issue::Issuance;
use self::parties::Parties;
use self::verify::Verification;
use crate::table::yes_no;

/// The goal for a whole verification, relative to the signature alone.
const GOAL_VERIFY_FLOOR: f64 = 1.2;
/// The goal for a whole verification: this many times faster than the peer.
const GOAL_VERIFY_PEER: f64 = 3.0;
/// The goal for issuing: this many times faster than the peer.
const GOAL_ISSUE_PEER: f64 = 3.0;

/// Options of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Fewer repetitions: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let times = if options.quick { 20 } else { 500 };
    let parties = Parties::new()?;
    let verification = verify::measure(&parties, times)?;
    let issuance = issue::measure(&parties, times)?;
    if options.json {
        println!("{:#}", to_json(&verification, &issuance));
        return Ok(());
    }
    print_verification(&verification);
    println!();
    print_issuance(&issuance);
    Ok(())
}

impl Verification {
    fn floor_ratio(&self) -> f64 {
        self.ours_us / self.floor_us
    }

    fn peer_ratio(&self) -> f64 {
        self.peer_us / self.ours_us
    }

    fn goals_met(&self) -> (bool, bool) {
        (self.floor_ratio() <= GOAL_VERIFY_FLOOR, self.peer_ratio() >= GOAL_VERIFY_PEER)
    }
}

impl Issuance {
    /// How many times faster than the peer's bare signature.
    fn peer_ratio(&self, us: f64) -> f64 {
        self.peer_sign_us / us
    }

    fn attester_us(&self) -> f64 {
        self.attester_request_us + self.attester_answer_us
    }
}

fn to_json(verification: &Verification, issuance: &Issuance) -> Value {
    let (floor_met, peer_met) = verification.goals_met();
    let (sign, whole) =
        (issuance.peer_ratio(issuance.sign_us), issuance.peer_ratio(issuance.issuer_us));
    json!({
        "benchmark": "tokens",
        "verification": {
            "floor_us": verification.floor_us,
            "ours_us": verification.ours_us,
            "peer_us": verification.peer_us,
            "ratio": verification.floor_ratio(),
            "goal": GOAL_VERIFY_FLOOR,
            "goal_met": floor_met,
            "times_faster_than_peer": verification.peer_ratio(),
            "peer_goal": GOAL_VERIFY_PEER,
            "peer_goal_met": peer_met,
        },
        "issuance": {
            "sign_us": issuance.sign_us,
            "issuer_us": issuance.issuer_us,
            "peer_sign_us": issuance.peer_sign_us,
            "attester_request_us": issuance.attester_request_us,
            "attester_answer_us": issuance.attester_answer_us,
            "device_request_us": issuance.device_request_us,
            "device_answer_us": issuance.device_answer_us,
            "times_faster_than_peer": sign,
            "whole_step_times_faster_than_peer": whole,
            "peer_goal": GOAL_ISSUE_PEER,
            "peer_goal_met": sign >= GOAL_ISSUE_PEER,
            "peer_goal_met_by_whole_step": whole >= GOAL_ISSUE_PEER,
            "issuer_tokens_per_s_per_core": per_second(issuance.issuer_us),
            "attester_tokens_per_s_per_core": per_second(issuance.attester_us()),
        },
    })
}

fn print_verification(verification: &Verification) {
    let Verification { floor_us, ours_us, peer_us } = verification;
    let (floor_met, peer_met) = verification.goals_met();
    println!("verification of a token, us, one thread");
    println!("  aws-lc-rs, RSA-PSS alone        {floor_us:>9.1}");
    println!(
        "  ours, the whole token           {ours_us:>9.1}   {:.2} x",
        verification.floor_ratio()
    );
    println!("  privacypass, redeem             {peer_us:>9.1}");
    println!("  at most {GOAL_VERIFY_FLOOR} x the signature alone: {}", yes_no(floor_met));
    println!(
        "  at least {GOAL_VERIFY_PEER} x faster than privacypass: {} ({:.1} x)",
        yes_no(peer_met),
        verification.peer_ratio()
    );
}

fn print_issuance(issuance: &Issuance) {
    println!("issuance of a token, us, one thread");
    println!("  blind-rsa-signatures, blind_sign{:>9.1}", issuance.peer_sign_us);
    println!("  ours, blind_sign                {:>9.1}", issuance.sign_us);
    println!(
        "  ours, the issuer's whole step   {:>9.1}   {:>7.0} tokens/s/core",
        issuance.issuer_us,
        per_second(issuance.issuer_us)
    );
    println!(
        "  ours, the attester's steps      {:>9.1}   {:>7.0} tokens/s/core ({:.1} for the request, {:.1} for the answer)",
        issuance.attester_us(),
        per_second(issuance.attester_us()),
        issuance.attester_request_us,
        issuance.attester_answer_us
    );
    println!(
        "  the device's steps              {:>9.1}   ({:.1} for the request, {:.1} for the answer)",
        issuance.device_request_us + issuance.device_answer_us,
        issuance.device_request_us,
        issuance.device_answer_us
    );
    for (name, us) in [("blind_sign", issuance.sign_us), ("the whole step", issuance.issuer_us)] {
        let times = issuance.peer_ratio(us);
        println!(
            "  at least {GOAL_ISSUE_PEER} x faster than blind-rsa-signatures, {name}: {} ({times:.1} x)",
            yes_no(times >= GOAL_ISSUE_PEER)
        );
    }
}

fn per_second(us: f64) -> f64 {
    1e6 / us
}
