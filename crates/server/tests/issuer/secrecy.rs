//! No origin's name, key, request or token appears in log output, metrics or what attesters are
//! told, at any level.

use sotto_store::IssuerDb;
use sotto_wire::token::IssuerAnswer;

use crate::captured::{Captured, spellings};
use crate::issuer::harness::{
    ATTESTER_TOKEN, Device, Server, author, config, request, signed, token_key,
};

#[tokio::test]
async fn logs_metrics_and_refusals_keep_quiet() {
    let Some(captured) =
        Captured::alone("issuer::secrecy::logs_metrics_and_refusals_keep_quiet", "trace")
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), config()).await;
    let request = request("of-a-secret-recipe");
    let other = sotto_wire::recipe::TokenKeyRequest {
        role: sotto_wire::Role::Helper,
        ..super::harness::request("another-of-a-secret-recipe")
    };
    let (leader, helper) = (server.key(&request).await, server.key(&other).await);
    server
        .ask_for_keys(signed(&request, &sotto_testing::keys::key_of("stranger", "author.example")))
        .await;
    let device = Device::new(1);
    let (mut secret, mut texts) = (Vec::new(), Vec::new());
    for (seed, key) in [(2, &leader), (3, &helper)] {
        let asked = device.ask(key, seed);
        let mut damaged = asked.body.clone();
        damaged[300] ^= 1;
        let answers = server.batch(&[asked.body.clone(), damaged.clone()]).await;
        let IssuerAnswer::Issued { index_key, .. } = &answers[0] else { panic!("refused") };
        texts.push(server.one(&damaged).await.text().await.unwrap());
        server.one(&asked.body).await;
        secret.extend([asked.body[2..18].to_vec(), asked.body[100..116].to_vec()]);
        secret.extend([index_key[..16].to_vec(), token_key(key).id()[..16].to_vec()]);
    }
    let (_, metrics) = server.admin_get("metrics").await;
    let (_, ready) = server.admin_get("readyz").await;
    server.stopped().await;
    for key in IssuerDb::open(folder.path()).unwrap().load().unwrap() {
        secret.push(key.origin.secret().expose()[..16].to_vec());
        secret.push(key.origin.key().to_pkcs8()[200..216].to_vec());
    }

    texts.extend([captured.text(), metrics, ready]);
    assert!(texts[2].contains("TRACE"), "nothing was captured: the test would prove nothing");
    let [leader_name, helper_name] = [&leader, &helper].map(|key| token_key(key).origin_name());
    let author = author();
    let words = [
        leader_name.as_str(),
        helper_name.as_str(),
        ATTESTER_TOKEN,
        "secret-recipe",
        leader.public_key.as_str(),
        author.name().as_str(),
    ];
    for text in &texts {
        for word in words {
            assert!(!text.contains(word), "{word} is in {text}");
        }
        for bytes in &secret {
            for shown in spellings(bytes) {
                assert!(!text.contains(&shown), "secret bytes are in {text}");
            }
        }
    }
}
