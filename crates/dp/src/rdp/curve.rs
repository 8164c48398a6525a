//! The Renyi divergence of any event at one order.

use super::Loss;
use super::log_sum::ln_one_plus_exp;
use super::rounding::{add_up, count_up, divide_down, multiply_up};
use super::sampled_gaussian::{MARGIN, divergence, divergence_from_integers};
use super::without_replacement::{LARGEST_ORDER, MOST_INNER, amplified};
use crate::error::{order as check_order, unsupported};
use crate::math::{exp, expm1, ln, ln_sampled, log1p, up};
use crate::shuffle::Randomizer;
use crate::{Adjacency, Error, Event, Shape, closed, discrete};

/// The Renyi divergence of `event` at `order`, for the neighbours of `adjacency`, both directions.
///
/// `order` is above 1; infinity means the pure epsilon (the largest loss), which is infinite for
/// Gaussian noise.
///
/// - `gaussian`, `discrete_gaussian`: `order d^2 / 2 sigma^2` with `d` the sensitivity times the
///   distance of `shape` (for the discrete one Canonne, Kamath, Steinke 2020, theorem 14).
/// - `distributed_discrete_gaussian`: that of the continuous Gaussian of
///   [`discrete::as_gaussian`]; for one party as `discrete_gaussian`.
/// - `laplace`: the exact divergence; its norm is L1, in which two contributions are 2 apart
///   whatever their shape.
/// - `randomized_response`, `rappor`: the exact divergence, under replacement only.
/// - `projective_geometry`: as pure DP, under replacement only.
/// - `pure_dp`, `approximate_dp`, `zcdp`: their parameters must hold for the requested adjacency.
/// - `poisson_sampled`, `sampled_without_replacement`: see the functions below.
/// - `composed`, `repeated`: sums.
pub fn of_event(
    event: &Event,
    adjacency: Adjacency,
    shape: Shape,
    order: f64,
) -> Result<Loss, Error> {
    event.check()?;
    if order != f64::INFINITY {
        check_order(order)?;
    }
    Curve { adjacency, shape }.loss(event, order)
}

/// Which inputs are neighbours.
#[derive(Clone, Copy)]
pub(super) struct Curve {
    pub(super) adjacency: Adjacency,
    pub(super) shape: Shape,
}

impl Curve {
    /// The loss of an event that has been checked.
    pub(super) fn loss(self, event: &Event, order: f64) -> Result<Loss, Error> {
        match event {
            Event::Gaussian { sigma, sensitivity } => {
                Ok(pure(gaussian(order, self.ratio(*sigma, *sensitivity))))
            }
            Event::DiscreteGaussian { sigma, sensitivity } => {
                Ok(pure(gaussian(order, self.ratio(*sigma, count_up(*sensitivity)))))
            }
            Event::DistributedDiscreteGaussian { sigma, parties, sensitivity, .. } => {
                self.distributed((*sigma, *parties, *sensitivity), 1.0, order)
            }
            Event::Laplace { scale, sensitivity } => {
                Ok(pure(laplace(order, self.laplace_epsilon(*scale, *sensitivity))?))
            }
            Event::RandomizedResponse { epsilon0, k } => {
                if self.adjacency != Adjacency::Replace {
                    return Err(RESPONSE);
                }
                Ok(pure(response(order, *epsilon0, *k as f64)))
            }
            Event::Rappor { epsilon0, .. } => {
                if self.adjacency != Adjacency::Replace {
                    return Err(RESPONSE);
                }
                // Two bits that are answered independently.
                Ok(pure(multiply_up(2.0, response(order, *epsilon0, 2.0))))
            }
            Event::ProjectiveGeometry { .. } => {
                if self.adjacency != Adjacency::Replace {
                    return Err(RESPONSE);
                }
                let epsilon = Randomizer::of(event).map_or(f64::INFINITY, |r| r.local_epsilon());
                Ok(pure(pure_dp(order, epsilon)?))
            }
            Event::PureDp { epsilon } => Ok(pure(pure_dp(order, *epsilon)?)),
            Event::ApproximateDp { epsilon, delta } => {
                Ok(Loss { rdp: pure_dp(order, *epsilon)?, delta: *delta })
            }
            Event::Zcdp { rho } => {
                Ok(pure(if *rho == 0.0 { 0.0 } else { up(rho * order, MARGIN) }))
            }
            Event::PoissonSampled { rate, of } => self.poisson(*rate, of.unwrapped(), order),
            Event::SampledWithoutReplacement { population, sample, of } => {
                self.without_replacement(*population, *sample, of.unwrapped(), order)
            }
            Event::Composed { of } => of.iter().try_fold(Loss::default(), |sum, part| {
                let next = self.loss(part, order)?;
                Ok(Loss { rdp: add_up(sum.rdp, next.rdp), delta: add_up(sum.delta, next.delta) })
            }),
            Event::Repeated { times, of } => {
                let once = self.loss(of, order)?;
                let times = count_up(*times);
                Ok(Loss {
                    rdp: multiply_up(times, once.rdp),
                    delta: multiply_up(times, once.delta),
                })
            }
            Event::TruncatedPoisson { .. } => Err(unbounded("truncated Poisson batches")),
            Event::SampledCountSeen { .. } | Event::ImportanceSampled { .. } => {
                Err(unbounded("sampling with the count seen"))
            }
            // The count that only the device makes possible has an infinite loss.
            Event::CountOnly { .. } => Err(unbounded("the count alone")),
            Event::Shuffled { .. } => Err(unbounded("shuffling")),
            Event::Summed { .. } => Err(unbounded("sums of local reports")),
            Event::RandomAllocation { .. } => Err(unbounded("random allocation")),
        }
    }

    /// Sensitivity times distance, over sigma.
    fn ratio(self, sigma: f64, sensitivity: f64) -> f64 {
        sensitivity * self.shape.distance(self.adjacency) / sigma
    }

    /// The pure epsilon of the Laplace mechanism.
    fn laplace_epsilon(self, scale: f64, sensitivity: f64) -> f64 {
        let distance = if self.adjacency == Adjacency::Replace { 2.0 } else { 1.0 };
        distance * sensitivity / scale
    }

    /// The distributed discrete Gaussian, at a sampling rate. `parties` counts those whose noise is
    /// in the sum whether or not the device takes part.
    fn distributed(
        self,
        (sigma, parties, sensitivity): (f64, u64, f64),
        rate: f64,
        order: f64,
    ) -> Result<Loss, Error> {
        if order == f64::INFINITY {
            return Ok(pure(f64::INFINITY));
        }
        let distance = sensitivity * self.shape.distance(self.adjacency);
        Ok(pure(if parties == 1 {
            divergence_from_integers(rate, divide_down(sigma, distance), order)
        } else {
            let sigma = discrete::as_gaussian(sigma, parties)?;
            divergence(rate, divide_down(sigma, distance), order)
        }))
    }

    /// Poisson sampling.
    ///
    /// In general, with weight `1-q` the device is not in the sample and both neighbours give the
    /// same law. The moment `A = E_Q (P/Q)^a` is jointly convex in `(P, Q)`, so `A - 1` shrinks at
    /// least by the factor `q`: a weak bound, but one that holds for every mechanism and every
    /// adjacency. An inner delta becomes `q delta`: the bad part of the mixture.
    ///
    /// Better bounds, used where they apply:
    /// - Gaussian, add/remove: exact ([`super::sampled_gaussian()`]). Zero-out is the same pair,
    ///   since a contribution of zero and none leave the same sum.
    /// - Discrete Gaussian, the same: the shifts `k d` of its integer moments are lattice vectors,
    ///   under which the lattice sums do not change, so integer moments equal the continuous ones;
    ///   between integers, the chord. The proof that the other direction is smaller uses only that
    ///   a reflection exchanges the two laws.
    /// - Distributed discrete Gaussian: that of the Gaussian that is at least as bad.
    /// - Pure and approximate DP under add/remove: `(ln(1 + q (e^epsilon - 1)), q delta)` (Balle,
    ///   Barthe, Gaboardi 2018, theorem 8). Laplace under all three adjacencies: under replacement
    ///   that theorem's proof (advanced joint convexity) needs the epsilon to hold both between two
    ///   values and between a value and none, and the Laplace epsilon at distance 2 does.
    fn poisson(self, rate: f64, of: &Event, order: f64) -> Result<Loss, Error> {
        if let Event::PoissonSampled { rate: inner, of } = of {
            // Two independent coins in a row are one coin.
            return self.poisson(multiply_up(rate, *inner), of, order);
        }
        let same_as_absent = self.adjacency != Adjacency::Replace;
        match of {
            Event::Gaussian { sigma, sensitivity } if same_as_absent => {
                return Ok(pure(divergence(rate, divide_down(*sigma, *sensitivity), order)));
            }
            Event::DiscreteGaussian { sigma, sensitivity } if same_as_absent => {
                let sigma = divide_down(*sigma, count_up(*sensitivity));
                return Ok(pure(divergence_from_integers(rate, sigma, order)));
            }
            Event::DistributedDiscreteGaussian { sigma, parties, sensitivity, .. }
                if same_as_absent && rate > 0.0 =>
            {
                return self.distributed((*sigma, *parties, *sensitivity), rate, order);
            }
            _ => {}
        }
        let mut loss = mixed(rate, self.loss(of, order)?, order);
        let epsilon = match of {
            Event::PureDp { epsilon } | Event::ApproximateDp { epsilon, .. }
                if self.adjacency == Adjacency::AddRemove =>
            {
                Some(*epsilon)
            }
            Event::Laplace { scale, sensitivity } => {
                Some(self.laplace_epsilon(*scale, *sensitivity))
            }
            _ => None,
        };
        if let Some(epsilon) = epsilon {
            loss.rdp = loss.rdp.min(amplified_box(order, epsilon, rate)?);
        }
        Ok(loss)
    }

    /// A uniform subset of fixed size.
    ///
    /// Under replacement: the bound of Wang, Balle, Kasiviswanathan 2019 (theorem 9) for mechanisms
    /// without a delta, at integer orders and on the chord between them;
    /// `(ln(1 + g (e^epsilon - 1)), g delta)` with `g = sample / population` for black boxes
    /// (Balle, Barthe, Gaboardi 2018, theorem 9); the bound by convexity (as for Poisson sampling)
    /// for all. Under zero-out only the last: the others compare a device with another device.
    /// Under add/remove the population changes, and nothing is claimed.
    fn without_replacement(
        self,
        population: u64,
        sample: u64,
        of: &Event,
        order: f64,
    ) -> Result<Loss, Error> {
        if self.adjacency == Adjacency::AddRemove {
            return Err(unsupported(
                "sampling without replacement under add-remove",
                "use replace: the population has a fixed size",
            ));
        }
        if sample == population {
            return self.loss(of, order);
        }
        let fraction = up(sample as f64 / population as f64, 2.0 * f64::EPSILON).min(1.0);
        let mut loss = mixed(fraction, self.loss(of, order)?, order);
        if self.adjacency == Adjacency::ZeroOut {
            return Ok(loss);
        }
        if let Event::PureDp { epsilon } | Event::ApproximateDp { epsilon, .. } = of {
            loss.rdp = loss.rdp.min(amplified_box(order, *epsilon, fraction)?);
        }
        let inner_divergences = order * plain_parts(of);
        if loss.delta == 0.0 && order <= LARGEST_ORDER && inner_divergences <= MOST_INNER {
            loss.rdp = loss.rdp.min(amplified(fraction, order, |j| Ok(self.loss(of, j)?.rdp))?);
        }
        Ok(loss)
    }
}

const RESPONSE: Error = unsupported(
    "randomized response unless under replace",
    "it hides which symbol was reported, not that there was a report; use replace",
);

fn unbounded(what: &'static str) -> Error {
    unsupported(what, "there is no Renyi bound for it; use the accountant best or pld")
}

fn pure(rdp: f64) -> Loss {
    Loss { rdp, delta: 0.0 }
}

/// The divergence of two Gaussians `ratio` standard deviations apart.
fn gaussian(order: f64, ratio: f64) -> f64 {
    up(0.5 * order * ratio * ratio, MARGIN).max(f64::MIN_POSITIVE)
}

/// The divergence of `k`-ary randomized response.
///
/// With `r = 1/(e^epsilon + k - 1)` the probability of each other symbol,
/// `A - 1 = r (e^{a epsilon} + e^{(1-a) epsilon} - e^epsilon - 1)`, which is
/// `r (1 - e^{-(a-1) epsilon}) (e^{a epsilon} - 1)`: nothing cancels.
fn response(order: f64, epsilon: f64, k: f64) -> f64 {
    if order == f64::INFINITY {
        return epsilon;
    }
    let less = order - 1.0;
    let x = order * epsilon;
    // ln(e^epsilon + k - 1) and ln(e^x - 1), without overflow.
    let ln_all = epsilon + log1p((k - 1.0) * exp(-epsilon));
    let ln_power = if x < 40.0 { ln(expm1(x)) } else { x };
    let ln_excess = ln(-expm1(-less * epsilon)) + ln_power - ln_all;
    up((ln_one_plus_exp(ln_excess) / less).min(epsilon), MARGIN).max(f64::MIN_POSITIVE)
}

/// The divergence of the worst mechanism of pure epsilon `epsilon`.
fn pure_dp(order: f64, epsilon: f64) -> Result<f64, Error> {
    if order == f64::INFINITY || epsilon == 0.0 {
        return Ok(epsilon);
    }
    Ok(closed::pure_to_rdp(epsilon, order)?.max(f64::MIN_POSITIVE))
}

/// The divergence of the Laplace mechanism of pure epsilon `epsilon`.
fn laplace(order: f64, epsilon: f64) -> Result<f64, Error> {
    if order == f64::INFINITY { Ok(epsilon) } else { closed::laplace_rdp(1.0 / epsilon, order) }
}

/// The divergence of a black box of pure epsilon `epsilon` that is sampled at `rate`.
fn amplified_box(order: f64, epsilon: f64, rate: f64) -> Result<f64, Error> {
    let (amplified, _) = closed::sampled(epsilon, 0.0, rate)?;
    pure_dp(order, amplified)
}

/// The bound by joint convexity: `A - 1` times `rate`.
fn mixed(rate: f64, inner: Loss, order: f64) -> Loss {
    let less = order - 1.0;
    if rate == 0.0 {
        return Loss::default();
    }
    let rdp = if less == f64::INFINITY || inner.rdp == f64::INFINITY {
        inner.rdp
    } else {
        up(ln_sampled(rate, less * inner.rdp) / less, MARGIN).min(inner.rdp)
    };
    Loss { rdp, delta: multiply_up(rate, inner.delta) }
}

/// How many plain releases an event consists of; infinite if it does not, or if its divergence is
/// not cheap at every order.
fn plain_parts(event: &Event) -> f64 {
    match event {
        Event::Composed { of } => of.iter().map(plain_parts).sum(),
        Event::Repeated { of, .. } => plain_parts(of),
        Event::PoissonSampled { .. }
        | Event::SampledWithoutReplacement { .. }
        | Event::DistributedDiscreteGaussian { .. } => f64::INFINITY,
        _ => 1.0,
    }
}
