//! The rounds of a recipe in words, and what they mean for one device.

use anyhow::Result;
use serde::Serialize;
use sotto_dp::crowd::Crowd;
use sotto_dp::filter::Filter;
use sotto_dp::number::up;
use sotto_dp::published;
use sotto_protocol::recipe::{
    Assessment, Cost, crowd_of, judgement_to_claim, set_claim, show_micro,
};
use sotto_protocol::trust::Trust;
use sotto_wire::limits::{MAX_PARTICIPATIONS, MAX_ROUNDS};
use sotto_wire::recipe::{
    Discovery, EVALUATION, Model, Participation, Privacy, Recipe, Round, Sampling, Series, Tokens,
    Training, UPDATE, When,
};

use super::words::{grouped, moment, one_in};
use crate::recipe_file::Loaded;
use crate::time_text::show_seconds;
use crate::vocabulary;

/// What `recipe check` says about rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rounds {
    rounds: u64,
    donation: bool,
    /// How long each one is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    round_length_s: Option<u64>,
    /// In how many of them a device takes part at most.
    most_rounds: u64,
    /// How many tokens a device gets from each issuer.
    tokens_per_issuer: u64,
    /// What a device computes for a recipe of one such round.
    #[serde(serialize_with = "vocabulary::epsilon_or_inf")]
    epsilon_of_one: Option<f64>,
    /// For how many rounds of one header a new device's budget lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    affordable_rounds: Option<u64>,
    /// The header of a round.
    header_id: Option<String>,
    round: Option<u64>,
    model_digest: Option<String>,
    #[serde(skip)]
    pairs: bool,
    /// Whether the file of a round is a list of candidates.
    #[serde(skip)]
    lists: bool,
}

impl Rounds {
    /// Of a recipe that has rounds, on a device with this trust file.
    pub(super) fn of(loaded: &Loaded, trust: Option<&Trust>) -> Option<Self> {
        let recipe = &loaded.recipe;
        let series = recipe.series.as_ref()?;
        let most = series.most_reports();
        let donation = is_donation(series);
        let tokens = &recipe.parties.tokens;
        let round = series.round.as_ref();
        let header = recipe.header().filter(|_| loaded.id_known());
        Some(Self {
            rounds: series.rounds,
            donation,
            round_length_s: series.length_s,
            most_rounds: most,
            tokens_per_issuer: if *tokens == Tokens::InsecureNone { 0 } else { most },
            epsilon_of_one: cost(loaded, 1).map(|cost| cost.judgement.epsilon),
            affordable_rounds: trust.and_then(|trust| affordable_rounds(loaded, trust)),
            header_id: header.map(|header| header.id().to_string()),
            round: round.map(|round| round.index),
            model_digest: round.and_then(|round| Some(round.model.as_ref()?.to_string())),
            lists: series.discovery.is_some(),
            pairs: matches!(tokens, Tokens::RateLimited { .. }),
        })
    }

    /// Prints it for people.
    pub(super) fn print(&self, row: &dyn Fn(&str, &str) -> Result<()>) -> Result<()> {
        let rounds = grouped(self.rounds);
        let each = each(self.round_length_s);
        row("rounds", &format!("up to {rounds}{each}; the claim is about all of them together"))?;
        match (&self.header_id, self.round) {
            (_, None) => row("this is", "the header, which no device answers")?,
            (None, Some(round)) => row("this is", &format!("round {round}"))?,
            (Some(id), Some(round)) => {
                row("this is", &format!("round {round} of the header {id}"))?
            }
        }
        if let Some(model) = &self.model_digest {
            row(if self.lists { "list" } else { "model" }, model)?;
        }
        row("one device", &self.one_device())?;
        if let Some(epsilon) = self.epsilon_of_one {
            let mut words = format!("epsilon {} for a recipe of one such round", up(epsilon));
            if let Some(rounds) = self.affordable_rounds {
                words += &format!("; a new device's budget pays for up to {}", grouped(rounds));
            }
            row("cost", &words)?;
        }
        let tokens = match (self.tokens_per_issuer, self.pairs) {
            (0, _) => "none, so nobody makes sure that a device keeps to that".to_owned(),
            (1, true) => "1 pair per device".to_owned(),
            (1, false) => "1 per device".to_owned(),
            (most, true) => format!("{most} pairs per device, one for each round"),
            (most, false) => format!("{most} per device, one for each round"),
        };
        row("tokens", &tokens)
    }

    fn one_device(&self) -> String {
        match self.donation {
            true => "takes part at most once, in a secret round".to_owned(),
            false => "may take part in all of them".to_owned(),
        }
    }
}

/// What a device is charged if there are so many rounds; `None` if nothing is claimed, or nothing
/// can be.
fn cost(loaded: &Loaded, rounds: u64) -> Option<Cost> {
    let mut recipe = loaded.recipe.header().unwrap_or_else(|| loaded.recipe.clone());
    recipe.series.as_mut()?.rounds = rounds;
    let Privacy::Claim { rounds: claimed, .. } = &mut recipe.privacy else { return None };
    *claimed = rounds;
    let judged = judgement_to_claim(&recipe, loaded.audience).ok()??;
    set_claim(&mut recipe, published(judged.epsilon).ok()?).ok()?;
    Assessment::certified(recipe, loaded.audience).ok()?.cost().cloned()
}

/// The most rounds that a ledger pays for in which nothing was spent yet.
fn affordable_rounds(loaded: &Loaded, trust: &Trust) -> Option<u64> {
    let series = loaded.recipe.series.as_ref()?;
    let most = if is_donation(series) { MAX_ROUNDS } else { MAX_PARTICIPATIONS };
    let pays = |rounds: u64| {
        let Some(cost) = cost(loaded, rounds) else { return false };
        [trust.budget(), trust.lifetime()].into_iter().all(|budget| {
            Filter::new(budget, 0).is_ok_and(|it| it.may_afford(0, &cost.charge).is_ok())
        })
    };
    cost(loaded, 1)?;
    let (mut enough, mut above) = (0, most + 1);
    while enough + 1 < above {
        let middle = u64::midpoint(enough, above);
        if pays(middle) { enough = middle } else { above = middle }
    }
    Some(enough)
}

fn is_donation(series: &Series) -> bool {
    series.participation == Participation::Donation {}
}

/// What the author can expect in a round; with donation in the last one, which has the fewest
/// answers.
pub(super) fn crowd_of_round(recipe: &Recipe, audience: Option<u64>) -> Crowd {
    let Recipe { who, sampling, aggregation, series, .. } = recipe;
    let asked = in_round(who.population, series.as_ref());
    let audience = audience.map(|audience| in_round(audience, series.as_ref()));
    crowd_of(asked, audience, sampling, &recipe.answer_times(), aggregation.min_batch)
}

/// How many of these devices toss the coin for one round: all of them, or with donation those that
/// stop at the last one.
pub(super) fn in_round(devices: u64, series: Option<&Series>) -> u64 {
    let Some(series) = series.filter(|series| is_donation(series)) else { return devices };
    let stop = 1.0 / series.rounds as f64;
    (devices as f64 * stop * libm::pow(1.0 - stop, series.rounds as f64 - 1.0)) as u64
}

/// How often a device answers at most.
pub(super) fn most_answers(recipe: &Recipe) -> u64 {
    recipe.series.as_ref().map_or(1, |series| series.most_reports())
}

/// Of which round the expected answers are.
pub(super) fn of_which_round(recipe: &Recipe) -> &'static str {
    match &recipe.series {
        None => "",
        Some(series) if is_donation(series) => " in the last round, which has the fewest",
        Some(_) => " in each round",
    }
}

/// How often the series of this round can still be asked.
pub(super) fn rounds_left(recipe: &Recipe) -> Option<String> {
    let (series, round) = (recipe.series.as_ref()?, recipe.round()?);
    let left = series.rounds.saturating_sub(round.index + 1);
    Some(match left {
        0 => "it is the last round that the claim is about".to_owned(),
        _ => format!("{} more rounds are within the claim", grouped(left)),
    })
}

/// Rows of `recipe show`.
pub(super) fn rows(recipe: &Recipe, row: &dyn Fn(&str, &str) -> Result<()>) -> Result<()> {
    let Some(series) = &recipe.series else { return Ok(()) };
    let (rounds, each) = (grouped(series.rounds), each(series.length_s));
    row("rounds", &format!("up to {rounds}{each}; {}", participation(series)))?;
    match &series.round {
        None => row("this is", "the header, which no device answers")?,
        Some(round) => row("this is", &self::round(series, round))?,
    }
    if let Some(discovery) = &series.discovery {
        row("looks for", &words(discovery))?;
        row("lists", &discovery.lists)?;
    }
    let Some(training) = &series.training else { return Ok(()) };
    row(verb(training), &model(&training.model))?;
    row("models", &training.models)?;
    row(training.attribute(), &answer(training))?;
    match training.vote_weight_micro {
        Some(_) if training.is_evaluation() => row("clip", "the last number of a model"),
        Some(weight) => row("vote", &format!("on the clip, of weight {}", show_micro(weight))),
        None => Ok(()),
    }
}

/// `words that begin like a candidate of a public list (of 122,816 bytes)`.
pub(super) fn words(discovery: &Discovery) -> String {
    let len = grouped(discovery.list_len.into());
    format!("words that begin like a candidate of a public list (of {len} bytes)")
}

/// What devices do with the model.
pub(super) fn verb(training: &Training) -> &'static str {
    if training.is_evaluation() { "evaluates" } else { "trains" }
}

/// ` of 1w each`, or nothing.
pub(super) fn each(length_s: Option<u64>) -> String {
    length_s.map_or(String::new(), |length_s| format!(" of {} each", show_seconds(length_s)))
}

/// `each device in any round`.
pub(super) fn participation(series: &Series) -> &'static str {
    match series.participation {
        Participation::EachRound {} => "each device in any round",
        Participation::Donation {} => "each device at most once, in a secret round",
    }
}

/// `round 3, model 0707...`.
pub(super) fn round(series: &Series, round: &Round) -> String {
    let what = if series.discovery.is_some() { "list" } else { "model" };
    match &round.model {
        None => format!("round {}", round.index),
        Some(file) => format!("round {}, {what} {file}", round.index),
    }
}

/// `softmax regression of 65 features and 10 classes (650 weights)`.
pub(super) fn model(model: &Model) -> String {
    let kind = match model {
        Model::Softmax { features, classes } => {
            format!("softmax regression of {features} features and {classes} classes")
        }
        Model::Mlp { features, hidden, classes } => {
            format!("a network of {features} features, {hidden} hidden units and {classes} classes")
        }
        Model::Custom { name, .. } => format!("the model {name}"),
    };
    format!("{kind} ({} weights)", grouped(model.weights()))
}

/// `3 steps of at most 32 examples, learning rate 0.5`, or `the loss, at most 4, and the part of
/// right predictions`.
pub(super) fn answer(training: &Training) -> String {
    let Training { steps, batch, learning_rate_micro, largest_loss_micro, .. } = training;
    if let Some(largest) = largest_loss_micro {
        let largest = show_micro(*largest);
        return format!("the loss, at most {largest}, and the part of right predictions");
    }
    let steps = if *steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
    let batch = batch.map_or("of all examples".to_owned(), |batch| {
        format!("of at most {} examples", grouped(batch.into()))
    });
    format!("{steps} {batch}, learning rate {}", show_micro(*learning_rate_micro))
}

/// How often a device answers in the rounds, for its owner. `coin` says how it decides in each.
pub(super) fn how_often(recipe: &Recipe, series: &Series, span: &str, coin: &str) -> Vec<String> {
    let rounds = format!("{} rounds{}", grouped(series.rounds), each(series.length_s));
    let often = match series.participation {
        Participation::EachRound {} => {
            format!("In up to {rounds} {span}, at most once in each. {coin}")
        }
        Participation::Donation {} => donation(recipe, &rounds, span),
    };
    let this = match &series.round {
        None => {
            "This announces the rounds. Devices answer the rounds, not the announcement.".to_owned()
        }
        Some(round) => {
            let index = grouped(round.index + 1);
            let When { opens, closes, .. } = recipe.answer_times();
            let open = match series.length_s {
                Some(_) => format!(", open from {} to {}", moment(opens), moment(closes)),
                None => String::new(),
            };
            format!("This is round {index} of up to {}{open}.", grouped(series.rounds))
        }
    };
    vec![often, this]
}

fn donation(recipe: &Recipe, rounds: &str, span: &str) -> String {
    let Sampling { rate, cover, .. } = recipe.sampling;
    let whether = match rate.is_one() {
        true => "in which one, or in none".to_owned(),
        false => {
            format!("whether it answers at all ({} devices may) and in which round", one_in(rate))
        }
    };
    let otherwise = match () {
        () if cover.is_one() => "it sends a message that looks the same",
        () if cover.is_zero() => "it sends nothing, so a relay sees in which one it answered",
        () => "it sometimes sends a message that looks the same",
    };
    format!(
        "At most once, at a secret time: in one of up to {rounds} {span}. Your device decides at \
         random {whether}. In the others {otherwise}. Its own history does not say when, or whether, \
         it answered."
    )
}

/// What an update is, or what a candidate is, for the owner of a device.
pub(super) fn what_update(series: &Series) -> Option<String> {
    if series.discovery.is_some() {
        return Some(
            "In each round there is a public list of beginnings of words. Your device picks one of \
             your words and looks which beginning on the list it has. It answers with the number of \
             that beginning, or with 0 if there is none."
                .to_owned(),
        );
    }
    let training = series.training.as_ref()?;
    if training.is_evaluation() {
        return Some(format!(
            "{EVALUATION} says how well a model that everybody can read predicts your data: how wrong \
             it is on average, and how often it is right. Your device works it out; your data stays \
             on it. The model: {}.",
            model(&training.model)
        ));
    }
    Some(format!(
        "{UPDATE} says how a model that everybody can read would have to change to fit your data \
         better. Your device works it out; your data stays on it. The model: {}.",
        model(&training.model)
    ))
}
