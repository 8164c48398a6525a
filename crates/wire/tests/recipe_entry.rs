//! Entries of the log: one kind, one content, one id.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_testing::arbitrary;
use sotto_wire::limits::{MAX_ENTRY_JSON_LEN, MAX_ENTRY_LEN};
use sotto_wire::{Entry, EntryId, EntryKind, Note, NoteSignature};

fn signed(text: &str, signers: &[&str]) -> Vec<u8> {
    let mut note = Note::new(text).unwrap();
    for signer in signers {
        note = note.with_signature(NoteSignature {
            name: signer.parse().unwrap(),
            key_id: [1, 2, 3, 4],
            signature: vec![7; 64],
        });
    }
    note.to_bytes()
}

fn text(json: &[u8]) -> &str {
    std::str::from_utf8(json).unwrap()
}

#[test]
fn entries_come_back() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    for _ in 0..100 {
        let recipe = arbitrary::recipe(&mut rng);
        let json = recipe.to_json();
        let bytes = signed(&Entry::text(EntryKind::Recipe, text(&json)), &["a.example"]);
        let entry = Entry::parse(&bytes).unwrap();
        assert_eq!(entry.kind(), EntryKind::Recipe);
        assert_eq!(entry.json().as_bytes(), json);
        assert_eq!(entry.id(), recipe.id());
        assert_eq!(entry.recipe(), Some(&recipe));
        assert_eq!((entry.key_set(), entry.result(), entry.receipt()), (None, None, None));
        assert_eq!(entry.to_bytes(), bytes);
        // Another signature gives another entry with the same id.
        let again = signed(entry.note().text(), &["a.example", "b.example"]);
        assert_ne!(again, bytes);
        assert_eq!(Entry::parse(&again).unwrap().id(), entry.id());

        let key_set = arbitrary::key_set(&mut rng);
        let bytes = signed(&Entry::text(EntryKind::KeySet, text(&key_set.to_json())), &["o"]);
        let entry = Entry::parse(&bytes).unwrap();
        assert_eq!((entry.key_set(), entry.id()), (Some(&key_set), key_set.id()));

        let result = arbitrary::population_result(&mut rng);
        let bytes = signed(&Entry::text(EntryKind::Result, text(&result.to_json())), &["l", "h"]);
        let entry = Entry::parse(&bytes).unwrap();
        assert_eq!((entry.result(), entry.id()), (Some(&result), result.id()));

        let receipt = arbitrary::receipt(&mut rng);
        let bytes = signed(&Entry::text(EntryKind::Receipt, text(&receipt.to_json())), &["o"]);
        let entry = Entry::parse(&bytes).unwrap();
        assert_eq!((entry.receipt(), entry.id()), (Some(&receipt), receipt.id()));
    }
}

#[test]
fn other_notes_are_no_entries() {
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let json = arbitrary::recipe(&mut rng).to_json();
    let json = text(&json);
    assert!(Entry::parse(&signed(&format!("sotto.recipe/v1\n{json}\n"), &["a"])).is_ok());
    for other in [
        format!("sotto.recipe/v2\n{json}\n"),
        format!("sotto.key_set/v1\n{json}\n"),
        format!("sotto.result/v1\n{json}\n"),
        format!("sotto.receipt/v1\n{json}\n"),
        format!("sotto.series/v1\n{json}\n"),
        format!("Sotto.recipe/v1\n{json}\n"),
        format!("sotto.recipe/v1 \n{json}\n"),
        format!("sotto.recipe/v1\n\n{json}\n"),
        format!("sotto.recipe/v1\n{json}\nmore\n"),
        format!("sotto.recipe/v1\n{json}\n{json}\n"),
        format!("sotto.recipe/v1\n{json} \n"),
        "sotto.recipe/v1\n".to_owned(),
        "sotto.recipe/v1\n{}\n".to_owned(),
        format!("{json}\n"),
    ] {
        assert!(Entry::parse(&signed(&other, &["a"])).is_err(), "{other}");
    }
    assert!(Entry::parse(format!("sotto.recipe/v1\n{json}\n").as_bytes()).is_err(), "unsigned");
}

/// The longest JSON fits into an entry with two signatures of the longest names.
#[test]
fn the_longest_json_fits_into_an_entry() {
    let names = ["l".repeat(255), "h".repeat(255)];
    let text = Entry::text(EntryKind::KeySet, &"x".repeat(MAX_ENTRY_JSON_LEN));
    let bytes = signed(&text, &[&names[0], &names[1]]);
    assert!(bytes.len() <= MAX_ENTRY_LEN, "{}", bytes.len());
    let long = signed(&"x\n".repeat(33_000), &["a"]);
    assert!(Entry::parse(&long).unwrap_err().to_string().contains("65,535"));
}

#[test]
fn ids_are_lower_case_hexadecimal() {
    let id = EntryId::of(b"abc");
    let shown = id.to_string();
    assert_eq!(shown, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(shown.parse(), Ok(id));
    for bad in ["", "ba", &shown.to_uppercase(), &shown[1..], &format!("{shown}0"), &"é".repeat(32)]
    {
        assert!(bad.parse::<EntryId>().is_err(), "{bad}");
    }
}
