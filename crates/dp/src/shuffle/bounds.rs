//! The epsilon and the delta of a crowd: the least of the bounds that hold.
//!
//! **Why they hold for all inputs of the others.** Show the adversary more: the inputs of the
//! others, and which of them did not draw from the blanket. What those sent is the same whatever the
//! device holds. What remains are the reports from the blanket and the device's own. They contain no
//! input of the others, and relative to a crowd that draws all of its reports like an other device
//! their density is that of [`Pair`].

use super::binary;
use super::closed::closed_form_epsilon;
use super::halves::{Among, Pair};
use super::instance;
use super::losses::Losses;
use super::randomizer::{Classes, Randomizer};
use super::search::{COARSE, FINE, Side, root};
use super::{Crowd, NEGLIGIBLE, OUTSIDE, amplifies, local_delta, precise};
use super::{summed, weights};
use crate::error::{self, Error};
use crate::math::{ln_sampled, up};
use crate::notion::Bracket;
use crate::pld::pair::Atoms;

/// What is left outside the sums (and added) where `b` is random, as a fraction of the target: less
/// than the nodes cost.
const LEFT_OUT: f64 = 1e-8;

/// How much more than asked for may be left out in a composition, all in all a hundredth of delta.
/// Crowds that leave out more are so small that they do not help.
const MOST_LEFT_OUT: f64 = 1e5;

/// What a release in a composition leaves out, as a part of its share of delta.
const PART: f64 = 1e-8;

/// The largest standard deviations of the two counts, of reports in the two sets and of reports
/// from the blanket; larger crowds are cut.
const DEVIATION: f64 = 32_768.0;
const BLANKET_DEVIATION: f64 = 131_072.0;

/// An upper bound on the delta at `epsilon` of `n` shuffled reports of any local randomizer that is
/// `epsilon0`-DP under *replacement* (never pass it a deletion epsilon).
///
/// Feldman, McMillan, Talwar 2023: the output is a post-processing of `(A + D, C - A + 1 - D)`
/// against `(A + 1 - D, C - A + D)`, `C ~ Bin(n - 1, 2/(e^epsilon0 + 1))`, `A ~ Bin(C, 1/2)`,
/// `D ~ Bern(e^epsilon0/(e^epsilon0 + 1))`. The divergence of that pair is summed over the bulk of
/// `C`; the rest and all rounding are added. Parameters out of range get the trivial answer 1.
pub fn generic_delta(epsilon0: f64, n: u64, epsilon: f64) -> f64 {
    let valid = epsilon0 >= 0.0 && epsilon0.is_finite() && epsilon >= 0.0 && n > 0;
    if !valid {
        return 1.0;
    }
    if epsilon >= epsilon0 {
        return 0.0;
    }
    let local = local_delta(epsilon0, epsilon);
    if !amplifies(epsilon0, n) {
        return local;
    }
    delta_of(Randomizer::Any { epsilon0 }, &Crowd::of(n), epsilon).min(local)
}

/// The epsilon at `delta` of `n` shuffled reports of any local randomizer that is `epsilon0`-DP
/// under *replacement* (never pass it a deletion epsilon). For one report alone, and for any crowd
/// that does not help, it is `epsilon0`.
///
/// `upper` holds for all such randomizers and all inputs of the others (see [`generic_delta`]).
/// `lower` is attained by binary or ternary randomized response, with certain inputs of the others.
/// Crowds beyond some billions are cut, which only raises `upper`; their `lower` is 0.
///
/// # Errors
///
/// [`Error::OutOfRange`], naming the parameter.
pub fn generic_epsilon(epsilon0: f64, n: u64, delta: f64) -> Result<Bracket, Error> {
    error::non_negative("epsilon0", epsilon0)?;
    error::at_least_one("n", n)?;
    error::delta(delta)?;
    Ok(shuffled(Randomizer::Any { epsilon0 }, &Crowd::of(n), delta))
}

/// An upper bound on the delta at `epsilon` of `n` shuffled reports of k-ary randomized response,
/// whatever the others hold: the least of [`generic_delta`], the privacy blanket's bound and, for
/// two symbols, that of [`binary`]. `epsilon0` is the replacement parameter, the logarithm of the
/// ratio of the two probabilities. Parameters out of range get the trivial answer 1.
pub fn krr_delta(epsilon0: f64, k: u64, n: u64, epsilon: f64) -> f64 {
    if k < 2 {
        return 1.0;
    }
    let generic = generic_delta(epsilon0, n, epsilon);
    if generic <= 0.0 || generic >= 1.0 || !amplifies(epsilon0, n) {
        return generic;
    }
    let own = if k == 2 {
        binary::Worst::new(epsilon0, n - 1, NEGLIGIBLE.max(OUTSIDE * generic)).delta(epsilon)
    } else {
        delta_of(Randomizer::Response { epsilon0, k }, &Crowd::of(n), epsilon)
    };
    own.min(generic)
}

/// The epsilon at `delta` of `n` shuffled reports of k-ary randomized response with the replacement
/// parameter `epsilon0`.
///
/// `upper` holds whatever the others hold: the least of the privacy blanket's bound, the generic one
/// (at most `epsilon0`) and, for two symbols, the exact law with the worst inputs. `lower` is
/// attained when all others hold a symbol that the device does not hold. Crowds of billions are
/// cut, which only raises `upper`; their `lower` is 0.
///
/// # Errors
///
/// [`Error::OutOfRange`], naming the parameter.
pub fn krr_epsilon(epsilon0: f64, k: u64, n: u64, delta: f64) -> Result<Bracket, Error> {
    error::non_negative("epsilon0", epsilon0)?;
    error::at_least_one("n", n)?;
    error::delta(delta)?;
    error::symbols(k)?;
    Ok(shuffled(Randomizer::Response { epsilon0, k }, &Crowd::of(n), delta))
}

/// The bracket of a crowd whose reports are shuffled.
fn shuffled(randomizer: Randomizer, crowd: &Crowd, delta: f64) -> Bracket {
    let upper = upper_end(randomizer, crowd, delta);
    Bracket { lower: instance::lower_end(randomizer, crowd, delta).min(upper), upper }
}

/// The bracket of a crowd with a share, for checked parameters. `is_summed` says that only the sum
/// of the reports is seen, which means more than a shuffle for RAPPOR only.
pub(crate) fn epsilon(
    randomizer: Randomizer,
    is_summed: bool,
    crowd: &Crowd,
    delta: f64,
) -> Bracket {
    match randomizer {
        Randomizer::Rappor { epsilon0, k } if is_summed => {
            summed::epsilon(epsilon0, k, crowd, delta)
        }
        _ => shuffled(randomizer, crowd, delta),
    }
}

/// The upper end of [`epsilon`] alone.
pub(crate) fn upper(randomizer: Randomizer, is_summed: bool, crowd: &Crowd, delta: f64) -> f64 {
    match randomizer {
        Randomizer::Rappor { epsilon0, k } if is_summed => summed::upper(epsilon0, k, crowd, delta),
        _ => upper_end(randomizer, crowd, delta),
    }
}

/// The epsilon of one report alone. If the device is not there, another is: what it sends counts
/// with the share only.
fn ceiling(randomizer: Randomizer, crowd: &Crowd) -> f64 {
    let epsilon0 = randomizer.local_epsilon();
    up(ln_sampled(crowd.share, epsilon0), 1e-13).min(epsilon0)
}

/// The upper end for reports that are shuffled.
pub(super) fn upper_end(randomizer: Randomizer, crowd: &Crowd, delta: f64) -> f64 {
    let (epsilon0, ceiling) = (randomizer.local_epsilon(), ceiling(randomizer, crowd));
    if !amplifies(epsilon0, crowd.reports) {
        return ceiling;
    }
    let any = Randomizer::Any { epsilon0 };
    let mut found = blanket_end(any, crowd, delta, ceiling);
    if crowd.is_all() {
        // For crowds that are cut, the closed form, where it holds, may be better.
        let closed = closed_form_epsilon(epsilon0, crowd.reports, delta);
        found = closed.map_or(found, |closed| found.min(closed));
    }
    match randomizer {
        Randomizer::Any { .. } => found,
        Randomizer::Response { k: 2, .. } if crowd.rate >= 1.0 => {
            let worst = binary::Worst::new(epsilon0, crowd.reports - 1, OUTSIDE * delta);
            found.min(worst.epsilon(crowd.share, delta))
        }
        _ => blanket_end(randomizer, crowd, delta, found),
    }
}

/// The bound by the blanket, or `ceiling` if it is not smaller.
fn blanket_end(randomizer: Randomizer, crowd: &Crowd, delta: f64, ceiling: f64) -> f64 {
    let (classes, among) = seen(randomizer, crowd);
    let merged = Pair::merged(&classes, among, (OUTSIDE * delta).max(NEGLIGIBLE));
    let guess = merged.guess(delta);
    let precision = if classes.is_fixed() { FINE } else { COARSE };
    let start = root(|x| merged.estimate(x), delta, ceiling, guess, Side::Upper, precision);
    if classes.is_fixed() {
        return start;
    }
    let full = Pair::full(&classes, among, start, (LEFT_OUT * delta).max(NEGLIGIBLE));
    root(|x| full.estimate(x), delta, ceiling, start, Side::Upper, COARSE)
}

/// An upper bound on the delta of reports that are shuffled.
pub(crate) fn delta(randomizer: Randomizer, crowd: &Crowd, epsilon: f64) -> f64 {
    let epsilon0 = randomizer.local_epsilon();
    if epsilon >= epsilon0 {
        return 0.0;
    }
    if !amplifies(epsilon0, crowd.reports) {
        // The device's own report, which is there with this probability at most.
        return crowd.rate * crowd.share * local_delta(epsilon0, epsilon);
    }
    delta_of(randomizer, crowd, epsilon)
}

fn delta_of(randomizer: Randomizer, crowd: &Crowd, epsilon: f64) -> f64 {
    let (classes, among) = seen(randomizer, crowd);
    let at = |outside| Pair::full(&classes, among, epsilon, outside).estimate(epsilon).upper();
    precise(at, if classes.is_fixed() { OUTSIDE } else { LEFT_OUT })
}

/// The classes of a device's report with the coin of its sampling, and the crowd, cut if need be.
pub(super) fn seen(randomizer: Randomizer, crowd: &Crowd) -> (Classes, Among) {
    let classes = randomizer.classes().sampled(crowd.rate);
    let two = 2.0 * classes.apart;
    let reports = weights::crowd(crowd.reports, two, 1.0 - two, DEVIATION);
    let blanket = weights::crowd(reports, classes.known, 1.0 - classes.known, BLANKET_DEVIATION);
    let reports = if classes.is_fixed() { reports } else { blanket };
    (classes, Among { reports, share: crowd.share })
}

/// The law of the loss of one release, for composition.
pub(crate) struct Composed {
    pub(crate) upper: Atoms,
    /// To be added to delta.
    pub(crate) outside: f64,
    /// A real crowd, if there is one for which it is known.
    pub(crate) lower: Option<Atoms>,
}

/// The law of the loss of a crowd; about `outside` is left out.
pub(crate) fn composed(
    randomizer: Randomizer,
    is_summed: bool,
    crowd: &Crowd,
    outside: f64,
) -> Composed {
    let largest = ceiling(randomizer, crowd);
    if !amplifies(randomizer.local_epsilon(), crowd.reports) || crowd.share <= 0.0 {
        return Composed { upper: Atoms::black_box(largest), outside: 0.0, lower: None };
    }
    let found = hidden(randomizer, is_summed, crowd, outside);
    if found.outside > MOST_LEFT_OUT * outside {
        return Composed { upper: Atoms::black_box(largest), outside: 0.0, ..found };
    }
    Composed { upper: found.upper.bounded(largest), ..found }
}

/// The same for a crowd that helps.
fn hidden(randomizer: Randomizer, is_summed: bool, crowd: &Crowd, outside: f64) -> Composed {
    let outside = (0.1 * outside).max(NEGLIGIBLE);
    if let (Randomizer::Rappor { epsilon0, .. }, true) = (randomizer, is_summed) {
        let delta = outside / PART;
        let by_columns = || summed::by_columns(epsilon0, crowd, delta);
        if crowd.share >= 1.0 || by_columns() <= upper_end(randomizer, crowd, delta) {
            return summed::composed(epsilon0, crowd, outside);
        }
    }
    let lower = randomizer.rounded_down().third_value().and_then(|third| {
        let (_, among) = seen(randomizer, crowd);
        let pair = Pair::merged(&third.sampled(crowd.rate), among, outside);
        (among.reports == crowd.reports).then(|| Losses::lower(&pair, outside))
    });
    if let (Randomizer::Response { epsilon0, k: 2 }, true) = (randomizer, crowd.is_all()) {
        let worst = binary::Worst::new(epsilon0, crowd.reports - 1, outside);
        let real = binary::extreme(epsilon0, crowd.reports - 1, true, outside);
        return Composed {
            upper: worst.atoms(),
            outside: worst.outside(),
            lower: Some(Atoms::of_masses(&real)),
        };
    }
    let (classes, among) = seen(randomizer, crowd);
    let pair = Pair::for_losses(&classes, among, outside);
    let Losses { atoms: upper, outside } = Losses::upper(&pair, outside);
    Composed { upper, outside, lower }
}
