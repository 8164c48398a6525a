//! The leader's gateway key changes every second while devices send as fast as they can, for
//! `SOTTO_ROTATION_SECONDS` (8).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use sotto_client::{HttpOptions, HttpTransport};
use sotto_tests::phone::{Phone, trust};
use sotto_tests::world::World;

use super::{
    ACCEPTED, FIRST_KEY, add_gateway_key, key_file, publish_gateway_key, rotating_world,
    wait_for_key,
};

/// Devices that are busy at the same time.
const DEVICES_AT_ONCE: usize = 4;

/// How long a key stays after a newer one was published: as long as a pass takes, including the
/// wait in the relay. Passes here take a fraction of that. If one takes longer because the machine
/// is busy, its key is kept.
const OVERLAP: Duration = Duration::from_secs(3);

/// What the test shares between devices and the operator of the gateway.
#[derive(Default)]
struct Keys {
    /// The number of keys published so far.
    published: usize,
    /// For each busy device, the number of keys published when its pass began.
    begun: [Option<usize>; DEVICES_AT_ONCE],
}

impl Keys {
    /// The oldest key that a device may be using: a device sees at least the keys published before
    /// it reads the log.
    fn oldest_in_use(&self) -> usize {
        self.begun.iter().flatten().copied().min().unwrap_or(self.published)
    }
}

/// Sends one report after the other, each from a new device, without retries. Returns the number of
/// reports.
fn send(world: &World, place: usize, keys: &Mutex<Keys>, stop: &AtomicBool) -> u64 {
    let transport = Arc::new(HttpTransport::new(HttpOptions::default()).unwrap());
    let trust = trust(world).unwrap();
    let mut phone = Phone::new(world, &trust, transport, place as u64).unwrap();
    let mut sent = 0;
    while !stop.load(Ordering::SeqCst) {
        {
            let mut keys = keys.lock().unwrap();
            keys.begun[place] = Some(keys.published);
        }
        phone = phone.replaced();
        phone.answer(10 * (sent % 6) as i64).unwrap();
        keys.lock().unwrap().begun[place] = None;
        sent += 1;
    }
    sent
}

/// Publishes a new key every second, for this many seconds, and removes old ones. Returns how many
/// it published and removed.
fn rotate(world: &World, seconds: usize, keys: &Mutex<Keys>) -> (usize, usize) {
    let id = |key: usize| FIRST_KEY + u8::try_from(key).unwrap();
    // When each key was replaced by the next.
    let mut replaced: Vec<Instant> = Vec::new();
    let mut removed = 0;
    add_gateway_key(world, id(1));
    for key in 1.. {
        // It takes longer only if passes were so slow that no key could be removed yet.
        if key > seconds && removed > 0 {
            break;
        }
        let start = Instant::now();
        add_gateway_key(world, id(key + 1));
        // The gateway got it a second ago. No device may learn about a key before the gateway has
        // it.
        wait_for_key(world, id(key), true);
        publish_gateway_key(world, id(key));
        replaced.push(Instant::now());
        let unused = {
            let mut keys = keys.lock().unwrap();
            keys.published = key;
            keys.oldest_in_use()
        };
        while removed < unused && replaced.get(removed).is_some_and(|at| at.elapsed() > OVERLAP) {
            fs::remove_file(world.path(&key_file(id(removed)))).unwrap();
            removed += 1;
        }
        thread::sleep(Duration::from_secs(1).saturating_sub(start.elapsed()));
    }
    (keys.lock().unwrap().published, removed)
}

#[test]
fn no_upload_fails_while_keys_rotate_every_second() {
    let seconds = std::env::var("SOTTO_ROTATION_SECONDS").map_or(8, |text| text.parse().unwrap());
    let world = rotating_world();
    world.publish_recipe("commute", 2).unwrap();
    let (keys, stop) = (Mutex::new(Keys::default()), AtomicBool::new(false));
    let uploads = AtomicU64::new(0);
    let (published, removed) = thread::scope(|scope| {
        for place in 0..DEVICES_AT_ONCE {
            let (world, keys, stop, uploads) = (&world, &keys, &stop, &uploads);
            scope
                .spawn(move || uploads.fetch_add(send(world, place, keys, stop), Ordering::SeqCst));
        }
        // Set even after a panic: otherwise the devices would run forever.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let _stop = Stop(&stop);
        rotate(&world, seconds, &keys)
    });
    let uploads = uploads.into_inner();
    println!("{uploads} uploads, {published} keys, {removed} of them removed, no failure");
    assert!(uploads >= DEVICES_AT_ONCE as u64);
    assert_eq!(world.pair.leader.metric(ACCEPTED).unwrap(), uploads as f64);
    assert_eq!(world.collect("commute").unwrap()["count"], uploads);
}
