//! Claims about two laws of which only draws are known.
//!
//! A claim (epsilon, delta) says `P(E) <= e^epsilon Q(E) + delta` for every event E, both ways. Half
//! of the draws choose the event, the other half measures it: the lower confidence bound on
//! `P(E) - e^epsilon Q(E)` must not be above delta.
//!
//! The slack is 4.5 standard deviations and a little, on both sides. A claim that just holds is
//! rejected once in 100,000 comparisons or less. There are fewer than 2,000: if all claims just held
//! (they do not), a campaign would report a fault that is none for less than 2 % of all seeds.

use std::collections::HashMap;

use rand_chacha::ChaCha20Rng;

use super::super::simulated::rng;

/// All that somebody sees.
pub(super) type View = Vec<i64>;

/// One draw.
pub(super) type Draw<'a> = &'a dyn Fn(&mut ChaCha20Rng) -> View;

/// What is claimed, as epsilon and delta.
pub(super) type Claim = (f64, f64);

/// What was found about a claim.
struct Found {
    claim: Claim,
    /// The lower bound on `P(E) - e^epsilon Q(E)`.
    bound: f64,
}

impl Found {
    fn excess(&self) -> f64 {
        self.bound - self.claim.1
    }
}

/// A number from the environment.
fn given<N: std::str::FromStr>(name: &str) -> Option<N> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

/// Prints a line for everything that is tried, and remembers what should not be.
pub(super) struct Audit {
    seed: u64,
    faults: Vec<String>,
}

impl Audit {
    /// Runs all cases of one test, which has a number of its own, and fails if there is a fault.
    pub(super) fn run(number: u64, cases: impl FnOnce(&mut Self)) {
        let seed = given("SOTTO_SEED").unwrap_or(1_u64).wrapping_mul(1 << 20) + (number << 10);
        let mut audit = Self { seed, faults: Vec::new() };
        cases(&mut audit);
        assert!(audit.faults.is_empty(), "{:#?}", audit.faults);
    }

    /// The mechanism is right: no event is likelier than claimed.
    pub(super) fn below(&mut self, what: &str, claims: &[Claim], laws: [Draw<'_>; 2]) {
        let found = self.worst(claims, laws, 4_000);
        let (epsilon, delta) = found.claim;
        let is_below = found.excess() <= 0.0;
        let verdict = if is_below { "below" } else { "ABOVE" };
        let excess = found.excess();
        self.line(
            is_below,
            &format!("{what:<66} epsilon {epsilon:.3}, delta {delta:?}: {excess:+.4} {verdict}"),
        );
    }

    /// The mechanism is broken: some event is likelier than claimed.
    pub(super) fn caught(&mut self, what: &str, claims: &[Claim], laws: [Draw<'_>; 2]) {
        let found = self.worst(claims, laws, 16_000);
        let (delta, by) = (found.claim.1, found.excess());
        let line = match by > 0.0 {
            true => format!("broken: {what:<58} caught at delta {delta:?}, by {by:.4}"),
            false => format!("broken: {what:<58} NOT CAUGHT: {by:+.4} at delta {delta:?}"),
        };
        self.line(by > 0.0, &line);
    }

    fn line(&mut self, is_right: bool, line: &str) {
        println!("{line}");
        if !is_right {
            self.faults.push(line.to_owned());
        }
    }

    /// The claim, among the finite ones, that is exceeded most, by `SOTTO_CASES` draws of each law.
    fn worst(&mut self, claims: &[Claim], laws: [Draw<'_>; 2], slice: u32) -> Found {
        let half = given("SOTTO_CASES").unwrap_or(slice) / 2;
        self.seed += 1;
        let mut rng = rng(self.seed);
        let mut counts = |draw: Draw<'_>| {
            let mut found: HashMap<View, u32> = HashMap::new();
            for _ in 0..half {
                *found.entry(draw(&mut rng)).or_default() += 1;
            }
            found
        };
        let [p, q, p_again, q_again] = [laws[0], laws[1], laws[0], laws[1]].map(&mut counts);
        let ways = [((&p, &q), (&p_again, &q_again)), ((&q, &p), (&q_again, &p_again))];
        let bound = |epsilon: f64| {
            let of = |((p, q), again)| bound((p, q), again, f64::from(half), epsilon.exp());
            ways.map(of).into_iter().fold(f64::NEG_INFINITY, f64::max)
        };
        let finite = claims.iter().filter(|claim| claim.0.is_finite());
        let found = finite.map(|claim| Found { claim: *claim, bound: bound(claim.0) });
        found.max_by(|one, other| one.excess().total_cmp(&other.excess())).unwrap()
    }
}

type Counts = HashMap<View, u32>;

/// The lower bound on `P(E) - factor Q(E)`, E chosen by the first pair of counts, each of `n` draws,
/// and measured by the second.
fn bound(chosen: (&Counts, &Counts), again: (&Counts, &Counts), n: f64, factor: f64) -> f64 {
    let count = |law: &Counts, view: &View| f64::from(law.get(view).copied().unwrap_or(0));
    // What was never seen in the other case may be only rare.
    let likelier = |view: &&View| count(chosen.0, view) > factor * (count(chosen.1, view) + 1.0);
    let event: Vec<&View> = chosen.0.keys().filter(likelier).collect();
    let of = |law: &Counts| event.iter().map(|view| count(law, view)).sum::<f64>() / n;
    let z = 4.5;
    let slack = |x: f64| z * (x * (1.0 - x).max(0.0) / n).sqrt() + z * z / n;
    let (more, less) = (of(again.0), of(again.1));
    more - slack(more) - factor * (less + slack(less))
}
