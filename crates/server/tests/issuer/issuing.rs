//! Token requests of attesters: single, in batches, and across restarts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::StatusCode;
use serde_json::Value;
use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_protocol::Moment;
use sotto_protocol::issuer::Origin;
use sotto_protocol::issuer::author::RecipeKey;
use sotto_server::{BindError, Issuer, IssuerConfig};
use sotto_store::IssuerDb;
use sotto_testing::keys::keypair;
use sotto_wire::recipe::{EndorsedKey, TokenKeyRequest};
use sotto_wire::token::{
    EncapsulationKey, IssuerAnswer, MAX_TOKEN_BATCH, REQUEST_BATCH_MEDIA_TYPE, REQUEST_MEDIA_TYPE,
    parse_byte_sequence,
};
use sotto_wire::{Decode, KeyType, VerifierKey};

use crate::background::client;
use crate::issuer::harness::{
    ATTESTER_TOKEN, Device, Server, author, config, key_files, now, operator, request, signed,
};

#[tokio::test]
async fn one_request_as_the_specification_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let key = server.key(&request("one")).await;
    let device = Device::new(1);
    let asked = device.ask(&key, 2);
    let response = server.one(&asked.body).await;
    assert_eq!(response.status(), StatusCode::OK);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/private-token-response");
    assert_eq!(header("sec-token-limit"), "1");
    let index_key = parse_byte_sequence(&header("sec-token-origin-alias")).unwrap();
    let sealed = response.bytes().await.unwrap();
    let alias = device.finish(&key, &asked, &index_key.try_into().unwrap(), &sealed);

    // A second token of the same device has the same alias; another origin or another device does
    // not.
    let helper = &server.key(&request("another")).await;
    let other = Device::new(9);
    let asks = [
        (&device, &key, device.ask(&key, 3)),
        (&device, helper, device.ask(helper, 4)),
        (&other, &key, other.ask(&key, 5)),
    ];
    let answers = server.batch(&asks.each_ref().map(|(.., asked)| asked.body.clone())).await;
    let aliases: Vec<_> = asks
        .iter()
        .zip(&answers)
        .map(|((device, key, asked), answer)| device.finish_answer(key, asked, answer))
        .collect();
    assert!(aliases[0] == alias && aliases[1] != alias && aliases[2] != alias);
    assert_eq!(server.metric("sotto_issuer_issued_total").await, Some(4));
    server.stopped().await;
}

#[tokio::test]
async fn a_batch_is_answered_in_order_and_bad_requests_spoil_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let key = server.key(&request("batch")).await;
    let device = Device::new(1);
    let asked: Vec<_> = (0..MAX_TOKEN_BATCH as u64).map(|seed| device.ask(&key, seed)).collect();
    let mut bodies: Vec<_> = asked.iter().map(|asked| asked.body.clone()).collect();
    // Damaged, truncated, and of another type.
    bodies[3][200] ^= 1;
    bodies[100].truncate(40);
    bodies[255][1] = 2;
    let answers = server.batch(&bodies).await;
    assert_eq!(answers.len(), MAX_TOKEN_BATCH);
    for (place, (asked, answer)) in asked.iter().zip(&answers).enumerate() {
        match place {
            3 | 100 | 255 => assert_eq!(*answer, IssuerAnswer::Refused { status: 400 }),
            _ => drop(device.finish_answer(&key, asked, answer)),
        }
    }
    for (reason, count) in [("signature", 1), ("malformed", 1), ("token_type", 1), ("expired", 0)] {
        let name = format!("sotto_issuer_refused_total{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&name).await, Some(count), "{reason}");
    }
    assert_eq!(server.metric("sotto_issuer_issued_total").await, Some(253));
    server.stopped().await;
}

#[tokio::test]
async fn only_the_attester_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let key = server.key(&request("auth")).await;
    let body = Device::new(1).ask(&key, 2).body;
    for (path, media_type) in
        [("token-request", REQUEST_MEDIA_TYPE), ("token-requests", REQUEST_BATCH_MEDIA_TYPE)]
    {
        let post = || server.post(path, media_type, body.clone());
        assert_eq!(post().send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
        let wrong = post().bearer_auth("token-of-the-attesteR").send().await.unwrap();
        assert_eq!(wrong.status(), StatusCode::FORBIDDEN);
        let other = server.post(path, "text/plain", body.clone()).bearer_auth(ATTESTER_TOKEN);
        assert_eq!(other.send().await.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let single = server.post("token-request", REQUEST_MEDIA_TYPE, body).bearer_auth(ATTESTER_TOKEN);
    assert_eq!(single.send().await.unwrap().status(), StatusCode::OK);
    // Not a batch; too many; too long.
    let many = [0, 1, 7].repeat(MAX_TOKEN_BATCH + 1);
    for (body, status) in
        [(vec![], 400), (vec![0, 9, 1], 400), (many, 400), (vec![1; 1 << 20], 413)]
    {
        let batch = server.post("token-requests", REQUEST_BATCH_MEDIA_TYPE, body);
        assert_eq!(batch.bearer_auth(ATTESTER_TOKEN).send().await.unwrap().status(), status);
    }
    server.stopped().await;
}

/// The remedy for an attester that counts over a shorter time: earlier keys live too long for it.
#[tokio::test]
async fn a_shorter_window_binds_the_keys_of_a_longer_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let key = server.key(&request("window")).await;
    let body = Device::new(1).ask(&key, 2).body;
    let ask = async |server: &Server| {
        let post = server.post("token-request", REQUEST_MEDIA_TYPE, body.clone());
        post.bearer_auth(ATTESTER_TOKEN).send().await.unwrap().status()
    };
    assert_eq!(ask(&server).await, StatusCode::OK);
    server.stopped().await;
    let mut shorter = config();
    shorter.rules.window_s = key.expires - now() - 60;
    let server = Server::start(folder.path(), shorter).await;
    assert_eq!(ask(&server).await, StatusCode::BAD_REQUEST);
    let refused = "sotto_issuer_refused_total{reason=\"beyond_window\"}";
    assert_eq!(server.metric(refused).await, Some(1));
    server.stopped().await;
    // Nothing was lost.
    let server = Server::start(folder.path(), config()).await;
    assert_eq!(ask(&server).await, StatusCode::OK);
    server.stopped().await;
}

#[tokio::test]
async fn a_refusal_tells_its_status_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let key = server.key(&request("refusal")).await;
    let device = Device::new(1);
    let mut texts = Vec::new();
    let mut damaged = device.ask(&key, 2).body;
    damaged[200] ^= 1;
    let other_folder = tempfile::tempdir().unwrap();
    let elsewhere = Server::start(other_folder.path(), config()).await;
    let unknown = elsewhere.key(&request("elsewhere")).await;
    for body in [b"x".to_vec(), damaged, device.ask(&unknown, 3).body] {
        let response = server.one(&body).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert!(response.headers().get("sec-token-origin-alias").is_none());
        texts.push(response.text().await.unwrap());
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    elsewhere.stopped().await;
    server.stopped().await;
}

#[tokio::test]
async fn restarts_and_crashes_keep_keys_and_burn_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let request = request("restart");
    let key = server.key(&request).await;
    let device = Device::new(1);
    let asked = device.ask(&key, 2);
    let answer = server.batch(std::slice::from_ref(&asked.body)).await;
    let alias = device.finish_answer(&key, &asked, &answer[0]);
    server.crashed().await;

    let server = Server::start(folder.path(), config()).await;
    // The same bytes again: the answer may have been lost.
    let again = server.batch(std::slice::from_ref(&asked.body)).await;
    assert_eq!(device.finish_answer(&key, &asked, &again[0]), alias);
    assert_eq!(server.key(&request).await, key);
    assert_eq!(server.metric("sotto_issuer_keys_made_total").await, Some(0));
    assert_eq!(server.metric("sotto_issuer_keys").await, Some(1));
    server.stopped().await;
}

/// One key, an origin for each participation, across a restart and until it is deleted.
#[tokio::test]
async fn a_series_has_one_key_and_an_origin_for_each_participation() {
    let folder = tempfile::tempdir().unwrap();
    let settings = || {
        let mut settings = config();
        settings.rules.max_live_keys = 2;
        settings
    };
    let server = Server::start(folder.path(), settings()).await;
    let series = TokenKeyRequest { participations: Some(3), ..request("series") };
    let key = server.key(&series).await;
    assert_eq!(server.key(&series).await, key);
    assert_eq!(server.metric("sotto_issuer_keys").await, Some(1), "keys are counted, not origins");
    let plain = server.key(&request("series")).await;
    assert_ne!(plain.public_key, key.public_key);
    let full = server.ask_for_keys(signed(&request("third"), &author())).await;
    assert_eq!(full.status(), StatusCode::TOO_MANY_REQUESTS);

    let device = Device::new(1);
    let aliases = async |server: &Server, seed: u64| {
        let asked: Vec<_> = (0..3).map(|number| device.ask_for(&key, number, seed)).collect();
        let bodies: Vec<_> = asked.iter().map(|asked| asked.body.clone()).collect();
        let answers = server.batch(&bodies).await;
        let aliases = asked.iter().zip(&answers);
        aliases.map(|(asked, answer)| device.finish_answer(&key, asked, answer)).collect::<Vec<_>>()
    };
    let before = aliases(&server, 2).await;
    assert!(before[0] != before[1] && before[1] != before[2] && before[0] != before[2]);
    let unknown = [
        device.ask_for(&key, 3, 3).body,
        device.ask(&key, 4).body,
        device.ask_for(&plain, 0, 5).body,
    ];
    let refused = server.batch(&unknown).await;
    assert!(refused.iter().all(|answer| *answer == IssuerAnswer::Refused { status: 400 }));
    let unknown = "sotto_issuer_refused_total{reason=\"unknown_origin\"}";
    assert_eq!(server.metric(unknown).await, Some(3));
    server.stopped().await;

    let server = Server::start(folder.path(), settings()).await;
    assert_eq!(aliases(&server, 6).await, before, "the secrets are the same");
    assert_eq!(server.metric("sotto_issuer_keys").await, Some(2));
    server.stopped().await;
}

#[tokio::test]
async fn nothing_is_issued_after_expiry_and_the_keys_go() {
    let folder = tempfile::tempdir().unwrap();
    let (key, other) = (IssuerKey::generate().unwrap(), IssuerKey::generate().unwrap());
    // From here on the clock matters: the keys have been made, and one lives only for a few
    // seconds.
    let (expires, participations) = (now() + 4, Some(2));
    let short = TokenKeyRequest { expires, participations, ..request("short") };
    let long = request("long");
    let db = IssuerDb::open(folder.path()).unwrap();
    let [short_key, long_key] = [(key, &short), (other, &long)].map(|(key, request)| {
        let shown = EndorsedKey::new(
            operator().name().clone(),
            key.token_key().spki(),
            request.expires,
            &[0; 64],
        );
        let origin = Origin::new(key, Secret::new([1; 32]), Moment(request.expires));
        let origin = origin.with_participations(request.participations).into();
        db.insert(&RecipeKey { request: request.clone(), origin }).unwrap();
        shown
    });
    drop(db);
    let server = Server::start(folder.path(), config()).await;
    let device = Device::new(1);
    let asked = device.ask_for(&short_key, 1, 2);
    let answer = server.batch(std::slice::from_ref(&asked.body)).await;
    assert!(matches!(answer[0], IssuerAnswer::Issued { .. }));
    while now() < short.expires {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let late = server.batch(&[asked.body, device.ask(&long_key, 3).body]).await;
    assert_eq!(late[0], IssuerAnswer::Refused { status: 400 });
    assert!(matches!(late[1], IssuerAnswer::Issued { .. }));
    assert_eq!(server.metric("sotto_issuer_refused_total{reason=\"expired\"}").await, Some(1));
    server.stopped().await;

    let mut settings = config();
    settings.rules.key_grace = Duration::ZERO;
    let server = Server::start(folder.path(), settings).await;
    while server.metric("sotto_issuer_keys").await != Some(1) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(key_files(folder.path()).len(), 1);
    assert_eq!(server.metric("sotto_issuer_keys_deleted_total").await, Some(1));
    // A note whose keys have been deleted does not create new ones.
    let again = server.ask_for_keys(signed(&short, &author())).await;
    assert_eq!(again.status(), StatusCode::BAD_REQUEST);
    assert_eq!(server.key(&long).await.public_key, long_key.public_key);
    server.stopped().await;
}

#[tokio::test]
async fn the_directory_tells_window_keys_and_where_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config();
    settings.http.base_path = "/tokens/".into();
    settings.rules.window_s = 86_400;
    let keys = std::sync::Arc::clone(&settings.encapsulation_keys);
    let server = Server::start(folder.path(), settings).await;
    let url = server.resource("tokens/.well-known/private-token-issuer-directory");
    let directory = async || {
        let response = client(None).get(&url).send().await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/private-token-issuer-directory"
        );
        serde_json::from_slice::<Value>(&response.bytes().await.unwrap()).unwrap()
    };
    let listed = async || {
        let directory = directory().await;
        let keys = directory["encap-keys"].as_array().unwrap().clone();
        let key = |text: &Value| {
            let bytes = URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap();
            EncapsulationKey::from_bytes(&bytes).unwrap().config().clone()
        };
        keys.iter().map(key).collect::<Vec<_>>()
    };
    let shown = directory().await;
    assert_eq!(shown["issuer-policy-window"], 86_400);
    assert_eq!(shown["issuer-request-uri"], "/tokens/token-request");
    assert_eq!(listed().await, [keypair(1).config().clone()]);
    // A new key in front of the old one, while the issuer serves.
    keys.replace(vec![keypair(2), keypair(1)]).unwrap();
    let expected = [2, 1].map(|id| keypair(id).config().clone());
    assert_eq!(listed().await, expected);
    assert!(keys.replace(vec![]).is_err());
    server.stopped().await;
}

#[tokio::test]
async fn configurations_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |change: fn(&mut IssuerConfig)| {
        let mut settings = config();
        change(&mut settings);
        let db = IssuerDb::open(folder.path()).unwrap();
        match Issuer::bind(settings, db).await.unwrap_err() {
            BindError::Config(reason) => reason,
            other => panic!("{other}"),
        }
    };
    let cosigner = refused(|config| {
        let name = "author.example".parse().unwrap();
        config.rules.authors = vec![VerifierKey::new(name, KeyType::CosignatureV1, [1; 32])];
    });
    assert!(cosigner.await.contains("does not sign notes"));
    assert!(refused(|config| config.rules.window_s = 0).await.contains("policy window"));
}
