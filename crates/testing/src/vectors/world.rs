//! A file of transcripts: its parties, and how the transcripts relate to each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use sotto_crypto::blind_rsa::{IssuerKey, TokenKey};
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::rate_limited::{ALIAS_INFO, EXPORT_LABEL, INFO};
use sotto_crypto::server_hpke::Opener;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_wire::token::{EncapsulationKey, NK, TOKEN_LIMIT, TOKEN_TYPE};
use sotto_wire::{Encode, HpkeConfig, HpkeConfigId};

use super::place::{Place, hex_value};
use super::script::Script;
use super::steps::{Refused, Sources, exchange};
use super::transcript::{self, Done};
use super::{Difference, Tally, hpke, negative, points};
use sotto_protocol::Moment;
use sotto_protocol::attester::{AttesterRefusal, Forwarded, Issued};
use sotto_protocol::issuer::{EncapsulationKeyring, Origin, Origins};

/// The parties of a file.
pub(super) struct World {
    clients: BTreeMap<String, ClientSecret>,
    known_origins: BTreeMap<String, KnownOrigin>,
    encap_keys: BTreeMap<String, HpkeConfig>,
    /// The issuer's private keys, to look inside requests.
    pub(super) openers: Vec<Opener>,
    /// What the issuer has.
    pub(super) keyring: EncapsulationKeyring,
    /// What the issuer has.
    pub(super) origins: Origins,
}

/// An origin and its public key.
pub(super) struct KnownOrigin {
    pub(super) origin: Arc<Origin>,
    pub(super) key: TokenKey,
}

/// Checks a whole file.
pub(super) fn check(file: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    file.only(&[
        "format",
        "set",
        "draft",
        "token_type",
        "constants",
        "clients",
        "origins",
        "encap_keys",
        "transcripts",
        "relations",
        "attester_sequence",
        "negatives",
        "public_key_checks",
        "mixed_order_demo",
    ])?;
    if let Some(token_type) = file.get("token_type") {
        token_type.expect(TOKEN_TYPE, tally)?;
    }
    if let Some(given) = file.get("constants") {
        constants(&given, tally)?;
    }
    let world = World::read(file, tally)?;
    let mut done = BTreeMap::new();
    for place in optional_list(file, "transcripts")? {
        let id = place.at("id")?.text()?.to_owned();
        if done.insert(id, transcript::check(&place, &world, tally)?).is_some() {
            return Err(place.difference("there are two of this name"));
        }
    }
    for relation in optional_list(file, "relations")? {
        self::relation(&relation, &done, tally)?;
    }
    if let Some(given) = file.get("attester_sequence") {
        sequence(&given, file, &world, tally)?;
    }
    for place in optional_list(file, "negatives")? {
        negative::check(&place, file, &world, tally)?;
    }
    if let Some(list) = file.get("public_key_checks") {
        points::key_checks(&list, tally)?;
    }
    if let Some(demo) = file.get("mixed_order_demo") {
        points::mixed_order(&demo, &world, tally)?;
    }
    Ok(())
}

impl World {
    fn read(file: &Place<'_>, tally: &mut Tally) -> Result<Self, Difference> {
        let mut clients = BTreeMap::new();
        for (name, place) in optional_fields(file, "clients")? {
            let secret = ClientSecret::new(place.at("client_secret")?.array()?);
            place.only(&["client_secret", "client_key"])?;
            place.at("client_key")?.expect_bytes(secret.public_key().as_bytes(), tally)?;
            clients.insert(name.to_owned(), secret);
        }
        let mut known_origins = BTreeMap::new();
        let mut origins = Origins::default();
        for (name, place) in optional_fields(file, "origins")? {
            let known = origin(&place, tally)?;
            origins.insert(&known.origin);
            known_origins.insert(name.to_owned(), known);
        }
        let (mut encap_keys, mut keypairs, mut openers) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (name, place) in optional_fields(file, "encap_keys")? {
            let keypair = encap_key(&place, tally)?;
            let opener = Opener::new(&keypair);
            openers.push(opener.map_err(|error| place.difference(error.to_string()))?);
            encap_keys.insert(name.to_owned(), keypair.config().clone());
            keypairs.push(keypair);
        }
        let keyring = EncapsulationKeyring::new(&keypairs).map_err(|fault| {
            file.difference(format!("encap_keys: there is no ring of them: {fault}"))
        })?;
        Ok(Self { clients, known_origins, encap_keys, openers, keyring, origins })
    }

    /// The client named at this position.
    pub(super) fn client(&self, name: &Place<'_>) -> Result<&ClientSecret, Difference> {
        self.clients.get(name.text()?).ok_or_else(|| name.difference("there is no such client"))
    }

    /// The origin named at this position.
    pub(super) fn origin(&self, name: &Place<'_>) -> Result<&KnownOrigin, Difference> {
        let origin = self.known_origins.get(name.text()?);
        origin.ok_or_else(|| name.difference("there is no such origin"))
    }

    /// The encapsulation key named at this position.
    pub(super) fn encap_key(&self, name: &Place<'_>) -> Result<&HpkeConfig, Difference> {
        let key = self.encap_keys.get(name.text()?);
        key.ok_or_else(|| name.difference("there is no such encapsulation key"))
    }

    /// The ids of the encapsulation keys, as requests name them.
    pub(super) fn encap_key_ids(&self) -> Vec<[u8; 32]> {
        self.keyring.keys().iter().map(EncapsulationKey::id).collect()
    }
}

fn constants(given: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    given.expect_fields(
        vec![
            ("Nk", NK.into()),
            ("Npk", 32.into()),
            ("Nsig", 64.into()),
            ("Nid", 32.into()),
            ("kem_id", 0x0020.into()),
            ("kdf_id", 1.into()),
            ("aead_id", 1.into()),
            ("limit", TOKEN_LIMIT.into()),
            ("hpke_info", text(INFO).into()),
            ("export_context", text(EXPORT_LABEL).into()),
            ("alias_info", text(ALIAS_INFO).into()),
            ("alias_hash", "SHA-512".into()),
            ("alias_len", 64.into()),
            ("rsa_variant", "RSABSSA-SHA384-PSS-Deterministic".into()),
        ],
        tally,
    )
}

/// Checks that the numbers of the key give its encoding, that AWS-LC accepts it, and that the
/// public key matches.
fn origin(place: &Place<'_>, tally: &mut Tally) -> Result<KnownOrigin, Difference> {
    let mut numbers = vec![integer(&[0])];
    for name in ["n", "e", "d", "p", "q", "dp", "dq", "qinv"] {
        numbers.push(integer(&place.at(name)?.bytes()?));
    }
    let pkcs8 = place.at("pkcs8_der")?;
    let rsa_encryption = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let private_key = der(0x04, &der(0x30, &numbers.concat()));
    let der = der(0x30, &[&integer(&[0])[..], rsa_encryption, &private_key].concat());
    pkcs8.expect_bytes(&der, tally)?;
    let issuer_key = IssuerKey::from_pkcs8(&der)
        .map_err(|_| pkcs8.difference("is not a private key that can be used"))?;
    let spki = place.at("spki_der")?;
    let key =
        TokenKey::parse_spki(&spki.bytes()?).map_err(|_| spki.difference("is not a token key"))?;
    spki.expect_bytes(issuer_key.token_key().spki(), tally)?;
    place.expect_fields(
        vec![
            ("n", place.at("n")?.value().clone()),
            ("e", hex_value([1, 0, 1])),
            ("d", place.at("d")?.value().clone()),
            ("p", place.at("p")?.value().clone()),
            ("q", place.at("q")?.value().clone()),
            ("dp", place.at("dp")?.value().clone()),
            ("dq", place.at("dq")?.value().clone()),
            ("qinv", place.at("qinv")?.value().clone()),
            ("pkcs8_der", hex_value(&der)),
            ("spki_der", hex_value(key.spki())),
            ("token_key_id", hex_value(key.id())),
            ("truncated_token_key_id", hex_value([key.truncated_id()])),
            ("origin_name", key.origin_name().into()),
            ("issuer_origin_secret", place.at("issuer_origin_secret")?.value().clone()),
            ("limit", TOKEN_LIMIT.into()),
        ],
        tally,
    )?;
    let secret = Secret::new(place.at("issuer_origin_secret")?.array()?);
    let origin = Arc::new(Origin::new(issuer_key, secret, Moment(u64::MAX)));
    Ok(KnownOrigin { origin, key })
}

fn encap_key(place: &Place<'_>, tally: &mut Tally) -> Result<HpkeKeypair, Difference> {
    let id = place.at("key_id")?;
    let id_byte = u8::try_from(id.number()?).map_err(|_| id.difference("is above 255"))?;
    let ikm = place.at("ikm")?.bytes()?;
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(id_byte), &mut Script::new(&[&ikm]));
    let key = EncapsulationKey::from(keypair.config());
    let private_key = hpke::derive_private_key(&ikm);
    place.expect_fields(
        vec![
            ("key_id", id_byte.into()),
            ("ikm", hex_value(&ikm)),
            ("sk", hex_value(private_key)),
            ("pk", hex_value(keypair.config().public_key())),
            ("encapsulation_key", hex_value(key.to_bytes())),
            ("issuer_encap_key_id", hex_value(key.id())),
        ],
        tally,
    )?;
    Ok(keypair)
}

/// What two transcripts have in common.
fn relation(
    place: &Place<'_>,
    done: &BTreeMap<String, Done>,
    tally: &mut Tally,
) -> Result<(), Difference> {
    let named = |field: &str| {
        let name = place.at(field)?;
        done.get(name.text()?).ok_or_else(|| name.difference("there is no such transcript"))
    };
    let (a, b) = (named("a")?, named("b")?);
    let known = [
        ("same_client", a.client_key == b.client_key),
        ("same_origin", a.origin_name == b.origin_name),
        ("same_request_key", a.request_key == b.request_key),
        ("same_index_key", a.index_key == b.index_key),
        ("same_issuer_origin_alias", a.alias == b.alias),
    ];
    place.only(&[&["a", "b"][..], &known.map(|(name, _)| name)].concat())?;
    for (name, same) in known {
        if let Some(given) = place.get(name) {
            given.expect(same, tally)?;
        }
    }
    Ok(())
}

/// The answers to a client whose requests one attester handles in order, starting from zero counts.
fn sequence(
    place: &Place<'_>,
    file: &Place<'_>,
    world: &World,
    tally: &mut Tally,
) -> Result<(), Difference> {
    place.only(&["steps"])?;
    let mut counted = Counted::default();
    for step in place.at("steps")?.list()? {
        step.only(&["transcript", "negative", "to_client"])?;
        let (field, list) = match step.get("negative") {
            Some(_) => ("negative", "negatives"),
            None => ("transcript", "transcripts"),
        };
        let found = find(file, list, &step.at(field)?)?;
        let status = match exchange(&Sources::of(&found, file)?, world)? {
            Err(refused) => refused.status,
            Ok((forwarded, issued)) => match counted.count(&forwarded, &issued) {
                Err(refusal) => Refused::from(refusal).status,
                Ok(()) => 200,
            },
        };
        step.at("to_client")?.expect(status, tally)?;
        tally.verdict(status == 200);
    }
    Ok(())
}

/// What an attester has granted: only what it needs for counting.
#[derive(Default)]
pub(super) struct Counted(Vec<(Forwarded, [u8; 64])>);

impl Counted {
    /// Counts by client key and alias, at limit 1. A request that was granted is granted again.
    pub(super) fn count(
        &mut self,
        forwarded: &Forwarded,
        issued: &Issued,
    ) -> Result<(), AttesterRefusal> {
        let mut own = self.0.iter().filter(|(known, _)| known.client_key == forwarded.client_key);
        match own.clone().find(|(_, alias)| *alias == issued.alias) {
            Some((known, _)) if known.body_digest == forwarded.body_digest => return Ok(()),
            Some((known, _)) if known.client_alias != forwarded.client_alias => {
                return Err(AttesterRefusal::OtherAlias);
            }
            Some(_) => return Err(AttesterRefusal::Withheld),
            None => {}
        }
        if own.any(|(known, _)| known.client_alias == forwarded.client_alias) {
            return Err(AttesterRefusal::OtherAlias);
        }
        self.0.push((forwarded.clone(), issued.alias));
        Ok(())
    }
}

/// The transcript or negative with this name.
pub(super) fn find<'a>(
    file: &Place<'a>,
    list: &str,
    name: &Place<'_>,
) -> Result<Place<'a>, Difference> {
    let id = name.text()?;
    let mut all = optional_list(file, list)?.into_iter();
    all.find(|place| place.get("id").is_some_and(|found| found.text() == Ok(id)))
        .ok_or_else(|| name.difference(format!("there is no such one in {list}")))
}

fn optional_list<'a>(file: &Place<'a>, field: &str) -> Result<Vec<Place<'a>>, Difference> {
    file.get(field).map_or(Ok(Vec::new()), |list| list.list())
}

fn optional_fields<'a>(
    file: &Place<'a>,
    field: &str,
) -> Result<Vec<(&'a str, Place<'a>)>, Difference> {
    file.get(field).map_or(Ok(Vec::new()), |object| object.fields())
}

/// A DER integer, not negative.
fn integer(number: &[u8]) -> Vec<u8> {
    let start = number.iter().position(|&byte| byte != 0).unwrap_or(number.len());
    let digits = number.get(start..).unwrap_or_default();
    let sign = if digits.first().is_none_or(|&byte| byte >= 0x80) { &[0][..] } else { &[] };
    der(0x02, &[sign, digits].concat())
}

/// A DER value, below 64 KiB.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let head = match len {
        0..0x80 => vec![tag, len as u8],
        0x80..0x100 => vec![tag, 0x81, len as u8],
        _ => vec![tag, 0x82, (len >> 8) as u8, len as u8],
    };
    [&head, content].concat()
}
