//! The attester's database: counting rules, windows, keys, and the state after a crash.

mod bench;
mod counting;
mod crash;
mod folder;
mod windows;

use std::path::Path;

use futures_executor::block_on;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::Moment;
use sotto_protocol::attester::DeviceIdentity;
use sotto_store::{AttesterDb, AttesterDbOptions, Grant, Known, Recorded, StoreError};

/// The window length of these tests.
const WINDOW: u64 = 1000;

/// A moment inside a window.
fn at(window: u64) -> Moment {
    Moment(window * WINDOW + 500)
}

fn options() -> AttesterDbOptions {
    AttesterDbOptions { window_s: WINDOW, ..AttesterDbOptions::default() }
}

fn open_with(dir: &Path, options: &AttesterDbOptions) -> Result<AttesterDb, StoreError> {
    AttesterDb::open(dir, options, &mut ChaCha20Rng::seed_from_u64(7))
}

fn open(dir: &Path) -> AttesterDb {
    open_with(dir, &options()).unwrap()
}

/// A device's request for an origin. Everything else is derived from these numbers; `attempt`
/// distinguishes requests for one origin.
#[derive(Clone, Copy)]
struct Wish {
    device: u32,
    origin: u32,
    attempt: u32,
}

fn wish(device: u32, origin: u32, attempt: u32) -> Wish {
    Wish { device, origin, attempt }
}

fn bytes<const N: usize>(kind: u8, one: u32, two: u32, three: u32) -> [u8; N] {
    let mut bytes = [kind; N];
    bytes[1..5].copy_from_slice(&one.to_be_bytes());
    bytes[5..9].copy_from_slice(&two.to_be_bytes());
    bytes[9..13].copy_from_slice(&three.to_be_bytes());
    bytes
}

impl Wish {
    fn identity(self) -> DeviceIdentity {
        DeviceIdentity::new(bytes(1, self.device, 0, 0))
    }

    fn response(self) -> Vec<u8> {
        bytes::<288>(6, self.device, self.origin, self.attempt).to_vec()
    }

    fn grant(self) -> Grant {
        Grant {
            device: self.identity(),
            issuer: "issuer.example".parse().unwrap(),
            client_key: bytes(2, self.device, 0, 0),
            client_alias: bytes(3, self.device, self.origin, 0),
            issuer_alias: bytes(4, self.device, self.origin, 0),
            request_digest: bytes(5, self.device, self.origin, self.attempt),
            response: self.response(),
        }
    }
}

fn record(db: &AttesterDb, grant: Grant, now: Moment) -> Recorded {
    let recorded = block_on(db.record(vec![grant], now)).unwrap();
    let [recorded] = recorded.try_into().unwrap();
    recorded
}

/// What the database knows about the request of a grant.
fn known(db: &AttesterDb, grant: &Grant, now: Moment) -> Known {
    let Grant { device, issuer, client_key, client_alias, request_digest, .. } = grant;
    let known = db.stored_answer(device, issuer, client_key, client_alias, request_digest, now);
    block_on(known).unwrap()
}

/// Waits until old rows are deleted, which happens in the background.
fn wait_for_counts(db: &AttesterDb, wanted: (u64, u64)) {
    for _ in 0..2000 {
        if block_on(db.counts()).unwrap() == wanted {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(block_on(db.counts()).unwrap(), wanted);
}
