//! The issuer's keys, a recipe that requires their tokens, and tokens as devices get them.

use rand_chacha::ChaCha20Rng;
use sotto_crypto::blind_rsa::{self, IssuerKey};
use sotto_protocol::Moment;
use sotto_protocol::token::TokenTerms;
use sotto_testing::arbitrary;
use sotto_testing::keys::{rng, token_key};
use sotto_testing::recipe::{ISSUERS, set_query};
use sotto_wire::recipe::{EndorsedKey, Query, Randomizer, Recipe, Sampling, Tokens, When};
use sotto_wire::token::{TOKEN_TYPE, Token, token_input};
use sotto_wire::{BatchMode, Role, Time};

/// The clock of all tests: the recipe is open, and the keys are valid.
pub(crate) const NOW: Moment = Moment(1_700_000_000);
pub(crate) const WINDOW_S: u64 = 100;
pub(crate) const CLOSES: u64 = NOW.0 + 10 * WINDOW_S;
/// When the keys expire.
pub(crate) const EXPIRES: u64 = CLOSES + WINDOW_S;

/// One cell of the histogram for each device: a 0 is a loss, a 2 is a double count.
pub(crate) const CELLS: u32 = 16;

/// The numbers of the token keys.
pub(crate) const LEADER_KEY: usize = 0;
pub(crate) const HELPER_KEY: usize = 1;
pub(crate) const OTHER_KEY: usize = 2;

/// Which aggregators require tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Both,
    LeaderOnly,
    None,
}

/// The time this many windows from now.
pub(crate) fn window(offset: i64) -> Time {
    Time::new((NOW.0 / WINDOW_S).checked_add_signed(offset).unwrap())
}

/// A recipe of one author with these settings.
pub(crate) fn recipe(mode: BatchMode, asked: Asked, name: &str) -> Recipe {
    let mut recipe = arbitrary::recipe(&mut rng(1));
    recipe.name = name.to_owned();
    (recipe.randomizer, recipe.noise) = (Randomizer::None, None);
    recipe.sampling = Sampling::new(recipe.sampling.rate);
    let mapping = "0".to_owned();
    let query = Query::Histogram { buckets: CELLS, labels: None, mapping, fallback: 0 };
    set_query(&mut recipe, query);
    recipe.aggregation.batch_mode = mode;
    recipe.aggregation.min_batch = 1;
    let opens = NOW.0 - 10 * WINDOW_S;
    recipe.when = When { opens, closes: CLOSES, window_s: WINDOW_S, max_window_s: WINDOW_S * 20 };
    let endorsed = |issuer: &str, key| {
        let key = token_key(key).token_key();
        EndorsedKey::new(issuer.parse().unwrap(), key.spki(), EXPIRES, &[0; 64])
    };
    let leader = endorsed(ISSUERS[0], LEADER_KEY);
    let helper = endorsed(ISSUERS[1], HELPER_KEY);
    recipe.parties.tokens = match asked {
        Asked::Both => Tokens::RateLimited { leader, helper },
        Asked::LeaderOnly => Tokens::InsecureLeaderOnly { leader },
        Asked::None => Tokens::InsecureNone,
    };
    recipe
}

/// A token for `role` under a recipe, as a device gets it.
pub(crate) fn token(recipe: &Recipe, role: Role, nonce: &[u8; 32], rng: &mut ChaCha20Rng) -> Token {
    signed_on(&TokenTerms::of(recipe, role).unwrap().unwrap(), role, nonce, rng)
}

/// A token on these terms.
pub(crate) fn signed_on(
    terms: &TokenTerms,
    role: Role,
    nonce: &[u8; 32],
    rng: &mut ChaCha20Rng,
) -> Token {
    let key = token_key(if role == Role::Leader { LEADER_KEY } else { HELPER_KEY });
    signed(key, key.token_key().id(), nonce, terms.challenge_digest(), rng)
}

/// A token signed by any key, with any key id and challenge.
pub(crate) fn signed(
    key: &IssuerKey,
    key_id: &[u8; 32],
    nonce: &[u8; 32],
    challenge_digest: &[u8; 32],
    rng: &mut ChaCha20Rng,
) -> Token {
    let input = token_input(TOKEN_TYPE, nonce, challenge_digest, key_id);
    let (blinded, unblinder) = blind_rsa::blind(key.token_key(), &input, rng).unwrap();
    let signature = key.blind_sign(&blinded).unwrap();
    Token {
        token_type: TOKEN_TYPE,
        nonce: *nonce,
        challenge_digest: *challenge_digest,
        token_key_id: *key_id,
        authenticator: unblinder.finalize(key.token_key(), &input, &signature).unwrap(),
    }
}
