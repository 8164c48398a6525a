use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_wire::{Checkpoint, KeyName, TlogPolicy, TlogProof, TreeHash};

use super::*;
use crate::Secret;
use crate::merkle::{TileBuilder, TileHashes, leaf_hash, prove_inclusion};

/// A real checkpoint, signed by its log and cosigned by four witnesses whose keys are known.
const CHECKPOINT: &[u8] = include_bytes!("../../../wire/tests/data/checkpoint.txt");

const REAL_POLICY: &str = "
log arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f
witness remora remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2
witness stagemole witness.stagemole.eu+67f7aea0+BEqSG3yu9YrmcM3BHvQYTxwFj3uSWakQepafafpUqklv
witness garden transparency.dev/DEV:witness-little-garden+d8042a87+BCtusOxINQNUTN5Oj8HObRkh2yHf/MwYaGX4CPdiVEPM
witness smartit witness1.smartit.nu/witness1+a48c820f+BPSFWg9G6KPiO7QPryYO5Xq4oYJJ+kAvLKLSimDhoxMO
group all all remora stagemole garden smartit
quorum all
";

fn name(name: &str) -> KeyName {
    name.parse().unwrap()
}

fn key(key_name: &str, seed: u64) -> NoteKey {
    NoteKey::generate(name(key_name), &mut ChaCha20Rng::seed_from_u64(seed))
}

/// A log with three witnesses, two of which form a quorum.
struct World {
    log: NoteKey,
    witnesses: [NoteKey; 3],
    policy: TlogPolicy,
    text: String,
}

impl World {
    fn new() -> Self {
        let log = key("log.example", 1);
        let witnesses = [key("w.example/a", 2), key("w.example/b", 3), key("w.example/c", 4)];
        let lines: String = ["a", "b", "c"]
            .iter()
            .zip(&witnesses)
            .map(|(name, key)| format!("witness {name} {}\n", key.cosigner()))
            .collect();
        let log_key = log.verifier();
        let text = format!("log {log_key}\n{lines}group g 2 a b c\nquorum g\n");
        let policy = TlogPolicy::parse(&text).unwrap();
        let text = Checkpoint::new("log.example", 5, TreeHash([9; 32])).to_text();
        Self { log, witnesses, policy, text }
    }

    fn signed(&self) -> Note {
        Note::new(&*self.text).unwrap().with_signature(self.log.sign(&self.text))
    }

    fn cosigned(&self, times: &[(usize, u64)]) -> Note {
        times.iter().fold(self.signed(), |note, (witness, time)| {
            note.with_signature(self.witnesses[*witness].cosign(&self.text, *time))
        })
    }
}

#[test]
fn known_signature() {
    let seed = "810a1402d5146c8d84f2443330f54080ebf98ee17d9c74f6252fc5d5c7283173";
    let seed = hex::decode(seed).unwrap().try_into().unwrap();
    let key = NoteKey::from_seed(name("PeterNeumann"), Secret::new(seed));
    let vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    assert_eq!(key.verifier().to_string(), vkey);
    let text = "If you think cryptography is the answer to your problem,\n\
                then you don't know what your problem is.\n";
    let signature = key.sign(text);
    assert_eq!(
        signature.to_string(),
        "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    );
    let note = Note::new(text).unwrap().with_signature(signature);
    assert_eq!(verify(&note, &key.verifier()), Ok(()));
    assert_eq!(format!("{key:?}"), "NoteKey { name: KeyName(\"PeterNeumann\"), .. }");
}

#[test]
fn real_checkpoint() {
    let policy = TlogPolicy::parse(REAL_POLICY).unwrap();
    let note = Note::parse(CHECKPOINT).unwrap();
    let verified = verify_checkpoint(&note, &policy).unwrap();
    assert_eq!(verified.checkpoint.size, 1_432_088_532);
    assert_eq!(verified.log, policy.logs()[0].key);
    let time = 0x6a12_2120;
    assert_eq!(verified.times.len(), 4);
    assert!(verified.times.values().all(|other| *other == time));
    let times = QuorumTime { newest: time, proven: time, fresh: time };
    assert_eq!(verified.quorum, Some(times));
    assert_eq!(quorum(&note, &policy), Ok(times));

    // One digit of the size is changed: neither the log nor a witness has signed that.
    let changed =
        String::from_utf8(CHECKPOINT.to_vec()).unwrap().replace("1432088532", "1432088533");
    let changed = Note::parse(changed.as_bytes()).unwrap();
    assert_eq!(verify_log(&changed, &policy), Err(NoteError::Bad));
    assert_eq!(quorum(&changed, &policy), Err(NoteError::Bad));
}

#[test]
fn unknown_keys_are_ignored() {
    let world = World::new();
    let log_key = world.log.verifier();
    let note = Note::new(&*world.text).unwrap();
    assert_eq!(verify(&note, &log_key), Err(NoteError::Missing));
    // The same name with another key, the same key under another name, and another type.
    let stranger = key("log.example", 99);
    let note = note
        .with_signature(stranger.sign(&world.text))
        .with_signature(NoteSignature { name: name("other"), ..world.log.sign(&world.text) })
        .with_signature(world.log.cosign(&world.text, 7))
        .with_signature(NoteSignature {
            name: name("log.example"),
            key_id: [1, 2, 3, 4],
            signature: vec![0; 3],
        });
    assert_eq!(verify(&note, &log_key), Err(NoteError::Missing));
    assert_eq!(verify_log(&note, &world.policy), Err(NoteError::Missing));
    let note = note.with_signature(world.log.sign(&world.text));
    assert_eq!(verify(&note, &log_key), Ok(()));
    assert_eq!(verify_log(&note, &world.policy).unwrap().size, 5);
}

#[test]
fn a_bad_signature_by_a_known_key_spoils_the_note() {
    let world = World::new();
    let good = world.log.sign(&world.text);
    for spoil in [
        |signature: &mut Vec<u8>| signature[0] ^= 1,
        |signature: &mut Vec<u8>| signature[63] ^= 0x10,
        |signature: &mut Vec<u8>| signature.truncate(63),
        |signature: &mut Vec<u8>| signature.push(0),
        |signature: &mut Vec<u8>| signature.clear(),
    ] {
        let mut bad = good.clone();
        spoil(&mut bad.signature);
        let note = Note::new(&*world.text).unwrap();
        // Alone, and on either side of a good one by the same key.
        for signatures in [vec![&bad], vec![&good, &bad], vec![&bad, &good]] {
            let note = signatures
                .into_iter()
                .fold(note.clone(), |note, signature| note.with_signature(signature.clone()));
            assert_eq!(verify(&note, &world.log.verifier()), Err(NoteError::Bad));
            assert_eq!(verify_log(&note, &world.policy), Err(NoteError::Bad));
        }
    }
    let other = Note::new("other\n").unwrap().with_signature(good.clone());
    assert_eq!(verify(&other, &world.log.verifier()), Err(NoteError::Bad));
    // The same signature twice counts as one.
    let twice = world.signed().with_signature(good);
    assert_eq!(verify(&twice, &world.log.verifier()), Ok(()));
}

#[test]
fn verification_is_strict() {
    // A key of small order: this signature verifies for every text.
    let mut identity = [0; 32];
    identity[0] = 1;
    let weak = VerifierKey::new(name("weak"), KeyType::Ed25519, identity);
    let signature = [identity, [0; 32]].concat();
    let note = Note::new("any text\n").unwrap().with_signature(NoteSignature {
        name: name("weak"),
        key_id: weak.key_id(),
        signature,
    });
    assert_eq!(verify(&note, &weak), Err(NoteError::Bad));

    // An alternative form of a good signature: its scalar plus the order of the group.
    let world = World::new();
    let mut second = world.log.sign(&world.text);
    let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut carry = 0;
    for (byte, add) in second.signature[32..].iter_mut().zip(order.unwrap()) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    let note = Note::new(&*world.text).unwrap().with_signature(second);
    assert_eq!(verify(&note, &world.log.verifier()), Err(NoteError::Bad));

    // Bytes that are not a point on the curve.
    let nowhere = VerifierKey::new(name("nowhere"), KeyType::Ed25519, [2; 32]);
    let note = Note::new("any text\n").unwrap().with_signature(NoteSignature {
        name: name("nowhere"),
        key_id: nowhere.key_id(),
        signature: vec![0; 64],
    });
    assert_eq!(verify(&note, &nowhere), Err(NoteError::Bad));
}

#[test]
fn key_types_do_not_mix() {
    let world = World::new();
    let note = world.cosigned(&[(0, 7)]);
    let witness = &world.witnesses[0];
    assert_eq!(cosignature_time(&note, &witness.cosigner()), Ok(7));
    assert_eq!(verify(&note, &witness.cosigner()), Err(NoteError::WrongKeyType));
    assert_eq!(cosignature_time(&note, &witness.verifier()), Err(NoteError::WrongKeyType));
    assert_eq!(verify(&note, &witness.verifier()), Err(NoteError::Missing));
    assert_eq!(cosignature_time(&note, &world.log.cosigner()), Err(NoteError::Missing));
}

#[test]
fn cosignatures_bind_their_time_and_the_whole_text() {
    let world = World::new();
    let witness = &world.witnesses[0];
    let check = |text: &str, signature: NoteSignature| {
        let note = Note::new(text).unwrap().with_signature(signature);
        cosignature_time(&note, &witness.cosigner())
    };
    let good = witness.cosign(&world.text, 1000);
    assert_eq!(good.signature[..8], 1000u64.to_be_bytes());
    assert_eq!(check(&world.text, good.clone()), Ok(1000));
    let extended = format!("{}extension\n", world.text);
    assert_eq!(check(&extended, good.clone()), Err(NoteError::Bad));
    for spoil in [
        |signature: &mut Vec<u8>| signature[7] ^= 1,
        |signature: &mut Vec<u8>| signature[0] ^= 0x80,
        |signature: &mut Vec<u8>| signature[8] ^= 1,
        |signature: &mut Vec<u8>| signature.truncate(71),
        |signature: &mut Vec<u8>| signature.truncate(7),
        |signature: &mut Vec<u8>| signature.push(0),
    ] {
        let mut bad = good.clone();
        spoil(&mut bad.signature);
        assert_eq!(check(&world.text, bad), Err(NoteError::Bad));
    }
    // No time beyond the format's limit, even if it is signed.
    let last = witness.cosign(&world.text, u64::MAX);
    assert_eq!(check(&world.text, last), Ok(i64::MAX as u64));
    let beyond = 1u64 << 63;
    let message = cosigned_message(&world.text, beyond);
    let signature = [&beyond.to_be_bytes()[..], &witness.sign(&message).signature].concat();
    assert_eq!(check(&world.text, NoteSignature { signature, ..good }), Err(NoteError::Bad));
}

#[test]
fn quorums_and_their_times() {
    let world = World::new();
    let times = |newest, proven, fresh| Ok(QuorumTime { newest, proven, fresh });
    for (cosigned, expected) in [
        (&[][..], Err(NoteError::NoQuorum)),
        (&[(0, 10)], Err(NoteError::NoQuorum)),
        (&[(0, 10), (0, 11)], Err(NoteError::NoQuorum)),
        (&[(0, 10), (1, 20)], times(20, 20, 10)),
        (&[(2, 30), (0, 10), (1, 20)], times(30, 20, 20)),
        // Cosigned again: the old time proves age, the new one freshness.
        (&[(0, 10), (1, 20), (0, 90), (1, 95)], times(95, 20, 90)),
        (&[(0, 10), (1, 20), (2, 99)], times(99, 20, 20)),
    ] {
        let note = world.cosigned(cosigned);
        assert_eq!(quorum(&note, &world.policy), expected, "{cosigned:?}");
        let verified = verify_checkpoint(&note, &world.policy);
        assert_eq!(verified.clone().map(|checkpoint| checkpoint.quorum.unwrap()), expected);
        if let Ok(verified) = verified {
            let newest = verified.times.values().max();
            assert_eq!(newest, Some(&expected.unwrap().newest));
            assert_eq!(verified.times.get("a"), cosigned.iter().rfind(|c| c.0 == 0).map(|c| &c.1));
        }
    }
    let note = world.cosigned(&[(0, 10), (1, 90), (1, 20)]);
    let times = cosignature_times(&note, &world.witnesses[1].cosigner());
    assert_eq!(times, Ok(CosignatureTimes { oldest: 20, newest: 90 }));
    assert_eq!(cosignature_time(&note, &world.witnesses[1].cosigner()), Ok(90));

    // One bad cosignature by a known witness invalidates a quorum of others.
    let mut bad = world.witnesses[2].cosign(&world.text, 30);
    bad.signature[20] ^= 1;
    let note = world.cosigned(&[(0, 10), (1, 20)]).with_signature(bad);
    assert_eq!(quorum(&note, &world.policy), Err(NoteError::Bad));
    // Without the log's signature, a quorum is not enough.
    let unsigned = Note::new(&*world.text)
        .unwrap()
        .with_signature(world.witnesses[0].cosign(&world.text, 1))
        .with_signature(world.witnesses[1].cosign(&world.text, 2));
    assert!(quorum(&unsigned, &world.policy).is_ok());
    assert_eq!(verify_checkpoint(&unsigned, &world.policy), Err(NoteError::Missing));
}

#[test]
fn a_policy_without_witnesses_proves_no_time() {
    let world = World::new();
    let text = format!("log {}\nquorum none\n", world.log.verifier());
    let policy = TlogPolicy::parse(&text).unwrap();
    let note = world.cosigned(&[(0, 10), (1, 20)]);
    assert_eq!(quorum(&note, &policy), Err(NoteError::NoTime));
    let verified = verify_checkpoint(&note, &policy).unwrap();
    assert!(verified.quorum.is_none() && verified.times.is_empty());
}

#[test]
fn a_log_speaks_for_itself_alone() {
    let world = World::new();
    let other = key("other.example", 50);
    let lines = format!("log {}\nlog {}\nquorum none\n", world.log.verifier(), other.verifier());
    let policy = TlogPolicy::parse(&lines).unwrap();
    let note = Note::new(&*world.text).unwrap().with_signature(other.sign(&world.text));
    assert_eq!(verify_log(&note, &policy), Err(NoteError::Missing));
    let text = Checkpoint::new("third.example", 5, TreeHash([9; 32])).to_text();
    let note = Note::new(&*text).unwrap().with_signature(world.log.sign(&text));
    assert_eq!(verify_log(&note, &policy), Err(NoteError::UnknownLog));
    let note = Note::new("log.example\n").unwrap().with_signature(world.log.sign("log.example\n"));
    assert!(matches!(verify_log(&note, &policy), Err(NoteError::NotACheckpoint(_))));

    // Two keys of one log during a key change.
    let new_key = key("log.example", 51);
    let lines = format!("log {}\nlog {}\nquorum none\n", world.log.verifier(), new_key.verifier());
    let policy = TlogPolicy::parse(&lines).unwrap();
    let note = Note::new(&*world.text).unwrap().with_signature(new_key.sign(&world.text));
    assert_eq!(verify_checkpoint(&note, &policy).unwrap().log, new_key.verifier());
}

#[test]
fn whole_proofs() {
    let mut world = World::new();
    let mut builder = TileBuilder::new();
    let entry = |index: u64| leaf_hash(format!("entry {index}").as_bytes());
    (0..200).for_each(|index| drop(builder.push(entry(index))));
    let checkpoint = Checkpoint::new("log.example", builder.size(), builder.root());
    world.text = checkpoint.to_text();
    let tiles: Vec<_> = builder.partial_tiles().collect();
    let read =
        |path| tiles.iter().find(|tile| tile.path == path).map(|tile| tile.to_bytes()).ok_or(());
    let hashes = prove_inclusion(77, 200, &mut TileHashes::new(200, read)).unwrap();
    let note = world.cosigned(&[(0, 10), (2, 20)]);
    let proof = TlogProof { extra: None, index: 77, hashes, checkpoint: note };
    let proof = TlogProof::parse(&proof.to_bytes()).unwrap();
    let verified = verify_proof(&entry(77), &proof, &world.policy).unwrap();
    assert_eq!(verified.checkpoint, checkpoint);

    let refused = Err(NoteError::Proof(ProofError));
    let check = |leaf, proof: &TlogProof| verify_proof(&leaf, proof, &world.policy).map(|_| ());
    assert_eq!(check(entry(78), &proof), refused);
    assert_eq!(check(entry(77), &TlogProof { index: 76, ..proof.clone() }), refused);
    assert_eq!(check(entry(77), &TlogProof { hashes: vec![], ..proof.clone() }), refused);
    let one = TlogProof { checkpoint: world.cosigned(&[(0, 10)]), ..proof };
    assert_eq!(check(entry(77), &one), Err(NoteError::NoQuorum));
}
