//! The steps of an exchange with the values of a file, each run by the code of its party.

use sotto_crypto::key_blinding::ClientSecret;
use sotto_wire::HpkeConfig;
use sotto_wire::token::{IssuerAnswer, parse_byte_sequence};

use super::Difference;
use super::place::Place;
use super::script::Script;
use super::world::{KnownOrigin, World, find};
use sotto_protocol::Moment;
use sotto_protocol::attester::{self, Ask, AttesterRefusal, Forwarded, Issued};
use sotto_protocol::issuer::{self, RESPONSE_NONCE_LEN};
use sotto_protocol::token::{TokenAttempt, TokenTerms};

/// A party's refusal, for comparison.
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) name: &'static str,
}

/// An attester's refusal, with the status that the vectors give for it.
impl From<AttesterRefusal> for Refused {
    fn from(refusal: AttesterRefusal) -> Self {
        let status = match refusal {
            AttesterRefusal::Withheld => 429,
            AttesterRefusal::IssuerKey => 401,
            AttesterRefusal::IssuerUnavailable | AttesterRefusal::Full => 503,
            _ => 400,
        };
        Self { status, name: refusal.name() }
    }
}

/// Where a value may be. The first source that has it is used: a negative's own values, then those
/// of its base.
pub(super) struct Sources<'a>(Vec<Place<'a>>);

impl<'a> Sources<'a> {
    /// The sources of a transcript or a negative.
    pub(super) fn of(place: &Place<'a>, file: &Place<'a>) -> Result<Self, Difference> {
        let mut all = Vec::new();
        let mut from = Some(place.clone());
        // A base has no base.
        for _ in 0..2 {
            let Some(place) = from.take() else { break };
            let groups = [
                "inputs",
                "headers_to_attester",
                "client_request",
                "headers_to_attester_response",
                "issuer",
                "client_final",
            ];
            all.push(place.clone());
            all.extend(groups.iter().filter_map(|group| place.get(group)));
            from = match place.get("base") {
                Some(base) => Some(find(file, "transcripts", &base)?),
                None => None,
            };
        }
        Ok(Self(all))
    }

    pub(super) fn find(&self, field: &str) -> Option<Place<'a>> {
        self.0.iter().find_map(|place| place.get(field))
    }

    pub(super) fn at(&self, field: &str) -> Result<Place<'a>, Difference> {
        self.find(field).map_or_else(|| self.nowhere(field), Ok)
    }

    /// A value from an HTTP field: as bytes in the file, or else in the field.
    fn header(&self, field: &str, header: &str) -> Result<Option<Vec<u8>>, Difference> {
        for place in &self.0 {
            if let Some(value) = place.get(field) {
                return value.bytes().map(Some);
            }
            if let Some(value) = place.get(header) {
                return Ok(parse_byte_sequence(value.text()?));
            }
        }
        Ok(None)
    }

    fn nowhere<T>(&self, field: &str) -> Result<T, Difference> {
        let difference = |place: &Place<'a>| place.difference(format!("{field} is missing"));
        Err(self.0.first().map_or_else(
            || Difference { place: field.to_owned(), what: "is missing".to_owned() },
            difference,
        ))
    }
}

/// What a client has: its keys, its request and what it stores for the answer.
pub(super) struct Client<'a> {
    pub(super) secret: ClientSecret,
    pub(super) terms: TokenTerms,
    pub(super) nonce: [u8; 32],
    pub(super) attempt: TokenAttempt,
    pub(super) origin: &'a KnownOrigin,
    pub(super) encapsulation: &'a HpkeConfig,
}

impl<'a> Client<'a> {
    /// Makes the request with the randomness of the file, in the order in which a client draws it.
    pub(super) fn new(sources: &Sources<'_>, world: &'a World) -> Result<Self, Difference> {
        let origin = world.origin(&sources.at("origin")?)?;
        let encapsulation = world.encap_key(&sources.at("encap_key")?)?;
        let secret = ClientSecret::new(sources.at("client_secret")?.array()?);
        let issuer_name = sources.at("issuer_name")?;
        let issuer = issuer_name.text()?.parse();
        let issuer = issuer.map_err(|_| issuer_name.difference("is not a name"))?;
        let context = sources.at("redemption_context")?;
        let context = match context.text()? {
            "" => None,
            _ => Some(context.array()?),
        };
        let terms = TokenTerms::new(issuer, origin.key.clone(), u64::MAX, context)
            .map_err(|error| issuer_name.difference(error.to_string()))?;
        let drawn: [&[u8]; 4] = [
            &sources.at("request_blind")?.array::<32>()?,
            &sources.at("salt")?.array::<48>()?,
            &sources.at("rsa_blind")?.array::<256>()?,
            &sources.at("hpke_ephemeral_ikm")?.array::<32>()?,
        ];
        let place = sources.at("nonce")?;
        let nonce = place.array()?;
        let attempt = terms
            .request(&secret, encapsulation, &nonce, &mut Script::new(&drawn))
            .map_err(|error| place.difference(format!("there is no request: {error}")))?;
        Ok(Self { secret, terms, nonce, attempt, origin, encapsulation })
    }
}

/// The attester's first step.
pub(super) fn attester_request(
    sources: &Sources<'_>,
    world: &World,
) -> Result<Result<Forwarded, Refused>, Difference> {
    let body = sources.at("token_request")?.bytes()?;
    let header = |field, name| -> Result<Option<[u8; 32]>, Difference> {
        Ok(sources.header(field, name)?.and_then(|bytes| bytes.try_into().ok()))
    };
    let client_key = match header("client_key", "Sec-Token-Client")? {
        None if sources.find("client_key").is_none() => {
            Some(*world.client(&sources.at("client")?)?.public_key().as_bytes())
        }
        given => given,
    };
    let request_blind = header("request_blind", "Sec-Token-Request-Blind")?;
    let client_alias = header("client_origin_alias", "Sec-Token-Origin-Alias")?.unwrap_or_default();
    let (Some(client_key), Some(request_blind)) = (client_key, request_blind) else {
        // Fields that do not have 32 bytes do not reach the attester's checks.
        return Ok(Err(Refused { status: 400, name: "malformed" }));
    };
    let ask = Ask { body: &body, client_key, request_blind, client_alias };
    let forwarded = attester::consume_token_request(&ask, &world.encap_key_ids());
    Ok(forwarded.map_err(Refused::from))
}

/// The issuer's step.
pub(super) fn issuer_answer(
    sources: &Sources<'_>,
    world: &World,
) -> Result<Result<IssuerAnswer, Refused>, Difference> {
    let body = sources.at("token_request")?.bytes()?;
    let nonce = match sources.find("response_nonce") {
        Some(nonce) => nonce.array()?,
        None => [0; RESPONSE_NONCE_LEN],
    };
    let answer = issuer::consume_token_request(
        &body,
        &world.keyring,
        &world.origins,
        Moment(0),
        u64::MAX,
        &nonce,
    );
    Ok(answer.map_err(|refusal| Refused { status: refusal.code(), name: refusal.name() }))
}

/// The attester's second step.
pub(super) fn attester_answer(
    forwarded: &Forwarded,
    answer: &IssuerAnswer,
) -> Result<Issued, Refused> {
    attester::consume_issuer_answer(forwarded, answer).map_err(Refused::from)
}

/// All steps up to the alias.
pub(super) fn exchange(
    sources: &Sources<'_>,
    world: &World,
) -> Result<Result<(Forwarded, Issued), Refused>, Difference> {
    let forwarded = match attester_request(sources, world)? {
        Ok(forwarded) => forwarded,
        Err(refused) => return Ok(Err(refused)),
    };
    let answer = match issuer_answer(sources, world)? {
        Ok(answer) => answer,
        Err(refused) => return Ok(Err(refused)),
    };
    Ok(attester_answer(&forwarded, &answer).map(|issued| (forwarded, issued)))
}

/// Whether an aggregator accepts this token.
pub(super) fn verifies(
    terms: &TokenTerms,
    token: &[u8],
    place: &Place<'_>,
) -> Result<bool, Difference> {
    let verifier = terms.verifier().map_err(|error| place.difference(error.to_string()))?;
    Ok(verifier.verify(token, Moment(0)).is_ok())
}
