//! The stored form of a device's state: it reads back unchanged, or not at all.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Map, Value, json};
use sotto_dp::Adjacency;
use sotto_dp::filter::{Budget, Charge, Filter};
use sotto_protocol::device::{DeviceState, DeviceStore};
use sotto_testing::keys::hpke;
use sotto_testing::world::Plan;
use sotto_wire::recipe::PublicKey;

fn bytes(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn id(rng: &mut ChaCha20Rng) -> String {
    sotto_wire::EntryId::new(bytes(rng)).to_string()
}

fn ledger(rng: &mut ChaCha20Rng) -> Value {
    let budget = Budget { epsilon: 2.0, delta: 1e-6, adjacency: Adjacency::Replace };
    let mut filter = Filter::new(budget, 3).unwrap();
    let mut lifetime = Filter::new(Budget { epsilon: 10.0, ..budget }, 0).unwrap();
    for _ in 0..rng.next_u32() % 20 {
        let epsilon = f64::from(rng.next_u32() % 1_000 + 1) / 1e4;
        let charge = Charge::black_box(epsilon, 1e-9, Adjacency::Replace).unwrap();
        let _ = filter.charge(4, &charge);
        lifetime.add(&charge);
    }
    json!({ "ends": rng.next_u64(), "filter": filter, "lifetime": lifetime })
}

/// Some entries of a map.
fn some(rng: &mut ChaCha20Rng, entry: impl Fn(&mut ChaCha20Rng) -> (String, Value)) -> Value {
    Value::Object((0..rng.next_u32() % 4).map(|_| entry(rng)).collect::<Map<_, _>>())
}

/// 32 bytes in base64url.
fn seed(rng: &mut ChaCha20Rng) -> String {
    PublicKey::new(bytes(rng)).to_string()
}

/// The progress of a recipe's tokens.
fn stage(rng: &mut ChaCha20Rng) -> Value {
    let progress = |rng: &mut ChaCha20Rng| match rng.next_u32() % 3 {
        0 => json!({ "kind": "granted", "token": "AQID", "from": rng.next_u64() }),
        1 => json!({ "kind": "withheld" }),
        _ => json!({
            "kind": "waiting",
            "seq": rng.next_u64(),
            "attempt": {
                "request": "_-8",
                "request_blind": seed(rng),
                "client_alias": seed(rng),
                "unblinder": seed(rng),
                "response_secret": "AQID",
            },
        }),
    };
    match rng.next_u32() % 4 {
        0 => json!({ "kind": "due", "at": rng.next_u64() }),
        1 => json!({ "kind": "spent" }),
        2 => json!({ "kind": "asked", "nonce": seed(rng), "leader": progress(rng) }),
        _ => json!({
            "kind": "asked",
            "nonce": seed(rng),
            "leader": progress(rng),
            "helper": progress(rng),
        }),
    }
}

fn random(rng: &mut ChaCha20Rng) -> Value {
    let has = |rng: &mut ChaCha20Rng| rng.next_u32().is_multiple_of(2);
    let root = |rng: &mut ChaCha20Rng| sotto_wire::TreeHash(bytes(rng)).to_string();
    let log_gateway = json!({
        "operator": { "name": "gateway.example", "key": PublicKey::new(bytes(rng)).to_string() },
        "not_after": rng.next_u64(),
        "config": hpke(rng.next_u64()),
    });
    let mut state = json!({
        "logs": some(rng, |rng| (format!("log{}", rng.next_u32()), json!({
            "size": rng.next_u64(),
            "root": root(rng),
        }))),
        "time": rng.next_u64(),
        "silent_until": has(rng).then(|| rng.next_u64()),
        "key_sets": some(rng, |rng| (format!("operator{}", rng.next_u32()), json!({
            "seq": rng.next_u64(),
            "id": id(rng),
            "not_before": rng.next_u64(),
        }))),
        "names": some(rng, |rng| (format!("{}/é \"{}", id(rng), rng.next_u32()), id(rng).into())),
        "recipes": some(rng, |rng| (id(rng), match has(rng) {
            true => json!({ "closes": rng.next_u64() }),
            false => json!({
                "closes": rng.next_u64(),
                "pending": {
                    "report": "AQID",
                    "task_configuration": "_-8",
                    "from": rng.next_u64(),
                    "sends": rng.next_u32(),
                },
            }),
        })),
        "ledger": has(rng).then(|| ledger(rng)),
        "audit": (0..rng.next_u32() % 4).map(|_| json!({
            "at": rng.next_u64(),
            "recipe": id(rng),
            "name": "a name",
            "purpose": "A purpose \\ \u{1f600}",
            "epsilon_micro": rng.next_u64(),
        })).collect::<Vec<_>>(),
        "client_seed": has(rng).then(|| seed(rng)),
        "tokens": some(rng, |rng| (id(rng), json!({
            "closes": rng.next_u64(),
            "stage": stage(rng),
        }))),
    });
    if has(rng) {
        state["log_gateway"] = log_gateway;
    }
    state
}

#[test]
fn a_state_comes_back_as_it_was() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    for _ in 0..300 {
        let value = random(&mut rng);
        let state: DeviceState = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&state).unwrap(), value);
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<DeviceState>(&text).unwrap(), state);
    }
    let world = Plan::new().build();
    let mut store = world.device();
    world.walk(&mut store, 2).unwrap();
    let text = serde_json::to_string(store.state()).unwrap();
    assert_eq!(&serde_json::from_str::<DeviceState>(&text).unwrap(), store.state());
}

#[test]
fn a_state_that_lost_or_gained_a_field_is_an_error() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let with_gateway = std::iter::repeat_with(|| random(&mut rng)).take(50);
    let whole = with_gateway.filter_map(|value| match value {
        Value::Object(state) if state.contains_key("log_gateway") => Some(state),
        _ => None,
    });
    let whole = whole.last().unwrap();
    for field in whole.keys() {
        let mut less = whole.clone();
        less.remove(field);
        let read = serde_json::from_value::<DeviceState>(Value::Object(less));
        // States from before gateways have none. A device that loses it starts again with the
        // pinned key.
        assert_eq!(read.is_ok(), field == "log_gateway", "without {field}");
    }
    let mut more = whole.clone();
    more.insert("extra".to_owned(), Value::Null);
    assert!(serde_json::from_value::<DeviceState>(Value::Object(more)).is_err());
    assert!(serde_json::from_str::<DeviceState>("{}").is_err());
    assert!(serde_json::from_str::<DeviceState>("null").is_err());
}

#[test]
fn a_damaged_ledger_never_reads_as_a_cheaper_one() {
    let world = Plan::new().build();
    let mut store = world.device();
    world.walk(&mut store, 2).unwrap();
    let text = serde_json::to_string(store.state()).unwrap();
    let spent = |state: &DeviceState| {
        let (period, lifetime) = (state.ledger()?.clone(), state.lifetime()?.ok()?);
        Some([period, lifetime].map(|filter| filter.epsilon_spent(1e-6).unwrap()))
    };
    let honest = spent(store.state());
    assert!(honest.is_some_and(|both| both.iter().all(|epsilon| *epsilon > 0.0)));
    for place in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1 << bit;
            if let Ok(state) = serde_json::from_slice::<DeviceState>(&bytes) {
                assert_eq!(spent(&state), honest, "bit {bit} of byte {place}");
            }
        }
    }
    for length in 0..text.len() {
        assert!(serde_json::from_str::<DeviceState>(text.get(..length).unwrap_or("")).is_err());
    }
}
