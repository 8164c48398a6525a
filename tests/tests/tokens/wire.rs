//! What the attesters, the issuers and the aggregators see on the wire. None of them can link a
//! device to a recipe, and those of one chain share nothing with those of the other but the device's
//! attestation.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sotto_crypto::rate_limited::open_inner_request;
use sotto_crypto::server_hpke::Opener;
use sotto_crypto::{HpkeKeypair, Secret, hpke};
use sotto_protocol::device::Pending;
use sotto_tests::phone::{Phone, Source};
use sotto_tests::pipe::Pipe;
use sotto_tests::world::World;
use sotto_wire::labels::input_share_info;
use sotto_wire::token::{
    IssuerAnswer, IssuerAnswerBatch, TokenRequest, header, parse_byte_sequence,
};
use sotto_wire::{
    Decode, Encode, InputShareAad, KeySet, Report, Role, TaskConfiguration, taskprov,
};

use crate::tokens::Scene;
use crate::tokens::certificates::{Badge, Manufacturer, TABLE};
use crate::tokens::leader::{Passed, requests};

const RECIPES: [&str; 2] = ["commute", "sleep"];

/// No text contains their last two bytes, so text never contains the four bytes by chance.
const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(127, 77, 201, 233), Ipv4Addr::new(127, 77, 190, 177)];

/// Appears in the certificates and nowhere else.
const NUMBERS: [&str; 2] = ["device-0815-4711", "device-0816-4712"];

const ATTESTERS: [&str; 2] = ["attester-a", "attester-b"];
const ISSUERS: [&str; 2] = ["issuer-a", "issuer-b"];

/// Pipes in front of attesters, issuers, leader and helper.
type Pipes = BTreeMap<&'static str, Pipe>;

fn scene(manufacturer: &Manufacturer) -> (Scene, Pipes) {
    let mut pipes = Pipes::new();
    let scene = Scene::arranged(|world| {
        fs::write(world.path("manufacturer.pem"), &manufacturer.pem)?;
        let mut pipe = |name, address| -> anyhow::Result<String> {
            let pipe = Pipe::before(address)?;
            let url = pipe.url();
            pipes.insert(name, pipe);
            Ok(url)
        };
        world.pair.leader.url = pipe("leader", world.pair.leader.address())?;
        world.pair.helper.url = pipe("helper", world.pair.helper.address())?;
        for chain in &mut world.tokens.as_mut().unwrap().chains {
            chain.attestation = TABLE.to_owned();
            chain.attester_url = pipe(chain.attester.name(), chain.attester.address())?;
            chain.issuer_url = pipe(chain.issuer.name(), chain.issuer.address())?;
        }
        Ok(())
    });
    (scene, pipes)
}

/// What a party received, or what it answered.
fn passed(pipe: &Pipe, is_answer: bool) -> Vec<Passed> {
    let records = pipe.recorded();
    let wanted = records.iter().filter(|record| record.starts_with(b"HTTP/") == is_answer);
    wanted.flat_map(|record| requests(record)).collect()
}

fn field(passed: &Passed, name: &str) -> Vec<u8> {
    let (_, value) = passed.fields.iter().find(|(other, _)| other == name).unwrap();
    parse_byte_sequence(value).unwrap()
}

/// The requests of one device to one attester for two recipes. They differ in the values of
/// three fields (of the evidence, in the signature alone), and in three parts of the body. Lengths
/// and everything else are equal.
fn check_that_requests_are_alike(asked: &[&Passed]) {
    let first = asked[0];
    let random = [header::ORIGIN_ALIAS, header::REQUEST_BLIND, header::ATTESTATION];
    for other in &asked[1..] {
        assert_eq!(other.line, first.line);
        assert_eq!(other.fields.len(), first.fields.len());
        for ((name, value), (first_name, first_value)) in other.fields.iter().zip(&first.fields) {
            assert_eq!((name, value.len()), (first_name, first_value.len()));
            assert!(value == first_value || random.contains(&name.as_str()), "{name}");
        }
        let [own, others] = [other, first].map(|passed| field(passed, header::ATTESTATION));
        assert_eq!(own[..own.len() - 64], others[..others.len() - 64]);
        assert_eq!(other.body.len(), first.body.len());
        let end = first.body.len() - 64;
        // Type, encapsulation key and length. Between and after them: request key, sealed request,
        // signature.
        for same in [0..2, 34..68] {
            assert_eq!(other.body[same.clone()], first.body[same]);
        }
        // All random values are fresh: two values of 32 random bytes are equal with a probability
        // of 2^-256.
        for random in [2..34, 68..100, end..end + 32] {
            assert_ne!(other.body[random.clone()], first.body[random]);
        }
        for name in random {
            assert_ne!(field(other, name), field(first, name));
        }
    }
}

/// Ways to write bytes.
fn forms(bytes: &[u8]) -> Vec<Vec<u8>> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Without the last characters, which depend on what follows.
    let [standard, url] = [STANDARD.encode(bytes), URL_SAFE_NO_PAD.encode(bytes)];
    let cut = |text: String| text.as_bytes()[..bytes.len() * 4 / 3].to_vec();
    vec![bytes.to_vec(), hex.to_uppercase().into(), hex.into(), cut(standard), cut(url)]
}

/// Where these are found.
fn found<'a>(
    secrets: &[(&'a str, Vec<u8>)],
    places: &[(String, Vec<u8>)],
) -> Vec<(&'a str, String)> {
    let mut found = Vec::new();
    for (name, secret) in secrets {
        for form in forms(secret) {
            for (place, bytes) in places {
                if bytes.windows(form.len()).any(|window| window == form) {
                    found.push((*name, place.clone()));
                }
            }
        }
    }
    found
}

/// The two halves of a key file.
pub(crate) fn keypair(world: &World, file: &str) -> HpkeKeypair {
    let text = fs::read_to_string(world.path(file)).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let config = table["hpke_config"].as_str().unwrap();
    let config = KeySet::parse_config("hpke_config", config).unwrap();
    let private = URL_SAFE_NO_PAD.decode(table["hpke_private_key"].as_str().unwrap()).unwrap();
    HpkeKeypair::from_parts(config, Secret::new(private.try_into().unwrap())).unwrap()
}

/// The shares of a report, opened.
fn opened(world: &World, pending: &Pending) -> Vec<(String, Vec<u8>)> {
    let report = Report::from_bytes(&pending.report).unwrap();
    let configuration = TaskConfiguration::from_bytes(&pending.task_configuration).unwrap();
    let aad = InputShareAad {
        task_id: taskprov::task_id(&pending.task_configuration),
        task_configuration: &configuration.to_bytes(),
        report_metadata: &report.report_metadata,
        public_share: &report.public_share,
    };
    let shares = [
        (Role::Leader, "leader", &report.leader_encrypted_input_share),
        (Role::Helper, "helper", &report.helper_encrypted_input_share),
    ];
    let open = |(role, name, share)| {
        let key = keypair(world, &format!("{name}-hpke-1.toml"));
        let share = hpke::open(&key, &input_share_info(role), &aad.to_bytes(), share).unwrap();
        (format!("the share of the {name}"), share.to_vec())
    };
    shares.map(open).into()
}

/// Every file of an aggregator.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            // Files may disappear.
            false => all.extend(fs::read(&path).map(|bytes| (path.display().to_string(), bytes))),
        }
    }
    all
}

/// Each device requests all tokens and answers both recipes. Returns the reports.
fn answer(scene: &Scene, badges: &[Badge; 2]) -> Vec<Pending> {
    let mut reports = Vec::new();
    for (number, badge) in badges.iter().enumerate() {
        let source = Arc::new(Source::new(ADDRESSES[number].into()));
        let phone = Phone::new(&scene.world, &scene.trust, source, 900 + number as u64).unwrap();
        let mut phone = phone.attested(badge.attestor());
        let done = phone.pass_cut_off(number as i64 * 20).unwrap();
        assert_eq!(done.tokens.unwrap().granted, 4);
        assert_eq!(done.considered.len(), 2);
        reports.extend(phone.pending());
        assert_eq!(phone.pass(number as i64 * 20).unwrap().insecure_delivery.accepted, 2);
    }
    reports
}

/// All that an attester received, by device.
fn asked(attester: &Pipe, badges: &[Badge; 2]) -> [Vec<Passed>; 2] {
    [0, 1].map(|number| {
        let of_device = |passed: &Passed| {
            let evidence = field(passed, header::ATTESTATION);
            evidence.windows(32).any(|window| window == badges[number].public_key())
        };
        passed(attester, false).into_iter().filter(of_device).collect()
    })
}

fn all_bytes(name: &str, pipe: &Pipe) -> Vec<(String, Vec<u8>)> {
    pipe.recorded().into_iter().map(|record| (name.to_owned(), record)).collect()
}

/// What an attester knows and no issuer must. Four random bytes are one of the addresses with
/// a probability of 2^-32 each.
fn secrets_of_the_attester(
    asked: &[Vec<Passed>; 2],
    badges: &[Badge; 2],
) -> Vec<(&'static str, Vec<u8>)> {
    let mut secrets = Vec::new();
    for number in [0, 1] {
        let [a, b, c, d] = ADDRESSES[number].octets();
        let address = ADDRESSES[number].to_string();
        secrets.extend([("address", vec![a, b, c, d]), ("address", vec![d, c, b, a])]);
        secrets.extend([("address", address.into()), ("number", NUMBERS[number].into())]);
        // The certificate is recognized by its key, its signature and its first bytes.
        let der = &badges[number].der;
        secrets.push(("certificate", badges[number].public_key().to_vec()));
        secrets.extend(der.chunks_exact(24).map(|part| ("certificate", part.to_vec())));
        for passed in &asked[number] {
            for name in [header::CLIENT, header::ORIGIN_ALIAS, header::REQUEST_BLIND] {
                secrets.push((name, field(passed, name)));
            }
        }
    }
    secrets
}

/// What attester and issuer of one chain saw while the tokens were made, and the aggregators and the
/// other chain must not see.
fn secrets_of_issuance(
    scene: &Scene,
    issuer: &str,
    pipe: &Pipe,
    asked: &[Vec<Passed>; 2],
) -> Vec<(&'static str, Vec<u8>)> {
    let file = format!("{issuer}-encapsulation.toml");
    let opener = Opener::new(&keypair(&scene.world, &file)).unwrap();
    let mut secrets = Vec::new();
    for passed in asked.iter().flatten() {
        let request = TokenRequest::from_bytes(&passed.body).unwrap();
        let (inner, _) = open_inner_request(&opener, &request).unwrap();
        secrets.push(("request key", request.request_key.to_vec()));
        secrets.push(("blinded message", inner.blinded_msg.to_vec()));
        secrets.push(("part of the blinded message", inner.blinded_msg[..32].to_vec()));
        for name in [header::CLIENT, header::ORIGIN_ALIAS, header::REQUEST_BLIND] {
            secrets.push((name, field(passed, name)));
        }
    }
    for answers in passed(pipe, true) {
        let Ok(answers) = IssuerAnswerBatch::from_bytes(&answers.body) else { continue };
        for answer in answers.answers() {
            let IssuerAnswer::Issued { index_key, response, .. } = answer else {
                panic!("refused")
            };
            secrets.push(("index key", index_key.to_vec()));
            secrets.push(("response", response[..32].to_vec()));
        }
    }
    assert_eq!(secrets.iter().filter(|(name, _)| *name == "index key").count(), 4);
    secrets
}

#[test]
fn what_everybody_sees() {
    let manufacturer = Manufacturer::new();
    let (scene, pipes) = scene(&manufacturer);
    for recipe in RECIPES {
        scene.publish(recipe, 2);
    }
    let badges = [0, 1].map(|number| manufacturer.badge(NUMBERS[number], number as u64 + 1));
    let reports = answer(&scene, &badges);
    for recipe in RECIPES {
        scene.collect(recipe, [1, 1, 0]);
    }

    let chains = ATTESTERS.map(|attester| asked(&pipes[attester], &badges));
    for asked in chains.iter().flatten() {
        assert_eq!(asked.len(), 2);
        check_that_requests_are_alike(&asked.iter().collect::<Vec<_>>());
    }

    let own = chains.each_ref().map(|asked| secrets_of_the_attester(asked, &badges));
    let secrets: Vec<_> = own.concat();
    let issuers: Vec<_> = ISSUERS.iter().flat_map(|name| all_bytes(name, &pipes[name])).collect();
    assert_eq!(found(&secrets, &issuers), []);

    let made = [0, 1].map(|chain| {
        secrets_of_issuance(&scene, ISSUERS[chain], &pipes[ISSUERS[chain]], &chains[chain])
    });
    // What one chain saw does not occur in the other: both know the device by its certificate and by
    // nothing else.
    for (chain, secrets) in made.iter().enumerate() {
        let other = 1 - chain;
        for name in [ATTESTERS[other], ISSUERS[other]] {
            assert_eq!(found(secrets, &all_bytes(name, &pipes[name])), [], "{name}");
        }
    }
    let issuance: Vec<_> = made.concat();
    let mut places = Vec::new();
    for name in ["leader", "helper"] {
        places.extend(all_bytes(name, &pipes[name]));
    }
    for report in &reports {
        places.extend(opened(&scene.world, report));
    }
    places.extend(files(&scene.world.pair.leader.data_dir()));
    places.extend(files(&scene.world.pair.helper.data_dir()));
    assert_eq!(found(&issuance, &places), []);
    let long: Vec<_> = secrets.iter().filter(|(_, bytes)| bytes.len() > 4).cloned().collect();
    assert_eq!(found(&long, &places), []);
    // The search is for values of 14 bytes or more, except for two addresses in two byte orders at
    // the issuers; each address is searched for once per chain.
    let bytes: usize = issuers.iter().map(|(_, bytes)| bytes.len()).sum();
    let rate = 8.0 * bytes as f64 / 2f64.powi(32);
    println!("{bytes} bytes at the issuers; false alarm rate {rate:.1e}");
    assert!(rate < 1e-4, "{rate}");

    check_that_the_search_finds(&issuance, &secrets, &pipes, &reports, &places);
}

/// Control: the attesters received all of their values, the issuers the request keys, and each share
/// contains its report's id.
fn check_that_the_search_finds(
    issuance: &[(&'static str, Vec<u8>)],
    secrets: &[(&'static str, Vec<u8>)],
    pipes: &Pipes,
    reports: &[Pending],
    places: &[(String, Vec<u8>)],
) {
    let all = |names: [&str; 2]| names.map(|name| all_bytes(name, &pipes[name])).concat();
    let attesters = all(ATTESTERS);
    for name in [header::CLIENT, header::ORIGIN_ALIAS, header::REQUEST_BLIND] {
        let own: Vec<_> = secrets.iter().filter(|(other, _)| *other == name).cloned().collect();
        assert!(found(&own, &attesters).len() >= 8, "{name}");
    }
    assert!(found(secrets, &attesters).iter().any(|(name, _)| *name == "address"));
    let keys: Vec<_> =
        issuance.iter().filter(|(name, _)| *name == "request key").cloned().collect();
    assert_eq!(found(&keys, &all(ISSUERS)).len(), 8);
    for report in reports {
        let id = Report::from_bytes(&report.report).unwrap().report_metadata.report_id;
        let held = found(&[("id", id.as_bytes().to_vec())], places);
        assert!(held.iter().filter(|(_, place)| place.starts_with("the share")).count() == 2);
    }
}
