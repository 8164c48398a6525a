//! `sotto log verify`.

use std::fs;

use serde_json::Value;
use sotto_wire::{Checkpoint, Entry, Note, NoteSignature, TlogProof};

use crate::flat;
use crate::log::entries::{ORIGIN, claiming, key, key_of, now, recipe, recipe_entry};
use crate::log::folder::{Folder, LOG, Run, forge, policy, publish, signed};

/// Verifies `one.recipe`, by the proof beside it unless the arguments say otherwise.
fn verify(world: &Folder, more: &[&str]) -> Run {
    world.run(&[&["log", "verify", "one.recipe", "--policy", "policy"], more].concat())
}

/// An honest log of two recipes, and the first of them with its proof.
fn two() -> (Folder, Entry) {
    let one = recipe_entry(&recipe("one"));
    let world = Folder::with(&[one.clone(), recipe_entry(&recipe("two"))]);
    world.write_proof("one", &one);
    (world, one)
}

/// The verdict and words of one finding.
fn finding(found: &Value, what: &str) -> (String, String) {
    let lines = found["findings"].as_array().unwrap();
    let line = lines.iter().find(|line| line["check"] == what);
    let line = line.unwrap_or_else(|| panic!("no {what}: {found}"));
    let text = |field: &str| line[field].as_str().unwrap().to_owned();
    (text("verdict"), text("words"))
}

/// The remembered checkpoint.
fn remembered(world: &Folder) -> Checkpoint {
    let files = fs::read_dir(world.path("home/sotto/checkpoints")).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let [path]: [_; 1] = files.collect::<Vec<_>>().try_into().unwrap();
    Checkpoint::parse(Note::parse(&fs::read(path).unwrap()).unwrap().text()).unwrap()
}

/// The names of the remembered proofs.
pub(super) fn proofs(world: &Folder) -> Vec<String> {
    let memory = world.run(&["log", "memory", "--json"]).json(0);
    let proofs = memory["misbehaviour"].as_array().unwrap().iter();
    proofs.map(|proof| proof["name"].as_str().unwrap().to_owned()).collect()
}

/// A second view of the log of [`two`], in the folder `fork`: the same size, another second entry.
fn forked(world: &Folder, one: &Entry) -> Run {
    forge(&world.path("fork"), &[one.clone(), recipe_entry(&recipe("three"))]);
    world.run(&["log", "verify", "one", "--policy", "policy", "--log", "fork", "--json"])
}

/// The proof of `one.recipe` under another checkpoint note.
fn reproof(world: &Folder, change: impl FnOnce(&Note) -> Note) {
    let mut proof = TlogProof::parse(&world.read("one.proof")).unwrap();
    proof.checkpoint = change(&proof.checkpoint);
    world.write("one.proof", proof.to_bytes());
}

/// The note with the signature of `name` changed.
fn spoiled(note: &Note, name: &str) -> Note {
    let spoil = |signature: &NoteSignature| {
        let mut signature = signature.clone();
        if signature.name.as_str() == name {
            *signature.signature.last_mut().unwrap() ^= 1;
        }
        signature
    };
    let signatures = note.signatures().iter().map(spoil);
    signatures.fold(Note::new(note.text()).unwrap(), Note::with_signature)
}

#[test]
fn a_recipe_is_verified_offline() {
    let (world, entry) = two();
    let said = verify(&world, &["--proof", "one.proof"]).says(0);
    assert!(said.contains("ok   signed      by author.example"), "{said}");
    assert!(said.contains("ok   included    leaf 0 of 2"), "{said}");
    assert!(said.contains("ok   log         log.example, by its key"), "{said}");
    assert!(said.contains("ok   witnessed   2 of 2: w0, w1; public since 20"), "{said}");
    assert!(said.contains("     consistent  this log was not seen before"), "{said}");
    let promise = "recomputed, within the claim; nothing below 5000 reports";
    assert!(flat(&said).contains(promise), "{said}");
    assert!(said.contains("\nVerified: public, and within the limits above."), "{said}");

    // The log is gone, and the proof is the one beside the entry.
    fs::remove_dir_all(world.path("data")).unwrap();
    let found = verify(&world, &["--json"]).json(0);
    assert_eq!(found["verdict"], "ok");
    assert_eq!(found["recipe_id"], entry.id().to_string());
    assert_eq!(found["index"], 0);
    assert_eq!(found["misbehaviour_files"], Value::Array(Vec::new()));
    let ok = |words: &str| ("ok".to_owned(), words.to_owned());
    assert_eq!(finding(&found, "included"), ok("leaf 0 of 2"));
    assert_eq!(finding(&found, "consistent"), ok("with size 2, seen before"));

    // A trust file tells more than a policy: what its devices would do.
    let by_trust = ["log", "verify", "one.recipe", "--trust", "trust.toml", "--json"];
    let found = world.run(&by_trust).json(0);
    assert_eq!(finding(&found, "device"), ok("within the limits of the trust file"));
    world.trust(|trust| trust.floors.dishonest_devices = 5_000);
    let (verdict, words) = finding(&world.run(&by_trust).json(0), "device");
    assert_eq!(verdict, "note");
    assert!(words.starts_with("would stay silent: floors: "), "{words}");
}

#[test]
fn a_recipe_is_verified_from_the_log() {
    let (world, entry) = two();
    let id = entry.id().to_string();
    let json = String::from_utf8(recipe("one").to_json()).unwrap();
    world.write("one.json", json);
    for subject in [&id, "one", "one.recipe", "one.json"] {
        let found = world
            .run(&["log", "verify", subject, "--policy", "policy", "--log", LOG, "--json"])
            .json(0);
        assert_eq!((&found["recipe_id"], &found["index"]), (&id.as_str().into(), &0.into()));
    }
}

#[test]
fn what_is_proved_bad_ends_with_1() {
    let (world, entry) = two();
    // Still a recipe in canonical form, but not the signed one.
    let text = String::from_utf8(entry.to_bytes()).unwrap();
    world.write("one.recipe", text.replacen("How many devices", "How busy devices", 1));
    let found = verify(&world, &["--json"]).json(1);
    assert_eq!(found["verdict"], "bad");
    assert_eq!(finding(&found, "signed").0, "bad");
    assert_eq!(finding(&found, "included").0, "bad");

    // The proof of another entry.
    world.write_proof("one", &entry);
    world.write_proof("two", &recipe_entry(&recipe("two")));
    let found = verify(&world, &["--proof", "two.proof", "--json"]).json(1);
    assert_eq!(finding(&found, "signed").0, "ok");
    assert_eq!(finding(&found, "included").0, "bad");

    reproof(&world, |note| spoiled(note, ORIGIN));
    let found = verify(&world, &["--json"]).json(1);
    assert_eq!(finding(&found, "log").0, "bad");
    world.write_proof("one", &entry);
    reproof(&world, |note| spoiled(note, "witness-1.example"));
    let found = verify(&world, &["--json"]).json(1);
    assert_eq!(finding(&found, "witnessed").0, "bad");
    // None of this is the fault of the author or the log.
    assert!(world.evidence(".").is_empty());
}

/// Who is to blame, and whom nothing speaks against.
fn blame(found: &Value) -> [String; 2] {
    let list = |field: &str| {
        let parties = found[field].as_array().unwrap_or_else(|| panic!("no {field}: {found}"));
        parties.iter().map(|party| party.as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    ["blame", "not_blamed"].map(list)
}

#[test]
fn the_verdict_says_who_is_to_blame_and_who_is_not() {
    let (world, entry) = two();
    let found = verify(&world, &["--json"]).json(0);
    assert_eq!(blame(&found), ["", "file author log operator"]);
    // A changed file, whatever was changed: neither its author nor the log did that.
    let text = String::from_utf8(entry.to_bytes()).unwrap();
    let only_the_file = ["file", "author log operator"];
    world.write("one.recipe", text.replacen("How many devices", "How busy devices", 1));
    assert_eq!(blame(&verify(&world, &["--json"]).json(1)), only_the_file);
    // A changed claim is not the author's promise.
    let Some((before, claim)) = text.split_once("\"epsilon_micro\":") else { panic!("{text}") };
    let digits = claim.bytes().take_while(u8::is_ascii_digit).count();
    world.write("one.recipe", format!("{before}\"epsilon_micro\":1{}", &claim[digits..]));
    let found = verify(&world, &["--json"]).json(1);
    assert_eq!(finding(&found, "promise").0, "bad");
    assert_eq!(blame(&found), only_the_file);
    for signer in [ORIGIN, "witness-1.example"] {
        world.write_proof("one", &entry);
        reproof(&world, |note| spoiled(note, signer));
        assert_eq!(blame(&verify(&world, &["--json"]).json(1)), only_the_file);
    }
    // What cannot be told is nobody's fault.
    reproof(&world, |note| signed(note.text(), 1, now()));
    let found = verify(&world, &["--json"]).json(2);
    assert_eq!(blame(&found), ["", "file author log operator"]);
    let said = verify(&world, &[]).says(2);
    assert!(flat(&said).ends_with("Nothing is proved against anybody."), "{said}");

    // A promise that is not kept.
    let author = recipe_entry(&claiming(recipe("one"), 0.99));
    let world = Folder::with(std::slice::from_ref(&author));
    world.write_proof("one", &author);
    let found = verify(&world, &["--json"]).json(1);
    assert_eq!(blame(&found), ["author", "file log operator"]);
    let said = verify(&world, &[]).says(1);
    let lines = "To blame: the author author.example. Nothing here speaks against this file, \
                 the log log.example, the operators leader.example and helper.example.";
    assert!(flat(&said).contains(lines), "{said}");

    // A fork, when it is found and when it is remembered.
    let (world, one) = two();
    verify(&world, &[]).says(0);
    let found = forked(&world, &one).json(1);
    assert_eq!(blame(&found), ["log", "file author operator"]);
    assert_eq!(blame(&verify(&world, &["--json"]).json(1)), ["log", "file author operator"]);
    let [evidence]: [String; 1] = world.evidence(".").try_into().unwrap();
    let found = world.run(&["log", "verify", "--misbehaviour", &evidence, "--json"]).json(1);
    assert_eq!(found["blame"], serde_json::json!(["log"]));

    // A log that published what its author did not sign.
    let text = text.replacen("How many devices", "How busy devices", 1);
    let unsigned = Entry::parse(text.as_bytes()).unwrap();
    let world = Folder::new();
    forge(&world.path("fork"), &[unsigned]);
    let found =
        world.run(&["log", "verify", "one", "--policy", "policy", "--log", "fork", "--json"]);
    assert_eq!(blame(&found.json(1)), ["log", "file author operator"]);
}

#[test]
fn what_cannot_be_told_ends_with_2() {
    let (world, entry) = two();
    reproof(&world, |note| signed(note.text(), 1, now()));
    let found = verify(&world, &["--json"]).json(2);
    assert_eq!(found["verdict"], "unknown");
    let (verdict, words) = finding(&found, "witnessed");
    assert_eq!(verdict, "unknown");
    assert!(words.starts_with("1 of 2: w0; missing: w1: "), "{words}");
    assert!(!world.path("home").exists(), "only what is believed is remembered");

    // A log that the policy does not know, or knows by another key.
    for stranger in [key("other.example"), key_of("somebody", ORIGIN)] {
        world.write_proof("one", &entry);
        let known = format!("log {}\n", key(ORIGIN).verifier());
        world.write("policy", policy().replace(&known, &format!("log {}\n", stranger.verifier())));
        let found = verify(&world, &["--json"]).json(2);
        assert_eq!(finding(&found, "log").0, "unknown");
    }
    world.write("policy", format!("log {}\nquorum none\n", key(ORIGIN).verifier()));
    let (verdict, words) = finding(&verify(&world, &["--json"]).json(2), "witnessed");
    assert_eq!((verdict.as_str(), words.as_str()), ("unknown", "the policy asks for no witness"));
}

#[test]
fn a_recipe_for_another_log_is_not_public_where_devices_look() {
    let mut other = recipe("one");
    other.parties.log = "other.example".to_owned();
    let world = Folder::with(&[recipe_entry(&other)]);
    world.write_proof("one", &recipe_entry(&other));
    let (verdict, words) = finding(&verify(&world, &["--json"]).json(2), "place");
    assert_eq!(verdict, "unknown");
    assert!(words.contains("for the log other.example"), "{words}");
}

#[test]
fn mistakes_are_explained() {
    let (world, _) = two();
    let failed = |arguments: &[&str]| world.run(&[&["log", "verify"], arguments].concat()).fails();
    let said = failed(&["one.recipe"]);
    assert!(
        said.contains("no trust policy is given") && said.contains("hint: give --policy"),
        "{said}"
    );
    let said = failed(&["one.recipe", "--policy", "policy", "--log", "http://127.0.0.1:1"]);
    assert!(said.contains("cannot read the log"), "{said}");
    let said = failed(&["one.recipe", "--policy", "policy", "--log", "nowhere"]);
    assert!(said.contains("no such folder"), "{said}");
    let said = failed(&["three", "--policy", "policy", "--log", LOG]);
    assert!(said.contains("the log has no recipe three"), "{said}");
    let said = failed(&["three", "--policy", "policy"]);
    assert!(said.contains("no proof is given"), "{said}");
    world.write("bad.proof", "c2sp.org/tlog-proof@v1\nnonsense\n");
    let said = failed(&["one.recipe", "--policy", "policy", "--proof", "bad.proof"]);
    assert!(said.contains("bad.proof is not a proof bundle"), "{said}");
    world.write("one.json", recipe("one").to_json());
    let said = failed(&["one.json", "--policy", "policy", "--proof", "one.proof"]);
    assert!(said.contains("is not signed"), "{said}");
    world.write("policy", "log nobody\n");
    assert!(failed(&["one.recipe", "--policy", "policy"]).contains("policy cannot be used"));
    // An unreachable log also gives one JSON value.
    let arguments = ["log", "verify", "one", "--policy", "policy", "--json"];
    assert!(world.run(&arguments).json(2)["error"].as_str().unwrap().contains("cannot be used"));
}

/// Checks the one misbehaviour file of a folder again, with no other input.
fn recheck(world: &Folder, folder: &str) -> (Value, String) {
    let files = world.evidence(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let elsewhere = Folder::new();
    elsewhere.write("evidence.json", world.read(&files[0]));
    let arguments = ["log", "verify", "--misbehaviour", "evidence.json"];
    let said = elsewhere.run(&arguments).says(1);
    assert!(said.starts_with("Proved: the "), "{said}");
    let found = elsewhere.run(&[&arguments[..], &["--json"]].concat()).json(1);
    assert_eq!(found["proved"], true);
    // A statement that nobody signed proves nothing.
    let text = String::from_utf8(world.read(&files[0])).unwrap();
    elsewhere.write("evidence.json", text.replace("log.example", "lag.example"));
    assert!(elsewhere.run(&arguments).says(2).starts_with("Not proved: "));
    elsewhere.write("evidence.json", text.replace("\"version\": 1", "\"version\": 2"));
    assert!(elsewhere.run(&arguments).fails().contains("unknown version 2"));
    (found, files[0].clone())
}

#[test]
fn a_claim_that_is_one_percent_too_low_is_misbehaviour() {
    let entry = recipe_entry(&claiming(recipe("one"), 0.99));
    let world = Folder::with(std::slice::from_ref(&entry));
    world.write_proof("one", &entry);
    let found = verify(&world, &["--out", "evidence", "--json"]).json(1);
    let (verdict, words) = finding(&found, "promise");
    assert_eq!(verdict, "bad");
    assert!(words.starts_with("claim: it claims epsilon ") && words.contains("imply"), "{words}");
    // Everything else is in order.
    for what in ["signed", "included", "log", "witnessed"] {
        assert_eq!(finding(&found, what).0, "ok", "{what}");
    }
    let (again, file) = recheck(&world, "evidence");
    assert_eq!(found["misbehaviour_files"], serde_json::json!([file]));
    let words = again["words"].as_str().unwrap();
    let author = key("author.example").verifier();
    let expected = format!("the author key {author} signed a recipe that fails: claim: ");
    assert!(words.starts_with(&expected), "{words}");
    // The text output says the same.
    assert!(verify(&world, &[]).says(1).ends_with("Bad. This is proved, not suspected.\n"));
}

#[test]
fn two_trees_of_one_size_are_misbehaviour() {
    let (world, one) = two();
    verify(&world, &[]).says(0);
    // Another second entry, and the same recipe in both views.
    forge(&world.path("fork"), &[one, recipe_entry(&recipe("three"))]);
    let found = verify(&world, &["--log", "fork", "--json"]).json(2);
    assert!(found["error"].as_str().unwrap().contains("holds no recipe"), "{found}");
    let by_name = ["log", "verify", "one", "--policy", "policy", "--log", "fork", "--json"];
    let found = world.run(&by_name).json(1);
    assert_eq!(finding(&found, "included").0, "ok");
    assert_eq!(finding(&found, "consistent").1, "two trees of 2 entries");
    let (again, _) = recheck(&world, ".");
    let log = key(ORIGIN).verifier();
    assert_eq!(again["words"], format!("the log key {log} signed two trees of 2 entries"));
    // The contradiction does not replace the remembered checkpoint: it is found again.
    world.run(&by_name).says(1);
    assert_eq!(finding(&verify(&world, &["--json"]).json(1), "consistent").0, "ok");
}

#[test]
fn what_was_proved_stays_the_answer_until_it_is_removed() {
    let (world, one) = two();
    verify(&world, &[]).says(0);
    assert_eq!(proofs(&world), [""; 0]);
    forked(&world, &one).says(1);
    // Offline, with the honest view: nothing that this view shows is wrong.
    let found = verify(&world, &["--json"]).json(1);
    assert_eq!(found["verdict"], "bad");
    let (verdict, words) = finding(&found, "remembered");
    let log = key(ORIGIN).verifier().to_string();
    let [name]: [String; 1] = proofs(&world).try_into().unwrap();
    assert_eq!(name, format!("{}.split-view", log.rsplit_once('+').unwrap().0));
    assert_eq!(verdict, "bad");
    assert!(words.starts_with(&format!("the log key {log} signed two trees of 2 ")), "{words}");
    assert!(words.ends_with(&format!("until `sotto log memory --remove {name}`")), "{words}");
    // The file in the memory is itself a proof. One is enough, however often it is found.
    let file = format!("home/sotto/checkpoints/misbehaviour/{name}");
    let checked = world.run(&["log", "verify", "--misbehaviour", &file]).says(1);
    assert!(flat(&checked).starts_with("Proved: the log key "), "{checked}");
    forked(&world, &one).says(1);
    assert_eq!(proofs(&world), [&*name]);
    let said = world.run(&["log", "memory"]).says(0);
    assert!(said.starts_with("in /") && said.contains("seen    log.example with 2"), "{said}");
    assert!(said.contains(&format!("proved  {name}\n          the log key\n")), "{said}");

    // Another memory knows nothing, nor does `--forget`.
    verify(&world, &["--forget"]).says(0);
    verify(&world, &["--remember", "elsewhere"]).says(0);
    // It is removed by its whole name only.
    let remove = |name: &str| world.run(&["log", "memory", "--remove", name, "--json"]);
    for wrong in ["log.example", "../misbehaviour", &file] {
        let error = remove(wrong).json(2)["error"].as_str().unwrap().to_owned();
        assert!(error.contains("there is no proof"), "{error}");
    }
    verify(&world, &[]).says(1);
    assert_eq!(remove(&name).json(0)["removed"], name);
    verify(&world, &[]).says(0);
    assert_eq!(proofs(&world), [""; 0]);

    // A proof from somebody else counts as well. A damaged one is an error, and can be removed.
    let [evidence, ..] = &world.evidence(".")[..] else { panic!("no proof") };
    world.run(&["log", "verify", "--misbehaviour", evidence]).says(1);
    verify(&world, &[]).says(1);
    world.write(&file, "nonsense");
    let said = verify(&world, &[]).fails();
    assert!(said.contains("is damaged") && said.contains("--remove"), "{said}");
    remove(&name).json(0);
    verify(&world, &[]).says(0);
}

#[test]
fn what_is_proved_about_an_author_does_not_spoil_other_recipes() {
    let bad = recipe_entry(&claiming(recipe("bad"), 0.99));
    let good = recipe_entry(&recipe("one"));
    let world = Folder::with(&[bad.clone(), good.clone()]);
    world.write_proof("bad", &bad);
    world.write_proof("one", &good);
    world.run(&["log", "verify", "bad.recipe", "--policy", "policy"]).says(1);
    let found = verify(&world, &["--json"]).json(0);
    let (verdict, words) = finding(&found, "remembered");
    assert_eq!(verdict, "note");
    assert_eq!(blame(&found), ["", "file log operator"]);
    assert!(words.contains("signed a recipe that fails: claim: "), "{words}");
    assert!(proofs(&world)[0].ends_with(".bad.bad-recipe"), "{:?}", proofs(&world));
}

#[test]
fn a_tree_that_does_not_begin_with_the_one_seen_before_is_misbehaviour() {
    let (world, one) = two();
    verify(&world, &[]).says(0);
    // In one step, so that it never had a tree of two entries; the first two are swapped.
    let others = ["two", "three", "four"].map(|name| recipe_entry(&recipe(name)));
    let [two, three, four] = others;
    forge(&world.path("fork"), &[two, one, three, four]);
    let by_name = ["log", "verify", "one", "--policy", "policy", "--log", "fork"];
    let said = world.run(&by_name).says(1);
    let words = "BAD  consistent  the tree of 4 entries does not begin with that of 2";
    assert!(said.contains(words), "{said}");
    let (again, _) = recheck(&world, ".");
    let log = key(ORIGIN).verifier();
    let words = format!(
        "the log key {log} signed a tree of 4 entries that does not begin with its tree of 2"
    );
    assert_eq!(again["words"], words);
    assert_eq!(remembered(&world).size, 2);
    // With `--forget` nothing is remembered.
    let said = world.run(&[&by_name[..], &["--forget"]].concat()).says(0);
    assert!(said.contains("not compared with earlier views"), "{said}");
}

#[test]
fn changed_tiles_prove_nothing() {
    let (world, one) = two();
    verify(&world, &[]).says(0);
    let mut log = world.log();
    publish(&mut log, &[recipe_entry(&recipe("three"))]);
    let tile = world.path(LOG).join("tile/0/000.p/3");
    let mut bytes = fs::read(&tile).unwrap();
    bytes[70] ^= 1;
    fs::write(&tile, bytes).unwrap();
    let found = verify(&world, &["--log", LOG, "--json"]).json(2);
    assert_eq!(found["recipe_id"], one.id().to_string());
    assert_eq!(finding(&found, "included").0, "unknown");
    assert_eq!(finding(&found, "consistent").0, "unknown");
    assert!(world.evidence(".").is_empty());
}

#[test]
fn the_remembered_checkpoint_only_moves_forward() {
    let (world, one) = two();
    verify(&world, &[]).says(0);
    assert_eq!(remembered(&world).size, 2);
    let mut log = world.log();
    publish(&mut log, &[recipe_entry(&recipe("three"))]);
    let found = verify(&world, &["--log", LOG, "--json"]).json(0);
    let agrees = ("ok".to_owned(), "with size 2, seen before".to_owned());
    assert_eq!(finding(&found, "consistent"), agrees);
    assert_eq!(remembered(&world).size, 3);
    // The old proof is still good. It is not compared, because that needs the log.
    let found = verify(&world, &["--json"]).json(0);
    assert_eq!(finding(&found, "consistent").0, "note");
    assert_eq!(remembered(&world).size, 3);
    // A log that shows fewer entries than before leaves the question open.
    forge(&world.path("back"), &[one, recipe_entry(&recipe("two"))]);
    let by_name = ["log", "verify", "one", "--policy", "policy", "--log", "back", "--json"];
    let (verdict, words) = finding(&world.run(&by_name).json(2), "consistent");
    assert_eq!(verdict, "unknown");
    assert!(words.starts_with("it has 2 entries, but had 3"), "{words}");
    assert_eq!(remembered(&world).size, 3);
    // Another folder is another memory. A damaged one is an error and is left unchanged.
    let found = verify(&world, &["--remember", "elsewhere", "--json"]).json(0);
    assert_eq!(finding(&found, "consistent").0, "note");
    let file = fs::read_dir(world.path("elsewhere")).unwrap().next().unwrap().unwrap().path();
    fs::write(&file, "nonsense").unwrap();
    assert!(verify(&world, &["--remember", "elsewhere"]).fails().contains("is damaged"));
    assert_eq!(fs::read(&file).unwrap(), b"nonsense");
}

#[test]
fn an_old_checkpoint_that_is_shown_again_is_not_the_newest() {
    let (world, _) = two();
    let before = world.read(&format!("{LOG}/checkpoint"));
    let mut log = world.log();
    publish(&mut log, &[recipe_entry(&recipe("three"))]);
    verify(&world, &["--log", LOG]).says(0);
    assert_eq!(remembered(&world).size, 3);
    world.write(&format!("{LOG}/checkpoint"), before);
    let (verdict, words) =
        finding(&verify(&world, &["--log", LOG, "--json"]).json(2), "consistent");
    assert_eq!(
        (verdict.as_str(), words.as_str()),
        ("unknown", "the log shows 2 entries, but had 3")
    );
    assert_eq!(remembered(&world).size, 3);
}

#[test]
fn a_fetched_checkpoint_with_a_wrong_bit_proves_nothing() {
    let (world, _) = two();
    let path = format!("{LOG}/checkpoint");
    let note = Note::parse(&world.read(&path)).unwrap();
    for signature in note.signatures() {
        world.write(&path, spoiled(&note, signature.name.as_str()).to_bytes());
        let found = verify(&world, &["--log", LOG, "--json"]).json(2);
        assert!(world.evidence(".").is_empty(), "{found}");
    }
}
