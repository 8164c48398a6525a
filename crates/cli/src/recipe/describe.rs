//! How two recipes differ, in words, and whether the difference weakens privacy.
//!
//! Used by `recipe diff` and by the monitor of a log. Each change is judged on its own: a larger
//! batch may compensate for a larger rate, but only the accountant can tell.

use serde::Serialize;
use sotto_dp::mechanism::Mechanism;
use sotto_dp::number::up;
use sotto_protocol::recipe::{mechanism, show_micro};
use sotto_wire::Recipe;
use sotto_wire::Role;
use sotto_wire::recipe::{
    Aggregator, Discovery, EndorsedKey, Participation, Privacy, Probability, Query, Sampling,
    Series, Targeting, Tokens, Training,
};

use super::series;
use super::words::{self, grouped};
use crate::time_text::show_seconds;

/// What a change does to the privacy of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// Less privacy.
    Weaker,
    /// More privacy.
    Stronger,
    /// Neither, or unknown.
    Neutral,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// The field of the recipe, like `privacy.epsilon_micro`.
    pub(crate) field: &'static str,
    /// In words, like `epsilon 0.4 -> 0.8`.
    #[serde(rename = "words")]
    pub(crate) text: String,
    /// What it does.
    pub(crate) effect: Effect,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        match self.effect {
            Effect::Weaker => f.write_str(" (weaker)"),
            Effect::Stronger => f.write_str(" (stronger)"),
            Effect::Neutral => Ok(()),
        }
    }
}

/// All differences between two recipes, in the order of a recipe's fields.
pub(crate) fn changes(old: &Recipe, new: &Recipe) -> Vec<Change> {
    let mut list = Changes(Vec::new());
    list.text("name", "name", &old.name, &new.name);
    list.text("purpose", "purpose", &format!("{:?}", old.purpose), &format!("{:?}", new.purpose));
    let author = |recipe: &Recipe| recipe.author.verifier().to_string();
    list.text("author", "author", &author(old), &author(new));
    attributes(&mut list, old, new);
    rounds(&mut list, old.series.as_ref(), new.series.as_ref());
    list.number("who.population", "population", old.who.population, new.who.population, no_effect);
    targeting(&mut list, old.who.targeting.as_ref(), new.who.targeting.as_ref());
    when(&mut list, old, new);
    sampling(&mut list, &old.sampling, &new.sampling);
    query(&mut list, &old.query, &new.query);
    randomizer(&mut list, old, new);
    let (was, is) = (&old.aggregation, &new.aggregation);
    list.number(
        "aggregation.min_batch",
        "minimum batch",
        was.min_batch,
        is.min_batch,
        more_is_stronger,
    );
    let mode = words::batch_mode;
    list.text("aggregation.batch_mode", "batch mode", mode(was.batch_mode), mode(is.batch_mode));
    list.text("aggregation.vdaf", "VDAF", &words::vdaf(&was.vdaf), &words::vdaf(&is.vdaf));
    privacy(&mut list, &old.privacy, &new.privacy);
    parties(&mut list, old, new);
    list.0
}

struct Changes(Vec<Change>);

impl Changes {
    fn push(&mut self, field: &'static str, text: impl Into<String>, effect: Effect) {
        self.0.push(Change { field, text: text.into(), effect });
    }

    fn text(&mut self, field: &'static str, name: &str, old: &str, new: &str) {
        if old != new {
            self.push(field, format!("{name} {old} -> {new}"), Effect::Neutral);
        }
    }

    fn number(
        &mut self,
        field: &'static str,
        name: &str,
        old: u64,
        new: u64,
        effect: fn(u64, u64) -> Effect,
    ) {
        if old != new {
            let text = format!("{name} {} -> {}", grouped(old), grouped(new));
            self.push(field, text, effect(old, new));
        }
    }
}

fn no_effect(_: u64, _: u64) -> Effect {
    Effect::Neutral
}

fn more_is_weaker<T: PartialOrd>(old: T, new: T) -> Effect {
    if new > old { Effect::Weaker } else { Effect::Stronger }
}

fn more_is_stronger<T: PartialOrd>(old: T, new: T) -> Effect {
    more_is_weaker(new, old)
}

fn attributes(list: &mut Changes, old: &Recipe, new: &Recipe) {
    for (name, kind) in &new.attributes {
        match old.attributes.get(name) {
            None => {
                let text = format!("may now read the attribute {name} ({kind})");
                list.push("attributes", text, Effect::Weaker);
            }
            Some(was) => {
                let what = format!("attribute {name}");
                list.text("attributes", &what, &was.to_string(), &kind.to_string());
            }
        }
    }
    for name in old.attributes.keys().filter(|name| !new.attributes.contains_key(*name)) {
        let text = format!("may no longer read the attribute {name}");
        list.push("attributes", text, Effect::Stronger);
    }
}

fn rounds(list: &mut Changes, old: Option<&Series>, new: Option<&Series>) {
    let text = |it: &Series| {
        let (rounds, each) = (grouped(it.rounds), series::each(it.length_s));
        format!("up to {rounds}{each}, {}", series::participation(it))
    };
    let (old, new) = match (old, new) {
        (None, None) => return,
        (None, Some(new)) => {
            let text = format!("asks in rounds instead of once: {}", text(new));
            list.push("series", text, Effect::Weaker);
            discovery(list, None, new.discovery.as_ref());
            return training(list, None, new.training.as_ref());
        }
        (Some(old), None) => {
            let text = format!("asks once instead of in rounds: {}", text(old));
            list.push("series", text, Effect::Stronger);
            discovery(list, old.discovery.as_ref(), None);
            return training(list, old.training.as_ref(), None);
        }
        (Some(old), Some(new)) => (old, new),
    };
    list.number("series.rounds", "rounds", old.rounds, new.rounds, more_is_weaker);
    if old.participation != new.participation {
        let (was, is) = (series::participation(old), series::participation(new));
        let text = format!("takes part: {was} -> {is}");
        let donation = Participation::Donation {};
        // The secret of the round protects besides, so most alone does not decide.
        let effect = match (old.participation == donation, new.participation == donation) {
            (false, true) => Effect::Stronger,
            (true, false) => Effect::Weaker,
            _ => Effect::Neutral,
        };
        list.push("series.participation", text, effect);
    }
    let length = |it: &Series| it.length_s.map_or("any length".to_owned(), show_seconds);
    list.text("series.length", "each round lasts", &length(old), &length(new));
    training(list, old.training.as_ref(), new.training.as_ref());
    discovery(list, old.discovery.as_ref(), new.discovery.as_ref());
    let which = |it: &Series| {
        it.round.as_ref().map_or("the header".to_owned(), |round| series::round(it, round))
    };
    list.text("series.round", "is", &which(old), &which(new));
}

fn discovery(list: &mut Changes, old: Option<&Discovery>, new: Option<&Discovery>) {
    let text = |it: Option<&Discovery>| it.map_or("no words".to_owned(), series::words);
    list.text("series.discovery", "looks for", &text(old), &text(new));
    if let (Some(old), Some(new)) = (old, new) {
        list.text("series.discovery.lists", "lists at", &old.lists, &new.lists);
    }
}

fn training(list: &mut Changes, old: Option<&Training>, new: Option<&Training>) {
    let (old, new) = match (old, new) {
        (None, None) => return,
        (None, Some(new)) => {
            let text = format!("{} {}", series::verb(new), series::model(&new.model));
            return list.push("series.training", text, Effect::Neutral);
        }
        (Some(old), None) => {
            let text = format!("no longer {} {}", series::verb(old), series::model(&old.model));
            return list.push("series.training", text, Effect::Neutral);
        }
        (Some(old), Some(new)) => (old, new),
    };
    let (was, is) = (series::model(&old.model), series::model(&new.model));
    list.text("series.training.model", series::verb(new), &was, &is);
    list.text("series.training.models", "models at", &old.models, &new.models);
    let (was, is) = (series::answer(old), series::answer(new));
    match (old.is_evaluation(), new.is_evaluation()) {
        (false, false) => list.text("series.training.steps", "update", &was, &is),
        _ => list.text("series.training.largest_loss", "device says", &was, &is),
    }
    let vote = |it: &Training| it.vote_weight_micro.map_or("none".to_owned(), show_micro);
    list.text("series.training.vote_weight", "vote on the clip", &vote(old), &vote(new));
}

fn targeting(list: &mut Changes, old: Option<&Targeting>, new: Option<&Targeting>) {
    const FIELD: &str = "who.targeting";
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => {
            let text = format!("asks only devices with {}", new.predicate);
            list.push(FIELD, text, Effect::Weaker);
        }
        (Some(old), None) => {
            let text = format!("no longer asks only devices with {}", old.predicate);
            list.push(FIELD, text, Effect::Stronger);
        }
        (Some(old), Some(new)) => {
            list.text(FIELD, "asks devices with", &old.predicate, &new.predicate);
            let (was, is) = (old.certified.to_string(), new.certified.to_string());
            list.text(FIELD, "certified by the result", &was, &is);
        }
    }
}

fn when(list: &mut Changes, old: &Recipe, new: &Recipe) {
    let (old, new) = (&old.when, &new.when);
    list.text("when.opens", "opens", &words::moment(old.opens), &words::moment(new.opens));
    list.text("when.closes", "closes", &words::moment(old.closes), &words::moment(new.closes));
    let lengths = |old, new| format!("{} -> {}", show_seconds(old), show_seconds(new));
    if old.window_s != new.window_s {
        // A more precise time reveals more about a device.
        let text = format!("time precision {}", lengths(old.window_s, new.window_s));
        list.push("when.window_s", text, more_is_stronger(old.window_s, new.window_s));
    }
    if old.max_window_s != new.max_window_s {
        let text = format!("longest release {}", lengths(old.max_window_s, new.max_window_s));
        list.push("when.max_window_s", text, Effect::Neutral);
    }
}

fn sampling(list: &mut Changes, old: &Sampling, new: &Sampling) {
    let (was, is) = (old.rate, new.rate);
    if was != is {
        let text = format!("sampling rate {} -> {}", words::one_in(was), words::one_in(is));
        list.push(new.rate_field(), text, more_is_weaker(was, is));
    }
    if old.default_rate != new.default_rate {
        let rate =
            |rate: Option<Probability>| rate.map_or("as the others".to_owned(), words::one_in);
        let text = format!(
            "sampling rate of the default answer {} -> {}",
            rate(old.default_rate),
            rate(new.default_rate)
        );
        // Rates that depend on the answer say something about it.
        let effect = match (old.default_rate, new.default_rate) {
            (None, _) => Effect::Weaker,
            (_, None) => Effect::Stronger,
            _ => Effect::Neutral,
        };
        list.push("sampling.default_rate", text, effect);
    }
    if old.dummy_rate != new.dummy_rate {
        let text =
            format!("dummies {} -> {}", words::share(old.dummy_rate), words::share(new.dummy_rate));
        list.push("sampling.dummy_rate", text, Effect::Neutral);
    }
    let (was, is) = (old.cover, new.cover);
    if was != is {
        let text = format!("cover {} -> {}", words::share(was), words::share(is));
        list.push("sampling.cover", text, more_is_weaker(is, was));
    }
}

fn query(list: &mut Changes, old: &Query, new: &Query) {
    list.text("query", "asks for", &words::query(old), &words::query(new));
    let labels = |query: &Query| match query {
        Query::Quantiles { boundaries, .. } => {
            boundaries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        _ => query.labels().map_or("none".to_owned(), |labels| labels.join(", ")),
    };
    // The line above shortens long lists of labels.
    if words::query(old) == words::query(new) {
        list.text("query.labels", "labels", &labels(old), &labels(new));
    }
    if let (
        Query::Nearest { candidates: was, fraction_bits: coarse, .. },
        Query::Nearest { candidates: is, fraction_bits: fine, .. },
    ) = (old, new)
        && (was, coarse) != (is, fine)
    {
        list.push("query.candidates", "other candidates".to_owned(), Effect::Neutral);
    }
    list.text("query.mapping", "mapping", old.mapping(), new.mapping());
    list.text("query.fallback", "fallback", &words::fallback(old), &words::fallback(new));
}

fn randomizer(list: &mut Changes, old: &Recipe, new: &Recipe) {
    const FIELD: &str = "randomizer";
    if (old.randomizer, old.noise) == (new.randomizer, new.noise) {
        return;
    }
    let (Ok(was), Ok(is)) = (mechanism(old), mechanism(new)) else {
        return list.push(FIELD, "another randomizer, which breaks the format", Effect::Weaker);
    };
    match (&was, &is) {
        (was, is) if was.kind() == is.kind() => parameters(list, was, is),
        (Mechanism::Exact(_), is) => {
            let text = format!("values are now randomized: {}", words::mechanism(is));
            list.push(FIELD, text, Effect::Stronger);
        }
        (_, Mechanism::Exact(_)) => {
            list.push(FIELD, "values are no longer randomized", Effect::Weaker);
        }
        (was, is) => {
            let (old, new) = (words::mechanism(was), words::mechanism(is));
            let (why, effect) = alone(was.local_epsilon(), is.local_epsilon());
            list.push(FIELD, format!("randomizer {old} -> {new}{why}"), effect);
        }
    }
}

/// What a device keeps if leader and helper collude, under two mechanisms of different kinds: `None`
/// stands for nothing. The claims say what holds otherwise.
fn alone(was: Option<f64>, is: Option<f64>) -> (String, Effect) {
    match (was, is) {
        (Some(_), None) => (
            ": devices no longer randomize answers, so leader and helper see them exactly if they \
             collude"
                .to_owned(),
            Effect::Weaker,
        ),
        (None, Some(_)) => (
            ": devices now randomize answers, so leader and helper do not see them exactly even if \
             they collude"
                .to_owned(),
            Effect::Stronger,
        ),
        (Some(was), Some(is)) if up(was) != up(is) => {
            let text = format!(": the randomizer alone has epsilon {} -> {}", up(was), up(is));
            (text, more_is_weaker(was, is))
        }
        _ => (String::new(), Effect::Neutral),
    }
}

/// The differences between two mechanisms of one kind.
fn parameters(list: &mut Changes, old: &Mechanism, new: &Mechanism) {
    for (old, new) in old.words().parameters.into_iter().zip(new.words().parameters) {
        let effect = if new.more_is_weaker { more_is_weaker } else { more_is_stronger };
        if old.micro != new.micro {
            let (was, is) = (show_micro(old.micro), show_micro(new.micro));
            let text = format!("{} {was} -> {is}", new.name);
            list.push(new.field, text, effect(old.micro, new.micro));
        }
    }
}

fn privacy(list: &mut Changes, old: &Privacy, new: &Privacy) {
    match (old, new) {
        (Privacy::InsecureUnbounded, Privacy::InsecureUnbounded) => {}
        (Privacy::InsecureUnbounded, new) => {
            list.push(
                "privacy",
                format!("claims {} instead of nothing", words::privacy(new)),
                Effect::Stronger,
            );
        }
        (old, Privacy::InsecureUnbounded) => {
            list.push(
                "privacy",
                format!("claims nothing instead of {}", words::privacy(old)),
                Effect::Weaker,
            );
        }
        (
            Privacy::Claim { epsilon_micro: e, delta: d, adjacency: a, .. },
            Privacy::Claim { epsilon_micro: epsilon, delta, adjacency, .. },
        ) => {
            if e != epsilon {
                let text = format!("epsilon {} -> {}", show_micro(*e), show_micro(*epsilon));
                list.push("privacy.epsilon_micro", text, more_is_weaker(e, epsilon));
            }
            if d != delta {
                let text = format!("delta {} -> {}", words::delta(*d), words::delta(*delta));
                list.push("privacy.delta", text, more_is_weaker(d, delta));
            }
            let name = words::adjacency;
            list.text("privacy.adjacency", "neighbours", name(*a), name(*adjacency));
            // Its rounds are those of the series.
        }
    }
}

fn parties(list: &mut Changes, old: &Recipe, new: &Recipe) {
    let (old, new) = (&old.parties, &new.parties);
    let aggregator = |party: &Aggregator| format!("{} at {}", party.operator, party.url);
    list.text("parties.leader", "leader", &aggregator(&old.leader), &aggregator(&new.leader));
    list.text("parties.helper", "helper", &aggregator(&old.helper), &aggregator(&new.helper));
    if old.collector_hpke_config != new.collector_hpke_config {
        let text = "the result goes to another key of the collector";
        list.push("parties.collector_hpke_config", text, Effect::Neutral);
    }
    list.text("parties.log", "log", &old.log, &new.log);
    tokens(list, &old.tokens, &new.tokens);
}

fn tokens(list: &mut Changes, old: &Tokens, new: &Tokens) {
    // The number of aggregators that check tokens.
    let checked = |tokens: &Tokens| match tokens {
        Tokens::RateLimited { .. } => 2,
        Tokens::InsecureLeaderOnly { .. } => 1,
        Tokens::InsecureNone => 0,
    };
    let (was, is) = (checked(old), checked(new));
    if was != is {
        let text = format!("tokens: {} -> {}", words::tokens(old), words::tokens(new));
        return list.push("parties.tokens", text, more_is_weaker(&is, &was));
    }
    for (field, issuer_field, role) in [
        ("parties.tokens.leader", "parties.tokens.leader.issuer", Role::Leader),
        ("parties.tokens.helper", "parties.tokens.helper.issuer", Role::Helper),
    ] {
        let (Some(old), Some(new)) = (old.key(role), new.key(role)) else { continue };
        let name = role.as_str();
        let what = format!("issuer of the {name}'s tokens");
        list.text(issuer_field, &what, old.issuer.as_str(), new.issuer.as_str());
        let same_issuer = EndorsedKey { issuer: new.issuer.clone(), ..old.clone() };
        if same_issuer != *new {
            let until = words::moment(new.expires);
            list.push(
                field,
                format!("another token key of the {name}, until {until}"),
                Effect::Neutral,
            );
        }
    }
}

#[cfg(test)]
mod tests;
