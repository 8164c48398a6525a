//! Mutated messages: no decoder panics, or allocates more than it declares.
//!
//! `SOTTO_MUTATIONS` sets the number of messages per decoder, `SOTTO_MUTATION_SEED` the seed. Run
//! with `--nocapture` to see one line per decoder.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cap::Cap;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_testing::decoders::{DECODERS, Decoder};
use sotto_wire::limits::DECODE_ALLOCATION_BASE;

/// Counts every byte ever allocated; a reallocation counts in full. This program has only one test,
/// so nothing else allocates meanwhile.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, 1 << 30);

const DEFAULT_MUTATIONS: u64 = 20_000;

/// The results of one decoder's messages.
#[derive(Default)]
struct Tally {
    messages: u64,
    decoded: u64,
    most_allocated: usize,
    most_allocated_input: usize,
}

#[test]
fn mutated_messages() {
    let mutations = number("SOTTO_MUTATIONS").unwrap_or(DEFAULT_MUTATIONS);
    let seed = number("SOTTO_MUTATION_SEED").unwrap_or(1);
    println!("{:<30} {:>9} {:>8}  most allocated", "decoder", "messages", "decoded");
    for (index, decoder) in DECODERS.iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index as u64);
        let tally = campaign(decoder, mutations, &mut rng);
        println!(
            "{:<30} {:>9} {:>7.2}%  {} bytes for a message of {}",
            decoder.name,
            tally.messages,
            100.0 * tally.decoded as f64 / tally.messages as f64,
            tally.most_allocated,
            tally.most_allocated_input,
        );
    }
    worst_cases();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

fn campaign(decoder: &Decoder, mutations: u64, rng: &mut ChaCha8Rng) -> Tally {
    let seeds = (decoder.seeds)();
    let mut tally = Tally::default();
    let mut message = Vec::new();
    for _ in 0..mutations {
        message.clear();
        message.extend_from_slice(pick::<Vec<u8>>(&seeds, rng));
        for _ in 0..1 + below(4, rng) {
            mutate(&mut message, &seeds, rng);
        }
        observe(decoder, &message, &mut tally);
    }
    tally
}

/// Decodes one message and measures it.
fn observe(decoder: &Decoder, message: &[u8], tally: &mut Tally) {
    let before = ALLOCATOR.total_allocated();
    let outcome = catch_unwind(AssertUnwindSafe(|| (decoder.decode)(message)));
    let allocated = ALLOCATOR.total_allocated() - before;
    assert!(outcome.is_ok(), "{} panicked on {}", decoder.name, shown(message));
    let allowed = DECODE_ALLOCATION_BASE + decoder.allocation_factor * message.len();
    assert!(
        allocated <= allowed,
        "{} allocated {allocated} bytes, {allowed} are allowed, on {}",
        decoder.name,
        shown(message)
    );
    tally.messages += 1;
    tally.decoded += u64::from(outcome.unwrap());
    if allocated > tally.most_allocated {
        tally.most_allocated = allocated;
        tally.most_allocated_input = message.len();
    }
}

fn mutate(message: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut ChaCha8Rng) {
    let len = message.len();
    match below(9, rng) {
        // Flip a bit.
        0 | 1 if len > 0 => message[below(len, rng)] ^= 1 << below(8, rng),
        // Overwrite a byte with one that is often a length, a code point or a limit.
        2 if len > 0 => message[below(len, rng)] = *pick(&[0, 1, 2, 3, 4, 0x7f, 0x80, 0xff], rng),
        // Overwrite what may be a length of two, four or eight bytes.
        3 | 4 if len > 0 => tamper_length(message, rng),
        // Cut off the end.
        5 => message.truncate(below(len + 1, rng)),
        // Insert bytes.
        6 => {
            let (at, count) = (below(len + 1, rng), 1 + below(16, rng));
            message.splice(at..at, (0..count).map(|_| rng.next_u32() as u8));
        }
        // Remove bytes.
        7 => {
            let from = below(len + 1, rng);
            let to = (from + 1 + below(16, rng)).min(len);
            message.drain(from..to);
        }
        // Append a piece of another example, or repeat a piece of this one.
        _ => {
            let other = if below(2, rng) == 0 { pick(seeds, rng).clone() } else { message.clone() };
            let from = below(other.len() + 1, rng);
            let to = from + below(other.len() - from + 1, rng);
            let at = below(len + 1, rng);
            if below(2, rng) == 0 {
                message.truncate(at);
            }
            message.splice(at..at, other[from..to].iter().copied());
        }
    }
}

fn tamper_length(message: &mut [u8], rng: &mut ChaCha8Rng) {
    let at = below(message.len(), rng);
    let rest = (message.len() - at) as u64;
    let value = match below(6, rng) {
        0 => 0,
        1 => u64::MAX,
        2 => rest,
        3 => rest.saturating_sub(below(9, rng) as u64),
        4 => rest + below(9, rng) as u64,
        _ => 1 << below(64, rng),
    };
    let width = *pick(&[2, 4, 8], rng);
    let bytes = value.to_be_bytes();
    for (byte, new) in message[at..].iter_mut().zip(&bytes[8 - width..]) {
        *byte = *new;
    }
}

/// The inputs that cost most memory for their length: as many of the smallest elements as fit, and
/// a large first element that misleads the reservation.
fn worst_cases() {
    let ciphertext = [0, 0, 1, 0, 0, 0, 0, 1, 0];
    let verify_init = [&[0; 30][..], &ciphertext, &[0, 0, 0, 1, 0]].concat();
    let mut large_first = verify_init.clone();
    large_first.splice(26..30, 60_000u32.to_be_bytes());
    large_first.splice(30..30, std::iter::repeat_n(0, 60_000));
    let job = |first: &[u8]| [&[0; 7][..], first, &verify_init.repeat(20_000)].concat();
    let extensions: Vec<u8> =
        (2u16..16_000).flat_map(|kind| [kind.to_be_bytes(), [0, 0]].concat()).collect();
    let list = [&(extensions.len() as u16).to_be_bytes()[..], &extensions].concat();
    let one_byte: Vec<u8> =
        (2u16..13_000).flat_map(|kind| [&kind.to_be_bytes()[..], &[0, 1, 0]].concat()).collect();
    let one_byte = [&(one_byte.len() as u16).to_be_bytes()[..], &one_byte].concat();
    let configs =
        [&65_530u16.to_be_bytes()[..], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0].repeat(6_553)].concat();
    let finish = [&[0; 16][..], &[1]].concat();
    let recipe = (sotto_testing::decoders::decoder("recipe").unwrap().seeds)().pop().unwrap();
    let recipe = String::from_utf8(recipe).unwrap();
    let labels: Vec<_> = (1_000..10_000).map(|label| format!("\"{label:x}\"")).collect();
    let labelled = recipe
        .replace("\"buckets\":3", "\"buckets\":9000")
        .replace("\"none\",\"\u{1f600}\",\"other\"", &labels.join(","));
    let buffered = |piece: &str, count: usize| {
        let list = vec![piece; count].join(",");
        let list = format!("\"buckets\":[{list}]");
        recipe.replace("\"buckets\":3", &list).into_bytes()
    };
    let resp_first = [&[0; 17][..], &[0, 0, 0xea, 0x60], &[0; 60_000]].concat();
    let fields = [&[0x43, 0x00][..], &[1, b'a', 0].repeat(256)].concat();
    let most_fields = [&[0x41, 0x80][..], &[1, b'a', 0].repeat(128)].concat();
    let get = b"\0\x01G\x01h\0\x01/";
    let informational = [&[0x40, 0x64, 3, 1, b'a', 0][..]; 17];
    let pieces = [&b"\x02\x01G\x01h\0\x01/\0"[..], &[1, 7].repeat(50_000)].concat();
    let key = [&[0, 41, 0, 0, 0x20][..], &[0; 32], &[0, 4, 0, 1, 0, 1]].concat();
    for (name, message, decodes) in [
        ("bhttp_request", [&get[..], &most_fields].concat(), true),
        ("bhttp_request", [&get[..], &fields].concat(), false),
        ("bhttp_request", [&pieces[..], &[0]].concat(), true),
        ("bhttp_response", [&[1], &informational[..16].concat()[..], &[0x40, 0xc8]].concat(), true),
        ("bhttp_response", [&[1], &informational.concat()[..], &[0x40, 0xc8]].concat(), false),
        ("ohttp_request", vec![0; 100_000], true),
        ("ohttp_keys", key.repeat(10_000), true),
        ("ohttp_keys", [0, 3, 0, 0xff, 0xff].repeat(10_000), true),
        ("aggregation_job_init_req", job(&[]), true),
        ("aggregation_job_init_req", job(&large_first), true),
        ("aggregation_job_init_req", [&[0; 5][..], &list].concat(), true),
        ("aggregation_job_init_req", [&[0; 5][..], &one_byte].concat(), true),
        ("collection_job_req", [&[2, 0, 0, 0, 0, 0, 0][..], &list].concat(), true),
        ("collection_job_req", [&[2, 0, 0, 0, 0, 0, 0][..], &one_byte].concat(), true),
        ("extensions", list, true),
        ("hpke_config_list", configs, false),
        ("aggregation_job_resp", finish.repeat(50_000), true),
        ("aggregation_job_resp", [&resp_first[..], &finish.repeat(50_000)].concat(), true),
        ("token_request_batch", [0, 1, 0].repeat(256), true),
        ("token_request_batch", [0, 1, 0].repeat(257), false),
        ("issuer_answer_batch", [1, 1, 144].repeat(256), true),
        ("issuer_answer_batch", [1, 1, 144].repeat(50_000), false),
        ("upload_errors", [0; 17].repeat(50_000), true),
        ("recipe", labelled.into_bytes(), true),
        ("recipe", buffered("0", 31_500), false),
        ("recipe", buffered("[]", 21_000), false),
        ("recipe", buffered("\"a\"", 15_800), false),
        ("recipe", buffered("{\"\":0}", 7_900), false),
        ("recipe", buffered("[0]", 15_800), false),
        ("recipe", buffered(&["[".repeat(100), "]".repeat(100)].join("0"), 310), false),
        ("upload_request", [&[0; 30][..], &ciphertext, &ciphertext].concat().repeat(9_000), true),
    ] {
        let decoder = sotto_testing::decoders::decoder(name).unwrap();
        let mut tally = Tally::default();
        observe(decoder, &message, &mut tally);
        assert_eq!(tally.decoded == 1, decodes, "{name}");
        println!(
            "{name:<30} worst case: {} bytes for {} ({:.1} x)",
            tally.most_allocated,
            message.len(),
            tally.most_allocated as f64 / message.len() as f64
        );
    }
}

/// The message in hexadecimal, or its start if it is long.
fn shown(message: &[u8]) -> String {
    let start = &message[..message.len().min(1_000)];
    format!("{} bytes: {}", message.len(), hex::encode(start))
}

fn pick<'a, T>(items: &'a [T], rng: &mut ChaCha8Rng) -> &'a T {
    &items[below(items.len(), rng)]
}

fn below(bound: usize, rng: &mut ChaCha8Rng) -> usize {
    (rng.next_u64() % bound as u64) as usize
}
