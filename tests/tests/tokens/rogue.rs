//! A device that cheats: it makes every part of a request and of a report by hand.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_client::InsecureName;
use sotto_crypto::blind_rsa::{TokenKey, Unblinder, blind};
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::rate_limited::{
    CLIENT_CONTEXT, ResponseSecret, client_origin_alias, seal_inner_request,
};
use sotto_protocol::admission::Admitted;
use sotto_protocol::client::produce_report;
use sotto_protocol::token::{Attestor, ReportTokens, TokenTerms, report_id};
use sotto_tests::http::{Connection, Response, head};
use sotto_tests::phone::now;
use sotto_tests::token_services::{ATTESTERS, ISSUERS};
use sotto_tests::world::World;
use sotto_vdaf::Measurement;
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, REQUEST_MEDIA_TYPE, ShortOpaque, TOKEN_TYPE, Token,
    TokenRequest, attestation_message, byte_sequence, header, token_input,
};
use sotto_wire::{Encode, HpkeConfig, Role, Time};

pub(crate) const ROLES: [Role; 2] = [Role::Leader, Role::Helper];

/// A device that cheats.
pub(crate) struct Rogue {
    pub(crate) secret: ClientSecret,
    pub(crate) rng: ChaCha20Rng,
    attestor: Box<dyn Attestor>,
}

/// What a token is requested for. Only the aggregators compare it with a recipe.
#[derive(Clone)]
pub(crate) struct Wish {
    /// Whose token: the attester and the issuer follow from it.
    pub(crate) role: Role,
    pub(crate) key: TokenKey,
    pub(crate) challenge_digest: [u8; 32],
    pub(crate) encapsulation: HpkeConfig,
    pub(crate) nonce: [u8; 32],
}

/// A request, and what opens its answer.
pub(crate) struct Asking {
    pub(crate) body: Vec<u8>,
    pub(crate) client_key: [u8; 32],
    pub(crate) client_alias: [u8; 32],
    pub(crate) request_blind: [u8; 32],
    wish: Wish,
    unblinder: Unblinder,
    response_secret: ResponseSecret,
}

impl Wish {
    /// The token that a recipe requires.
    pub(crate) fn of(admitted: &Admitted, role: Role, nonce: [u8; 32]) -> Self {
        let terms: &TokenTerms = admitted.assessment.token_terms(role).unwrap();
        Self {
            role,
            key: terms.key().clone(),
            challenge_digest: *terms.challenge_digest(),
            encapsulation: admitted.encapsulation(role).unwrap().clone(),
            nonce,
        }
    }

    /// The number of the chain, where there are two.
    pub(crate) fn chain(&self) -> usize {
        usize::from(self.role == Role::Helper)
    }

    fn input(&self) -> [u8; 98] {
        token_input(TOKEN_TYPE, &self.nonce, &self.challenge_digest, self.key.id())
    }
}

impl Asking {
    /// A request under any request key: `sign` makes the signature over a message.
    pub(crate) fn signed(
        wish: Wish,
        keys: ([u8; 32], [u8; 32], [u8; 32]),
        rng: &mut ChaCha20Rng,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) -> Self {
        let (client_key, request_key, request_blind) = keys;
        let (blinded_msg, unblinder) = blind(&wish.key, &wish.input(), rng).unwrap();
        let origin = wish.key.origin_name();
        let inner = InnerTokenRequest {
            token_key_id: wish.key.truncated_id(),
            blinded_msg,
            padded_origin_name: InnerTokenRequest::pad_origin_name(&origin).unwrap(),
        };
        let (sealed, response_secret) =
            seal_inner_request(&wish.encapsulation, &request_key, &inner, rng).unwrap();
        let mut request = TokenRequest {
            token_type: TOKEN_TYPE,
            request_key,
            issuer_encap_key_id: EncapsulationKey::from(&wish.encapsulation).id(),
            encrypted_token_request: ShortOpaque::new(sealed).unwrap(),
            request_signature: [0; 64],
        };
        request.request_signature = sign(&request.signed_message());
        let mut client_alias = [0; 32];
        rng.fill_bytes(&mut client_alias);
        let body = request.to_bytes();
        Self { body, client_key, client_alias, request_blind, wish, unblinder, response_secret }
    }

    /// The token from an answer.
    pub(crate) fn finish(&self, response: &[u8]) -> Token {
        let (wish, signature) = (&self.wish, self.response_secret.open(response).unwrap());
        let authenticator = self.unblinder.finalize(&wish.key, &wish.input(), &signature).unwrap();
        Token {
            token_type: TOKEN_TYPE,
            nonce: wish.nonce,
            challenge_digest: wish.challenge_digest,
            token_key_id: *wish.key.id(),
            authenticator,
        }
    }
}

impl Rogue {
    /// A device with this name. The same name with another seed is the same device after a reset.
    pub(crate) fn new(name: &str, seed: u64) -> Self {
        Self::attested(InsecureName::new(name).unwrap(), seed)
    }

    pub(crate) fn attested(attestor: impl Attestor + 'static, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(9);
        let secret = ClientSecret::generate(&mut rng);
        Self { secret, rng, attestor: Box::new(attestor) }
    }

    pub(crate) fn nonce(&mut self) -> [u8; 32] {
        let mut nonce = [0; 32];
        self.rng.fill_bytes(&mut nonce);
        nonce
    }

    /// A request as an honest device makes it.
    pub(crate) fn request(&mut self, wish: Wish) -> Asking {
        let request_blind = self.nonce();
        let client_key = self.secret.public_key();
        let request_key = *client_key.blind(&request_blind, CLIENT_CONTEXT).as_bytes();
        let origin = wish.key.origin_name();
        // One attester counts by this name; it only has to be another one for another origin.
        let alias = client_origin_alias(&self.secret, &origin, ISSUERS[wish.chain()]);
        let keys = (*client_key.as_bytes(), request_key, request_blind);
        let sign =
            |message: &[u8]| self.secret.sign_blinded(&request_blind, CLIENT_CONTEXT, message);
        let asking = Asking::signed(wish, keys, &mut self.rng, sign);
        Asking { client_alias: alias, ..asking }
    }

    /// Sends a request to the attester of its chain.
    pub(crate) fn send(&self, world: &World, asking: &Asking) -> Response {
        let Asking { body, client_key, client_alias, request_blind, .. } = asking;
        let tokens = world.tokens.as_ref().unwrap();
        let chain = tokens.used(asking.wish.chain());
        let [attester, issuer] =
            [ATTESTERS[chain], ISSUERS[chain]].map(|name| name.parse().unwrap());
        let message =
            attestation_message(&attester, &issuer, client_key, client_alias, request_blind, body);
        let fields = [
            ("content-type", REQUEST_MEDIA_TYPE.to_owned()),
            (header::ORIGIN_ALIAS, byte_sequence(client_alias)),
            (header::CLIENT, byte_sequence(client_key)),
            (header::REQUEST_BLIND, byte_sequence(request_blind)),
            (header::ATTESTATION, byte_sequence(&self.attestor.attest(&message).unwrap())),
        ];
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let path = format!("/token-request?issuer={}", ISSUERS[chain]);
        let head = head("POST", &path, &fields, body.len());
        let attester = tokens.chains[chain].attester.address();
        Connection::open(attester).unwrap().exchange(&head, body).unwrap()
    }

    /// Requests a token, which must be granted.
    pub(crate) fn token(&mut self, world: &World, wish: Wish) -> Token {
        let asking = self.request(wish);
        let response = self.send(world, &asking);
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        asking.finish(&response.body)
    }

    /// Requests both tokens of a recipe, which must be granted.
    pub(crate) fn tokens(&mut self, world: &World, admitted: &Admitted) -> ReportTokens {
        let nonce = self.nonce();
        report_tokens(ROLES.map(|role| self.token(world, Wish::of(admitted, role, nonce))))
    }

    /// The statuses of new requests for both tokens of a recipe.
    pub(crate) fn statuses(&mut self, world: &World, admitted: &Admitted) -> [u16; 2] {
        let nonce = self.nonce();
        ROLES.map(|role| {
            let asking = self.request(Wish::of(admitted, role, nonce));
            self.send(world, &asking).status
        })
    }

    /// A report.
    pub(crate) fn report(
        &mut self,
        admitted: &Admitted,
        bucket: u32,
        time: Time,
        tokens: Option<&ReportTokens>,
    ) -> Vec<u8> {
        let (leader, helper) = (admitted.leader_config(), admitted.helper_config());
        let measurement = Measurement::Histogram(bucket);
        let task = admitted.assessment.task();
        produce_report(task, leader, helper, &measurement, time, tokens, &mut self.rng).unwrap()
    }
}

/// The tokens of a report: the leader's, whose nonce gives the id, and the helper's.
pub(crate) fn report_tokens([leader, helper]: [Token; 2]) -> ReportTokens {
    let report_id = report_id(&leader.nonce);
    ReportTokens { report_id, leader: leader.to_bytes(), helper: Some(helper.to_bytes()) }
}

/// The current time, with the precision of the recipe's reports.
pub(crate) fn present(admitted: &Admitted) -> Time {
    admitted.assessment.task().time(now())
}
