//! What each party of a recipe, and each pair of parties, learns, and the epsilon that remains.
//!
//! It follows from a few facts about single parties and about what they can do together. Each fact
//! is shown by a test, or follows from the design. Dishonest devices (at most half of the minimum
//! batch, in total) are part of every coalition.

use sotto_dp::Error;
use sotto_dp::relay::epsilon_of_sending;
use sotto_wire::Role;
use sotto_wire::recipe::{Probability, Recipe};

use super::judging::{judgement_of, two_rates};

/// A party that may be dishonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// Carries sealed requests.
    Relay,
    /// Holds recipes and keys.
    Log,
    /// Vouches for devices, for the token of one aggregator.
    Attester(Role),
    /// Issues the tokens of one aggregator.
    Issuer(Role),
    /// Leader or helper.
    Aggregator(Role),
    /// Whoever sees the result: the author, the collector, or everybody if it is published.
    Author,
    /// Compares the times at which requests arrive at all parties.
    Clock,
    /// Keeps all traffic, and breaks X25519 later.
    Recorder,
}

/// What a device's trust file allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// One attester for the tokens of both aggregators.
    pub one_attester: bool,
    /// Keys of X25519 alone.
    pub x25519: bool,
}

impl Party {
    /// All parties.
    pub const ALL: [Self; 11] = [
        Self::Relay,
        Self::Log,
        Self::Attester(Role::Leader),
        Self::Attester(Role::Helper),
        Self::Issuer(Role::Leader),
        Self::Issuer(Role::Helper),
        Self::Aggregator(Role::Leader),
        Self::Aggregator(Role::Helper),
        Self::Author,
        Self::Clock,
        Self::Recorder,
    ];

    /// Its name. A is the chain of the leader's token, B that of the helper's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Log => "log",
            Self::Attester(Role::Leader) => "attester A",
            Self::Attester(_) => "attester B",
            Self::Issuer(Role::Leader) => "issuer A",
            Self::Issuer(_) => "issuer B",
            Self::Aggregator(Role::Leader) => "leader",
            Self::Aggregator(_) => "helper",
            Self::Author => "author or public result",
            Self::Clock => "clock at every party",
            Self::Recorder => "recorder of all traffic",
        }
    }

    /// What it sees, whoever else is dishonest.
    fn fact(self, recipe: &Recipe, allowed: Allowed) -> Fact {
        match self {
            Self::Relay if recipe.sampling.cover.is_zero() => Fact {
                learns: "which address answered, and when: there is no cover",
                shown_by: "crates/protocol/tests/device/cover.rs",
            },
            Self::Relay => Fact {
                learns: "which address sent something to which operator, when, in which size class; \
                         not whether it was an answer or cover",
                shown_by: "tests/tests/anonymity/swaps.rs",
            },
            Self::Log => Fact {
                learns: "that somebody reads recipes and keys",
                shown_by: "tests/tests/anonymity",
            },
            Self::Attester(_) => Fact {
                learns: "which devices ask for tokens, and when; not for which recipe",
                shown_by: "crates/protocol/tests/device/tokens",
            },
            Self::Issuer(_) => Fact {
                learns: "how many tokens each recipe gets; not for which devices",
                shown_by: "crates/protocol/tests/issuer",
            },
            Self::Aggregator(_) => Fact {
                learns: "one share of each report, which is random on its own, and the count",
                shown_by: "crates/protocol/tests/views",
            },
            Self::Author => Fact {
                learns: "sum and count of a batch of at least the minimum size",
                shown_by: "tests/tests/minimum_batch.rs",
            },
            Self::Clock => Fact {
                learns: "when requests arrive at each party; not which report belongs to which \
                         request for tokens or read of the log",
                shown_by: "crates/protocol/src/device/tokens/times.rs",
            },
            Self::Recorder if allowed.x25519 => Fact {
                learns: "which address sent what, and both shares of each report, once X25519 is \
                         broken",
                shown_by: "design",
            },
            Self::Recorder => Fact {
                learns: "which address sent something to whom, when, and about how many reports \
                         there are; not what is inside, even if X25519 is broken: every seal is \
                         hybrid",
                shown_by: "crates/protocol/tests/device/suites.rs",
            },
        }
    }
}

/// Something that a coalition learns or can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What.
    pub learns: &'static str,
    /// The test that shows it, or "design".
    pub shown_by: &'static str,
}

/// What limits how much a coalition learns about one device's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It sees nothing that depends on any value.
    Nothing,
    /// The recipe's claim, as a device computes it.
    Claim,
    /// It knows who took part: the claim without sampling.
    SampleKnown,
    /// It sees one device's randomized value, or many without their senders: the crowd that they
    /// are in is not proved to anybody.
    RandomizerAlone,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Coalition {
    /// One party, or two.
    pub parties: Vec<Party>,
    /// What they learn.
    pub facts: Vec<Fact>,
    /// What limits them.
    pub limit: Limit,
    /// The same, if they see the result too.
    pub limit_with_result: Limit,
}

/// The epsilon of each limit, for one recipe. `None`: there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    claim: Option<f64>,
    sample_known: Option<f64>,
    randomizer_alone: Option<f64>,
}

impl Remaining {
    /// Computes them. `audience` is the number of devices in a certified audience.
    pub fn of(recipe: &Recipe, audience: Option<u64>) -> Result<Self, Error> {
        let judged = judgement_of(recipe, audience)?;
        let mut without_sampling = recipe.clone();
        let sampling = &mut without_sampling.sampling;
        (sampling.rate, sampling.default_rate) = (Probability::ONE, None);
        let without_sampling = judgement_of(&without_sampling, audience)?;
        // Whether a device took part says something by itself if the rate depends on the value.
        let taking_part = match two_rates(recipe) {
            None => 0.0,
            Some(least) => {
                let rates = [least, recipe.sampling.rate].map(|rate| rate.to_f64());
                epsilon_of_sending(rates.into(), 0.0, 0.0, 0.0)?
            }
        };
        Ok(Self {
            claim: judged.as_ref().map(|judged| judged.epsilon),
            sample_known: without_sampling.map(|judged| judged.epsilon + taking_part),
            randomizer_alone: judged.and_then(|judged| judged.local_epsilon),
        })
    }

    /// The epsilon that remains; `None` if there is no bound. No figure is above the randomizer's
    /// own: it bounds everything.
    pub fn epsilon(&self, limit: Limit) -> Option<f64> {
        let of_limit = match limit {
            Limit::Nothing => Some(0.0),
            Limit::Claim => self.claim,
            Limit::SampleKnown => self.sample_known,
            Limit::RandomizerAlone => None,
        };
        match (of_limit, self.randomizer_alone) {
            (Some(epsilon), Some(local)) => Some(epsilon.min(local)),
            (epsilon, local) => epsilon.or(local),
        }
        .filter(|epsilon| epsilon.is_finite())
    }
}

/// Every party alone, then every pair.
pub fn coalitions(recipe: &Recipe, allowed: Allowed) -> Vec<Coalition> {
    let alone = Party::ALL.iter().map(|party| vec![*party]);
    let pairs = Party::ALL
        .iter()
        .enumerate()
        .flat_map(|(index, one)| Party::ALL.iter().skip(index + 1).map(|other| vec![*one, *other]));
    alone.chain(pairs).map(|parties| Coalition::new(recipe, allowed, parties)).collect()
}

impl Coalition {
    fn new(recipe: &Recipe, allowed: Allowed, parties: Vec<Party>) -> Self {
        let mut facts: Vec<_> = parties.iter().map(|party| party.fact(recipe, allowed)).collect();
        let abilities = Abilities::of(recipe, allowed, &parties);
        facts.dedup();
        facts.extend(abilities.facts());
        let limit = |sees_result| abilities.limit(sees_result);
        let sees_result = parties.contains(&Party::Author);
        let (limit, limit_with_result) = (limit(sees_result), limit(true));
        Self { parties, facts, limit, limit_with_result }
    }
}

/// What parties can do together.
#[derive(Clone, Copy, Debug)]
struct Abilities {
    /// Knows who took part: it sees who sent what to the leader, or it grants one device its token
    /// last and waits for the report, or it sees who sent something and what the leader then sends to
    /// the helper. Who sent *something* is counted in the claim.
    knows_sample: bool,
    /// Counts the reports of a batch, or sees how much leader and helper send each other.
    counts: bool,
    both_shares: bool,
    /// Links an address to its report.
    links: bool,
    /// Sees after whose request the leader has something for the helper.
    follows: bool,
    /// Links an address to its reads of the log.
    links_reads: bool,
    /// Shows readers of the log checkpoints of different ages, and recognizes them by the keys that
    /// they then use.
    marks_readers: bool,
    /// Links a device to the recipes that it asks tokens for.
    links_tokens: bool,
    /// Gets reports of devices that do not exist past both aggregators.
    invents: bool,
    /// Grants one device its tokens after all others, and sees whether a report follows.
    delays: bool,
    /// Learns that a sender is in the audience of a targeted recipe.
    sees_audience: bool,
    /// Who took part says something about the value.
    sample_tells: bool,
    /// Who sends something says something about the value.
    sending_tells: bool,
}

impl Abilities {
    fn of(recipe: &Recipe, allowed: Allowed, parties: &[Party]) -> Self {
        let has = |party| parties.contains(&party);
        let opens = allowed.x25519 && has(Party::Recorder);
        let sees_senders = has(Party::Relay) || has(Party::Recorder);
        // It tells reports from cover.
        let links = sees_senders && has(Party::Aggregator(Role::Leader)) || opens;
        let roles = [Role::Leader, Role::Helper];
        let issuer = |role| recipe.parties.tokens.issuer(role);
        let one_issuer = issuer(Role::Leader) == issuer(Role::Helper);
        let uncovered = sees_senders && recipe.sampling.cover.is_zero();
        // Reports go on to the helper, and cover does not.
        let at_helper = [Party::Aggregator(Role::Helper), Party::Recorder, Party::Clock];
        let follows = sees_senders && at_helper.into_iter().any(has);
        // A report passes an aggregator without a real device behind it if the aggregator lies, or
        // attester or issuer of its token, or if it checks none.
        let passes = |role| {
            let lies = |one: bool, party: fn(Role) -> Party| {
                roles.into_iter().any(|at| (one || at == role) && has(party(at)))
            };
            has(Party::Aggregator(role))
                || issuer(role).is_none()
                || lies(allowed.one_attester, Party::Attester)
                || lies(one_issuer, Party::Issuer)
        };
        let delays = roles.into_iter().any(|role| {
            has(Party::Attester(role)) && roles.map(Party::Aggregator).into_iter().any(has)
        });
        Self {
            knows_sample: delays || links || follows || uncovered,
            counts: has(Party::Recorder) || roles.map(Party::Aggregator).into_iter().any(has),
            both_shares: opens || roles.map(Party::Aggregator).into_iter().all(has),
            links,
            follows: follows && !links,
            links_reads: opens || sees_senders && has(Party::Log),
            marks_readers: has(Party::Log)
                && parties.iter().any(|party| {
                    matches!(party, Party::Attester(_) | Party::Issuer(_) | Party::Aggregator(_))
                }),
            links_tokens: roles
                .into_iter()
                .any(|role| has(Party::Attester(role)) && has(Party::Issuer(role))),
            invents: roles.into_iter().all(passes),
            delays,
            sees_audience: recipe.who.targeting.is_some()
                && sees_senders
                && (links || !recipe.sampling.cover.is_one()),
            sample_tells: two_rates(recipe).is_some(),
            sending_tells: two_rates(recipe).is_some()
                && sees_senders
                && !recipe.sampling.cover.is_one(),
        }
    }

    fn facts(self) -> impl Iterator<Item = Fact> {
        let fact = |holds: bool, learns, shown_by| holds.then_some(Fact { learns, shown_by });
        let invents = self.invents && !self.both_shares;
        let unlinked = self.both_shares && !self.links;
        // The tests run the real aggregators, which check tokens.
        let invented = if self.counts { "design" } else { "tests/tests/tokens/chains.rs" };
        [
            fact(unlinked, "every randomized answer, without its sender", "design"),
            fact(self.links, "which address sent which report", "design"),
            fact(
                self.follows,
                "after which requests the leader has reports for the helper, and so who answered, if \
                 few requests come at a time",
                "design",
            ),
            fact(
                self.delays,
                "can grant a device its token last, and see whether a report follows",
                "design",
            ),
            fact(self.sees_audience, "that a sender may be in the recipe's audience", "design"),
            fact(
                self.sending_tells,
                "that a sender is less likely to have the default value",
                "crates/protocol/tests/device/kinds.rs",
            ),
            fact(self.links_reads, "which address reads the log, and when", "design"),
            fact(
                self.marks_readers,
                "which read belongs to which request, if the log shows its readers checkpoints of \
                 different ages",
                "design",
            ),
            fact(
                self.links_tokens,
                "which device asked for tokens of which recipe; all ask for all",
                "crates/protocol/tests/device/tokens",
            ),
            fact(
                invents,
                "can invent devices, fill a batch with them, and isolate one device in the result",
                invented,
            ),
        ]
        .into_iter()
        .flatten()
    }

    fn limit(self, sees_result: bool) -> Limit {
        match self {
            Self { both_shares: true, .. } => Limit::RandomizerAlone,
            Self { invents: true, .. } if sees_result => Limit::RandomizerAlone,
            Self { knows_sample: true, sample_tells, .. } if sees_result || sample_tells => {
                Limit::SampleKnown
            }
            Self { counts, sending_tells, .. } if sees_result || counts || sending_tells => {
                Limit::Claim
            }
            _ => Limit::Nothing,
        }
    }
}
