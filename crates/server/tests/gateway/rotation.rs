//! Keys that are replaced while requests arrive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::StatusCode;
use sotto_server::GatewayConfig;
use sotto_wire::HpkeConfig;
use sotto_wire::ohttp::{KEY_PROBLEM, decode_key_list};

use crate::gateway::device::{
    Channel, GATEWAY_KEY, LEADER, gateway_keys, reports_url, setup, upload,
};
use crate::server::harness::keypair;

const UPLOADS: usize = 400;
const DEVICES: usize = 4;

/// Two keys overlap, and the older one stays until the requests that were sealed to it are
/// answered. Then no request is ever refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_upload_fails_while_keys_rotate() {
    let keys = gateway_keys();
    let mut setup = setup();
    let gateway = GatewayConfig { origin: Some(LEADER.into()), ..GatewayConfig::new(keys.clone()) };
    setup.leader.server.gateway = Some(gateway);
    let mut pair = setup.start().await;
    let url = reports_url(pair.task.id());
    let reports: Vec<_> = (0..UPLOADS as u32).map(|index| pair.report(index % 4)).collect();

    let newest = Arc::new(Mutex::new(Arc::new(keypair(GATEWAY_KEY).config().clone())));
    let ended = Arc::new(AtomicBool::new(false));
    let rotating = tokio::spawn({
        let (keys, newest, ended) = (keys.clone(), newest.clone(), ended.clone());
        async move {
            let mut rotations = 0_u8;
            let mut previous: Option<Arc<HpkeConfig>> = None;
            while !ended.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(50)).await;
                // Nobody waits for an answer under the key that is removed now.
                while previous.as_ref().is_some_and(|key| Arc::strong_count(key) > 1) {
                    tokio::task::yield_now().await;
                }
                let id = |number: u8| number % 100 + 1;
                let old = if rotations == 0 { GATEWAY_KEY } else { id(rotations - 1) };
                let new = keypair(id(rotations));
                let config = Arc::new(new.config().clone());
                keys.replace(vec![new, keypair(old)]).unwrap();
                previous = Some(std::mem::replace(&mut *newest.lock().unwrap(), config));
                rotations += 1;
            }
            rotations
        }
    });
    let mut devices = tokio::task::JoinSet::new();
    for part in reports.chunks(UPLOADS / DEVICES) {
        let (part, url, newest) = (part.to_vec(), url.clone(), newest.clone());
        let mut channel = Channel::to_leader(&pair);
        devices.spawn(async move {
            let mut failures = 0;
            for report in part {
                let key = Arc::clone(&*newest.lock().unwrap());
                channel.key = HpkeConfig::clone(&key);
                let (body, awaited) = channel.seal(&upload(&url, &report));
                let outer = channel.post(body).await;
                let is_fine = outer.status == StatusCode::OK
                    && awaited.consume_response(&outer.body).is_ok_and(|inner| inner.status == 200);
                failures += usize::from(!is_fine);
                drop(key);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            failures
        });
    }
    let failures: usize = devices.join_all().await.into_iter().sum();
    ended.store(true, Ordering::Relaxed);
    let rotations = rotating.await.unwrap();
    assert_eq!(failures, 0);
    assert!(rotations >= 5, "{rotations} rotations: too few to prove anything");
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, UPLOADS as f64);

    // The first key is gone.
    let channel = Channel::to_leader(&pair);
    let (body, _) = channel.seal(&upload(&url, &reports[0]));
    let outer = channel.post(body).await;
    assert_eq!((outer.status, outer.problem().0.as_str()), (StatusCode::BAD_REQUEST, KEY_PROBLEM));
    // The current keys are shown, the preferred one first.
    let shown = channel.http.get(&channel.url).send().await.unwrap().bytes().await.unwrap();
    let shown: Vec<_> = decode_key_list(&shown).unwrap();
    assert_eq!(shown.len(), 2);
    pair.stop().await;
}
