//! What somebody learns who sees all traffic at the relay and gets the result: a guess who took
//! part, over 100,000 devices.
//!
//! The devices are real: [`consider`], [`toss`], reports, cover, passes and errands as drawn, an
//! answer in ten lost on its way, resends. Left out are tokens, which every device requests alike.
//! The result comes from both aggregators. The observer knows every device's value; of each device
//! he sees how often and when it reads the log and sends, and the length of what it sends. He
//! learns a score from half of the devices, whose answers he is told, and names those of the other
//! half with the highest scores (or the lowest: those who did not take part).
//!
//! # What is compared
//!
//! A device is charged as one that *took part with probability r*, given that it sent something: r
//! is the rate q, or more if there is less cover. The charged epsilon is that of a report in its
//! crowd, reduced by sampling at this rate. So it holds against the observer only if he cannot say
//! better than r who took part. Of those whom he names, a share p did.
//!
//! - **Cost**: the recipe's epsilon at the rate p, by the same theorem ([`judge`]). To the observer
//!   p is the rate at which those whom he named were sampled, so this is what they really pay: for
//!   their *value*, which is what the claim is about (replacement). Without cover it is that of
//!   somebody who certainly took part.
//! - **Odds**: `ln (p/(1-p)) / (r/(1-r))`, by how much he changes the odds that a device took part.
//!   If r is the true rate, this is `ln TPR/FPR` of his guess among the senders, the empirical
//!   epsilon of "answered" against "sent cover". The claim promises less: its neighbours both toss
//!   the coin. If two neighbours differ in nothing but that one answers with probability r and the
//!   other never does, an event that is R times as likely with an answer is only `1 + r (R - 1)`
//!   times as likely with the first one. So to keep R itself below the charged epsilon is the
//!   stricter test. (The claim of another recipe may well be below it.)
//!
//! Silent devices are left out. They certainly did not take part, so the result says nothing about
//! their values, and r is the rate among the others.
//!
//! The bounds on p are Chernoff's, `n KL(k/n, p) <= ln 1/alpha`, which hold for every n.
//!
//! # False alarms
//!
//! The seeds are fixed. Over the choice of seeds, correct devices fail here with probability below
//! 1e-4: there are eight groups with two bounds each, wrong with probability 1e-7 at most. The result
//! tells which values happened to be answered more often, also among those who are named, which is
//! a choice of one out of 2^4 sets of values. Where an *upper* bound must stay below the charged
//! epsilon, the estimate is more than six standard deviations away from failing.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use sotto_dp::recipe::{Terms, judge};
use sotto_dp::relay::rate_among_senders;
use sotto_protocol::admission::{Admitted, Assessments, View};
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{
    Change, DeviceStore, Errand, Host, MemoryState, Pending, advance, consider, next_pass, toss,
};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::log::Reader;
use sotto_protocol::oblivious::{InnerRequest, produce_request};
use sotto_protocol::recipe::{Assessment, estimates, mechanism};
use sotto_protocol::trust::{TokensFile, Trust};
use sotto_protocol::{Moment, uniform_below};
use sotto_testing::keys::rng;
use sotto_testing::recipe::{DAY, HOUR, ISSUERS, NOW, pinned};
use sotto_testing::world::{Plan, World};
use sotto_vdaf::AggregateResult;
use sotto_wire::recipe::{Privacy, Probability, Randomizer, Recipe, Sampling};
use sotto_wire::{MediaType, taskprov};

use crate::views::aggregation::Aggregators;

const DEVICES: usize = 100_000;
/// Enough to notice what was planted.
const FEW: usize = 20_000;
const VALUES: usize = 4;
/// Each bound is wrong with at most this probability.
const ALPHA: f64 = 1e-7;

/// A histogram of four values, a tenth of the devices, a local epsilon of 3.
fn plan(cover: Probability) -> Plan {
    let mut plan = Plan::new();
    plan.recipe.sampling.rate = Probability::new(1, 10).unwrap();
    plan.recipe.sampling.cover = cover;
    plan.recipe.randomizer = Randomizer::RandomizedResponse { epsilon_micro: 3_000_000 };
    // A small batch, so that what is charged is large enough to be told from chance.
    plan.recipe.aggregation.min_batch = 200;
    plan.trust.floors.dishonest_devices = 100;
    // Without cover the recipe costs more than the default.
    plan.trust.budget.epsilon = 4.0;
    plan.reclaim();
    // Only for the spread: with it, a pass reads or sends.
    plan.trust.operators.extend(pinned(&ISSUERS));
    plan.trust.tokens = Some(TokensFile::new(ISSUERS[0], ISSUERS[1]));
    plan
}

/// What devices are charged for a recipe, and by which rate.
struct Charged {
    recipe: Recipe,
    rate: f64,
    epsilon: f64,
}

impl Charged {
    fn new(cover: Probability) -> Self {
        let recipe = plan(cover).recipe;
        let Sampling { rate, cover, .. } = &recipe.sampling;
        let rate = rate_among_senders(rate.to_f64(), cover.to_f64()).unwrap();
        let epsilon = Assessment::new(recipe.clone()).unwrap().cost().unwrap().judgement.epsilon;
        Self { recipe, rate, epsilon }
    }

    /// The recipe's epsilon for devices that took part with this probability.
    fn epsilon_at(&self, rate: f64) -> f64 {
        let law = mechanism(&self.recipe).unwrap().law();
        let terms = Terms::new(law, rate, self.recipe.aggregation.min_batch, 1);
        let Privacy::Claim { delta, .. } = &self.recipe.privacy else { unreachable!() };
        judge(&terms, None, delta.to_f64()).unwrap().epsilon
    }
}

/// What the observer sees of a device, and what he wants to know.
struct Life {
    value: usize,
    took_part: bool,
    reads: u64,
    /// From the last read to the first send.
    gap: u64,
    /// When it sent something.
    sends: Vec<u64>,
    /// How long that was, sealed and padded.
    length: usize,
}

impl Life {
    /// Each as the number of a bin.
    fn features(&self) -> [usize; 5] {
        let first = self.sends.first().map_or(0, |sent| (sent - NOW) / (2 * HOUR));
        let gap = u64::BITS - (self.gap / 60).leading_zeros();
        let length = self.length.ilog2();
        [self.sends.len(), length as usize, first as usize, gap as usize, self.reads as usize]
    }
}

/// Devices in a log that all of them have read, with one recipe.
struct Fleet {
    trust: Trust,
    view: View,
    admitted: Arc<Admitted>,
    /// A device that has known the log for long.
    fresh: MemoryState,
    attributes: [Attributes; VALUES],
    /// The length of a sealed request, by that of its content.
    lengths: BTreeMap<usize, usize>,
    /// The planted fault.
    fault: fn(&mut Pending),
}

impl Fleet {
    fn new(cover: Probability, fault: fn(&mut Pending)) -> Self {
        let world: World = plan(cover).build();
        let view = View::open(&world.log.view.to_bytes(), &world.trust).unwrap();
        let admitted =
            Assessments::default().admit(&world.offer(), &view, &world.trust).unwrap().into();
        let mut fresh = world.device();
        let size = fresh.state().log_size(&view.checkpoint().origin).unwrap();
        let mut reader = Reader::new(world.log.files.clone());
        let proof = reader.consistency(size, view.checkpoint().size).unwrap();
        let read = advance(fresh.state(), &view, &proof, &world.trust, world.now).unwrap();
        fresh.commit(read.unwrap()).unwrap();
        let attributes = std::array::from_fn(|value| {
            let tier = Value::String("gold".to_owned());
            [("region".to_owned(), Value::Int(value as i64)), ("tier".to_owned(), tier)].into()
        });
        let (trust, lengths) = (world.trust, BTreeMap::new());
        Self { trust, view, admitted, fresh, attributes, lengths, fault }
    }

    /// Two days of a device. What it sends is added to `uploads`.
    fn live(&mut self, value: usize, uploads: &mut Vec<Vec<u8>>, rng: &mut ChaCha20Rng) -> Life {
        let mut life =
            Life { value, took_part: false, reads: 0, gap: 0, sends: Vec::new(), length: 1 };
        let (mut store, recipe) = (self.fresh.clone(), self.admitted.assessment.id());
        let (mut now, mut read) = (NOW, NOW);
        loop {
            now += next_pass(rng).as_secs();
            if now > NOW + 2 * DAY {
                return life;
            }
            if Errand::draw(&self.trust, rng) == Errand::Read {
                (read, life.reads) = (now, life.reads + 1);
                if !store.state().is_considered(&recipe) {
                    self.decide(&mut store, value, Moment(now), rng);
                    let pending = store.state().pending().next();
                    life.took_part = pending.is_some_and(|(_, sent)| !is_cover(&sent.report));
                }
                continue;
            }
            let due = store.state().due(Moment(now)).next();
            let Some(pending) = due.map(|(_, pending)| pending.clone()) else { continue };
            store.commit(Change::Sending { recipe }).unwrap();
            if life.sends.is_empty() {
                life.gap = now - read;
                life.length = self.sealed_len(&pending);
                uploads.push(pending.report);
            }
            life.sends.push(now);
            if uniform_below(10, rng) > 0 {
                store.commit(Change::Delivered { recipe }).unwrap();
            }
        }
    }

    fn decide(&self, store: &mut MemoryState, value: usize, now: Moment, rng: &mut ChaCha20Rng) {
        let host =
            Host { conditions_met: true, attributes: &self.attributes[value], learner: None };
        let (state, trust) = (store.state(), &self.trust);
        let step = consider(state, &self.admitted, &self.view, trust, &host, now, rng).unwrap();
        assert!(step.silence.is_none());
        store.commit(step.change).unwrap();
        if let Some(mut answered) = toss(step.ticket, &host, rng).unwrap() {
            if let Change::Answered { pending, .. } = &mut answered {
                (self.fault)(pending);
            }
            store.commit(answered).unwrap();
        }
    }

    /// The length of what the relay gets. Sealing takes most of a device's time, and the length
    /// depends on that of the content alone: each is sealed once.
    fn sealed_len(&mut self, pending: &Pending) -> usize {
        let sealed = || {
            let configuration = &pending.task_configuration;
            let task = taskprov::task_id(configuration);
            let request = InnerRequest {
                method: "POST",
                url: &format!("https://leader.example/tasks/{task}/reports"),
                fields: &[
                    ("content-type", MediaType::UploadReq.as_str()),
                    (taskprov::HEADER, &taskprov::header_value(configuration)),
                ],
                content: &pending.report,
            };
            let key = &pending.route.as_ref().unwrap().key;
            produce_request(&request, key, Moment(NOW), &mut rng(1)).unwrap().0.len()
        };
        *self.lengths.entry(pending.report.len()).or_insert_with(sealed)
    }

    /// All devices, and the result.
    fn run(mut self, devices: usize, seed: u64) -> Observed {
        let (mut uploads, mut rng) = (Vec::new(), rng(seed));
        let lives: Vec<Life> = (0..devices)
            .map(|_| {
                // Two values are rare.
                let value = [0, 0, 0, 0, 0, 1, 1, 1, 2, 3][uniform_below(10, &mut rng) as usize];
                self.live(value, &mut uploads, &mut rng)
            })
            .collect();
        let task = self.admitted.assessment.task();
        let collected = Aggregators::new(task).collect(&uploads, Moment(NOW + 3 * DAY));
        let AggregateResult::Vector(sums) = collected.result else { panic!("a histogram") };
        let count = collected.report_count;
        let sent = |life: &&Life| life.took_part && !life.sends.is_empty();
        assert_eq!(count, lives.iter().filter(sent).count() as u64);
        let recipe = self.admitted.assessment.recipe();
        let estimates = estimates(recipe, &sums, count, 0.95).unwrap();
        let rate = recipe.sampling.rate.to_f64();
        Observed { lives, answers: estimates.iter().map(|found| found.value * rate).collect() }
    }
}

/// Everything that the observer has.
struct Observed {
    lives: Vec<Life>,
    /// How many devices with each value took part, as estimated from the result.
    answers: Vec<f64>,
}

/// Some of the devices that the observer was not told about.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    named: f64,
    took_part: f64,
}

impl Observed {
    /// The groups that the observer names, best guess first: the hundredth, the tenth and the half
    /// of the senders with the highest scores; and the other half.
    fn name(&self) -> [Group; 4] {
        let (known, unknown) = self.lives.split_at(self.lives.len() / 2);
        let sends = |life: &&Life| !life.sends.is_empty();
        // How often each feature occurs among those who took part, and the others. One more, so that
        // nothing is impossible.
        let mut seen = [[[1.0f64; 128]; 5]; 2];
        for life in known.iter().filter(sends) {
            let seen = &mut seen[usize::from(life.took_part)];
            seen.iter_mut().zip(life.features()).for_each(|(seen, bin)| seen[bin] += 1.0);
        }
        let mut holders = [1.0f64; VALUES];
        self.lives.iter().filter(sends).for_each(|life| holders[life.value] += 1.0);
        let [others, those] = seen;
        let score = |life: &Life| {
            let share = (self.answers[life.value] / holders[life.value]).clamp(1e-6, 1.0 - 1e-6);
            let bins = life.features().into_iter().enumerate();
            let traffic =
                bins.map(|(feature, bin)| (those[feature][bin] / others[feature][bin]).ln());
            (share / (1.0 - share)).ln() + traffic.sum::<f64>()
        };
        let mut scores: Vec<f64> = known.iter().filter(sends).map(score).collect();
        scores.sort_by(|one, other| other.total_cmp(one));
        let cuts = [100, 10, 2].map(|part| scores[scores.len() / part]);
        let mut groups = [Group::default(); 4];
        for life in unknown.iter().filter(sends) {
            let score = score(life);
            let named = cuts.map(|cut| score >= cut);
            for (group, named) in groups.iter_mut().zip([named[0], named[1], named[2], !named[2]]) {
                group.named += f64::from(u8::from(named));
                group.took_part += f64::from(u8::from(named && life.took_part));
            }
        }
        groups
    }
}

/// An interval.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: f64,
    high: f64,
}

impl Group {
    /// The share of those who took part.
    fn share(&self) -> Bounds {
        let found = self.took_part / self.named;
        let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
        let allowed =
            |p: f64| self.named * (term(found, p) + term(1.0 - found, 1.0 - p)) <= -ALPHA.ln();
        let search = |mut outside: f64, mut inside: f64| {
            for _ in 0..60 {
                let middle = outside.midpoint(inside);
                *if allowed(middle) { &mut inside } else { &mut outside } = middle;
            }
            outside
        };
        Bounds { low: search(0.0, found), high: search(1.0, found) }
    }

    /// How the odds differ from those of this rate.
    fn odds(&self, rate: f64) -> Bounds {
        let Bounds { low, high } = self.share();
        let odds = |p: f64| (p / (1.0 - p)).ln();
        Bounds { low: odds(low) - odds(rate), high: odds(high) - odds(rate) }
    }
}

/// The empirical epsilons of a fleet, as lower bounds: of the odds and of the cost. And an upper
/// bound of the odds of both halves.
#[derive(Debug)]
struct Found {
    odds: f64,
    cost: f64,
    at_most: f64,
}

fn judged(observed: &Observed, charged: &Charged) -> Found {
    let groups = observed.name();
    let [hundredth, tenth, half, rest] = groups;
    let named = [hundredth, tenth, half];
    let best = |of: &dyn Fn(&Group) -> f64| named.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let rest = rest.odds(charged.rate);
    let found = Found {
        odds: best(&|group| group.odds(charged.rate).low).max(-rest.high),
        cost: best(&|group| charged.epsilon_at(group.share().low)),
        at_most: half.odds(charged.rate).high.max(-rest.low),
    };
    println!("charged {} for the rate {}: {found:?}", charged.epsilon, charged.rate);
    found
}

fn assert_within(found: &Found, charged: &Charged) {
    let Charged { epsilon, .. } = *charged;
    assert!(found.odds <= epsilon && found.cost <= epsilon, "{found:?}, charged {epsilon}");
    assert!(found.at_most <= epsilon, "{found:?}, charged {epsilon}");
}

fn assert_noticed(found: &Found, charged: &Charged) {
    let Charged { epsilon, .. } = *charged;
    assert!(found.odds > epsilon && found.cost > epsilon, "{found:?}, charged {epsilon}");
}

fn no_fault(_: &mut Pending) {}

fn half() -> Probability {
    Probability::new(1, 2).unwrap()
}

#[test]
fn with_full_cover_nobody_guesses_who_took_part() {
    let observed = Fleet::new(Probability::ONE, no_fault).run(DEVICES, 1);
    let charged = Charged::new(Probability::ONE);
    let found = judged(&observed, &charged);
    assert_within(&found, &charged);
}

#[test]
fn with_cover_at_half_the_senders_took_part_at_the_judged_rate() {
    let observed = Fleet::new(half(), no_fault).run(DEVICES, 2);
    let charged = Charged::new(half());
    let found = judged(&observed, &charged);
    assert_within(&found, &charged);
    // Whoever takes the cover for full would be charged too little, and that is noticed.
    let too_little = Charged::new(Probability::ONE);
    let found = judged(&observed, &too_little);
    assert_noticed(&found, &too_little);
}

/// The same observer, and fleets that are charged for full cover.
#[test]
fn cover_that_is_missing_or_differs_is_noticed() {
    let charged = Charged::new(Probability::ONE);
    let none = Probability::new(0, 1).unwrap();
    for (cover, fault) in [
        (none, no_fault as fn(&mut Pending)),
        (Probability::ONE, shorter),
        (Probability::ONE, later),
    ] {
        let observed = Fleet::new(cover, fault).run(FEW, 3);
        assert_noticed(&judged(&observed, &charged), &charged);
    }
}

/// Cover of another size class.
fn shorter(pending: &mut Pending) {
    if is_cover(&pending.report) {
        pending.report.truncate(1_000);
    }
}

/// Cover that is sent half a day later.
fn later(pending: &mut Pending) {
    if is_cover(&pending.report) {
        pending.from += DAY / 2;
    }
}
