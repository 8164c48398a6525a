//! Negatives: a wrong message goes to the party that the file names, and its verdict is compared.
//!
//! Values that a negative does not give come from its base. The kind of a negative is prose: no
//! verdict depends on it.

use sotto_crypto::key_blinding::PublicKey;
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, issuer_origin_alias, open_inner_request};
use sotto_wire::token::{IssuerAnswer, TOKEN_LIMIT, TokenRequest};
use sotto_wire::{Decode, Encode};

use super::place::Place;
use super::steps::{
    Client, Refused, Sources, attester_answer, attester_request, exchange, issuer_answer, verifies,
};
use super::world::{Counted, World, find};
use super::{Difference, Tally, hpke};
use sotto_protocol::attester::Forwarded;

/// A party's verdict.
struct Outcome {
    accepted: bool,
    status: Option<u16>,
    name: &'static str,
}

impl Outcome {
    fn of<T>(result: &Result<T, Refused>) -> Self {
        match result {
            Ok(_) => Self { accepted: true, status: Some(200), name: "accepted" },
            Err(Refused { status, name }) => Self { accepted: false, status: Some(*status), name },
        }
    }

    /// The verdict of a party that sends no answer.
    fn silent(accepted: bool) -> Self {
        Self { accepted, status: None, name: if accepted { "accepted" } else { "refused" } }
    }
}

/// Checks one negative.
pub(super) fn check(
    place: &Place<'_>,
    file: &Place<'_>,
    world: &World,
    tally: &mut Tally,
) -> Result<(), Difference> {
    let sources = Sources::of(place, file)?;
    // A name must refer to a party, even where nothing depends on it.
    place.get("client").map_or(Ok(()), |name| world.client(&name).map(drop))?;
    place.get("origin").map_or(Ok(()), |name| world.origin(&name).map(drop))?;
    place.get("encap_key").map_or(Ok(()), |name| world.encap_key(&name).map(drop))?;
    if place.get("base").is_none() {
        inside(place, world, tally)?;
    }
    let negative = Negative { place, file, world, sources };
    let mut verdicts = 0;
    for (party, given) in place.at("expected")?.fields()? {
        if matches!(party, "comment" | "note" | "reason" | "why") {
            continue;
        }
        let outcome = negative.outcome(party, &given)?;
        compare(&given, &outcome, tally)?;
        verdicts += 1;
    }
    if verdicts == 0 {
        return Err(place.difference("expects nothing of anybody"));
    }
    place.get("if_not_checked").map_or(Ok(()), |given| negative.not_checked(&given, tally))
}

struct Negative<'a> {
    place: &'a Place<'a>,
    file: &'a Place<'a>,
    world: &'a World,
    sources: Sources<'a>,
}

impl Negative<'_> {
    /// The verdict of the party with this name.
    fn outcome(&self, party: &str, given: &Place<'_>) -> Result<Outcome, Difference> {
        match party {
            "attester_request" => Ok(Outcome::of(&self.forwarded()?)),
            "attester" if self.place.get("index_key").is_none() => {
                Ok(Outcome::of(&self.forwarded()?))
            }
            "attester" | "attester_response" | "attester_answer" | "attester_index" => {
                self.attester_answer()
            }
            "issuer" | "issuer_if_forwarded" => {
                Ok(Outcome::of(&issuer_answer(&self.sources, self.world)?))
            }
            "client" | "client_response" | "client_final" => self.client(),
            "token" | "token_verifies" | "verifier" | "redeemer" | "redemption" | "origin"
            | "aggregator" => self.verifier(),
            _ => Err(given.difference("is not a party that is known here")),
        }
    }

    fn forwarded(&self) -> Result<Result<Forwarded, Refused>, Difference> {
        attester_request(&self.sources, self.world)
    }

    /// The attester's second step, with the issuer's answer from the file, after counting the
    /// requests named by `after`.
    fn attester_answer(&self) -> Result<Outcome, Difference> {
        let forwarded = match self.forwarded()? {
            Ok(forwarded) => forwarded,
            refused => return Ok(Outcome::of(&refused)),
        };
        let Ok(index_key) = self.sources.at("index_key")?.bytes()?.try_into() else {
            return Ok(Outcome { accepted: false, status: Some(400), name: "malformed" });
        };
        let limit = self.sources.find("limit").map_or(Ok(TOKEN_LIMIT), |limit| limit.number())?;
        let response = self.sources.at("encrypted_token_response")?.bytes()?;
        let answer = IssuerAnswer::Issued { index_key, limit, response };
        let issued = match attester_answer(&forwarded, &answer) {
            Ok(issued) => issued,
            refused => return Ok(Outcome::of(&refused)),
        };
        let mut counted = Counted::default();
        let after = self.place.get("after").map_or(Ok(Vec::new()), |after| after.list())?;
        for name in &after {
            let sources = Sources::of(&find(self.file, "transcripts", name)?, self.file)?;
            if let Ok((forwarded, issued)) = exchange(&sources, self.world)? {
                // Refused requests are not counted.
                let _ = counted.count(&forwarded, &issued);
            }
        }
        let result = counted.count(&forwarded, &issued);
        Ok(Outcome::of(&result.map_err(Refused::from)))
    }

    /// The client opens a response, or is handed a token.
    fn client(&self) -> Result<Outcome, Difference> {
        let is_token = self.place.get("encrypted_token_response").is_none()
            && self.place.get("token").is_some();
        if is_token {
            return self.verifier();
        }
        let client = Client::new(&self.sources, self.world)?;
        let response = self.sources.at("encrypted_token_response")?.bytes()?;
        let token = client.terms.finish(&client.nonce, &client.attempt, &response);
        Ok(Outcome::silent(token.is_ok()))
    }

    /// An aggregator gets a token.
    fn verifier(&self) -> Result<Outcome, Difference> {
        let client = Client::new(&self.sources, self.world)?;
        let token = self.sources.at("token")?;
        verifies(&client.terms, &token.bytes()?, &token).map(Outcome::silent)
    }

    /// What an attester would compute if it did not check the blind.
    fn not_checked(&self, given: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
        given.only(&["index_key", "wrong_issuer_origin_alias", "right_issuer_origin_alias"])?;
        let answer = issuer_answer(&self.sources, self.world)?;
        let Ok(IssuerAnswer::Issued { index_key, .. }) = answer else {
            return Err(given.difference("the issuer refuses the request"));
        };
        given.at("index_key")?.expect_bytes(index_key, tally)?;
        let parse = |bytes: &[u8; 32]| {
            PublicKey::parse(bytes).map_err(|error| given.difference(error.to_string()))
        };
        let client_key = parse(&self.sources.at("client_key")?.array()?)?;
        let blind = self.sources.at("request_blind")?.array()?;
        let index_result = parse(&index_key)?.unblind(&blind, CLIENT_CONTEXT);
        let wrong = issuer_origin_alias(&index_result, &client_key);
        given.at("wrong_issuer_origin_alias")?.expect_bytes(wrong, tally)?;
        if let Some(right) = given.get("right_issuer_origin_alias") {
            let base = find(self.file, "transcripts", &self.place.at("base")?)?;
            match exchange(&Sources::of(&base, self.file)?, self.world)? {
                Ok((_, issued)) => right.expect_bytes(issued.alias, tally)?,
                Err(refused) => {
                    return Err(right.difference(format!("the base is refused: {}", refused.name)));
                }
            }
        }
        Ok(())
    }
}

/// The contents of a request without a base: the ephemeral key, and the plaintext if it opens.
fn inside(place: &Place<'_>, world: &World, tally: &mut Tally) -> Result<(), Difference> {
    let Some(body) = place.get("token_request") else { return Ok(()) };
    let body = body.bytes()?;
    let Ok(request) = TokenRequest::from_bytes(&body) else { return Ok(()) };
    if let Some(ikm) = place.get("hpke_ephemeral_ikm") {
        let enc = hpke::public_key(&hpke::derive_private_key(&ikm.bytes()?));
        if !request.encrypted_token_request.starts_with(&enc) {
            return Err(ikm.difference("does not give the encapsulated key of the request"));
        }
        tally.values += 1;
    }
    if let Some(given) = place.get("inner_token_request") {
        let opened =
            world.openers.iter().find_map(|opener| open_inner_request(opener, &request).ok());
        if let Some((inner, _)) = opened {
            given.expect_bytes(inner.to_bytes(), tally)?;
        }
    }
    Ok(())
}

/// A verdict is a word, a truth value, or an object with the corresponding status.
fn compare(given: &Place<'_>, outcome: &Outcome, tally: &mut Tally) -> Result<(), Difference> {
    let expected = match (given.boolean(), given.get("verdict")) {
        (Some(accepted), _) => accepted,
        (None, Some(verdict)) => {
            given.only(&["verdict", "http_status"])?;
            is_accept(&verdict)?
        }
        (None, None) => is_accept(given)?,
    };
    if expected != outcome.accepted {
        let word = if expected { "accept" } else { "reject" };
        return Err(given.difference(format!("the file says {word}, it was {}", outcome.name)));
    }
    if let (Some(given), Some(status)) = (given.get("http_status"), outcome.status) {
        given.expect(status, tally)?;
    }
    tally.verdict(outcome.accepted);
    Ok(())
}

fn is_accept(verdict: &Place<'_>) -> Result<bool, Difference> {
    match verdict.text()? {
        "accept" => Ok(true),
        "reject" => Ok(false),
        _ => Err(verdict.difference("is neither accept nor reject")),
    }
}
