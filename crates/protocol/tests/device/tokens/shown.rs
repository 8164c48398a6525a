//! What a device reveals of its tokens: to the attesters, and in debug output.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::{Rng, TryCryptoRng, TryRng};
use sotto_protocol::Moment;
use sotto_protocol::device::tokens::{Snapshot, attester_request, granted, plan, request, waiting};
use sotto_protocol::device::{Change, DeviceStore, MemoryState, follow};
use sotto_protocol::expression::Value;
use sotto_testing::recipe::{ATTESTERS, HOUR};
use sotto_testing::tokens::{Authority, Came, add_recipe, other_plan, token_plan};
use sotto_testing::world::Plan;

use super::{due, round, round_with};

/// What reaches the attesters does not depend on the device's attributes, conditions or history.
#[test]
fn the_attesters_see_the_same_of_a_device_that_is_meant_and_of_one_that_is_not() {
    let mut plan_of = token_plan();
    plan_of.target();
    plan_of.reclaim();
    add_recipe(&mut plan_of, 1, |_| {});
    let mut views = Vec::new();
    for (tier, conditions, fresh) in [
        ("gold", true, false),
        ("silver", true, false),
        ("gold", false, false),
        ("gold", true, true),
    ] {
        plan_of.attributes.insert("tier".to_owned(), Value::String(tier.to_owned()));
        plan_of.conditions_met = conditions;
        let world = plan_of.build();
        let mut store = if fresh { MemoryState::default() } else { world.device() };
        let mut authority = Authority::new();
        let mut considered = 0;
        for seed in [1, 2, 3] {
            round(&world, &mut store, &mut authority, seed);
            considered += world.walk(&mut store, 10 + seed).unwrap().considered.len();
        }
        let expected = match (tier, conditions, fresh) {
            (_, false, _) | (_, _, true) => 0,
            ("gold", ..) => 2,
            _ => 1,
        };
        assert_eq!(considered, expected, "{tier} {conditions} {fresh}");
        views.push(authority.came);
    }
    assert_eq!(views[0].len(), 4);
    for attester in ATTESTERS {
        assert_eq!(views[0].iter().filter(|came| came.attester == attester).count(), 2);
    }
    assert!(views.iter().all(|view| *view == views[0]), "byte for byte");
}

/// Randomness drawn from one stream per length. How often a blinding factor is redrawn depends on
/// the modulus, and so on the recipe; here that affects no other draw.
struct Streams(u64, BTreeMap<usize, ChaCha20Rng>);

impl Streams {
    fn new(seed: u64) -> Self {
        Self(seed, BTreeMap::new())
    }

    fn of(&mut self, len: usize) -> &mut ChaCha20Rng {
        let seed = self.0 << 32 | len as u64;
        self.1.entry(len).or_insert_with(|| ChaCha20Rng::seed_from_u64(seed))
    }
}

impl TryRng for Streams {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.of(4).next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.of(8).next_u64())
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        self.of(to.len()).fill_bytes(to);
        Ok(())
    }
}

impl TryCryptoRng for Streams {}

/// A device in a world with one recipe, from its plan to the answers: what reached the attesters,
/// and when.
fn asked_by(plan_of: &Plan, seed: u64) -> Vec<(u64, Came)> {
    let mut world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::new());
    let mut rng = Streams::new(seed);
    assert_eq!(round_with(&world, &mut store, &mut authority, &mut rng), 0);
    let due = due(&store);
    world.now = Moment(due);
    assert_eq!(round_with(&world, &mut store, &mut authority, &mut rng), 2);
    assert_eq!(authority.granted(), 2);
    authority.came.into_iter().map(|came| (due, came)).collect()
}

/// The parts of a request's body: what precedes the sealed inner request, the inner request, and
/// the signature.
fn parts(came: &Came) -> [&[u8]; 3] {
    // Type, request key, key id, length, and the ephemeral key of HPKE.
    let (clear, rest) = came.body.split_at(2 + 32 + 32 + 2 + 32);
    let (sealed, signature) = rest.split_at(rest.len() - 64);
    [clear, sealed, signature]
}

/// Two devices ask for the tokens of two recipes, and swap: each attester sees the same, and so do
/// both together.
///
/// Three things may differ, and do. The sealed inner request holds the recipe's origin and the
/// message blinded with its key. The signature covers the inner request. The client's alias is a
/// pseudorandom function of the origin under the device's secret. For recipes with less than two
/// spreads to live the time may differ too: it is drawn from the first half of the remaining time.
#[test]
fn two_devices_that_swap_their_recipes_look_the_same_to_the_attesters() {
    let mut plans = [token_plan(), other_plan()];
    for plan in &mut plans {
        plan.trust.tokens.as_mut().unwrap().spread_s = 12 * HOUR;
    }
    let [one, two] = &plans;
    assert_ne!(one.recipe.id(), two.recipe.id());
    assert_eq!(one.recipe.when, two.recipe.when);
    let before = [asked_by(one, 1), asked_by(two, 2)].concat();
    let after = [asked_by(two, 1), asked_by(one, 2)].concat();
    assert_eq!((before.len(), after.len()), (4, 4));
    for ((time, came), (other_time, other)) in before.iter().zip(&after) {
        assert_eq!(time, other_time);
        assert_eq!(came.attester, other.attester);
        assert_eq!(came.client_key, other.client_key);
        assert_eq!(came.request_blind, other.request_blind);
        assert_eq!(came.body.len(), other.body.len());
        let ([clear, sealed, signature], [other_clear, other_sealed, other_signature]) =
            (parts(came), parts(other));
        assert_eq!(clear, other_clear);
        assert_ne!(sealed, other_sealed);
        assert_ne!(signature, other_signature);
        assert_ne!(came.client_alias, other.client_alias);
    }
    assert_ne!(before[0].0, before[2].0, "two devices draw two times");
    assert_ne!(before[0].1.client_key, before[2].1.client_key);
    // Each device asked both attesters, and shared nothing between them but the time.
    for pair in before.chunks(2) {
        let ([(time, one), (other_time, two)], [a, b]) = (pair, ATTESTERS) else { panic!() };
        let asked = BTreeSet::from([one.attester.as_str(), &two.attester]);
        assert_eq!((time, asked), (other_time, BTreeSet::from([a, b])));
        assert_ne!(one.client_key, two.client_key);
        assert_ne!(one.request_blind, two.request_blind);
        // Apart from the type and the length, in front and in the middle.
        let differ = |range: std::ops::Range<usize>| one.body[range.clone()] != two.body[range];
        assert!(differ(2..34) && differ(34..66) && differ(68..100));
    }
    // What may differ links nothing either: it never recurs, neither for one recipe of two devices
    // nor for two recipes of one device.
    let mut seen = BTreeSet::new();
    for (_, came) in before.iter().chain(&after) {
        let [_, sealed, signature] = parts(came);
        for bytes in [sealed, signature, &came.client_alias] {
            assert!(seen.insert(bytes.to_vec()));
        }
    }
}

#[test]
fn the_order_of_asking_is_random() {
    let mut both = token_plan();
    add_recipe(&mut both, 1, |_| {});
    let world = both.build();
    let mut base = world.device();
    let mut watch = world.watch().unwrap();
    let view = follow(&mut base, &mut watch, &world.trust, world.now).unwrap();
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    base.commit(plan(base.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
    let asked = request(base.state(), &snapshot, &mut rng).unwrap();
    base.commit(asked.unwrap()).unwrap();
    let sorted = waiting(base.state(), &snapshot, &mut rng);
    let mut firsts = [0u32; 4];
    for _ in 0..4_000 {
        let order = waiting(base.state(), &snapshot, &mut rng);
        let place = sorted.iter().position(|waiting| *waiting == order[0]).unwrap();
        firsts[place] += 1;
    }
    assert!(firsts.iter().all(|count| count.abs_diff(1_000) < 140), "{firsts:?}");
}

#[test]
fn nothing_secret_shows_in_debug() {
    let world = token_plan().build();
    let (mut store, mut authority) = (world.device(), Authority::new());
    let mut watch = world.watch().unwrap();
    let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut shown = String::new();
    let mut commit = |store: &mut MemoryState, change: Change| {
        shown += &format!("{change:?}");
        store.commit(change).unwrap();
        shown += &format!("{:#?}", store.state());
    };
    let planned = plan(store.state(), &snapshot, &mut rng).unwrap().unwrap();
    commit(&mut store, planned);
    let asked = request(store.state(), &snapshot, &mut rng).unwrap().unwrap();
    commit(&mut store, asked);
    // Both requests wait; then one token is in hand.
    let mut secrets = secrets(&store);
    assert_eq!(secrets.len(), 1 + 1 + 2 * 5, "seed, nonce, and what is kept of each request");
    let next = waiting(store.state(), &snapshot, &mut rng)[0];
    let sent = attester_request(store.state(), &snapshot, &next).unwrap();
    let asking = format!("{:?}", sent.attempt);
    let response = authority.answer(Came::new(&sent)).unwrap();
    let granted = granted(store.state(), &snapshot, &next, &response, &mut rng).unwrap();
    commit(&mut store, granted);
    shown += &asking;
    let held = self::secrets(&store);
    assert_eq!(held.len(), 1 + 1 + 5 + 1, "and the token");
    secrets.extend(held);

    for word in ["Waiting", "Granted", "ClientSeed([redacted])", "TokenBytes([redacted])"] {
        assert!(shown.contains(word), "{word}");
    }
    for secret in secrets {
        let bytes = URL_SAFE_NO_PAD.decode(&secret).unwrap();
        let start = &bytes[..8];
        let hex: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{start:?}");
        for form in [&secret, &hex, &hex.to_uppercase(), list.trim_matches(['[', ']'])] {
            assert!(!shown.contains(form), "{form}");
        }
        assert!(!shown.contains(&secret[..12]), "a part of {secret}");
    }
}

/// All texts in the state's tokens and its seed except the names of stages. The ids of recipes are
/// keys, and so are not included.
fn secrets(store: &MemoryState) -> BTreeSet<String> {
    fn collect(value: &serde_json::Value, to: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::String(text) => {
                to.insert(text.clone());
            }
            serde_json::Value::Object(fields) => {
                let values = fields.iter().filter(|(name, _)| *name != "kind");
                values.for_each(|(_, value)| collect(value, to));
            }
            _ => {}
        }
    }
    let text = serde_json::to_value(store.state()).unwrap();
    let mut secrets = BTreeSet::new();
    collect(&text["client_seed"], &mut secrets);
    collect(&text["tokens"], &mut secrets);
    secrets
}
