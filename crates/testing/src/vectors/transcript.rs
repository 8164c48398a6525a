//! One transcript: from the request of a client, through attester and issuer, to a token.

use serde_json::Value;
use sotto_crypto::blind_rsa::blind_with;
use sotto_crypto::key_blinding::PublicKey;
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, EXPORT_LABEL, INFO, ISSUER_CONTEXT, request_aad};
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, IssuerAnswer, TOKEN_TYPE, Token, TokenRequest,
    byte_sequence, token_input,
};
use sotto_wire::{Decode, Encode};

use super::hpke::{Response, Sender};
use super::place::{Place, hex_value};
use super::points::Halves;
use super::steps::{
    Client, Refused, Sources, attester_answer, attester_request, issuer_answer, verifies,
};
use super::world::World;
use super::{Difference, Tally};
use sotto_protocol::attester::Issued;

/// Fields and their expected values.
type Values = Vec<(&'static str, Value)>;

/// What later parts of the file refer to.
pub(super) struct Done {
    pub(super) client_key: [u8; 32],
    pub(super) origin_name: String,
    pub(super) request_key: [u8; 32],
    pub(super) index_key: [u8; 32],
    pub(super) alias: [u8; 64],
}

/// Recomputes every value of a transcript.
pub(super) fn check(
    place: &Place<'_>,
    world: &World,
    tally: &mut Tally,
) -> Result<Done, Difference> {
    place.only(&[
        "id",
        "client",
        "origin",
        "encap_key",
        "inputs",
        "client_request",
        "headers_to_attester",
        "issuer",
        "headers_to_attester_response",
        "attester",
        "client_final",
        "expected",
    ])?;
    let inputs = place.at("inputs")?;
    inputs.only(&[
        "issuer_name",
        "origin_info",
        "redemption_context",
        "client_secret",
        "request_blind",
        "nonce",
        "salt",
        "rsa_blind",
        "hpke_ephemeral_ikm",
        "response_nonce",
        "client_origin_alias",
    ])?;
    // A transcript has no base.
    let sources = Sources::of(place, place)?;
    let client = Client::new(&sources, world)?;
    let named = world.client(&place.at("client")?)?;
    inputs.at("client_secret")?.expect_bytes(named.expose(), tally)?;
    inputs.at("origin_info")?.expect(client.terms.challenge().origin_info(), tally)?;
    let sender = sender(&client, &inputs)?;
    client_request(place, &client, &sender, tally)?;

    let refused = |party: &str, refused: Refused| {
        place.difference(format!("the {party} refuses it ({})", refused.name))
    };
    let forwarded = attester_request(&sources, world)?.map_err(|r| refused("attester", r))?;
    let answer = issuer_answer(&sources, world)?.map_err(|r| refused("issuer", r))?;
    let issued = attester_answer(&forwarded, &answer).map_err(|r| refused("attester", r))?;
    let index_key = issuer_part(place, &client, &sender, &answer, tally)?;
    attester_part(place, &client, &index_key, &issued, tally)?;
    finish(place, &client, &issued, tally)?;
    Ok(Done {
        client_key: *client.secret.public_key().as_bytes(),
        origin_name: client.origin.key.origin_name(),
        request_key: request_of(place, &client)?.request_key,
        index_key,
        alias: issued.alias,
    })
}

fn request_of<'a>(
    place: &Place<'_>,
    client: &'a Client<'_>,
) -> Result<TokenRequest<'a>, Difference> {
    TokenRequest::from_bytes(&client.attempt.request)
        .map_err(|error| place.difference(format!("the request does not decode: {error}")))
}

fn sender(client: &Client<'_>, inputs: &Place<'_>) -> Result<Sender, Difference> {
    let ikm = inputs.at("hpke_ephemeral_ikm")?;
    let receiver = client.encapsulation.public_key().try_into();
    let receiver = receiver.map_err(|_| ikm.difference("is for a key of another length"))?;
    Ok(Sender::new(&ikm.array()?, receiver, INFO))
}

fn client_request(
    place: &Place<'_>,
    client: &Client<'_>,
    sender: &Sender,
    tally: &mut Tally,
) -> Result<(), Difference> {
    let inputs = place.at("inputs")?;
    let request = request_of(place, client)?;
    let (inner, mut computed) = inner_values(&inputs, client)?;
    computed.extend(request_values(client, &request, &inner, sender));
    place.at("client_request")?.expect_fields(computed, tally)?;
    // The client chooses its own alias, so the file's value is used as it is.
    let alias: [u8; 32] = inputs.at("client_origin_alias")?.array()?;
    let client_key = client.secret.public_key();
    place.at("headers_to_attester")?.expect_fields(
        vec![
            ("Sec-Token-Origin-Alias", byte_sequence(&alias).into()),
            ("Sec-Token-Client", byte_sequence(client_key.as_bytes()).into()),
            ("Sec-Token-Request-Blind", byte_sequence(&client.attempt.request_blind).into()),
        ],
        tally,
    )
}

/// The inner request, and the values that lead to it.
fn inner_values(
    inputs: &Place<'_>,
    client: &Client<'_>,
) -> Result<(InnerTokenRequest, Values), Difference> {
    let (terms, key) = (&client.terms, &client.origin.key);
    let input = token_input(TOKEN_TYPE, &client.nonce, terms.challenge_digest(), key.id());
    let salt = inputs.at("salt")?.array()?;
    let rsa = |r: &[u8; 256]| {
        let blinded = blind_with(key, &input, &salt, r);
        blinded.map_err(|error| inputs.difference(format!("rsa_blind: {error}")))
    };
    let (blinded_msg, unblinder) = rsa(&inputs.at("rsa_blind")?.array()?)?;
    // Blinded with one, the message is unchanged.
    let mut one = [0; 256];
    one[255] = 1;
    let (encoded, _) = rsa(&one)?;
    let origin_name = key.origin_name();
    let padded = InnerTokenRequest::pad_origin_name(&origin_name)
        .map_err(|error| inputs.difference(format!("origin_info: {error}")))?;
    let values = vec![
        ("token_challenge", hex_value(terms.challenge().to_bytes())),
        ("challenge_digest", hex_value(terms.challenge_digest())),
        ("token_key_id", hex_value(key.id())),
        ("truncated_token_key_id", hex_value([key.truncated_id()])),
        ("token_input", hex_value(input)),
        ("pss_encoded", hex_value(encoded)),
        ("blinded_msg", hex_value(blinded_msg)),
        ("blind_inv", hex_value(unblinder.to_bytes().as_slice())),
        ("origin_name", hex_value(&origin_name)),
        ("padded_origin_name", hex_value(&padded)),
    ];
    let token_key_id = key.truncated_id();
    Ok((InnerTokenRequest { token_key_id, blinded_msg, padded_origin_name: padded }, values))
}

/// The values of the sealed and signed request.
fn request_values(
    client: &Client<'_>,
    request: &TokenRequest<'_>,
    inner: &InnerTokenRequest,
    sender: &Sender,
) -> Values {
    let blind = Halves::of_blind(&client.attempt.request_blind, CLIENT_CONTEXT);
    let own = Halves::of_secret(client.secret.expose());
    let aad = request_aad(client.encapsulation, TOKEN_TYPE, &request.request_key);
    let encap_key_id = EncapsulationKey::from(client.encapsulation).id();
    vec![
        ("client_key", hex_value(client.secret.public_key().as_bytes())),
        ("client_blind_ctx", hex_value(CLIENT_CONTEXT)),
        ("client_blind_scalar", hex_value(blind.raw)),
        ("client_blind_scalar_mod_l", hex_value(blind.scalar().as_bytes())),
        ("request_key", hex_value(request.request_key)),
        ("inner_token_request", hex_value(inner.to_bytes())),
        ("issuer_encap_key_id", hex_value(encap_key_id)),
        ("hpke_info", hex_value(INFO)),
        ("aad", hex_value(aad)),
        ("hpke_ephemeral_sk", hex_value(sender.ephemeral_sk)),
        ("hpke_enc", hex_value(sender.enc)),
        ("hpke_shared_secret", hex_value(sender.shared_secret)),
        ("hpke_key", hex_value(sender.key)),
        ("hpke_base_nonce", hex_value(sender.base_nonce)),
        ("hpke_exporter_secret", hex_value(sender.exporter_secret)),
        ("encrypted_token_request", hex_value(&request.encrypted_token_request)),
        ("signed_message", hex_value(request.signed_message())),
        ("signing_scalar", hex_value((own.scalar() * blind.scalar()).as_bytes())),
        ("signing_prefix", hex_value([own.prefix, blind.prefix].concat())),
        ("request_signature", hex_value(request.request_signature)),
        ("token_request", hex_value(&client.attempt.request)),
    ]
}

fn issuer_part(
    place: &Place<'_>,
    client: &Client<'_>,
    sender: &Sender,
    answer: &IssuerAnswer,
    tally: &mut Tally,
) -> Result<[u8; 32], Difference> {
    let IssuerAnswer::Issued { index_key, limit, response } = answer else {
        return Err(place.difference("the issuer refuses it"));
    };
    let origin = &client.origin.origin;
    let issuer_blind = Halves::of_blind(origin.secret().expose(), ISSUER_CONTEXT);
    let blinded_msg = place.at("client_request")?.at("blinded_msg")?;
    let blind_sig = origin.key().blind_sign(&blinded_msg.array()?);
    let blind_sig = blind_sig.map_err(|error| blinded_msg.difference(error.to_string()))?;
    let secret = sender.export(EXPORT_LABEL);
    let nonce = place.at("inputs")?.at("response_nonce")?.array()?;
    let keys = Response::new(&sender.enc, &nonce, &secret);
    place.at("issuer")?.expect_fields(
        vec![
            ("issuer_blind_ctx", hex_value(ISSUER_CONTEXT)),
            ("issuer_blind_scalar", hex_value(issuer_blind.raw)),
            ("issuer_blind_scalar_mod_l", hex_value(issuer_blind.scalar().as_bytes())),
            ("index_key", hex_value(index_key)),
            ("blind_sig", hex_value(blind_sig)),
            ("export_context", hex_value(EXPORT_LABEL)),
            ("response_secret", hex_value(secret)),
            ("response_salt", hex_value(&keys.salt)),
            ("response_prk", hex_value(keys.prk)),
            ("response_aead_key", hex_value(keys.key)),
            ("response_aead_nonce", hex_value(keys.nonce)),
            ("encrypted_token_response", hex_value(response)),
            ("limit", (*limit).into()),
        ],
        tally,
    )?;
    place.at("headers_to_attester_response")?.expect_fields(
        vec![
            ("Sec-Token-Origin-Alias", byte_sequence(index_key).into()),
            ("Sec-Token-Limit", limit.to_string().into()),
        ],
        tally,
    )?;
    Ok(*index_key)
}

fn attester_part(
    place: &Place<'_>,
    client: &Client<'_>,
    index_key: &[u8; 32],
    issued: &Issued,
    tally: &mut Tally,
) -> Result<(), Difference> {
    let blind = &client.attempt.request_blind;
    let inverse = Halves::of_blind(blind, CLIENT_CONTEXT).scalar().invert();
    let index_key = PublicKey::parse(index_key)
        .map_err(|error| place.difference(format!("the index key: {error}")))?;
    let index_result = index_key.unblind(blind, CLIENT_CONTEXT);
    // The issuer's blind alone gives the same point.
    let secret = client.origin.origin.secret();
    if client.secret.public_key().blind(secret.expose(), ISSUER_CONTEXT) != index_result {
        return Err(place.difference("the index result is not the client's key, blinded"));
    }
    place.at("attester")?.expect_fields(
        vec![
            ("client_blind_scalar_inverse", hex_value(inverse.as_bytes())),
            ("index_result", hex_value(index_result.as_bytes())),
            ("issuer_origin_alias", hex_value(issued.alias)),
        ],
        tally,
    )
}

fn finish(
    place: &Place<'_>,
    client: &Client<'_>,
    issued: &Issued,
    tally: &mut Tally,
) -> Result<(), Difference> {
    let final_place = place.at("client_final")?;
    let token = client
        .terms
        .finish(&client.nonce, &client.attempt, &issued.response)
        .map_err(|error| final_place.difference(error.to_string()))?;
    let decoded =
        Token::from_bytes(&token).map_err(|error| final_place.difference(error.to_string()))?;
    final_place.expect_fields(
        vec![("authenticator", hex_value(decoded.authenticator)), ("token", hex_value(&token))],
        tally,
    )?;
    let verifies = verifies(&client.terms, &token, &final_place)?;
    tally.verdict(true);
    place.at("expected")?.expect_fields(
        vec![
            ("attester_request", "accept".into()),
            ("issuer", "accept".into()),
            ("client", "accept".into()),
            ("token_verifies", verifies.into()),
        ],
        tally,
    )
}
