//! Arbitrary recipes, key sets, results and receipts that keep the rules of the format, for property
//! tests.
//!
//! Expressions have the right type for their query and read only declared attributes. The VDAF is
//! of the kind of the query, with a chunk length that is within bounds but not the best one, which
//! `sotto-wire` does not know.

mod query;
mod series;

use std::collections::BTreeMap;

use rand_core::Rng;

use sotto_wire::limits::{
    MAX_DIMENSION, MAX_INTEGER, MAX_KEY_SET_CONFIGS, MAX_RECEIPTS, MAX_RECIPE_LIFE_S,
    MAX_RECIPE_NAME_LEN, MAX_SIGMA_MICRO, MAX_TOKEN_KEY_LEN, MAX_WINDOW_S, MIN_DIMENSION,
    MIN_SIGMA_MICRO, MIN_TOKEN_KEY_LEN,
};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeName, AttributeType, EndorsedKey,
    FORMAT_VERSION, KeySet, Noise, Parties, PopulationResult, Privacy, Probability, PublicKey,
    Query, Randomizer, Receipt, Recipe, RecipeVdaf, Sampling, Signer, Targeting, Tokens, Training,
    When, Who,
};
use sotto_wire::{
    BatchId, BatchMode, EntryId, HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId,
    KeyName, Role,
};

/// Two public keys for tokens, as an [`EndorsedKey`] holds them.
pub const TOKEN_KEYS: [&str; 2] = [
    "MIIBUjA9BgkqhkiG9w0BAQowMKANMAsGCWCGSAFlAwQCAqEaMBgGCSqGSIb3DQEBCDALBglghkgBZQMEAgKiAwIBMAOCAQ8AMIIB\
     CgKCAQEAwP4aB3N9r4LZtHHAMdVH-wXquevFC-idyYzxTLfOegK9E9ioXb1kK5Fcode3Fa6fE40l2ZkteommLpXWxixi7EjU20J2\
     2dT53K_nYIMU5bzhyVdsrd28Xsxah-ONrLNPLI6MW1hE-MVIhIZ53OkMq4H4zFUsBPU8AaUvTBTPR2JPvS4VZcjLUH-SFhLKq6j6\
     kk7it8GwfStTACueZeIJxPEl4Jgr6jzVTcbwhfXspiWNcJwc5FUK01L4us3v-P2TKS2wEO_oiFrR8pJLKL9bOMqIHhXHw9fUJVRw\
     SwSJg5OYpQGlryFCNqDbgvkw48OfSvsZLe_jCoDzaQw1ki05lwIDAQAB",
    "MIIBUjA9BgkqhkiG9w0BAQowMKANMAsGCWCGSAFlAwQCAqEaMBgGCSqGSIb3DQEBCDALBglghkgBZQMEAgKiAwIBMAOCAQ8AMIIB\
     CgKCAQEAvlwHHNEzsIBD3S-hA_8HFTHmDFMQk92FeaBFOmpv2Psyi63kXRSmcDbr-5X2o5xdwenBdl7B1EfubePsADFtpND1fPb3\
     P7YrWC9R7pntVNFiuUd8aFlPe_J86saMPy4Z4MGo92oRLBpyJh4po7Wu0c5kWq2i7WaCCMn-b_4eMaXbZzfZ44fBxitoslJ1kswK\
     leC5s8F8q8Jdk0Vj9plSHPhC4seLrKUg8fiTAnQtDLfBttIm17Yii8qhMwgredhsPAyjvjJxCI3dg2zvw_Lcf8LmmmFbdhf6p-z1\
     gZa-HjrWaCusfIubfRcwT6mpuxe9qcn5Z2jrw5iMwp31WMejPwIDAQAB",
];

type Attributes = BTreeMap<AttributeName, AttributeType>;

/// An arbitrary recipe.
pub fn recipe(rng: &mut dyn Rng) -> Recipe {
    let mut attributes = attributes(rng);
    let mut query = query::query(&attributes, rng);
    let training = series::training(&mut query, &mut attributes, rng);
    let discovery = series::discovery(&mut query, rng);
    let (randomizer, noise) = match discovery {
        Some(_) => (Randomizer::None, true),
        None => (randomizer(&query, rng), chance(2, rng)),
    };
    let targeting = chance(3, rng).then(|| Targeting {
        predicate: query::predicate(&attributes, rng),
        certified: entry_id(rng),
    });
    let mut when = when(rng);
    let mut sampling = sampling(&query, &randomizer, rng);
    if training.as_ref().is_some_and(Training::is_evaluation) || discovery.is_some() {
        sampling.dummy_rate = Probability::ZERO;
    }
    let series = series::series(training, discovery, &sampling, &mut when, rng);
    let rounds = series.as_ref().map_or(1, |series| series.rounds);
    Recipe {
        version: FORMAT_VERSION,
        name: name(MAX_RECIPE_NAME_LEN, rng),
        purpose: text(200, rng),
        author: signer("author.example/", rng),
        series,
        who: Who { population: number(1, MAX_INTEGER, rng), targeting },
        when,
        sampling,
        randomizer,
        noise: (randomizer == Randomizer::None && noise).then(|| Noise::ServerGaussian {
            sigma_micro: number(MIN_SIGMA_MICRO, MAX_SIGMA_MICRO, rng),
        }),
        aggregation: Aggregation {
            vdaf: vdaf(&query, &randomizer, rng),
            min_batch: number(1, MAX_INTEGER, rng),
            batch_mode: *pick(&[BatchMode::TimeInterval, BatchMode::LeaderSelected], rng),
        },
        privacy: privacy(rounds, rng),
        parties: parties(when.closes, rng),
        attributes,
        query,
    }
}

/// An arbitrary key set: an aggregator's, a gateway's, an issuer's, or one of several.
pub fn key_set(rng: &mut dyn Rng) -> KeySet {
    let not_before = number(0, MAX_INTEGER - 1, rng);
    let gateway_configs = chance(2, rng).then(|| hpke_configs(rng));
    let encapsulation_configs = chance(3, rng).then(|| hpke_configs(rng));
    let others = gateway_configs.is_some() || encapsulation_configs.is_some();
    KeySet {
        version: FORMAT_VERSION,
        operator: signer("operator.example/", rng),
        seq: number(0, MAX_INTEGER, rng),
        not_before,
        not_after: number(not_before + 1, MAX_INTEGER, rng),
        hpke_configs: match others && chance(2, rng) {
            true => Vec::new(),
            false => hpke_configs(rng),
        },
        gateway_configs,
        encapsulation_configs,
        url: chance(2, rng).then(|| url(rng)),
        receipt_key: chance(2, rng).then(|| PublicKey::new(bytes(rng))),
    }
}

/// An arbitrary result.
pub fn population_result(rng: &mut dyn Rng) -> PopulationResult {
    let attributes = attributes(rng);
    PopulationResult {
        version: FORMAT_VERSION,
        recipe: entry_id(rng),
        predicate: query::predicate(&attributes, rng),
        attributes,
        population: number(1, MAX_INTEGER, rng),
        measured_at: number(0, MAX_INTEGER, rng),
        leader: signer("leader.example/", rng),
        helper: signer("helper.example/", rng),
    }
}

/// An arbitrary receipt.
pub fn receipt(rng: &mut dyn Rng) -> Receipt {
    let start = number(0, MAX_INTEGER - MAX_RECIPE_LIFE_S, rng);
    Receipt {
        version: FORMAT_VERSION,
        recipe: entry_id(rng),
        operator: signer("operator.example/", rng),
        role: *pick(&[Role::Leader, Role::Helper], rng),
        seq: number(1, MAX_RECEIPTS, rng),
        start,
        end: start + number(1, MAX_RECIPE_LIFE_S, rng),
        count: Receipt::rounded(number(1, MAX_INTEGER, rng)),
        batch: chance(2, rng).then(|| BatchId::new(bytes(rng))),
    }
}

fn hpke_configs(rng: &mut dyn Rng) -> Vec<String> {
    let first = rng.next_u32() as u8;
    let count = number(1, MAX_KEY_SET_CONFIGS as u64, rng) as u8;
    (0..count).map(|id| hpke_config(first.wrapping_add(id), rng)).collect()
}

fn attributes(rng: &mut dyn Rng) -> Attributes {
    let vector = AttributeType::Vector(number(MIN_DIMENSION, MAX_DIMENSION, rng) as u32);
    let types = [
        AttributeType::Bool,
        AttributeType::Int,
        AttributeType::String,
        AttributeType::Strings,
        vector,
    ];
    let count = *pick(&[0, 1, 2, 3, 5, 8, 64], rng);
    (0..count)
        .filter_map(|_| {
            let length = 1 + below(12, rng);
            let attribute = letters(b"abcdefghijklmnopqrstuvwxyz_", length, rng);
            Some((attribute.parse().ok()?, *pick(&types, rng)))
        })
        .collect()
}

fn when(rng: &mut dyn Rng) -> When {
    let window_s = match below(3, rng) {
        0 => *pick(&[1, 60, 3_600, 86_400, 604_800, MAX_WINDOW_S], rng),
        _ => number(1, MAX_WINDOW_S, rng),
    };
    let most = MAX_RECIPE_LIFE_S / window_s;
    let latest = if chance(4, rng) { MAX_INTEGER } else { 1 << 33 };
    let first = number(0, latest / window_s - most, rng);
    When {
        opens: first * window_s,
        closes: (first + number(1, most, rng)) * window_s,
        window_s,
        max_window_s: number(1, most, rng) * window_s,
    }
}

fn sampling(query: &Query, randomizer: &Randomizer, rng: &mut dyn Rng) -> Sampling {
    let (mut rate, mut default_rate) = (probability(rng), None);
    if matches!(query, Query::SparseHistogram { .. }) && chance(2, rng) {
        let other = probability(rng);
        (rate, default_rate) = (rate.max(other), Some(rate.min(other)));
    }
    let dummies = !matches!(
        randomizer,
        Randomizer::RandomizedResponse { .. } | Randomizer::ProjectiveGeometry { .. }
    ) && chance(2, rng);
    Sampling {
        rate,
        default_rate,
        dummy_rate: if dummies { probability(rng) } else { Probability::ZERO },
        cover: if chance(2, rng) { Probability::ONE } else { probability(rng) },
    }
}

fn vdaf(query: &Query, randomizer: &Randomizer, rng: &mut dyn Rng) -> RecipeVdaf {
    let (length, max) = match query {
        Query::Count { .. } => return RecipeVdaf::Prio3Count,
        Query::Sum { max, .. } | Query::Mean { max, .. } => {
            return RecipeVdaf::Prio3Sum { max_measurement: *max };
        }
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => return pine(vectors.sent(), rng),
        _ => (query.buckets().unwrap_or_default(), query.buckets().unwrap_or_default().into()),
    };
    let chunk_length = number(1, u64::from(length), rng) as u32;
    match (query, randomizer) {
        (
            Query::Histogram { .. } | Query::Quantiles { .. } | Query::Nearest { .. },
            Randomizer::None,
        ) => RecipeVdaf::Prio3Histogram { length, chunk_length },
        (_, Randomizer::Gaussian { .. }) => pine(length, rng),
        (_, Randomizer::RandomizedResponse { .. } | Randomizer::ProjectiveGeometry { .. }) => {
            RecipeVdaf::Prio3Histogram { length, chunk_length }
        }
        _ => {
            let max_weight = number(1, max, rng);
            RecipeVdaf::Prio3MultihotCountVec { length, chunk_length, max_weight }
        }
    }
}

fn pine(dimension: u32, rng: &mut dyn Rng) -> RecipeVdaf {
    RecipeVdaf::Pine64 {
        dimension,
        norm_bound: number(1, MAX_INTEGER, rng),
        chunk_length: number(1, MAX_DIMENSION, rng) as u32,
        chunk_length_norm_equality: number(1, MAX_DIMENSION, rng) as u32,
    }
}

fn privacy(rounds: u64, rng: &mut dyn Rng) -> Privacy {
    if chance(4, rng) {
        return Privacy::InsecureUnbounded;
    }
    let delta = loop {
        let delta = probability(rng);
        if !delta.is_one() {
            break delta;
        }
    };
    Privacy::Claim {
        epsilon_micro: number(1, MAX_INTEGER, rng),
        delta,
        adjacency: *pick(&[Adjacency::Replace, Adjacency::AddRemove], rng),
        accountant: Accountant::Best,
        rounds,
    }
}

/// A randomizer for this query.
fn randomizer(query: &Query, rng: &mut dyn Rng) -> Randomizer {
    let epsilon_micro = number(1, MAX_INTEGER, rng);
    let most_sigma = if chance(2, rng) { MAX_SIGMA_MICRO } else { 20_000_000 };
    let all = [
        Randomizer::RandomizedResponse { epsilon_micro },
        Randomizer::Rappor { epsilon_micro },
        Randomizer::ProjectiveGeometry { epsilon_micro },
        Randomizer::Gaussian { sigma_micro: number(1, most_sigma, rng) },
    ];
    let fitting: Vec<_> = all.iter().filter(|one| one.queries().contains(&query.kind())).collect();
    if fitting.is_empty() || chance(4, rng) { Randomizer::None } else { **pick(&fitting, rng) }
}

fn parties(closes: u64, rng: &mut dyn Rng) -> Parties {
    let mut aggregator =
        |place: &str| Aggregator { operator: key_name(place, rng), url: url(rng) + place };
    Parties {
        leader: aggregator("leader/"),
        helper: aggregator("helper/"),
        collector_hpke_config: hpke_config(rng.next_u32() as u8, rng),
        log: format!("log.example/{}", name(20, rng)),
        tokens: tokens(closes, rng),
    }
}

fn url(rng: &mut dyn Rng) -> String {
    let scheme = pick(&["https", "http"], rng);
    let host = name(20, rng);
    format!("{scheme}://{host}{}", pick(&["", "/", ":8443/dap", "/a/b.c~d/%20/"], rng))
}

/// Tokens with well-formed keys that nobody endorsed.
fn tokens(closes: u64, rng: &mut dyn Rng) -> Tokens {
    let leader = endorsed_key(closes, rng);
    match below(4, rng) {
        0 => Tokens::InsecureNone,
        1 => Tokens::InsecureLeaderOnly { leader },
        _ => Tokens::RateLimited { leader, helper: endorsed_key(closes, rng) },
    }
}

fn endorsed_key(closes: u64, rng: &mut dyn Rng) -> EndorsedKey {
    let mut key = vec![0; number(MIN_TOKEN_KEY_LEN as u64, MAX_TOKEN_KEY_LEN as u64, rng) as usize];
    rng.fill_bytes(&mut key);
    let mut signature = [0; 64];
    rng.fill_bytes(&mut signature);
    let issuer = key_name("issuer.example/", rng);
    EndorsedKey::new(issuer, &key, number(closes, MAX_INTEGER, rng), &signature)
}

fn signer(prefix: &str, rng: &mut dyn Rng) -> Signer {
    Signer { name: key_name(prefix, rng), key: PublicKey::new(bytes(rng)) }
}

fn key_name(prefix: &str, rng: &mut dyn Rng) -> KeyName {
    loop {
        if let Ok(name) = format!("{prefix}{}", name(20, rng)).parse() {
            return name;
        }
    }
}

fn hpke_config(id: u8, rng: &mut dyn Rng) -> String {
    let key: [u8; 32] = bytes(rng);
    let config = HpkeConfig::new(
        HpkeConfigId::new(id),
        HpkeKemId::X25519_HKDF_SHA256,
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        key.to_vec(),
    );
    // A key of 32 bytes is within bounds.
    config.map(|config| KeySet::config_text(&config)).unwrap_or_default()
}

fn entry_id(rng: &mut dyn Rng) -> EntryId {
    EntryId::new(bytes(rng))
}

/// Above 0, at most 1.
fn probability(rng: &mut dyn Rng) -> Probability {
    let den = number(1, MAX_INTEGER, rng);
    Probability::reduced(number(1, den, rng), den).unwrap_or(Probability::ONE)
}

/// Text with the characters that JSON and TOML treat specially.
fn text(most: usize, rng: &mut dyn Rng) -> String {
    const PIECES: [&str; 18] = [
        "a", "Z", "0", " ", "\"", "'", "\\", "/", "<", "&", "é", "\u{fb33}", "€", "😀", "\u{200d}",
        "#", "=", "'''",
    ];
    let mut text = String::from("t");
    for _ in 0..below(most, rng) {
        let piece = pick(&PIECES, rng);
        if text.chars().count() + piece.chars().count() <= most {
            text.push_str(piece);
        }
    }
    text
}

fn name(most: usize, rng: &mut dyn Rng) -> String {
    let length = 1 + below(most - 1, rng);
    format!("n{}", letters(b"abcxyz019.-", length, rng))
}

fn letters(alphabet: &[u8], length: usize, rng: &mut dyn Rng) -> String {
    (0..length).map(|_| char::from(*pick(alphabet, rng))).collect()
}

/// From `low` to `high`: a mix of small, large and special values.
pub(super) fn number(low: u64, high: u64, rng: &mut dyn Rng) -> u64 {
    let span = high - low;
    match below(6, rng) {
        0 => low,
        1 => high,
        2 => low + (rng.next_u64() % 10).min(span),
        3 => low + (rng.next_u64() % 1_000_000).min(span),
        // Random digits of a random length.
        4 => low + (rng.next_u64() >> below(64, rng)).min(span),
        _ => low + rng.next_u64() % span.saturating_add(1),
    }
}

fn bytes(rng: &mut dyn Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    bytes
}

pub(super) fn chance(one_in: usize, rng: &mut dyn Rng) -> bool {
    below(one_in, rng) == 0
}

fn pick<'a, T>(items: &'a [T], rng: &mut dyn Rng) -> &'a T {
    // The remainder is below the length.
    &items[below(items.len(), rng)]
}

fn below(bound: usize, rng: &mut dyn Rng) -> usize {
    (rng.next_u64() % bound as u64) as usize
}
