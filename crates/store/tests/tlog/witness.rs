//! A log and its witness, from request to cosignature, and what each does when the other is wrong.

use std::fs;

use sotto_protocol::Moment;
use sotto_protocol::log::Reader;
use sotto_protocol::log::witnessing::{
    Claim, Cosigned, Halt, Next, Question, consume_witness_answer, consume_witness_checkpoint,
    produce_add_checkpoint, read_witness_checkpoint,
};
use sotto_store::{FolderFetch, LogDir, Staged, WitnessAnswer, WitnessDir, WitnessDirError};
use sotto_wire::{AddCheckpoint, Checkpoint, Note};

use crate::tlog::party::*;

fn ask(log: &mut LogDir, witness: &WitnessDir, staged: &Staged, from: u64) -> WitnessAnswer {
    let question = Question { size: staged.size, from };
    let proof = log.consistency(from, staged.size).unwrap();
    let request = produce_add_checkpoint(&question, proof, &staged.note);
    witness.add_checkpoint(&request.to_bytes(), &policy(), Moment(77)).unwrap()
}

fn next(staged: &Staged, from: u64, answer: &WitnessAnswer) -> Next {
    let question = Question { size: staged.size, from };
    let witness = key("witness.example").cosigner();
    consume_witness_answer(&question, &staged.note, &witness, answer.status, &answer.body)
}

/// What happens after the witness has shown what it stored.
fn inspected(
    log: &mut LogDir,
    guard: &WitnessDir,
    staged: &Staged,
    from: u64,
    claim: Claim,
) -> Next {
    let question = Question { size: staged.size, from };
    let stored = guard.stored(ORIGIN).unwrap().unwrap().to_bytes();
    let shown = read_witness_checkpoint(&stored, &key(ORIGIN).verifier()).unwrap();
    let own = (shown.size <= staged.size).then(|| {
        Reader::new(FolderFetch::new(log.public())).root_of_prefix(shown.size, staged.size).unwrap()
    });
    consume_witness_checkpoint(&question, claim, &shown, own)
}

fn witness(folder: &tempfile::TempDir) -> WitnessDir {
    WitnessDir::open(&folder.path().join("witness"), key("witness.example")).unwrap()
}

#[test]
fn a_witness_cosigns_growth_and_remembers() {
    let folder = folder();
    let mut log = open(&folder.path().join("log"));
    let mut guard = witness(&folder);
    let mut from = 0;
    for size in [4, 4, 9, 300] {
        let staged = log.stage(&results(from..size)).unwrap();
        let answer = ask(&mut log, &guard, &staged, from);
        assert_eq!(answer.status, 200);
        let Next::Cosigned(signature) = next(&staged, from, &answer) else { panic!("cosigned") };
        let note = staged.note.clone().with_signature(signature);
        let cosigned = Cosigned::new(note, &policy()).unwrap();
        assert_eq!(cosigned.time().unwrap().proven, 77);
        log.publish(&cosigned).unwrap();
        drop(guard);
        guard = witness(&folder);
        let stored = guard.stored(ORIGIN).unwrap().unwrap();
        assert_eq!(stored.text(), staged.note.text());
        from = size;
    }
}

#[test]
fn a_wrong_old_size_is_told_and_put_right() {
    let folder = folder();
    let mut log = open(&folder.path().join("log"));
    let guard = witness(&folder);
    let staged = append(&mut log, &results(0..5), 1).unwrap();
    assert_eq!(ask(&mut log, &guard, &staged, 0).status, 200);
    let staged = append(&mut log, &results(5..12), 1).unwrap();
    let answer = ask(&mut log, &guard, &staged, 0);
    let told = (answer.status, answer.media_type, answer.body.as_slice());
    assert_eq!(told, (409, "text/x.tlog.size", &b"5\n"[..]));
    assert_eq!(next(&staged, 0, &answer), Next::AskFrom(5));
    assert_eq!(ask(&mut log, &guard, &staged, 5).status, 200);
}

#[test]
fn a_log_that_was_set_back_halts() {
    let folder = folder();
    let guard = witness(&folder);
    let mut log = open(&folder.path().join("log"));
    let staged = append(&mut log, &results(0..9), 1).unwrap();
    assert_eq!(ask(&mut log, &guard, &staged, 0).status, 200);
    let mut restored = open(&folder.path().join("restored"));
    let staged = append(&mut restored, &results(0..5), 1).unwrap();
    let answer = ask(&mut restored, &guard, &staged, 0);
    let claim = Claim::Larger { seen: 9, signed: 5 };
    assert_eq!(next(&staged, 0, &answer), Next::Inspect(claim));
    let next = inspected(&mut restored, &guard, &staged, 0, claim);
    assert_eq!(next, Next::Halt(Halt::SetBack { seen: 9, signed: 5 }));
}

#[test]
fn a_log_whose_key_signs_another_tree_halts() {
    let folder = folder();
    let guard = witness(&folder);
    let mut log = open(&folder.path().join("log"));
    let staged = append(&mut log, &results(0..9), 1).unwrap();
    assert_eq!(ask(&mut log, &guard, &staged, 0).status, 200);
    let mut twin = open(&folder.path().join("twin"));
    let staged = append(&mut twin, &results(1..10), 1).unwrap();
    let answer = ask(&mut twin, &guard, &staged, 9);
    assert_eq!(answer.status, 409);
    let claim = Claim::OtherTree { size: 9 };
    assert_eq!(next(&staged, 9, &answer), Next::Inspect(claim));
    let halt = Next::Halt(Halt::Forked { size: 9 });
    assert_eq!(inspected(&mut twin, &guard, &staged, 9, claim), halt);
    let staged = append(&mut twin, &results(10..12), 1).unwrap();
    let answer = ask(&mut twin, &guard, &staged, 9);
    assert_eq!(answer.status, 422, "the proof leads from another tree");
    let claim = Claim::NotExtended { seen: 9 };
    assert_eq!(next(&staged, 9, &answer), Next::Inspect(claim));
    assert_eq!(inspected(&mut twin, &guard, &staged, 9, claim), halt);
}

#[test]
fn what_a_witness_says_counts_only_with_our_signature() {
    let folder = folder();
    let mut log = open(&folder.path().join("log"));
    let guard = witness(&folder);
    let staged = append(&mut log, &results(0..5), 1).unwrap();
    assert_eq!(ask(&mut log, &guard, &staged, 0).status, 200);
    let staged = append(&mut log, &results(5..9), 1).unwrap();
    // It shows a part of our own tree: that neither proves anything against us, nor that it has
    // seen no more.
    for claim in [Claim::Larger { seen: 1 << 40, signed: 9 }, Claim::OtherTree { size: 9 }] {
        let next = inspected(&mut log, &guard, &staged, 5, claim);
        assert!(matches!(&next, Next::Disputed(dispute) if dispute.claim == claim), "{next:?}");
    }
    // It claims that we do not extend its tree of size 5, which is ours.
    let claim = Claim::NotExtended { seen: 5 };
    assert!(matches!(inspected(&mut log, &guard, &staged, 5, claim), Next::Without(_)));
    let refused = WitnessAnswer { status: 422, media_type: "", body: Vec::new() };
    assert!(matches!(next(&staged, 0, &refused), Next::Without(_)), "all extend the empty tree");

    let root = Checkpoint::parse(staged.note.text()).unwrap().root;
    let text = Checkpoint::new(ORIGIN, 1 << 40, root).to_text();
    let foreign = text.replacen(ORIGIN, "other.example", 1);
    let sign = |text: &str, by: &str| Note::new(text).unwrap().with_signature(key(by).sign(text));
    let read = |note: &Note| read_witness_checkpoint(&note.to_bytes(), &key(ORIGIN).verifier());
    assert!(read(&sign(&text, ORIGIN)).is_ok());
    for bad in [
        Note::new(text.clone()).unwrap(),
        sign(&text, "other.example"),
        sign(&text, "witness.example"),
        sign(&foreign, ORIGIN),
        sign("no checkpoint\n", ORIGIN),
    ] {
        assert!(read(&bad).is_err(), "{bad:?}");
    }
    let mut forged = sign(&text, ORIGIN).signatures()[0].clone();
    forged.signature[3] ^= 1;
    assert!(read(&Note::new(text).unwrap().with_signature(forged)).is_err());
    assert!(read_witness_checkpoint(b"", &key(ORIGIN).verifier()).is_err());
}

#[test]
fn each_wrong_request_has_its_status() {
    let folder = folder();
    let guard = witness(&folder);
    let mut log = open(&folder.path().join("log"));
    let staged = append(&mut log, &results(0..9), 1).unwrap();
    let request = |old_size, proof, checkpoint| AddCheckpoint { old_size, proof, checkpoint };
    let status = |request: &AddCheckpoint| {
        guard.add_checkpoint(&request.to_bytes(), &policy(), Moment(1)).unwrap().status
    };
    let resign =
        |text: &str, name: &str| Note::new(text).unwrap().with_signature(key(name).sign(text));
    let text = staged.note.text();
    let foreign = text.replacen(ORIGIN, "other.example", 1);
    assert_eq!(status(&request(0, vec![], resign(&foreign, "other.example"))), 404);
    assert_eq!(status(&request(0, vec![], resign(text, "other.example"))), 403);
    let mut forged = staged.note.signatures()[0].clone();
    forged.signature[3] ^= 1;
    assert_eq!(status(&request(0, vec![], Note::new(text).unwrap().with_signature(forged))), 403);
    assert_eq!(status(&request(10, vec![], staged.note.clone())), 400);
    assert_eq!(status(&request(3, vec![], staged.note.clone())), 409);
    let hash = Checkpoint::parse(text).unwrap().root;
    assert_eq!(status(&request(0, vec![hash], staged.note.clone())), 422);
    assert!(guard.stored(ORIGIN).unwrap().is_none(), "nothing wrong was stored");
    assert_eq!(guard.add_checkpoint(b"old x\n", &policy(), Moment(1)).unwrap().status, 400);
    assert_eq!(status(&request(0, vec![], staged.note.clone())), 200);
    assert_eq!(status(&request(9, vec![], staged.note.clone())), 200);
    assert_eq!(status(&request(9, vec![hash], staged.note)), 422);
}

#[test]
fn a_witness_keeps_one_signature_per_known_key() {
    let folder = folder();
    let guard = witness(&folder);
    let mut log = open(&folder.path().join("log"));
    let staged = append(&mut log, &results(0..9), 1).unwrap();
    let line = staged.note.signatures()[0].clone();
    let mut note = staged.note.clone();
    for _ in 0..30 {
        let mut strange = line.clone();
        strange.key_id = [1; 4];
        note = note.with_signature(strange).with_signature(line.clone());
    }
    let request = AddCheckpoint { old_size: 0, proof: vec![], checkpoint: note };
    let answer = guard.add_checkpoint(&request.to_bytes(), &policy(), Moment(1)).unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(guard.stored(ORIGIN).unwrap().unwrap().signatures().len(), 2);
}

#[test]
fn a_damaged_memory_is_not_taken_for_none() {
    let folder = folder();
    let guard = witness(&folder);
    let mut log = open(&folder.path().join("log"));
    let staged = append(&mut log, &results(0..9), 1).unwrap();
    assert_eq!(ask(&mut log, &guard, &staged, 0).status, 200);
    let stored = fs::read_dir(folder.path().join("witness")).unwrap();
    let mut stored = stored.map(|file| file.unwrap().path().join("checkpoint"));
    let path = stored.find(|path| path.is_file()).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    for bad in [String::new(), good[..40].to_owned(), good.replacen("\n9\n", "\n8\n", 1)] {
        fs::write(&path, bad).unwrap();
        let request = produce_add_checkpoint(&Question { size: 9, from: 0 }, vec![], &staged.note);
        let answer = guard.add_checkpoint(&request.to_bytes(), &policy(), Moment(1));
        assert!(matches!(answer, Err(WitnessDirError::Damaged(_))), "{answer:?}");
    }
}

#[test]
fn an_answer_with_a_foreign_or_wrong_cosignature_is_none() {
    let folder = folder();
    let mut log = open(&folder.path().join("log"));
    let staged = append(&mut log, &results(0..9), 1).unwrap();
    let answer = |name: &str, text: &str, status| {
        let line = key(name).cosign(text, 5);
        let body = sotto_wire::NoteSignature::to_lines(&[line]);
        next(&staged, 0, &WitnessAnswer { status, media_type: "", body })
    };
    let text = staged.note.text();
    assert!(matches!(answer("witness.example", text, 200), Next::Cosigned(_)));
    assert!(matches!(answer("witness.example", text, 500), Next::Without(_)));
    assert!(matches!(answer("witness.example", "another\n1\n\n", 200), Next::Without(_)));
    assert!(matches!(answer("other.example", text, 200), Next::Without(_)));
}
