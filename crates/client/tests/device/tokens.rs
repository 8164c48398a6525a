//! Rounds of token requests over a transport: what is sent, and what each answer means.

mod crashes;

use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_client::{
    Host, HttpRequest, HttpResponse, InsecureName, Log, Method, Participant, TokenRound, Transport,
    TransportError,
};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::admission::Check;
use sotto_protocol::device::tokens::{Snapshot, TokenChange, plan, request};
use sotto_protocol::device::{Change, DeviceState, DeviceStore, MemoryState, StateError};
use sotto_testing::keys::{encapsulation_key, key};
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{ATTESTERS, DAY, ISSUERS, NOW, issuer_set, key_set_entry};
use sotto_testing::tokens::{Authority, Came, add_recipe, other_plan, token_plan};
use sotto_testing::world::{Plan, World};
use sotto_wire::recipe::{KeySet, Probability};
use sotto_wire::token::evidence::AttestationEvidence;
use sotto_wire::token::{
    ENCAPSULATION_KEY_PROBLEM, RESPONSE_MEDIA_TYPE, WITHHELD_PROBLEM, header, parse_byte_sequence,
};
use sotto_wire::{Decode, HpkeConfigId, PROBLEM_MEDIA_TYPE};

use crate::device::behind_relay::host;

/// What happens to one request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It is answered.
    Answered,
    /// The answer is lost.
    Lost,
    /// It does not arrive.
    Away,
    /// Somebody answers with this status instead, and nothing else.
    Status(u16),
    /// Somebody answers with this status instead, and a document of this media type that names this
    /// problem type.
    Says(u16, &'static str, &'static str),
    /// The answer is changed on the way.
    Changed,
}

/// A request's URL and fields, and the length of its body.
type Seen = (String, Vec<(&'static str, String)>, usize);

/// The attesters behind a transport.
struct Attester {
    authority: Mutex<Authority>,
    /// The fate of the request with this number, and of that chain with that number.
    fate: Box<dyn Fn(usize, usize, usize) -> Fate + Send + Sync>,
    evidence: Mutex<Vec<Vec<u8>>>,
    seen: Mutex<Vec<Seen>>,
}

impl Attester {
    fn new(fate: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Arc<Self> {
        Self::by_chain(move |number, _, _| fate(number))
    }

    fn by_chain(fate: impl Fn(usize, usize, usize) -> Fate + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            authority: Mutex::new(Authority::new()),
            fate: Box::new(fate),
            evidence: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    fn honest() -> Arc<Self> {
        Self::new(|_| Fate::Answered)
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Transport for Attester {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        // Answers are made here, but not delivered.
        if request.url.starts_with("https://relay.example/") {
            return Err(TransportError::Unreachable("away".to_owned()));
        }
        assert_eq!(request.method, Method::Post);
        let urls = [0, 1].map(|chain| {
            let (attester, issuer) = (ATTESTERS[chain], ISSUERS[chain]);
            format!("https://{attester}/token-request?issuer={issuer}")
        });
        let chain = urls.iter().position(|url| *url == request.url).unwrap();
        let names: Vec<_> = request.headers.iter().map(|(name, _)| *name).collect();
        let (alias, client, blind) = (header::ORIGIN_ALIAS, header::CLIENT, header::REQUEST_BLIND);
        assert_eq!(names, ["content-type", alias, client, blind, header::ATTESTATION]);
        assert_eq!(request.headers[0].1.as_str(), "application/private-token-request");
        let field = |number: usize| parse_byte_sequence(&request.headers[number].1).unwrap();
        let came = Came {
            attester: ATTESTERS[chain].to_owned(),
            body: request.body.to_vec(),
            client_alias: field(1).try_into().unwrap(),
            client_key: field(2).try_into().unwrap(),
            request_blind: field(3).try_into().unwrap(),
        };
        self.evidence.lock().unwrap().push(field(4));
        let (number, of_chain) = {
            let mut seen = self.seen.lock().unwrap();
            let of_chain = seen.iter().filter(|(url, ..)| *url == request.url).count();
            let fields = request.headers.iter().map(|(name, value)| (*name, value.to_string()));
            seen.push((request.url.clone(), fields.collect(), request.body.len()));
            (seen.len() - 1, of_chain)
        };
        let response = |status, media_type: &str, body| {
            let headers = vec![("Content-Type".to_owned(), media_type.to_owned())];
            Ok(HttpResponse { status, headers, body })
        };
        let says = |status, media_type, problem_type| {
            let body = format!(r#"{{"type":"{problem_type}","title":"A title."}}"#);
            response(status, media_type, body.into_bytes())
        };
        let fate = (self.fate)(number, chain, of_chain);
        match fate {
            Fate::Away => return Err(TransportError::Unreachable("away".to_owned())),
            Fate::Status(status) => return response(status, RESPONSE_MEDIA_TYPE, b"{}".to_vec()),
            Fate::Says(status, media_type, problem) => return says(status, media_type, problem),
            _ => {}
        }
        let answer = self.authority.lock().unwrap().answer(came);
        match (answer, fate) {
            (_, Fate::Lost) => Err(TransportError::Timeout),
            (Ok(mut body), Fate::Changed) => {
                body[50] ^= 1;
                response(200, RESPONSE_MEDIA_TYPE, body)
            }
            (Ok(body), _) => response(200, RESPONSE_MEDIA_TYPE, body),
            (Err((status, problem)), _) => says(status, PROBLEM_MEDIA_TYPE, problem),
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

/// The host of a device that asks this attester, and uses this seed in a pass.
fn attested(world: &World, attester: &Arc<Attester>, seed: u64) -> Host {
    let mut host = host(world, Arc::<Attester>::clone(attester));
    host.random = Arc::new(move || Box::new(ChaCha20Rng::seed_from_u64(seed)));
    host.attestor = Some(Box::new(InsecureName::new("device-1").unwrap()));
    host
}

/// A pass of a device whose conditions are not met: it requests tokens, and considers nothing.
fn round(
    world: &World,
    store: &mut impl DeviceStore,
    attester: &Arc<Attester>,
    seed: u64,
) -> Option<TokenRound> {
    let mut host = attested(world, attester, seed);
    host.conditions = Box::new(|| Ok(false));
    let log = Log::from_files(world.log.files.clone());
    let mut device = Participant::new(host, Arc::new(world.trust.clone()), store, log);
    let done = device.pass().unwrap();
    assert!(done.considered.is_empty());
    done.tokens
}

fn calm_round(
    world: &World,
    store: &mut impl DeviceStore,
    attester: &Arc<Attester>,
    seed: u64,
) -> TokenRound {
    round(world, store, attester, seed).unwrap()
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

/// Notes how many changes were stored together.
#[derive(Default)]
struct Noting {
    inner: MemoryState,
    together: Vec<usize>,
}

impl DeviceStore for Noting {
    fn state(&self) -> &DeviceState {
        self.inner.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        assert!(!matches!(change, Change::Tokens(TokenChange::Granted { .. })), "one alone");
        if let Change::Together(changes) = &change {
            self.together.push(changes.len());
        }
        self.inner.commit(change)
    }
}

/// A real device writes its whole state with every commit.
#[test]
fn the_answers_of_a_round_are_stored_together() {
    let world = two_recipes().build();
    let mut store = Noting { inner: world.device(), ..Noting::default() };
    assert_eq!(calm_round(&world, &mut store, &Attester::honest(), 1).granted, 4);
    assert_eq!(store.together, [4]);
}

/// How the device interprets the outcome of a request.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    /// Never again.
    Withheld,
    /// It counts as refused.
    Refused,
    /// It does not count.
    NoAnswer,
}

#[test]
fn only_the_attesters_own_word_is_final_and_else_the_same_bytes_are_sent_again() {
    use Meaning::{NoAnswer, Refused, Withheld};
    let problem = |status, problem| Fate::Says(status, PROBLEM_MEDIA_TYPE, problem);
    let world = token_plan().build();
    for (fate, meaning) in [
        (problem(429, WITHHELD_PROBLEM), Withheld),
        (Fate::Says(429, "Application/Problem+JSON; charset=utf-8", WITHHELD_PROBLEM), Withheld),
        // A proxy in front of an attester counts requests too.
        (Fate::Status(429), NoAnswer),
        (problem(429, "about:blank"), NoAnswer),
        (problem(429, ENCAPSULATION_KEY_PROBLEM), NoAnswer),
        (Fate::Says(429, "text/html", WITHHELD_PROBLEM), NoAnswer),
        (problem(503, WITHHELD_PROBLEM), NoAnswer),
        (problem(400, WITHHELD_PROBLEM), Refused),
        (problem(403, WITHHELD_PROBLEM), Refused),
        (problem(200, WITHHELD_PROBLEM), Refused),
        (Fate::Status(503), NoAnswer),
        (Fate::Away, NoAnswer),
        (Fate::Lost, NoAnswer),
        // There is no newer key.
        (problem(400, ENCAPSULATION_KEY_PROBLEM), Refused),
        (Fate::Status(400), Refused),
        (Fate::Status(403), Refused),
        (Fate::Status(302), Refused),
        (Fate::Changed, Refused),
    ] {
        let mut store = world.device();
        let attester = Attester::new(move |number| if number == 0 { fate } else { Fate::Answered });
        let done = calm_round(&world, &mut store, &attester, 1);
        let is_final = meaning == Withheld;
        let expected = TokenRound {
            asked: 2,
            granted: 1,
            withheld: usize::from(is_final),
            refused: usize::from(meaning == Refused),
            waiting: usize::from(!is_final),
            failure: done.failure.clone(),
        };
        assert_eq!(done, expected);
        assert_eq!(done.failure.is_some(), !is_final, "a person is told of what may pass");
        let again = calm_round(&world, &mut store, &attester, 2);
        assert_eq!((again.granted, again.waiting), (usize::from(!is_final), 0));
        assert_eq!(calm_round(&world, &mut store, &attester, 3), TokenRound::default());
        let authority = attester.authority.lock().unwrap();
        assert_eq!(authority.distinct().len(), authority.granted(), "the same bytes");
        let considered = world.walk(&mut store, 1).unwrap();
        match is_final {
            false => assert_eq!(considered.considered.len(), 1),
            true => assert_eq!(considered.silent[0].1.check, Check::Token),
        }
    }
}

#[test]
fn three_requests_in_a_row_without_an_answer_end_a_round_with_that_attester() {
    let mut plan = two_recipes();
    for number in [2, 3] {
        add_recipe(&mut plan, number, |recipe| recipe.sampling.rate = Probability::ONE);
    }
    let world = plan.build();
    let (away, busy, limited) = (Fate::Away, Fate::Status(503), Fate::Status(429));
    let (refused, answered) = (Fate::Status(403), Fate::Answered);
    for (fates, asked, granted) in [
        ([busy, busy, busy, answered], 3, 0),
        ([away, busy, limited, answered], 3, 0),
        ([answered, limited, away, busy], 4, 1),
        ([busy, busy, answered, busy], 4, 1),
        ([busy, busy, refused, busy], 4, 0),
        ([busy, answered, answered, answered], 4, 3),
    ] {
        for failing in [0, 1] {
            let attester = Attester::by_chain(move |_, chain, number| match fates.get(number) {
                Some(fate) if chain == failing => *fate,
                _ => Fate::Answered,
            });
            let mut store = world.device();
            let done = calm_round(&world, &mut store, &attester, 1);
            // The other attester is asked for everything, and gives it.
            let (asked, granted) = (asked + 4, granted + 4);
            assert_eq!((done.asked, done.granted, done.waiting), (asked, granted, 8 - granted));
            if let Some((who, _)) = &done.failure {
                assert_eq!(who.as_str(), ATTESTERS[failing]);
            }
            // The others arrive in later rounds, for the same bytes.
            let rest = calm_round(&world, &mut store, &attester, 2).granted
                + calm_round(&world, &mut store, &attester, 3).granted;
            assert_eq!(granted + rest, 8);
            assert_eq!(attester.authority.lock().unwrap().distinct().len(), 8);
        }
    }
}

/// Apart from what is sealed, blinded and signed, requests for two recipes are the same: no field,
/// length or address tells them apart. The tests of the protocol show which bytes are equal.
#[test]
fn requests_of_devices_that_swap_their_recipes_have_the_same_form() {
    let worlds = [token_plan().build(), other_plan().build()];
    let form = |world: &World, seed| {
        let (mut store, attester) = (world.device(), Attester::honest());
        assert_eq!(calm_round(world, &mut store, &attester, seed).granted, 2);
        let seen = attester.seen.lock().unwrap().clone();
        let form = |(url, fields, len): Seen| {
            let lengths: Vec<_> = fields.iter().map(|(name, value)| (*name, value.len())).collect();
            let media_type = fields[0].1.clone();
            let client = fields[2].1.clone();
            (url, lengths, media_type, client, len)
        };
        let mut forms: Vec<_> = seen.into_iter().map(form).collect();
        // Their order is random.
        forms.sort();
        forms
    };
    let [one, two] = &worlds;
    let before = [form(one, 1), form(two, 2)].concat();
    let after = [form(two, 1), form(one, 2)].concat();
    assert_eq!(before, after);
    assert_eq!(before.len(), 4);
    assert_ne!(before[0].3, before[2].3, "two devices");
}

#[test]
fn the_same_bytes_get_the_same_answer_and_another_secret_is_another_client() {
    let world = token_plan().build();
    let attester = Attester::honest();
    // The same seed makes the same client secret, and then different requests.
    let (mut one, mut two) = (world.device(), world.device());
    assert_eq!(calm_round(&world, &mut one, &attester, 1).granted, 2);
    let silent = Attester::new(|_| Fate::Away);
    calm_round(&world, &mut two, &silent, 1);
    // The same bytes, from a copied state: the same answer, and so the same tokens.
    assert_eq!(calm_round(&world, &mut two, &attester, 9).granted, 2);
    assert_eq!(attester.authority.lock().unwrap().granted(), 2);
    let mut three = world.device();
    assert_eq!(calm_round(&world, &mut three, &attester, 2).granted, 2);
    let authority = attester.authority.lock().unwrap();
    assert_ne!(authority.came[0].client_key, authority.came.last().unwrap().client_key);
}

/// The issuers' next key.
fn new_key() -> HpkeKeypair {
    HpkeKeypair::generate_hybrid(HpkeConfigId::new(9), &mut ChaCha20Rng::seed_from_u64(4_000))
}

/// The world in whose log it is.
fn rotated() -> Plan {
    let mut rotated = token_plan();
    let entry = |chain| {
        let issuer = key(ISSUERS[chain]);
        let mut set = issuer_set(chain, &issuer, 4, NOW - 2 * DAY);
        set.encapsulation_configs = Some(vec![KeySet::config_text(new_key().config())]);
        key_set_entry(&set, &issuer)
    };
    let entries = [0, 1].map(entry).into();
    rotated.later.push(Batch { entries, times: at(NOW - 3 * DAY) });
    rotated
}

/// Gives both issuers other keys from now on.
fn rotate(attester: &Attester, keys: impl Fn(usize) -> Vec<HpkeKeypair>) {
    let mut authority = attester.authority.lock().unwrap();
    [0, 1].into_iter().for_each(|chain| authority.rotate(chain, &keys(chain)));
}

#[test]
fn newer_keys_replace_a_refused_request_and_nothing_else() {
    let (before, after) = (token_plan().build(), rotated().build());

    // Both requests are lost; meanwhile the issuer rotates and forgets the old key.
    let attester = Attester::new(|number| if number < 2 { Fate::Away } else { Fate::Answered });
    let mut store = before.device();
    assert_eq!(calm_round(&before, &mut store, &attester, 1).waiting, 2);
    rotate(&attester, |_| vec![new_key()]);
    // Without the newer key set in the log there is only the old request.
    let stuck = calm_round(&before, &mut store, &attester, 2);
    assert_eq!((stuck.refused, stuck.waiting), (2, 2));
    let renewed = calm_round(&after, &mut store, &attester, 3);
    assert_eq!((renewed.asked, renewed.granted, renewed.refused), (4, 2, 0));
    assert_eq!(after.walk(&mut store, 1).unwrap().considered.len(), 1);

    // An issuer that still has the old key gets the old bytes, whatever the log says.
    let attester = Attester::new(|number| if number < 2 { Fate::Lost } else { Fate::Answered });
    let mut store = before.device();
    assert_eq!(calm_round(&before, &mut store, &attester, 1).waiting, 2);
    rotate(&attester, |chain| vec![new_key(), encapsulation_key(chain)]);
    assert_eq!(calm_round(&after, &mut store, &attester, 2).granted, 2);
    assert_eq!(attester.authority.lock().unwrap().distinct().len(), 2);
}

/// The tokens were granted and the answers lost; then somebody refuses. With newer keys in the log,
/// a device that believed the refusal would throw away what opens the answers, and never get
/// others.
#[test]
fn a_refusal_that_is_not_about_the_key_keeps_what_opens_the_answer() {
    let (before, after) = (token_plan().build(), rotated().build());
    for refusal in [
        Fate::Status(400),
        Fate::Says(400, PROBLEM_MEDIA_TYPE, "about:blank"),
        Fate::Says(400, PROBLEM_MEDIA_TYPE, WITHHELD_PROBLEM),
        Fate::Says(400, "application/json", ENCAPSULATION_KEY_PROBLEM),
        Fate::Says(403, PROBLEM_MEDIA_TYPE, ENCAPSULATION_KEY_PROBLEM),
        Fate::Says(429, PROBLEM_MEDIA_TYPE, ENCAPSULATION_KEY_PROBLEM),
        Fate::Says(503, PROBLEM_MEDIA_TYPE, ENCAPSULATION_KEY_PROBLEM),
    ] {
        let attester = Attester::new(move |number| match number {
            0 | 1 => Fate::Lost,
            2 | 3 => refusal,
            _ => Fate::Answered,
        });
        let mut store = before.device();
        assert_eq!(calm_round(&before, &mut store, &attester, 1).waiting, 2);
        // The attester remembers its answers, whatever keys the issuer has.
        rotate(&attester, |_| vec![new_key()]);
        let refused = calm_round(&after, &mut store, &attester, 2);
        assert_eq!((refused.asked, refused.waiting), (2, 2));
        assert_eq!(calm_round(&after, &mut store, &attester, 3).granted, 2);
        let authority = attester.authority.lock().unwrap();
        assert_eq!((authority.granted(), authority.distinct().len()), (2, 2));
    }
}

#[test]
fn without_a_view_that_was_taken_or_an_attester_nothing_is_asked() {
    let world = token_plan().build();
    let (mut store, attester) = (world.device(), Attester::honest());
    let watch = world.watch().unwrap();
    let (view, recipes) = (watch.view().unwrap(), watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for step in [plan, request] {
        let refused = step(store.state(), &snapshot, &mut rng);
        assert_eq!(refused.unwrap_err().check, Check::Consistency);
    }
    let mut plan = token_plan();
    let tokens = plan.trust.tokens.as_mut().unwrap();
    (tokens.leader.attester, tokens.helper.attester) = (None, None);
    let world = plan.build();
    assert_eq!(round(&world, &mut store, &attester, 1), None);
    assert_eq!(attester.count(), 0);
}
