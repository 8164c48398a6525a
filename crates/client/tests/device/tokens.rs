//! Rounds of asking for tokens over a transport: what goes out, what each answer means, and crashes at every step.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Mutex;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_client::{
    HttpRequest, HttpResponse, InsecureName, Method, StateFile, TokenRound, TokensError, Transport,
    TransportError, fetch_tokens,
};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::device::tokens::Live;
use sotto_protocol::device::{
    Change, Check, DeviceState, DeviceStore, MemoryState, PassError, StateError, follow, pass,
};
use sotto_protocol::log::Watch;
use sotto_wire::recipe::{KeySet, Probability};
use sotto_wire::token::evidence::AttestationEvidence;
use sotto_wire::token::{header, parse_byte_sequence};
use sotto_wire::{Decode, HpkeConfigId, Report};

use crate::files::{begin, sealing_key};
use crate::token_world::{Authority, Came, add_recipe, token_plan};
use crate::world::{
    Batch, DAY, Files, ISSUER, NOW, Plan, World, at, encapsulation_key, issuer_set, key,
    key_set_entry,
};

/// What happens to one request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It is answered.
    Answered,
    /// The answer is lost.
    Lost,
    /// It does not arrive.
    Away,
    /// Somebody says this instead.
    Status(u16),
    /// The answer is changed on its way.
    Changed,
}

/// The attester behind a transport.
struct Attester {
    authority: Mutex<Authority>,
    /// Of the request with this number.
    fate: Box<dyn Fn(usize) -> Fate + Send + Sync>,
    evidence: Mutex<Vec<Vec<u8>>>,
    count: Mutex<usize>,
}

impl Attester {
    fn new(fate: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Self {
        Self {
            authority: Mutex::new(Authority::new()),
            fate: Box::new(fate),
            evidence: Mutex::default(),
            count: Mutex::default(),
        }
    }

    fn honest() -> Self {
        Self::new(|_| Fate::Answered)
    }

    fn count(&self) -> usize {
        *self.count.lock().unwrap()
    }
}

impl Transport for Attester {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        assert_eq!(request.method, Method::Post);
        assert_eq!(request.url, "https://attester.example/token-request?issuer=issuer.example");
        let names: Vec<_> = request.headers.iter().map(|(name, _)| *name).collect();
        let (alias, client, blind) = (header::ORIGIN_ALIAS, header::CLIENT, header::REQUEST_BLIND);
        assert_eq!(names, ["content-type", alias, client, blind, header::ATTESTATION]);
        assert_eq!(request.headers[0].1.as_str(), "application/private-token-request");
        let field = |number: usize| parse_byte_sequence(&request.headers[number].1).unwrap();
        let came = Came {
            body: request.body.to_vec(),
            client_alias: field(1).try_into().unwrap(),
            client_key: field(2).try_into().unwrap(),
            request_blind: field(3).try_into().unwrap(),
        };
        self.evidence.lock().unwrap().push(field(4));
        let number = {
            let mut count = self.count.lock().unwrap();
            *count += 1;
            *count - 1
        };
        let response = |status, body| {
            let media_type = "application/private-token-response".to_owned();
            let headers = vec![("Content-Type".to_owned(), media_type)];
            Ok(HttpResponse { status, headers, body })
        };
        let fate = (self.fate)(number);
        match fate {
            Fate::Away => return Err(TransportError::Unreachable("away".to_owned())),
            Fate::Status(status) => return response(status, b"{}".to_vec()),
            _ => {}
        }
        let answer = self.authority.lock().unwrap().answer(came);
        match (answer, fate) {
            (_, Fate::Lost) => Err(TransportError::Timeout),
            (Ok(mut body), Fate::Changed) => {
                body[50] ^= 1;
                response(200, body)
            }
            (Ok(body), _) => response(200, body),
            (Err(status), _) => response(status, b"{}".to_vec()),
        }
    }
}

fn two_recipes() -> Plan {
    let mut plan = token_plan();
    plan.trust.floors.max_rate = Probability::ONE;
    plan.recipe.sampling.rate = Probability::ONE;
    plan.reclaim();
    add_recipe(&mut plan, 1, |recipe| recipe.sampling.rate = Probability::ONE);
    plan
}

/// One round of a device.
fn round(
    world: &World,
    watch: &mut Watch<Files>,
    store: &mut dyn DeviceStore,
    attester: &Attester,
    seed: u64,
) -> Result<TokenRound, TokensError> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let view = match follow(store, watch, &world.trust, world.now) {
        Err(PassError::State(error)) => return Err(error.into()),
        view => view.unwrap(),
    };
    let live = Live { view: &view, recipes: watch.recipes() };
    let attestor = InsecureName::new("device-1").unwrap();
    fetch_tokens(store, &live, &world.trust, &attestor, attester, world.now, &mut rng)
}

fn calm_round(
    world: &World,
    store: &mut MemoryState,
    attester: &Attester,
    seed: u64,
) -> TokenRound {
    round(world, &mut world.watch().unwrap(), store, attester, seed).unwrap()
}

#[test]
fn a_round_gets_every_token_once() {
    let world = two_recipes().build();
    let (mut store, attester) = (world.device(), Attester::honest());
    let first = calm_round(&world, &mut store, &attester, 1);
    assert_eq!(first, TokenRound { asked: 4, granted: 4, ..TokenRound::default() });
    assert_eq!(calm_round(&world, &mut store, &attester, 2), TokenRound::default());
    let done = world.walk(&mut store, 3).unwrap();
    assert_eq!(done.considered.len(), 2);
    assert_eq!(calm_round(&world, &mut store, &attester, 4), TokenRound::default());
    let evidence = attester.evidence.lock().unwrap();
    for evidence in evidence.iter() {
        let AttestationEvidence::Insecure(name) =
            AttestationEvidence::from_bytes(evidence).unwrap()
        else {
            panic!("another kind");
        };
        assert_eq!(name.as_bytes(), b"device-1");
    }
}

#[test]
fn a_limit_is_for_good_and_what_passes_is_asked_again_with_the_same_bytes() {
    let world = token_plan().build();
    for (fate, expected, later) in [
        (Fate::Status(429), (1, 0, 1), false),
        (Fate::Status(503), (0, 0, 1), true),
        (Fate::Away, (0, 0, 1), true),
        (Fate::Lost, (0, 0, 1), true),
        (Fate::Status(400), (0, 1, 2), true),
        (Fate::Status(403), (0, 1, 2), true),
        (Fate::Status(302), (0, 1, 2), true),
        (Fate::Changed, (0, 1, 2), true),
    ] {
        let mut store = world.device();
        let attester = Attester::new(move |number| if number == 0 { fate } else { Fate::Answered });
        let done = calm_round(&world, &mut store, &attester, 1);
        let (withheld, refused, asked) = expected;
        // What has no answer ends the round: the attester is away for the others too.
        let ended = asked == 1 && later;
        let asked = if ended { 1 } else { 2 };
        assert_eq!((done.withheld, done.refused, done.asked), (withheld, refused, asked));
        assert_eq!(done.waiting, if ended { 2 } else { usize::from(later) });
        let again = calm_round(&world, &mut store, &attester, 2);
        assert_eq!(again.granted, if ended { 2 } else { usize::from(later) });
        assert_eq!(again.waiting, 0);
        assert_eq!(calm_round(&world, &mut store, &attester, 3), TokenRound::default());
        let authority = attester.authority.lock().unwrap();
        assert_eq!(authority.distinct().len(), authority.granted(), "the same bytes");
        let considered = world.walk(&mut store, 1).unwrap();
        match later {
            true => assert_eq!(considered.considered.len(), 1),
            false => assert_eq!(considered.silent[0].1.check, Check::Token),
        }
    }
}

#[test]
fn the_same_bytes_get_the_same_answer_and_another_secret_is_another_client() {
    let world = token_plan().build();
    let attester = Attester::honest();
    // The same seed makes the same client secret, and then other requests.
    let (mut one, mut two) = (world.device(), world.device());
    assert_eq!(calm_round(&world, &mut one, &attester, 1).granted, 2);
    let mut watch = world.watch().unwrap();
    let silent = Attester::new(|_| Fate::Away);
    round(&world, &mut watch, &mut two, &silent, 1).unwrap();
    // The same bytes, from a copied state: the same answer, and so the same tokens.
    assert_eq!(calm_round(&world, &mut two, &attester, 9).granted, 2);
    assert_eq!(attester.authority.lock().unwrap().granted(), 2);
    let mut three = world.device();
    assert_eq!(calm_round(&world, &mut three, &attester, 2).granted, 2);
    let authority = attester.authority.lock().unwrap();
    assert_ne!(authority.came[0].client_key, authority.came.last().unwrap().client_key);
}

#[test]
fn newer_keys_replace_a_refused_request_and_nothing_else() {
    let mut rotated = token_plan();
    let new_key =
        HpkeKeypair::generate(HpkeConfigId::new(9), &mut ChaCha20Rng::seed_from_u64(4_000));
    let mut set = issuer_set(&key(ISSUER), 4, NOW - 2 * DAY);
    set.encapsulation_configs = Some(vec![KeySet::config_text(new_key.config())]);
    let entries = vec![key_set_entry(&set, &key(ISSUER))];
    rotated.later.push(Batch { entries, times: at(NOW - 3 * DAY) });
    let (before, after) = (token_plan().build(), rotated.build());

    // The first request is away; meanwhile the issuer rotates and forgets the old key.
    let attester = Attester::new(|number| if number == 0 { Fate::Away } else { Fate::Answered });
    let mut store = before.device();
    assert_eq!(calm_round(&before, &mut store, &attester, 1).waiting, 2);
    attester.authority.lock().unwrap().rotate(std::slice::from_ref(&new_key));
    // Without the newer key set in the log there is only the old request.
    let stuck = calm_round(&before, &mut store, &attester, 2);
    assert_eq!((stuck.refused, stuck.waiting), (2, 2));
    let renewed = calm_round(&after, &mut store, &attester, 3);
    assert_eq!((renewed.asked, renewed.granted, renewed.refused), (4, 2, 0));
    assert_eq!(after.walk(&mut store, 1).unwrap().considered.len(), 1);

    // An issuer that still has the old key gets the old bytes, whatever the log says.
    let attester = Attester::new(|number| if number == 0 { Fate::Lost } else { Fate::Answered });
    let mut store = before.device();
    calm_round(&before, &mut store, &attester, 1);
    attester.authority.lock().unwrap().rotate(&[new_key, encapsulation_key()]);
    assert_eq!(calm_round(&after, &mut store, &attester, 2).granted, 2);
    assert_eq!(attester.authority.lock().unwrap().distinct().len(), 2);
}

#[test]
fn without_a_view_that_was_taken_or_an_attester_nothing_is_asked() {
    let world = token_plan().build();
    let (mut store, attester) = (world.device(), Attester::honest());
    let watch = world.watch().unwrap();
    let live = Live { view: watch.view().unwrap(), recipes: watch.recipes() };
    let attestor = InsecureName::new("device-1").unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let trust = &world.trust;
    let asked = fetch_tokens(&mut store, &live, trust, &attestor, &attester, world.now, &mut rng);
    assert!(
        matches!(asked, Err(TokensError::Silence(silence)) if silence.check == Check::Consistency)
    );
    let mut plan = token_plan();
    plan.trust.tokens.as_mut().unwrap().attester = None;
    let world = plan.build();
    let asked = round(&world, &mut world.watch().unwrap(), &mut store, &attester, 1);
    assert!(matches!(asked, Err(TokensError::NoAttester)));
    assert_eq!(attester.count(), 0);
}

/// When a device dies: around the commit with this number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Never,
    Before(usize),
    After(usize),
}

struct Mortal<'a> {
    inner: StateFile,
    death: Death,
    commits: &'a RefCell<usize>,
    answered: &'a RefCell<Vec<Vec<u8>>>,
}

impl DeviceStore for Mortal<'_> {
    fn state(&self) -> &DeviceState {
        self.inner.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        let number = self.commits.replace_with(|count| *count + 1);
        let died = || Err(StateError::Io(std::io::Error::other("crash")));
        if self.death == Death::Before(number) {
            return died();
        }
        if let Change::Answered { pending, .. } = &change {
            self.answered.borrow_mut().push(pending.report.clone());
        }
        self.inner.commit(change)?;
        if self.death == Death::After(number) { died() } else { Ok(()) }
    }
}

/// A life with at most one death. Gives how many commits there were, and the reports that were made durable.
fn live_through(
    world: &World,
    watch: &mut Watch<Files>,
    path: &Path,
    attester: &Attester,
    death: Death,
) -> (usize, Vec<Vec<u8>>) {
    let (commits, answered) = (RefCell::new(0), RefCell::new(Vec::new()));
    begin(world, path);
    for life in 0..6 {
        let inner = StateFile::open(path, &sealing_key()).unwrap();
        let mut store = Mortal { inner, death, commits: &commits, answered: &answered };
        // Another seed in each life: a second request or toss would have other bytes.
        match round(world, watch, &mut store, attester, 100 + life) {
            Ok(_) => {}
            Err(TokensError::State(StateError::Io(_))) => continue,
            Err(other) => panic!("{other}"),
        }
        let mut rng = ChaCha20Rng::seed_from_u64(200 + life);
        match pass(&mut store, watch, &world.trust, &world.host(), world.now, &mut rng) {
            Ok(_) | Err(PassError::State(StateError::Io(_))) => {}
            Err(other) => panic!("{other}"),
        }
    }
    (commits.into_inner(), answered.into_inner())
}

#[test]
fn no_crash_burns_a_token_asks_twice_for_one_or_uses_one_twice() {
    let world = two_recipes().build();
    let mut watch = world.watch().unwrap();
    let mut run = |death: Death, lost: Option<usize>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let attester =
            Attester::new(
                move |number| {
                    if Some(number) == lost { Fate::Lost } else { Fate::Answered }
                },
            );
        let (commits, answered) = live_through(&world, &mut watch, &path, &attester, death);
        let words = format!("{death:?}, lost {lost:?}");
        let authority = attester.authority.lock().unwrap();
        assert_eq!(authority.granted(), 4, "{words}: no token is burned");
        assert_eq!(authority.distinct().len(), 4, "{words}: no second request for a token");
        let state = StateFile::read(&path, &sealing_key()).unwrap();
        assert_eq!(state.audit().len(), 2, "{words}: both recipes were considered, once");
        let text = serde_json::to_string(&state).unwrap();
        assert!(!text.contains(r#""kind":"granted""#), "{words}: tokens are gone once considered");
        let mut ids: Vec<_> = answered
            .iter()
            .map(|report| Report::from_bytes(report).unwrap().report_metadata.report_id)
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), answered.len(), "{words}: no token is used twice");
        (commits, answered.len())
    };
    let (commits, answers) = run(Death::Never, None);
    assert_eq!(answers, 2);
    let mut silenced = 0;
    for number in 0..commits {
        for death in [Death::Before(number), Death::After(number)] {
            silenced += usize::from(run(death, None).1 < 2);
        }
        run(Death::After(number), Some(number % 4));
    }
    for lost in 0..4 {
        assert_eq!(run(Death::Never, Some(lost)).1, 2);
    }
    // A crash between considering and answering is silence, and nothing else is: after the former, before the latter.
    assert_eq!(silenced, 4);
}
