//! k-ary randomized response: the bound by its privacy blanket.
//!
//! The device sends its own symbol with probability `e^epsilon0 p`, each other one with probability
//! `p = 1/(e^epsilon0 + k - 1)`: that is, with probability `k p` a uniform symbol (the *blanket*),
//! otherwise its own.
//!
//! **Why it holds for all inputs of the others.** Show the adversary more: the inputs of the
//! others, which of them did not use the blanket, and the number `M` that did. The shuffled output
//! is a post-processing of that. Those without the blanket sent their known input, the same
//! whatever the device holds, so it can be removed. `M ~ Bin(n - 1, k p)`, independent of the
//! device; given `M`, what remains is the histogram of `M` uniform reports and of the device's. It
//! contains no input of the others. Relative to `L = M + 1` uniform reports its density is
//! `(k/L) sum_s n_s R(s | x) = (L + a n_x) / (L (1 + a/k))`, `a = e^epsilon0 - 1`; so all but
//! `(n_0, n_1)` may be forgotten, and the pair is that of [`Pair`] with `rho = 2/k`, `kappa = 1`.
//! `M` has one law and is seen, so the deltas `d_M` are averaged over it.
//!
//! **Grouping.** `d_M` decreases in `M`, since one more uniform report can be added afterwards. So
//! all `M` of a group may be counted as its smallest.

use super::halves::Pair;
use super::search::{COARSE, Estimate, Side, root};
use super::weights::{self, Weights};
use super::{NEGLIGIBLE, OUTSIDE, ULPS, amplifies, generic, instance, precise};
use crate::error::{self, Error};
use crate::math::{exp, expm1, sqrt, up};
use crate::notion::Bracket;

/// The largest width of a group relative to the mean of `M`. It costs a quarter of that in epsilon,
/// which is proportional to `1/sqrt(M)`, and keeps the work below a million steps for any crowd.
const WIDTH: f64 = 2e-4;

/// Large crowds have an `M` so certain that half its standard deviation is a finer width, and
/// cheap; but nothing finer than this is needed.
const FINEST: f64 = 5e-5;

/// Where less than this lies below a group, or above it, groups may be wider by `WIDER`.
const THIN: f64 = 1e-4;
const WIDER: f64 = 8.0;

/// When less than this is left, the last group takes all of it: delta is smaller than average
/// there.
const LAST_MASS: f64 = 1e-6;

/// What is left outside the sums here (and added), as a fraction of the target: less than the
/// groups cost.
const LEFT_OUT: f64 = 1e-8;

/// The largest standard deviation of a count; larger crowds are cut.
const DEVIATION: f64 = 16_384.0;

/// An upper bound on the delta at `epsilon` of `n` shuffled reports of k-ary randomized response,
/// whatever the others hold: the better of the privacy blanket's bound and
/// [`super::generic_delta`]. `epsilon0` is the replacement parameter, the logarithm of the ratio of
/// the two probabilities. Parameters out of range get the trivial answer 1.
pub fn krr_delta(epsilon0: f64, k: u64, n: u64, epsilon: f64) -> f64 {
    if k < 2 {
        return 1.0;
    }
    let generic = generic::generic_delta(epsilon0, n, epsilon);
    let decided = generic <= 0.0 || generic >= 1.0 || !amplifies(epsilon0, n);
    if decided || k == 2 {
        // For two symbols the blanket is the generic pair.
        return generic;
    }
    let blanket = |outside| Blanket::new(epsilon0, k, n, outside).estimate(epsilon).upper();
    precise(blanket, LEFT_OUT).min(generic)
}

/// The epsilon at `delta` of `n` shuffled reports of k-ary randomized response with the replacement
/// parameter `epsilon0`.
///
/// `upper` holds whatever the others hold: the smaller of the privacy blanket's bound and the
/// generic one (at most `epsilon0`). `lower` is attained when all others hold a symbol that the
/// device does not hold. Crowds of billions are cut, which only raises `upper`; their `lower` is 0.
///
/// # Errors
///
/// [`Error::OutOfRange`], naming the parameter.
pub fn krr_epsilon(epsilon0: f64, k: u64, n: u64, delta: f64) -> Result<Bracket, Error> {
    error::non_negative("epsilon0", epsilon0)?;
    error::at_least_one("n", n)?;
    error::delta(delta)?;
    error::symbols(k)?;
    let mut upper = generic::upper_end(epsilon0, n, delta);
    if k > 2 && amplifies(epsilon0, n) {
        let blanket = Blanket::new(epsilon0, k, n, LEFT_OUT * delta);
        // All M at their mean: not a bound, but close.
        let mean = blanket.typical(LEFT_OUT * delta);
        let start =
            root(|x| mean.estimate(x), delta, epsilon0, mean.guess(delta), Side::Upper, COARSE);
        upper = root(|x| blanket.estimate(x), delta, upper, start, Side::Upper, COARSE);
    }
    let lower = instance::lower_end(epsilon0, k, n, delta);
    Ok(Bracket { lower, upper })
}

/// The average over `M`, in groups.
struct Blanket {
    epsilon0: f64,
    k: u64,
    typical: u64,
    /// The probability of each group, and the pair of its smallest `M`.
    groups: Vec<(f64, Pair)>,
    /// The probability of all other `M`, which count as 0.
    outside: f64,
}

impl Blanket {
    fn new(epsilon0: f64, k: u64, n: u64, outside: f64) -> Self {
        let outside = outside.max(NEGLIGIBLE);
        let (size, a) = (k as f64, expm1(epsilon0));
        let (keep, rest) = (size / (a + size), a / (a + size));
        let near = 2.0 / size;
        // Both counts, of blankets and of reports on the two symbols, must stay within bounds.
        let n = weights::crowd(n, keep, rest, 8.0 * DEVIATION);
        let n = n.min(weights::crowd(n, near * keep, 1.0 - near, DEVIATION));
        let law = Weights::new(n - 1, keep, rest, outside);
        let mean = (n - 1) as f64 * keep;
        let deviation = sqrt(mean * rest);
        let width = |relative: f64, deviations: f64| {
            let fine = (deviations * deviation).max(FINEST * mean);
            (relative * mean).min(fine).round().max(1.0) as usize
        };
        let (narrow, wide) = (width(WIDTH, 0.5), width(WIDER * WIDTH, 2.0));
        let mut groups = Vec::new();
        let mut left = 1.0;
        let mut at = 0;
        while at < law.values.len() {
            let end = if left < LAST_MASS {
                law.values.len()
            } else if !(THIN..=1.0 - THIN).contains(&left) {
                at + wide
            } else {
                at + narrow
            };
            let group = &law.values[at..end.min(law.values.len())];
            let mass: f64 = group.iter().sum();
            groups.push((mass, pair(epsilon0, k, law.first + at as u64, outside)));
            left -= mass;
            at = end;
        }
        Self { epsilon0, k, typical: mean as u64, groups, outside: law.outside }
    }

    fn typical(&self, outside: f64) -> Pair {
        pair(self.epsilon0, self.k, self.typical, outside.max(NEGLIGIBLE))
    }

    fn estimate(&self, epsilon: f64) -> Estimate {
        let mut sum = Estimate::default();
        let mut entries = 0;
        for (mass, pair) in &self.groups {
            let part = pair.estimate(epsilon);
            sum.value += mass * part.value;
            sum.error += mass * part.error;
            sum.slope += mass * part.slope;
            entries += 1;
        }
        // d_0 is the randomizer's own delta.
        let a = expm1(self.epsilon0);
        let gap = exp(epsilon) * expm1(self.epsilon0 - epsilon);
        let own = up(gap.max(0.0) / (a + self.k as f64), ULPS);
        sum.error += self.outside * own + (OUTSIDE + weights::drift(entries)) * sum.value;
        sum
    }
}

/// The pair of `m` uniform reports and the device's.
fn pair(epsilon0: f64, k: u64, m: u64, outside: f64) -> Pair {
    let near = 2.0 / k as f64;
    Pair::new(epsilon0, m + 1, (near, 1.0 - near), 1.0, outside)
}
