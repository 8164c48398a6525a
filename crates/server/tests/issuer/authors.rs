//! Token keys for authors over HTTP.

use reqwest::StatusCode;
use sotto_crypto::note;
use sotto_store::IssuerDb;
use sotto_testing::keys::{self, key_of, signer};
use sotto_wire::recipe::{TokenKeyRequest, TokenKeyStatement};
use sotto_wire::{Note, NoteSignature, Role};

use crate::issuer::harness::{Server, author, config, key_files, now, operator, request, signed};

#[tokio::test]
async fn an_author_gets_an_endorsed_key_and_the_same_one_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let (leader, operator) = (request("leader"), operator());
    let helper = TokenKeyRequest { role: Role::Helper, ..request("helper") };
    let mut made = Vec::new();
    for request in [&leader, &helper] {
        let key = server.key(request).await;
        let statement = TokenKeyStatement {
            role: request.role,
            aggregator: request.aggregator(),
            author: &request.author.key,
            issuer: operator.name(),
            public_key: &key.public_key,
            expires: request.expires,
        };
        let signature = key.signature().unwrap().to_vec();
        let signature = NoteSignature { signature, ..operator.sign("") };
        let note = Note::new(statement.text()).unwrap().with_signature(signature);
        note::verify(&note, &operator.verifier()).unwrap();
        assert_eq!(key.issuer, *operator.name());
        assert_eq!(server.key(request).await, key);
        made.push(key.public_key);
    }
    // Another nonce means another recipe.
    assert_ne!(made[0], made[1]);
    assert_eq!(server.metric("sotto_issuer_keys_made_total").await, Some(2));
    assert_eq!(key_files(folder.path()).len(), 2);
    server.stopped().await;
}

/// Devices require two issuers. An author who asks one for both is told so before publishing.
#[tokio::test]
async fn an_issuer_makes_one_key_of_a_recipe_unless_its_operator_allows_both() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let leader = request("both");
    let helper = TokenKeyRequest { role: Role::Helper, ..leader.clone() };
    let made = server.key(&leader).await;
    let refused = server.ask_for_keys(signed(&helper, &author())).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    assert!(refused.text().await.unwrap().contains("insecure_both_roles"));
    assert_eq!(key_files(folder.path()).len(), 1);
    server.stopped().await;
    let mut settings = config();
    settings.rules.insecure_both_roles = true;
    let server = Server::start(folder.path(), settings).await;
    assert_eq!(server.key(&leader).await, made);
    assert_ne!(server.key(&helper).await.public_key, made.public_key);
    server.stopped().await;
}

#[tokio::test]
async fn the_same_note_at_the_same_time_gets_the_same_keys() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let request = request("together");
    let (one, two, three) =
        tokio::join!(server.key(&request), server.key(&request), server.key(&request));
    assert!(one == two && two == three);
    assert_eq!(server.metric("sotto_issuer_keys_made_total").await, Some(1));
    server.stopped().await;
}

#[tokio::test]
async fn an_author_who_goes_away_finds_the_keys_later() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let request = request("away");
    let note = signed(&request, &author());
    let gone = tokio::time::timeout(
        std::time::Duration::from_millis(20),
        server.ask_for_keys(note.clone()),
    );
    drop(gone.await);
    let key = server.key(&request).await;
    assert_eq!(key_files(folder.path()).len(), 1);
    server.crashed().await;
    let server = Server::start(folder.path(), config()).await;
    assert_eq!(server.key(&request).await, key);
    server.stopped().await;
}

#[tokio::test]
async fn strangers_and_bad_requests_get_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config();
    settings.rules.window_s = 7200;
    let server = Server::start(folder.path(), settings).await;
    let good = request("good");
    let stranger = keys::key("stranger.example");
    let unlisted = TokenKeyRequest { author: signer(&stranger), ..good.clone() };
    let with_expiry = |expires| TokenKeyRequest { expires, ..good.clone() };
    let as_leader = TokenKeyRequest { leader: operator().name().clone(), ..good.clone() };
    let forger = key_of("stranger", "author.example");
    for (note, status) in [
        (signed(&unlisted, &stranger), 403),
        (signed(&good, &forger), 403),
        (signed(&with_expiry(now() - 1), &author()), 400),
        (signed(&with_expiry(now() + 7300), &author()), 400),
        (signed(&as_leader, &author()), 400),
        (b"hello".to_vec(), 400),
        (vec![b'x'; 20_000], 413),
    ] {
        let response = server.ask_for_keys(note).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    assert!(key_files(folder.path()).is_empty());
    assert_eq!(server.metric("sotto_issuer_keys_made_total").await, Some(0));
    server.stopped().await;
}

#[tokio::test]
async fn an_author_has_so_many_live_keys() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config();
    settings.rules.max_live_keys = 2;
    let server = Server::start(folder.path(), settings).await;
    let first = server.key(&request("first")).await;
    let second_request = request("second");
    let second = server.key(&second_request).await;
    let full = server.ask_for_keys(signed(&request("third"), &author())).await;
    assert_eq!(full.status(), StatusCode::TOO_MANY_REQUESTS);
    // Full, but existing keys are still returned.
    assert_eq!(server.key(&second_request).await, second);
    assert_ne!(first.public_key, second.public_key);
    server.stopped().await;
}

#[tokio::test]
async fn a_disk_that_fails_gives_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    std::fs::remove_dir(folder.path().join("keys")).unwrap();
    let request = request("disk");
    let failed = server.ask_for_keys(signed(&request, &author())).await;
    assert_eq!(failed.status(), StatusCode::SERVICE_UNAVAILABLE);
    let (status, reasons) = server.admin_get("readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(reasons.contains("store"), "{reasons}");
    std::fs::create_dir(folder.path().join("keys")).unwrap();
    let key = server.key(&request).await;
    assert_eq!(server.admin_get("readyz").await.0, StatusCode::OK);
    server.stopped().await;
    let db = IssuerDb::open(folder.path()).unwrap();
    let stored = db.load().unwrap();
    assert_eq!(stored[0].request, request);
    let id = *stored[0].origin.token_key().id();
    assert_eq!(*crate::issuer::harness::token_key(&key).id(), id);
}
