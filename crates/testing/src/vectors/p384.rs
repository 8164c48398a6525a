//! Key blinding over P-384, which the published vectors have and Sotto does not use (signature key
//! blinding, "ECDSA").

use hkdf::Hkdf;
use p384::ecdsa::signature::Verifier;
use p384::ecdsa::{Signature, VerifyingKey};
use p384::elliptic_curve::PrimeField;
use p384::elliptic_curve::consts::U72;
use p384::elliptic_curve::sec1::ToSec1Point;
use p384::hash2curve::{ExpandMsgXmd, hash_to_scalar};
use p384::{NistP384, ProjectivePoint, PublicKey, Scalar};
use sha2::Sha384;
use sotto_crypto::rate_limited::ALIAS_INFO;

use super::place::{Place, hex_value};
use super::{Difference, Tally};

/// The P-384 part of the vectors of signature key blinding. Nonces are not published, so signatures
/// are verified instead of recomputed.
pub(super) fn key_blinding(list: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    for vector in list.list()? {
        let public_key = ProjectivePoint::GENERATOR * scalar(&vector.at("skS")?)?;
        let context = vector.at("context")?.bytes()?;
        let blind = blind(&vector.at("bk")?, &context)?;
        let blinded = public_key * blind;
        let (message, signature) = (vector.at("message")?.bytes()?, vector.at("signature")?);
        let signed = signature.bytes()?;
        VerifyingKey::from_sec1_bytes(&encoded(&blinded, false, &vector)?)
            .and_then(|key| key.verify(&message, &Signature::from_slice(&signed)?))
            .map_err(|_| signature.difference("does not verify"))?;
        tally.verdict(true);
        vector.expect_fields(
            vec![
                ("skS", vector.at("skS")?.value().clone()),
                ("pkS", hex_value(encoded(&public_key, true, &vector)?)),
                ("bk", vector.at("bk")?.value().clone()),
                ("pkR", hex_value(encoded(&blinded, true, &vector)?)),
                ("message", hex_value(message)),
                ("context", hex_value(context)),
                ("signature", signature.value().clone()),
            ],
            tally,
        )?;
    }
    Ok(())
}

/// The published alias, which predates contexts for blinds.
pub(super) fn alias(vector: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    let client_key = ProjectivePoint::GENERATOR * scalar(&vector.at("sk_sign")?)?;
    let request_blind = blind(&vector.at("request_blind")?, b"")?;
    let origin_blind = blind(&vector.at("sk_origin")?, b"")?;
    let request_key = client_key * request_blind;
    let index_key = request_key * origin_blind;
    let inverse = Option::<Scalar>::from(request_blind.invert());
    let inverse = inverse.ok_or_else(|| vector.difference("request_blind is zero"))?;
    let index_result = encoded(&(index_key * inverse), true, vector)?;
    let client_key = encoded(&client_key, true, vector)?;
    let mut alias = [0; 48];
    Hkdf::<Sha384>::new(Some(&client_key), &index_result)
        .expand(ALIAS_INFO, &mut alias)
        .map_err(|_| vector.difference("issuer_origin_alias is too long"))?;
    vector.expect_fields(
        vec![
            ("sk_sign", vector.at("sk_sign")?.value().clone()),
            ("pk_sign", hex_value(client_key)),
            ("sk_origin", vector.at("sk_origin")?.value().clone()),
            ("request_blind", vector.at("request_blind")?.value().clone()),
            ("request_key", hex_value(encoded(&request_key, true, vector)?)),
            ("index_key", hex_value(encoded(&index_key, true, vector)?)),
            ("issuer_origin_alias", hex_value(alias)),
        ],
        tally,
    )
}

/// The scalar of a blind under a context.
fn blind(place: &Place<'_>, context: &[u8]) -> Result<Scalar, Difference> {
    let bytes = place.bytes()?;
    hash_to_scalar::<NistP384, ExpandMsgXmd<Sha384>, U72>(
        &[&bytes, &[0], context],
        &[b"ECDSA Key Blind"],
    )
    .map_err(|_| place.difference("cannot be hashed"))
}

fn scalar(place: &Place<'_>) -> Result<Scalar, Difference> {
    let bytes = place.array::<48>()?;
    Option::from(Scalar::from_repr(bytes.into()))
        .ok_or_else(|| place.difference("is not below the order of the group"))
}

fn encoded(
    point: &ProjectivePoint,
    compressed: bool,
    place: &Place<'_>,
) -> Result<Vec<u8>, Difference> {
    let key = PublicKey::from_affine(point.to_affine())
        .map_err(|_| place.difference("a key is the identity"))?;
    Ok(key.as_affine().to_sec1_point(compressed).as_bytes().to_vec())
}
