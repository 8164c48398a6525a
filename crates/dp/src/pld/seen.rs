//! A round of which the noisy sum and the number of messages are seen.
//!
//! A device with the default value, whose contribution is the zero vector, takes part with
//! probability `r0`; one with any other value with probability `r1`, at least `r0`. A device that
//! does not take part sends a *dummy*, a zero vector, with probability `q'`. So it sends something
//! with probability `t0 = r0 + (1-r0) q'` or `t1 = r1 + (1-r1) q'`. Every message brings the same
//! noise. The rates are often the same, and there are often no dummies.
//!
//! What the others hold is arbitrary, and known to the adversary. An upper end shows him even more,
//! until only a *crowd* is left: `n` devices that each send a message with the same
//! probability, in secret. `b` is the law of their number. More devices in the crowd are
//! post-processing, so it may be smaller than it is; that it is smaller still costs its
//! probability.
//!
//! - **Beside.** Show who takes part, and with what: the sum of the others is then known. Those who
//!   do not send dummies with probability `q'`: that is the crowd. Or show all about those that are
//!   not known to hold the default value: the others send zero vectors with probability `t0`.
//!   Either way the device adds one to the count or nothing, and its value to the sum or nothing.
//! - **Exchange.** Show of those with the rate `r1` that they took part, with probability
//!   `(r1 - r0)/(1 - r0)`: the rest send with probability `t0`, as all others, and of what they
//!   send `p = r0/t0` are values at most. Given the count, one device in then means another one
//!   out. Show all other messages. What is left is the device's, `N(x, s^2)` or a dummy, against
//!   the exchanged one, `p N(v, s^2) + (1-p) N(0, s^2)`. For given lengths the worst `v` is the one
//!   with the least correlation with `x`: opposite to it, or orthogonal for one-hot; and longer is
//!   worse. For numbers, `x` and `v` point the same way, and the two messages get the same coin
//!   instead.
//! - **Subset** (a device is there in both cases, and all rates are the same). Given the count, the
//!   senders are a uniform subset ([`super::noise`]).
//!
//! `docs/privacy-accounting.md` has the proofs. Lower ends are real populations: the others hold
//! the default value, or all the value opposite to the device's.

use super::counts::{self, Counts, Grouping};
use super::event::{Context, Pairs};
use super::mixture::{Group, Mixture};
use super::noise::Bound;
use super::opposed::Opposed;
use super::pair::Pair;
use super::symmetric::Symmetric;
use super::table::Table;
use crate::math::search::last_where;
use crate::math::{binomial, exp, ln, sqrt};
use crate::{Adjacency, Error, Shape};

/// More different counts than this are not examined one by one.
const MOST_COUNTS: u64 = 1 << 22;

/// One round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The probability that a device with the default value takes part.
    pub(crate) default_rate: f64,
    /// The same for any other value; not smaller.
    pub(crate) rate: f64,
    /// The probability of a dummy when not taking part.
    pub(crate) dummy_rate: f64,
    /// The number of other devices.
    pub(crate) others: u64,
    /// How many of them are known to hold the default value.
    pub(crate) defaults: u64,
    pub(crate) sigma: f64,
    pub(crate) shape: Shape,
}

/// Devices that each send a message with the same probability, in secret.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    others: u64,
    sending: f64,
}

impl Crowd {
    /// With fewer others the view reveals at least as much: the rest is post-processing.
    fn cut(self, outside: f64) -> Self {
        let mut others = self.others.min(1 << 52);
        while counts::width(others, self.sending, outside) > MOST_COUNTS {
            others /= 4;
        }
        Self { others, ..self }
    }
}

/// What is compared, given the crowd.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// A device with a value is there or not. It and the message that it is exchanged for are both
    /// values, at most `D` apart, or both dummies.
    SameCoin,
    /// A device with a value is there or not, beside the crowd.
    Join,
    /// A device holds a value or the default value, beside the crowd.
    Turn,
    /// A device holds one value or another.
    Values,
    /// A device with a value sends something or nothing, and the sum moves by `D`; and the reverse.
    Sent,
    Unsent,
}

/// An upper end: the pairs of both directions.
type Upper = [Box<dyn Pair>; 2];

impl Seen {
    /// The probability that a device with a value sends anything.
    fn sending(&self) -> f64 {
        self.rate + self.dummies()
    }

    /// The probability that a device with a value sends a dummy.
    fn dummies(&self) -> f64 {
        (1.0 - self.rate) * self.dummy_rate
    }

    /// The probability that a device with the default value sends anything.
    fn default_sending(&self) -> f64 {
        self.default_rate + (1.0 - self.default_rate) * self.dummy_rate
    }

    /// Whether the crowd of those who send dummies is surely the better one.
    fn hidden_by_dummies(&self) -> bool {
        self.others as f64 * self.dummies() > 4.0 * self.sigma * self.sigma + 400.0
    }

    fn one_rate(&self) -> bool {
        self.default_rate == self.rate
    }

    /// The groups of these masses. Kinds of groups follow one another.
    fn groups(&self, form: Form, masses: &[(f64, f64)]) -> Vec<Group> {
        let (q, d, t) = (self.rate, self.dummies(), self.sending());
        let (t0, r0) = (self.default_sending(), self.default_rate);
        // 1 - t, without a difference.
        let silent = (1.0 - q) * (1.0 - self.dummy_rate);
        let far = self.shape.replacement_distance();
        let each = |group: &dyn Fn(f64, f64) -> Group| -> Vec<Group> {
            masses.iter().map(|&(b, before)| group(b, before)).collect()
        };
        match form {
            Form::SameCoin => {
                let part = if d > 0.0 { q / t } else { 1.0 };
                let mut groups = each(&|b, before| Group {
                    base: part * b,
                    stay: part * silent * b,
                    gap: part * t * b,
                    moved: part * t * before,
                    distance: far,
                });
                if part < 1.0 {
                    let rest = 1.0 - part;
                    groups.extend(each(&|b, before| Group {
                        base: rest * b,
                        stay: rest * (silent * b + t * before),
                        gap: rest * t * (b - before),
                        moved: 0.0,
                        distance: far,
                    }));
                }
                groups
            }
            Form::Join => each(&|b, before| Group {
                base: b,
                stay: silent * b + d * before,
                gap: q * b + d * (b - before),
                moved: q * before,
                distance: 1.0,
            }),
            Form::Turn => {
                // t - t0 and t0 - d, without a difference.
                let more = (q - r0) * (1.0 - self.dummy_rate);
                let less = r0 + (q - r0) * self.dummy_rate;
                each(&|b, before| Group {
                    base: (1.0 - r0) * (1.0 - self.dummy_rate) * b + t0 * before,
                    stay: silent * b + d * before,
                    gap: more * b + less * before,
                    moved: q * before,
                    distance: 1.0,
                })
            }
            Form::Values => each(&|b, before| Group {
                base: silent * b + t * before,
                stay: silent * b + d * before,
                gap: q * before,
                moved: q * before,
                distance: far,
            }),
            Form::Sent => each(&|b, before| Group {
                base: b,
                stay: silent * b,
                gap: t * b,
                moved: t * before,
                distance: far,
            }),
            Form::Unsent => each(&|b, before| Group {
                base: before,
                stay: silent * before,
                gap: t * before,
                moved: t * b,
                distance: far,
            }),
        }
    }
}

/// Builds the pairs of one round.
struct Builder<'a> {
    seen: &'a Seen,
    context: &'a Context,
    /// The mass of counts, and of crowds, that may be left out.
    outside: f64,
}

/// The pairs of one round under the context's adjacency.
pub(crate) fn pairs(seen: &Seen, context: &Context) -> Result<Pairs, Error> {
    let plain = seen.one_rate() && seen.dummy_rate == 0.0 && seen.defaults == 0;
    if plain && context.adjacency != Adjacency::AddRemove {
        return subset(seen, context);
    }
    let outside = 0.5 * context.outside();
    let builder = Builder { seen, context, outside };
    let upper = builder.least(builder.uppers());
    let (lower, whole) = builder.lower();
    Ok(Pairs { upper, lower: Some(lower), outside: context.outside(), attained: whole })
}

/// The device is there in both cases, all rates are the same, and there are no dummies.
fn subset(seen: &Seen, context: &Context) -> Result<Pairs, Error> {
    let outside = context.outside();
    let crowd = Crowd { others: seen.others, sending: seen.rate }.cut(outside);
    let most = if context.total == 1 { 1_024 } else { context.groups(64) };
    let rates = |grouping| counts::rates_seen((seen.rate, crowd.others), outside, most, grouping);
    let both = (rates(Grouping::Pessimistic), rates(Grouping::Optimistic));
    let pairs = context.taken(both, Bound::exact(seen.sigma), seen.shape)?;
    let attained = pairs.attained && crowd.others == seen.others;
    Ok(Pairs { outside, attained, ..pairs })
}

impl Builder<'_> {
    /// All upper ends that hold.
    fn uppers(&self) -> Vec<Upper> {
        let Seen { others, defaults, .. } = *self.seen;
        let everybody = Crowd { others, sending: self.seen.default_sending() };
        let mut uppers = Vec::new();
        for crowd in self.beside() {
            uppers.push(match self.context.adjacency {
                Adjacency::AddRemove => self.both_ways(crowd, Form::Join),
                Adjacency::ZeroOut => self.both_ways(crowd, Form::Turn),
                // With one rate, values are at least as far apart from each other.
                Adjacency::Replace if self.seen.one_rate() => continue,
                Adjacency::Replace => {
                    let turn = |reversed| self.upper(crowd, Form::Turn, reversed);
                    let values = self.upper(crowd, Form::Values, false);
                    self.symmetric(&[turn(false), turn(true), values])
                }
            });
        }
        uppers.push(if self.context.adjacency != Adjacency::AddRemove && self.seen.one_rate() {
            self.symmetric(&[self.upper(everybody, Form::Values, false)])
        } else {
            let shown = (self.seen.rate - self.seen.default_rate) / (1.0 - self.seen.default_rate);
            let left = defaults + self.left(others - defaults, shown);
            let crowd = Crowd { others: left, ..everybody };
            match self.context.adjacency {
                Adjacency::AddRemove => {
                    // Where dummies abound, nobody needs to be exchanged.
                    if self.seen.hidden_by_dummies() {
                        return uppers;
                    }
                    [false, true].map(|reversed| self.exchanged(crowd, reversed))
                }
                _ => {
                    let forms = [Form::Sent, Form::Unsent];
                    self.symmetric(&forms.map(|form| self.upper(crowd, form, false)))
                }
            }
        });
        uppers
    }

    /// The crowds beside which the others' sum is known.
    fn beside(&self) -> Vec<Crowd> {
        let Seen { default_rate, rate, dummy_rate, others, defaults, .. } = *self.seen;
        let mut crowds = Vec::new();
        if dummy_rate > 0.0 {
            let left = self.left(defaults, default_rate) + self.left(others - defaults, rate);
            crowds.push(Crowd { others: left, sending: dummy_rate });
        }
        if defaults > 0 {
            crowds.push(Crowd { others: defaults, sending: self.seen.default_sending() });
        }
        crowds
    }

    /// How many of `devices` are left, at least, if each is shown with probability `shown`.
    fn left(&self, devices: u64, shown: f64) -> u64 {
        if !(shown > 0.0) {
            return devices;
        }
        // Tails are computed to 1e-12, and there are two of these at most.
        let allowed = 0.49 * self.outside;
        if devices as f64 * shown > 1e4 {
            return devices - binomial::bulk(devices, shown, allowed).1;
        }
        let may_be = |m: u64| binomial::upper_tail(devices, shown, m) > allowed;
        devices - last_where(0, devices + 1, may_be)
    }

    /// The device against the one that it is exchanged for.
    fn exchanged(&self, crowd: Crowd, reversed: bool) -> Box<dyn Pair> {
        let Seen { sigma, rate, default_rate, shape, .. } = *self.seen;
        let crowd = crowd.cut(self.outside);
        let dummies = self.seen.dummies();
        let part = default_rate / crowd.sending;
        match shape {
            _ if !(dummies > 0.0) => Box::new(self.upper(crowd, Form::Sent, reversed)),
            _ if !(part > 0.0) => Box::new(self.upper(crowd, Form::Join, reversed)),
            Shape::Vector => {
                let masses = self.masses(crowd, Form::Sent, Grouping::Pessimistic);
                Box::new(Opposed { sigma, masses, part, rate, dummies, reversed })
            }
            Shape::OneHot => {
                let masses = self.masses(crowd, Form::Sent, Grouping::Pessimistic);
                let groups =
                    if self.context.total == 1 { 768 } else { self.context.groups(256) as u32 };
                let masses = counts::with_another(&masses, (part, sigma), groups);
                Box::new(Mixture { sigma, groups: self.seen.groups(Form::Join, &masses), reversed })
            }
            Shape::Number => Box::new(self.upper(crowd, Form::SameCoin, reversed)),
        }
    }

    fn both_ways(&self, crowd: Crowd, form: Form) -> Upper {
        [false, true]
            .map(|reversed| -> Box<dyn Pair> { Box::new(self.upper(crowd, form, reversed)) })
    }

    /// In a composition the curves are tables, which are evaluated on both sides of 0.
    fn symmetric(&self, curves: &[Mixture]) -> Upper {
        let boxed: [Vec<Box<dyn Pair>>; 2] = if self.context.total == 1 {
            [0, 1].map(|_| curves.iter().map(|curve| Box::new(curve.clone()) as _).collect())
        } else {
            let table = |curve| Table::pessimistic(curve, self.outside, 1.0);
            let tables: Vec<_> = curves.iter().map(|curve| table(curve)).collect();
            [0, 1].map(|_| tables.iter().map(|table| Box::new(table.clone()) as _).collect())
        };
        boxed.map(|curves| -> Box<dyn Pair> { Box::new(Symmetric { curves }) })
    }

    fn upper(&self, crowd: Crowd, form: Form, reversed: bool) -> Mixture {
        self.mixture(crowd.cut(self.outside), form, Grouping::Pessimistic, reversed)
    }

    fn mixture(&self, crowd: Crowd, form: Form, grouping: Grouping, reversed: bool) -> Mixture {
        let groups = self.seen.groups(form, &self.masses(crowd, form, grouping));
        Mixture { sigma: self.seen.sigma, groups, reversed }
    }

    fn masses(&self, crowd: Crowd, form: Form, grouping: Grouping) -> Vec<(f64, f64)> {
        // A composition evaluates every group for every cell of its lattice, and every curve of a
        // symmetric pair for itself. With dummies the two ends are not as close.
        let (tolerance, most) = match (self.context.total, self.seen.dummy_rate > 0.0) {
            (1, false) => (2e-6, 1 << 20),
            (1, true) => (5e-5, 1 << 20),
            _ if self.context.adjacency == Adjacency::AddRemove => (1e-4, self.context.groups(256)),
            _ => (1e-4, self.context.groups(64)),
        };
        let counts = Counts::new(crowd.others, crowd.sending, self.outside);
        counts.grouped(self.stride(crowd, form, tolerance), most, grouping)
    }

    /// How many counts make up a group: as many as keep the error in the variance of the loss below
    /// `tolerance`, but never more than a quarter of the count's standard deviation.
    fn stride(&self, crowd: Crowd, form: Form, tolerance: f64) -> u64 {
        let deviation = sqrt(crowd.others as f64 * crowd.sending * (1.0 - crowd.sending));
        if !(deviation > 4.0) {
            return 1;
        }
        let (moves, distance) = match form {
            Form::Join | Form::Turn => (self.seen.rate, 1.0),
            _ => (self.seen.sending(), self.seen.shape.replacement_distance()),
        };
        let count = self.seen.sending() / deviation;
        let noise = moves * distance / self.seen.sigma;
        let share = count * count / (count * count + noise * noise);
        (deviation * sqrt(tolerance / share).min(0.25)) as u64
    }

    /// The pairs of the worse of the real populations, and whether these are all of the others.
    fn lower(&self) -> (Upper, bool) {
        let Seen { others, defaults, dummy_rate, rate, .. } = *self.seen;
        let of = |crowd: Crowd, form: Form| -> Upper {
            [false, true].map(|reversed| -> Box<dyn Pair> {
                Box::new(self.mixture(
                    crowd.cut(self.outside),
                    form,
                    Grouping::Optimistic,
                    reversed,
                ))
            })
        };
        // The others hold the default value, or one that is orthogonal to the device's.
        let default = Crowd { others, sending: self.seen.default_sending() };
        let whole = default.cut(self.outside).others == others;
        let calm = match self.context.adjacency {
            Adjacency::AddRemove => of(default, Form::Join),
            _ => of(default, Form::Turn),
        };
        // The others hold the value that is farthest from the device's.
        let far = Crowd { others, sending: rate };
        let opposed = match self.context.adjacency {
            _ if dummy_rate > 0.0 || defaults > 0 => return (calm, whole),
            Adjacency::AddRemove => of(far, Form::Sent),
            Adjacency::Replace => of(far, Form::Values),
            Adjacency::ZeroOut => return (calm, whole),
        };
        let whole = whole && far.cut(self.outside).others == others;
        // With one rate the second is never better.
        let first = !self.seen.one_rate() && self.score(&calm) > self.score(&opposed);
        (if first { calm } else { opposed }, whole)
    }

    /// The best of several upper ends: each is valid.
    fn least(&self, mut uppers: Vec<Upper>) -> Upper {
        let mut best = uppers.swap_remove(0);
        for next in uppers {
            if self.score(&next) < self.score(&best) {
                best = next;
            }
        }
        best
    }

    /// The epsilon of a single release; for several, the normal approximation of their composition.
    fn score(&self, pairs: &Upper) -> f64 {
        let Context { delta, total, .. } = *self.context;
        let worse = |of: &dyn Fn(&dyn Pair) -> f64| of(&*pairs[0]).max(of(&*pairs[1]));
        if total == 1 {
            return worse(&|pair| super::solve(pair, delta, true));
        }
        // Half of the variance of the loss is its mean; large losses count as what they are, and
        // those that can hardly be told from certainty as infinite.
        let cost = |loss: f64| if loss < 1.0 { 0.5 * loss * loss } else { loss - 0.5 };
        let mut bounds: Vec<f64> = (0..60).map(|j| 1e-6 * exp(0.3 * f64::from(j))).collect();
        bounds.splice(0..0, bounds.clone().into_iter().rev().map(|b| -b));
        let mean = worse(&|pair| {
            let mut cells = pair.cells(&bounds);
            let beyond = cells.pop().map_or(0.0, |cell| cell.p);
            if beyond * total as f64 > delta {
                return f64::INFINITY;
            }
            let positive = cells.iter().filter(|cell| cell.p > 0.0 && cell.q > 0.0);
            positive.map(|cell| cell.p * cost(ln(cell.p / cell.q).abs())).sum()
        });
        let all = total as f64 * mean;
        all + 2.0 * sqrt(all * -ln(delta))
    }
}
