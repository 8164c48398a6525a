//! Nothing about a device appears in what the attester logs, counts and answers.

use sotto_wire::token::{byte_sequence, header};

use crate::attester::harness::{AttesterAndIssuer, Device};
use crate::attester::issuer::Mood;
use crate::captured::Captured;

#[tokio::test]
async fn the_attester_keeps_quiet() {
    // Everything from our own crates, but not from the HTTP client of the test, which logs what it
    // sends.
    let Some(captured) = Captured::alone(
        "attester::secrecy::the_attester_keeps_quiet",
        "off,sotto_server=trace,sotto_store=trace,sotto_protocol=trace",
    ) else {
        return;
    };
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("qzdevicenameqz");
    let good = device.request(1);
    let mut answers = Vec::new();
    world.issuer.script().mood = Mood::Down;
    answers.push(world.server.ask(&good).await);
    world.issuer.script().mood = Mood::Honest;
    world.server.ask(&good).await.token();
    answers.push(world.server.ask(&device.request(1)).await);
    answers.push(world.server.ask(&device.request_for(1, [0x5c; 32], 1)).await);
    answers.push(world.server.ask(&good.clone().with(header::ATTESTATION, b"\x01x")).await);
    answers.push(world.server.ask(&good.clone().with(header::CLIENT, &[0xff; 32])).await);

    let mut shown = captured.text();
    shown.push_str(&world.server.admin_get("metrics").await.1);
    shown.push_str(&world.server.admin_get("readyz").await.1);
    for answer in &answers {
        assert!(answer.status >= 400);
        shown.push_str(&String::from_utf8(answer.body.clone()).unwrap());
    }
    assert!(shown.contains("issuer.example"), "the log output was captured");
    let client_key = *device.secret.public_key().as_bytes();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for secret in [
        "qzdevicename".to_owned(),
        byte_sequence(&client_key).trim_matches(':').to_owned(),
        hex(&client_key[..8]),
        hex(&good.body[2..10]),
        hex(&[0x5c; 8]),
        "127.0.0.1".to_owned(),
    ] {
        assert!(!shown.contains(&secret), "{secret} is in {shown}");
    }
}
