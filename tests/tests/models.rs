//! Models as static files, read through a real relay and a real gateway over HTTP.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_client::{
    HttpOptions, HttpRequest, HttpResponse, HttpTransport, ModelFileError, PIECE_LEN,
    RelayTransport, Transport, TransportError, fetch_model, write_model,
};
use sotto_tests::phone::now;
use sotto_tests::process::run_json;
use sotto_tests::service::Service;
use sotto_tests::task::read_key;
use sotto_tests::web::{MODELS, ORIGIN, web_server};
use sotto_wire::EntryId;

const OPERATOR: &str = "gateway.example";

/// Remembers the lengths of what the relay got and gave.
struct AtRelay(HttpTransport, Mutex<Vec<(usize, usize)>>);

impl Transport for AtRelay {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let answer = self.0.send(request)?;
        self.1.lock().unwrap().push((request.body.len(), answer.body.len()));
        Ok(answer)
    }
}

#[test]
fn a_model_comes_through_relay_and_gateway_in_pieces_that_look_alike() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    let key = folder.path().join("gateway-key.toml");
    run_json(["--json", "keys", "new", "--id", "21", "--out", key.to_str().unwrap()]).unwrap();
    let mut gateway = Service::new(folder.path(), "gateway", "gateway").unwrap();
    let target = web_server(models.clone()).unwrap();
    let targets = format!(
        "keys = [\"gateway-key.toml\"]\n[[targets]]\norigin = \"{ORIGIN}\"\nurl = \"{target}\"\n"
    );
    gateway.write_config(&targets).unwrap();
    gateway.start().unwrap();
    let mut relay = Service::new(folder.path(), "relay", "relay").unwrap();
    let listed = format!(
        "[pool]\nmin = 2\nwait_ms = 5\n[sources]\nmax = 0\n\
         [[gateways]]\noperator = \"{OPERATOR}\"\nurl = \"{}gateway\"\n",
        gateway.url()
    );
    relay.write_config(&listed).unwrap();
    relay.start().unwrap();

    let seen =
        Arc::new(AtRelay(HttpTransport::new(HttpOptions::default()).unwrap(), Mutex::default()));
    let exchanges = AtomicU64::new(0);
    let transport = RelayTransport::new(
        Arc::<AtRelay>::clone(&seen),
        vec![relay.url()],
        OPERATOR.parse().unwrap(),
        vec![read_key(&key).unwrap().config().clone()],
        Arc::new(now),
        Arc::new(move || {
            let number = exchanges.fetch_add(1, Ordering::Relaxed);
            Box::new(ChaCha20Rng::seed_from_u64(number))
        }),
    );
    for numbers in [1, 7_850, PIECE_LEN / 4 + 1, 3 * PIECE_LEN / 4] {
        let file: Vec<u8> = (0..numbers as u32).flat_map(|at| (at as f32).to_le_bytes()).collect();
        let digest = write_model(&models, &file).unwrap();
        seen.1.lock().unwrap().clear();
        let read = fetch_model(&transport, MODELS, &digest, numbers as u64, &now).unwrap();
        assert!(read == file, "{numbers}");
        let wanted = (4 * numbers).div_ceil(PIECE_LEN);
        assert_eq!(*seen.1.lock().unwrap(), vec![(4_096, 64 * 1024); wanted]);
    }
    // A model that nobody wrote, and one that another server has.
    let fetch = |url: &str| fetch_model(&transport, url, &EntryId::of(b""), 10, &now);
    let status = |status| Err(ModelFileError::Status { piece: 0, status });
    assert_eq!(fetch(MODELS), status(404));
    assert_eq!(fetch("http://other.example/of/author"), status(421));
}
