//! `sotto recipe explain`: explains a recipe to the owner of a device, without jargon.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use sotto_dp::filter::{Charge, Filter};
use sotto_protocol::recipe::{Assessment, colluding, derive_vdaf, judgement_of, mechanism};
use sotto_protocol::trust::Trust;
use sotto_wire::recipe::{AttributeType, Privacy, Query, Randomizer};
use sotto_wire::{Recipe, Role};

use super::series;
use super::words::{self, grouped, moment};
use crate::output::{Outcome, Output};
use crate::recipe_file::RecipeArgs;
use crate::task::recipe_report_bytes;
use crate::time_text::show_seconds;

/// The largest number of questions that is counted.
const MOST: u64 = 1_000;

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
}

/// A heading with its sentences.
#[derive(Serialize)]
pub(super) struct Section {
    title: &'static str,
    #[serde(rename = "sentences")]
    pub(super) text: Vec<String>,
}

impl ExplainArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let (loaded, trust) = self.recipe.load()?;
        let recipe = &loaded.recipe;
        let author = match loaded.author_known {
            true => recipe.author.name.as_str(),
            false => "somebody who has not signed yet",
        };
        let sections = sections(recipe, loaded.audience, author, trust.as_ref())?;
        if output.json() {
            let (name, purpose) = (&recipe.name, &recipe.purpose);
            let value = json!({ "name": name, "purpose": purpose, "sections": sections });
            output.value(&value)?;
            return Ok(Outcome::Yes);
        }
        output.title(&recipe.purpose)?;
        output.prose(format!("{}, asked by {author}", recipe.name))?;
        for section in &sections {
            output.heading(section.title)?;
            for sentence in &section.text {
                output.prose(sentence)?;
            }
        }
        Ok(Outcome::Yes)
    }
}

pub(super) fn sections(
    recipe: &Recipe,
    audience: Option<u64>,
    author: &str,
    trust: Option<&Trust>,
) -> Result<Vec<Section>> {
    Ok(vec![
        Section { title: "What your device works out", text: what(recipe) },
        Section { title: "How often", text: how_often(recipe) },
        Section { title: "What is sent", text: what_is_sent(recipe)? },
        Section { title: "Who learns what", text: who_learns(recipe, author, trust) },
        Section { title: "What it costs you", text: cost(recipe, audience, trust)? },
        Section { title: "If they cheat", text: if_they_cheat(recipe, audience)? },
    ])
}

fn what(recipe: &Recipe) -> Vec<String> {
    let kind = |kind: &AttributeType| match kind {
        AttributeType::Bool => "yes or no".to_owned(),
        AttributeType::Int => "a number".to_owned(),
        AttributeType::String => "a word".to_owned(),
        AttributeType::Strings => "a list of words".to_owned(),
        AttributeType::Vector(length) => format!("{} numbers", grouped((*length).into())),
    };
    let read: Vec<String> = recipe
        .attributes
        .iter()
        .map(|(name, attribute)| format!("{name} ({})", kind(attribute)))
        .collect();
    let read = match read.is_empty() {
        true => "It reads nothing about you.".to_owned(),
        false => {
            format!("It may read: {}. None of this leaves your device as it is.", read.join(", "))
        }
    };
    let answer = match &recipe.query {
        Query::Count { .. } => "From that it works out a yes or a no".to_owned(),
        Query::Sum { max, .. } | Query::Mean { max, .. } => {
            format!("From that it works out a number from 0 to {}", grouped(*max))
        }
        Query::Quantiles { .. } => {
            format!("From that it works out in which of {} ranges a number is", answers(recipe))
        }
        Query::MultiHistogram { most, .. } => {
            let most = grouped((*most).into());
            match recipe.query.labels() {
                Some(labels) => format!(
                    "From that it works out up to {most} of these answers: {}",
                    labels.join(", ")
                ),
                None => format!(
                    "From that it works out up to {most} of {} possible answers",
                    answers(recipe)
                ),
            }
        }
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => format!(
            "From that it takes {} numbers, makes them smaller if they are large, and rounds them",
            grouped(vectors.dimension.into())
        ),
        Query::Nearest { candidates, .. } => {
            let length = grouped(recipe.query.candidate_dimension().unwrap_or_default().into());
            let count = grouped(candidates.len() as u64);
            let names = recipe.query.labels().map_or_else(String::new, |labels| {
                let names: Vec<&str> =
                    labels.iter().take(candidates.len()).map(String::as_str).collect();
                format!(", which are called {}", names.join(", "))
            });
            format!(
                "From that it takes {length} numbers, and looks which of {count} lists of numbers that are \
                 written in the question they are closest to{names}. Only which one it is counts"
            )
        }
        Query::Histogram { .. } | Query::SparseHistogram { .. } => match recipe.query.labels() {
            Some(labels) => {
                format!("From that it works out one of these answers: {}", labels.join(", "))
            }
            None => format!("From that it works out one of {} possible answers", answers(recipe)),
        },
    };
    let rule = format!("{answer}, by this rule: {}", recipe.query.mapping());
    let asked = recipe.who.targeting.as_ref().map(|targeting| {
        format!("Only devices for which this is true are asked: {}", targeting.predicate)
    });
    let update = recipe.series.as_ref().and_then(series::what_update);
    [Some(read), update, Some(rule), asked].into_iter().flatten().collect()
}

/// How many answers there are.
fn answers(recipe: &Recipe) -> String {
    grouped(u64::from(recipe.query.buckets().unwrap_or_default()))
}

fn how_often(recipe: &Recipe) -> Vec<String> {
    let when = &recipe.when;
    let span = format!("between {} and {}", moment(when.opens), moment(when.closes));
    let coin = match recipe.sampling.rate.is_one() {
        true => "Every device that takes part answers.".to_owned(),
        false => format!(
            "{} decides at random: {} answer, and {}. Its own history does not say whether yours \
             did.",
            if recipe.series.is_some() { "In each round your device" } else { "Your device" },
            words::answers(&recipe.sampling),
            match () {
                () if recipe.sampling.cover.is_one() =>
                    "the others send a message that looks the same",
                () if recipe.sampling.cover.is_zero() =>
                    "the others send nothing, so a relay sees who answered",
                () => "some of the others send a message that looks the same",
            }
        ),
    };
    let dummies = (!recipe.sampling.dummy_rate.is_zero()).then(|| {
        format!(
            "Of the devices that do not answer, {} are counted with an answer that says nothing.",
            words::one_in(recipe.sampling.dummy_rate)
        )
    });
    let often = match &recipe.series {
        None => vec![format!("At most once, {span}. {coin}")],
        Some(series) => series::how_often(recipe, series, &span, &coin),
    };
    often.into_iter().chain(dummies).collect()
}

fn what_is_sent(recipe: &Recipe) -> Result<Vec<String>> {
    let mechanism = mechanism(recipe)?;
    let bytes = recipe_report_bytes(recipe, &derive_vdaf(&mechanism).build()?.sizes());
    let second = format!(
        "It is split into two parts that look like random numbers, one encrypted for {} and one \
         for {}. One part alone says nothing. Together they are about {} bytes.",
        recipe.parties.leader.operator,
        recipe.parties.helper.operator,
        grouped(bytes as u64)
    );
    Ok(vec![mechanism.words().explanation, second])
}

fn who_learns(recipe: &Recipe, author: &str, trust: Option<&Trust>) -> Vec<String> {
    let parties = &recipe.parties;
    let (leader, helper) = (&parties.leader.operator, &parties.helper.operator);
    let servers = format!(
        "{leader} and {helper} each learn that some device answered, and when, to within {}. They \
         do not learn what it answered unless they combine their parts.",
        show_seconds(recipe.when.window_s)
    );
    let address = match trust.map(|trust| trust.settings().insecure_direct) {
        Some(true) => format!(
            "Your device talks to {leader} directly, so {leader} sees its internet address."
        ),
        Some(false) => {
            "Your internet address is seen by a relay only, which cannot read what it carries."
                .to_owned()
        }
        None => format!(
            "Your device's settings (--trust) say whether a relay hides its internet address from \
             {leader}."
        ),
    };
    let result = format!(
        "The holder of the result's key, on behalf of {author}, learns the totals over at least \
         {} answers, and never a single answer.",
        grouped(recipe.aggregation.min_batch)
    );
    let stamp = match (parties.tokens.issuer(Role::Leader), parties.tokens.issuer(Role::Helper)) {
        (Some(issuer), Some(other)) => format!(
            "To prevent double answers, your device gets an anonymous stamp from {issuer} and one from \
             {other}, which do not learn whose device it is. The two services that vouch for your \
             device learn neither the question nor the stamps."
        ),
        (Some(issuer), None) => format!(
            "To prevent double answers, your device gets an anonymous stamp from {issuer}, which does \
             not learn whose device it is. The service that vouches for your device learns neither \
             the question nor the stamp."
        ),
        (None, _) => "Nobody makes sure that a device answers only once.".to_owned(),
    };
    let most = series::most_answers(recipe);
    let stamp = match most > 1 && parties.tokens.issuer(Role::Leader).is_some() {
        true => format!("{stamp} There are {} of each, one for each answer.", grouped(most)),
        false => stamp,
    };
    let public = format!("Everybody can read this question in the public log {}.", parties.log);
    vec![servers, address, stamp, result, public]
}

fn cost(recipe: &Recipe, audience: Option<u64>, trust: Option<&Trust>) -> Result<Vec<String>> {
    let judged = judgement_of(recipe, audience)?;
    let (Privacy::Claim { delta, .. }, Some(judged)) = (&recipe.privacy, judged) else {
        return Ok(vec![
            "There is no promise: the totals are exact. Your device answers only if its owner \
             allowed that."
                .to_owned(),
        ]);
    };
    let mut text = vec![format!(
        "Suppose somebody considers two answers equally likely for you (50 in 100 each). After \
         seeing {} they can be {} of one of them. Your device computes \
         this itself, and assumes that up to {} other devices lie.",
        if recipe.series.is_some() { "the results of all rounds" } else { "the result" },
        words::certainty(judged.epsilon),
        grouped(recipe.aggregation.min_batch / 2)
    )];
    text.push(format!("This can fail with a chance of less than {}.", words::one_in(*delta)));
    if let Some(trust) = trust {
        text.push(budget(recipe, audience, trust)?);
    }
    Ok(text)
}

/// How often the budget of a period covers such a recipe, if the device's life allows it.
fn budget(recipe: &Recipe, audience: Option<u64>, trust: &Trust) -> Result<String> {
    let days = (trust.settings().budget.period_s as f64 / 86_400.0).round().max(1.0) as u64;
    let assessment = Assessment::certified(recipe.clone(), audience).ok();
    let affordable = match assessment.as_ref().and_then(Assessment::cost) {
        Some(cost) => times(&cost.charge, trust)?,
        None => 0,
    };
    let (one, several) = match recipe.series {
        None => ("question", "questions"),
        // All rounds are paid for together, before the first one.
        Some(_) => ("series of rounds", "series of rounds"),
    };
    Ok(match affordable {
        0 => format!("Your device cannot afford this {one}, so it stays silent."),
        MOST => format!("Your device can afford more than {MOST} such {several} in {days} days."),
        times => format!(
            "Your device can afford {} such {} in {days} days, then it stays silent. It counts each \
             one that it considers, whether or not it answers.",
            grouped(times),
            if times == 1 { one } else { several }
        ),
    })
}

fn times(charge: &Charge, trust: &Trust) -> Result<u64> {
    let (mut filter, mut lifetime) =
        (Filter::new(trust.budget(), 0)?, Filter::new(trust.lifetime(), 0)?);
    let mut pays = || filter.charge(0, charge).is_ok() && lifetime.charge(0, charge).is_ok();
    let paid = (0..MOST).take_while(|_| pays()).count();
    Ok(paid as u64)
}

fn if_they_cheat(recipe: &Recipe, audience: Option<u64>) -> Result<Vec<String>> {
    let (leader, helper) = (&recipe.parties.leader.operator, &recipe.parties.helper.operator);
    let mut text = Vec::new();
    if recipe.parties.tokens.is_insecure() {
        let hidden = match (recipe.noise, recipe.randomizer) {
            (Some(_), _) => format!("hidden only by the noise of {helper}"),
            (None, Randomizer::None) => "which nothing hides".to_owned(),
            (None, _) => "after its dice".to_owned(),
        };
        text.push(format!(
            "{leader} could send many answers itself, and so single out the answer of one real device, \
             {hidden}."
        ));
    }
    let Some(local) = mechanism(recipe)?.local_epsilon() else {
        let seen = match recipe.randomizer {
            Randomizer::Gaussian { .. } => {
                "your answer with the noise of one device, which hides little"
            }
            _ => "your exact answer",
        };
        text.push(format!(
            "If {leader} and {helper} combine their parts, they see {seen}, though not whose it is."
        ));
        return Ok(text);
    };
    let most = series::most_answers(recipe);
    let alone = words::certainty(local * most as f64);
    let found = colluding(recipe, audience)?;
    let and_if = match &found {
        Some(_) => "If they also find out".to_owned(),
        None => format!("If {leader} and {helper} combine their parts, and find out"),
    };
    text.extend(found.map(|found| {
        format!(
            "If {leader} and {helper} combine their parts, they see each answer after the dice, but not \
             whose it is. With {} honest devices around you, they can be {}.",
            grouped(found.honest_devices),
            words::certainty(found.epsilon)
        )
    }));
    let which = match most {
        1 => "which answer is yours".to_owned(),
        most => format!("which {} answers are yours", grouped(most)),
    };
    text.push(format!("{and_if} {which}, only the dice protect you: they can be {alone}."));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use sotto_wire::recipe::{Participation, Round};

    use super::*;
    use crate::recipe::new::testing;

    #[test]
    fn odds_are_rounded_up() {
        for (epsilon, text) in [
            (0.0, "at most 50 in 100 sure"),
            (0.1, "at most 53 in 100 sure"),
            (1.0, "at most 74 in 100 sure"),
            (4.0, "at most 99 in 100 sure"),
            (5.0, "at most 99.4 in 100 sure"),
            (20.0, "almost certain"),
        ] {
            assert_eq!(words::certainty(epsilon), text, "{epsilon}");
        }
        assert_eq!(words::certainty(f64::INFINITY), "almost certain");
    }

    fn told(recipe: &Recipe) -> String {
        let sections = sections(recipe, None, "analytics.example", None).unwrap();
        sections.into_iter().flat_map(|section| section.text).collect()
    }

    #[test]
    fn rounds_are_told_in_plain_words() {
        let header = testing::header();
        let round = header.with_round(Round { index: 4, model: None }).unwrap();
        let mut donation = header.clone();
        donation.series.as_mut().unwrap().participation = Participation::Donation {};
        for (recipe, parts) in [
            (
                &header,
                [
                    "In up to 30 rounds between",
                    "at most once in each. In each round your device decides at random",
                    "Devices answer the rounds, not the announcement.",
                    "There are 30 of each, one for each answer.",
                    "find out which 30 answers are yours",
                ],
            ),
            (
                &round,
                [
                    "In up to 30 rounds between",
                    "at most once in each",
                    "This is round 5 of up to 30.",
                    "30 of each",
                    "",
                ],
            ),
            (
                &donation,
                [
                    "At most once, at a secret time: in one of up to 30 rounds between",
                    "whether it answers at all (1 in 50 devices may) and in which round",
                    "In the others it sends a message that looks the same.",
                    "After seeing the results of all rounds",
                    "find out which answer is yours",
                ],
            ),
        ] {
            let text = told(recipe);
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
            for word in ["epsilon", "header", "series", "sampling", "participation", "donation"] {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }

    #[test]
    fn no_jargon_reaches_the_reader() {
        let text = told(&testing::recipe());
        for word in ["epsilon", "delta", "VDAF", "HPKE", "sampling", "histogram", "aggregator"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        for word in ["minutes (a number)", "1 in 50", "leader.example", "short, middle, long"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
