//! Other people's vectors: signature key blinding, RFC 9578 type 0x0002, and the older forms of
//! rate-limited issuance.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::blind_rsa::{IssuerKey, TokenKey, TokenVerifier, blind_with};
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::rate_limited::{Labels, open_labelled};
use sotto_crypto::server_hpke::Opener;
use sotto_wire::token::{EncapsulationKey, InnerTokenRequest, TokenChallenge, token_input};
use sotto_wire::{Decode, Encode, HpkeConfigId};

use super::place::{Place, hex_value};
use super::script::Script;
use super::{Difference, Tally, p384};

/// The token type of RFC 9578's publicly verifiable tokens.
const BLIND_RSA: u16 = 2;

/// The vectors of signature key blinding.
pub(super) fn key_blinding(file: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    file.only(&["ed25519", "ecdsa_p384"])?;
    for vector in file.at("ed25519")?.list()? {
        let secret = ClientSecret::new(vector.at("skS")?.array()?);
        let (blind, ctx) = (vector.at("bk")?.array()?, vector.at("context")?.bytes()?);
        let message = vector.at("message")?.bytes()?;
        let blinded = secret.public_key().blind(&blind, &ctx);
        if blinded.unblind(&blind, &ctx) != secret.public_key() {
            return Err(vector.difference("pkR does not unblind to pkS"));
        }
        let signature = secret.sign_blinded(&blind, &ctx, &message);
        blinded
            .verify(&message, &signature)
            .map_err(|error| vector.difference(error.to_string()))?;
        vector.expect_fields(
            vec![
                ("skS", hex_value(secret.expose())),
                ("pkS", hex_value(secret.public_key().as_bytes())),
                ("bk", hex_value(blind)),
                ("pkR", hex_value(blinded.as_bytes())),
                ("message", hex_value(&message)),
                ("context", hex_value(&ctx)),
                ("signature", hex_value(signature)),
            ],
            tally,
        )?;
    }
    file.get("ecdsa_p384").map_or(Ok(()), |list| p384::key_blinding(&list, tally))
}

/// The vectors of RFC 9578 for type 0x0002.
pub(super) fn rfc9578(file: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    file.only(&["vectors"])?;
    for vector in file.at("vectors")?.list()? {
        let failed = |error: &dyn std::fmt::Display| vector.difference(error.to_string());
        let private_key = vector.at("skS")?;
        let issuer = pem(&private_key.bytes()?)
            .and_then(|der| IssuerKey::from_pkcs8(&der).ok())
            .ok_or_else(|| private_key.difference("is not a private key in PEM"))?;
        let key =
            TokenKey::parse_spki(&vector.at("pkS")?.bytes()?).map_err(|error| failed(&error))?;
        let challenge = TokenChallenge::from_bytes(&vector.at("token_challenge")?.bytes()?)
            .map_err(|error| failed(&error))?;
        let nonce = vector.at("nonce")?.array()?;
        let input = token_input(BLIND_RSA, &nonce, &challenge.digest(), key.id());
        let (salt, blind) = (vector.at("salt")?.array()?, vector.at("blind")?.array()?);
        let (blinded, unblinder) =
            blind_with(&key, &input, &salt, &blind).map_err(|error| failed(&error))?;
        let request = [&BLIND_RSA.to_be_bytes()[..], &[key.truncated_id()], &blinded].concat();
        let response = issuer.blind_sign(&blinded).map_err(|error| failed(&error))?;
        let authenticator =
            unblinder.finalize(&key, &input, &response).map_err(|error| failed(&error))?;
        TokenVerifier::new(&key)
            .and_then(|verifier| verifier.verify(&input, &authenticator))
            .map_err(|error| failed(&error))?;
        tally.verdict(true);
        vector.expect_fields(
            vec![
                ("skS", private_key.value().clone()),
                ("pkS", hex_value(issuer.token_key().spki())),
                ("token_challenge", hex_value(challenge.to_bytes())),
                ("nonce", hex_value(nonce)),
                ("blind", hex_value(blind)),
                ("salt", hex_value(salt)),
                ("token_request", hex_value(request)),
                ("token_response", hex_value(response)),
                ("token", hex_value([&input[..], &authenticator].concat())),
            ],
            tally,
        )?;
    }
    Ok(())
}

/// The two published vectors of rate-limited issuance, in the formats of an older draft.
pub(super) fn older_forms(file: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    file.only(&["origin_name_encryption", "issuer_origin_alias"])?;
    if let Some(vector) = file.get("origin_name_encryption") {
        origin_name_encryption(&vector, tally)?;
    }
    file.get("issuer_origin_alias").map_or(Ok(()), |vector| p384::alias(&vector, tally))
}

/// Opens the older request: it has a different info string, and different layouts of the associated
/// data and the plaintext. The ephemeral key is not published, so the ciphertext cannot be
/// recomputed.
fn origin_name_encryption(vector: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    let failed = |error: &dyn std::fmt::Display| vector.difference(error.to_string());
    let seed = vector.at("issuer_encap_key_seed")?.array::<32>()?;
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(1), &mut Script::new(&[&seed]));
    let key = EncapsulationKey::from(keypair.config());
    let number = |field: &str| {
        let place = vector.at(field)?;
        place.text()?.parse::<u16>().map_err(|_| place.difference("is not a number"))
    };
    let token_key_id = number("token_key_id")?;
    let (token_type, key_byte) = (number("token_type")?.to_be_bytes(), token_key_id as u8);
    let aad = [&[1, 0, 0x20, 0, 1, 0, 1][..], &token_type, &[key_byte], &key.id()].concat();
    let sealed = vector.at("encrypted_token_request")?;
    let labels = Labels { info: b"TokenRequest", aad: &aad, export: b"TokenResponse" };
    let opener = Opener::new(&keypair).map_err(|error| failed(&error))?;
    let (plaintext, _) = open_labelled(&opener, labels, &sealed.bytes()?)
        .map_err(|error| sealed.difference(error.to_string()))?;
    let name = vector.at("origin_name")?;
    let name = String::from_utf8(name.bytes()?).map_err(|_| name.difference("is not text"))?;
    let padded = InnerTokenRequest::pad_origin_name(&name).map_err(|error| failed(&error))?;
    let (blinded_msg, request_key) =
        (vector.at("blinded_msg")?.bytes()?, vector.at("request_key")?.bytes()?);
    let computed = [&blinded_msg[..], &request_key, &padded.to_bytes()].concat();
    if *plaintext != computed {
        return Err(sealed.difference("holds another blinded_msg, request_key or origin_name"));
    }
    tally.values += 1;
    vector.expect_fields(
        vec![
            ("origin_name", hex_value(name)),
            ("kem_id", "32".into()),
            ("kdf_id", "1".into()),
            ("aead_id", "1".into()),
            ("issuer_encap_key_seed", hex_value(seed)),
            ("issuer_encap_key", hex_value(key.to_bytes())),
            ("token_type", "3".into()),
            ("token_key_id", key_byte.to_string().into()),
            ("blinded_msg", hex_value(blinded_msg)),
            ("request_key", hex_value(request_key)),
            ("issuer_encap_key_id", hex_value(key.id())),
            ("encrypted_token_request", sealed.value().clone()),
        ],
        tally,
    )
}

/// The content of a PEM file with one private key.
fn pem(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let body = text.strip_prefix("-----BEGIN PRIVATE KEY-----\n")?;
    let (body, rest) = body.split_once("-----END PRIVATE KEY-----")?;
    let base64: String = body.lines().collect();
    if rest.trim_end().is_empty() { STANDARD.decode(base64).ok() } else { None }
}
