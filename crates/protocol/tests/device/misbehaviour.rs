//! Proofs of misbehaviour: guilt can be proved, and nothing that an honest signer signs ever counts
//! as guilt.

use sotto_crypto::note::NoteKey;
use sotto_protocol::log::sequence::{LogState, checkpoint};
use sotto_protocol::log::{
    Comparison, Fetch, FetchError, ForeignRoot, Misbehaviour, Reader, compare,
};
use sotto_testing::keys::{key, key_of};
use sotto_testing::log::{Files, ORIGIN, at, entry, signed};
use sotto_testing::recipe::{key_set, key_set_entry, recipe, recipe_entry, reclaim};
use sotto_wire::recipe::{Privacy, Query, Recipe};
use sotto_wire::{Checkpoint, Entry, EntryKind, Note, TreeHash};

/// A log of `size` entries that has another history from `fork` on: its files and its checkpoint.
fn tree(size: u64, fork: u64) -> (Files, Note) {
    let (mut state, mut writes) = (LogState::new(), Vec::new());
    for index in 0..size {
        let history = if index < fork { "honest" } else { "other" };
        state.push(format!("{history} {index}").as_bytes(), &mut writes);
    }
    writes.extend(state.partial(0));
    let files = writes.into_iter().map(|write| (write.path, write.bytes)).collect();
    (files, signed(&checkpoint(ORIGIN, &state).to_text(), at(1), &key(ORIGIN)))
}

/// What the tree of `new` entries in these files has at size `old`.
fn foreign_root(files: &Files, old: u64, new: u64) -> ForeignRoot {
    let mut reader = Reader::new(files.clone());
    let hashes = reader.consistency(old, new).unwrap();
    ForeignRoot {
        root: reader.root_of_prefix(old, new).unwrap().to_string(),
        hashes: hashes.iter().map(ToString::to_string).collect(),
    }
}

fn split(one: &Note, other: &Note, proof: Option<ForeignRoot>) -> Result<String, String> {
    let key = key(ORIGIN).verifier();
    let found = Misbehaviour::split_view(&key, one, other, proof.clone());
    let text = |note: &Note| String::from_utf8(note.to_bytes()).unwrap();
    let checked =
        Misbehaviour::SplitView { log: key.to_string(), one: text(one), other: text(other), proof }
            .check();
    assert_eq!(found.map(|_| ()), checked.clone().map(|_| ()), "made and checked alike");
    checked
}

fn log_key() -> String {
    key(ORIGIN).verifier().to_string()
}

#[test]
fn two_trees_of_one_size_are_proved() {
    let (_, honest) = tree(5, 5);
    let (_, other) = tree(5, 3);
    let words = format!("the log key {} signed two trees of 5 entries", log_key());
    assert_eq!(split(&honest, &other, None), Ok(words.clone()));
    assert_eq!(split(&other, &honest, None), Ok(words));
}

#[test]
fn a_tree_that_does_not_begin_with_another_is_proved() {
    for new in 2..=9 {
        for old in 1..new {
            let (files, large) = tree(new, new);
            for fork in 0..old {
                let (_, small) = tree(old, fork);
                let words = split(&small, &large, Some(foreign_root(&files, old, new)));
                let expected = format!(
                    "the log key {} signed a tree of {new} entries that does not begin with its tree of {old}",
                    log_key()
                );
                assert_eq!(words, Ok(expected));
                assert!(split(&small, &large, None).is_err(), "sizes alone prove nothing");
                assert!(split(&large, &small, Some(foreign_root(&files, old, new))).is_err());
            }
        }
    }
}

#[test]
fn an_honest_log_is_never_convicted() {
    let (_, other) = tree(5, 5);
    assert!(split(&other, &other, None).unwrap_err().contains("do not contradict"));
    // The same tree, cosigned at another time.
    let later = signed(other.text(), at(2), &key(ORIGIN));
    assert!(split(&other, &later, None).is_err());
    for new in 1..=9 {
        for old in 0..new {
            let ((_, small), (files, large)) = (tree(old, old), tree(new, new));
            assert!(split(&small, &large, None).is_err());
            let proof = foreign_root(&files, old, new);
            let reason = split(&small, &large, Some(proof.clone())).unwrap_err();
            assert_eq!(reason, "the larger tree extends the smaller one");
            forge(&small, &large, &proof, old, new);
        }
    }
}

/// Tries every root and proof at hand against two honest trees.
fn forge(small: &Note, large: &Note, honest: &ForeignRoot, old: u64, new: u64) {
    let refused = |root: &str, hashes: &[String]| {
        let proof = ForeignRoot { root: root.to_owned(), hashes: hashes.to_vec() };
        assert!(split(small, large, Some(proof)).is_err(), "{old} {new} {root} {hashes:?}");
    };
    let of_fork = (0..old).map(|fork| foreign_root(&tree(new, fork).0, old, new));
    for fork in of_fork {
        refused(&fork.root, &fork.hashes);
        refused(&fork.root, &honest.hashes);
        refused(&honest.root, &fork.hashes);
    }
    let zero = TreeHash([0; 32]).to_string();
    refused(&zero, &honest.hashes);
    refused(&zero, &[]);
    let root = Checkpoint::parse(large.text()).unwrap().root.to_string();
    refused(&root, &honest.hashes);
    refused(&root, &[]);
    for index in 0..honest.hashes.len() {
        let mut hashes = honest.hashes.clone();
        hashes[index] = zero.clone();
        refused(&honest.root, &hashes);
        refused(&zero, &hashes);
        hashes.remove(index);
        refused(&honest.root, &hashes);
    }
    refused("not a hash", &honest.hashes);
    refused(&honest.root, &["not a hash".to_owned()]);
}

#[test]
fn only_what_the_log_itself_signed_counts() {
    let (_, honest) = tree(5, 5);
    let (_, other) = tree(5, 3);
    let resigned = |by: &NoteKey| signed(other.text(), at(1), by);
    for stranger in [key("other.example"), key_of("somebody", ORIGIN)] {
        assert!(split(&honest, &resigned(&stranger), None).unwrap_err().contains("missing"));
        assert!(split(&resigned(&stranger), &honest, None).unwrap_err().contains("missing"));
    }
    let mut signature = other.signatures()[0].clone();
    signature.signature[7] ^= 1;
    let spoiled = Note::new(other.text()).unwrap().with_signature(signature);
    assert!(split(&honest, &spoiled, None).unwrap_err().contains("does not verify"));
    // What the key signed for another origin says nothing about this log.
    let elsewhere = other.text().replace(ORIGIN, "other.example");
    let elsewhere = signed(&elsewhere, at(1), &key(ORIGIN));
    let reason = split(&honest, &elsewhere, None).unwrap_err();
    assert_eq!(reason, "the checkpoint is of another log");
    let bad_key = Misbehaviour::SplitView {
        log: "nobody".to_owned(),
        one: String::new(),
        other: String::new(),
        proof: None,
    };
    assert!(bad_key.check().unwrap_err().starts_with("log key: "));
}

/// Compares the checkpoints of two notes by the files of the larger tree.
fn compared(files: &Files, one: &Note, other: &Note) -> Option<Comparison> {
    let tree = |note: &Note| Checkpoint::parse(note.text()).unwrap();
    let found = compare(&mut Reader::new(files.clone()), &tree(one), &tree(other)).ok();
    let (small, large) =
        if tree(one).size <= tree(other).size { (one, other) } else { (other, one) };
    if let Some(Comparison::Split(proof)) = &found {
        assert!(split(small, large, proof.clone()).is_ok(), "what is found is proved");
    }
    found
}

#[test]
fn a_comparison_tells_a_fork_from_growth() {
    for new in 1..=9 {
        let (files, large) = tree(new, new);
        for old in 0..=new {
            for fork in 0..=old {
                let (_, small) = tree(old, fork);
                for (one, other) in [(&small, &large), (&large, &small)] {
                    let found = compared(&files, one, other).unwrap();
                    let is_split = matches!(found, Comparison::Split(_));
                    assert_eq!(is_split, fork < old, "{old} {new} {fork}: {found:?}");
                    assert!(is_split || found == Comparison::Extends);
                }
            }
        }
    }
}

#[test]
fn files_that_were_changed_on_the_way_prove_nothing() {
    for (old, new) in [(1, 2), (2, 3), (3, 4), (4, 8), (5, 9), (200, 300), (256, 257), (257, 600)] {
        let (files, large) = tree(new, new);
        let (_, honest) = tree(old, old);
        let (_, forked) = tree(old, old - 1);
        let mut noticed = 0;
        for (path, bytes) in &files {
            // One bit of each hash.
            for place in (5..bytes.len()).step_by(32) {
                let mut changed = files.clone();
                changed.get_mut(path).unwrap()[place] ^= 1;
                let found = compared(&changed, &honest, &large).unwrap();
                assert!(!matches!(found, Comparison::Split(_)), "{old} {new} {path} {place}");
                noticed += usize::from(found == Comparison::Unproved);
                let found = compared(&changed, &forked, &large).unwrap();
                assert_ne!(found, Comparison::Extends, "{old} {new} {path} {place}");
            }
            let mut missing = files.clone();
            missing.remove(path);
            assert!(!matches!(compared(&missing, &honest, &large), Some(Comparison::Split(_))));
        }
        assert!(noticed > 0, "{old} {new}");
        // The files of another history do no better.
        let (other, _) = tree(new, old - 1);
        assert_eq!(compared(&other, &honest, &large), Some(Comparison::Unproved));
    }
}

#[test]
fn a_comparison_reads_again_what_it_could_not_use() {
    let (files, large) = tree(7, 7);
    let (_, small) = tree(3, 3);
    let tree = |note: &Note| Checkpoint::parse(note.text()).unwrap();
    let mut spoiled = files.clone();
    spoiled.values_mut().for_each(|bytes| bytes[40] ^= 1);
    let mut turns = Turns(vec![spoiled, files]);
    let mut reader = Reader::new(&mut turns);
    let found = compare(&mut reader, &tree(&small), &tree(&large)).unwrap();
    assert_eq!(found, Comparison::Unproved);
    let found = compare(&mut reader, &tree(&small), &tree(&large)).unwrap();
    assert_eq!(found, Comparison::Extends);
}

/// Returns the first files once, and the last from then on.
struct Turns(Vec<Files>);

impl Fetch for Turns {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let found = self.0[0].fetch(path, limit);
        if self.0.len() > 1 {
            self.0.remove(0);
        }
        found
    }
}

fn bad_recipe(entry: Vec<u8>) -> Result<String, String> {
    Misbehaviour::BadRecipe { entry: String::from_utf8(entry).unwrap() }.check()
}

/// An honest recipe of the author.
fn honest(name: &str) -> Recipe {
    let mut recipe = recipe(name);
    reclaim(&mut recipe);
    recipe
}

#[test]
fn a_recipe_that_breaks_its_promise_is_proved() {
    let good = honest("which-region");
    assert_eq!(bad_recipe(recipe_entry(&good)), Err("the recipe keeps its promise".to_owned()));
    let author = key("author.example").verifier();
    let guilty = format!("the author key {author} signed a recipe that fails: ");

    let mut low = good.clone();
    if let Privacy::Claim { epsilon_micro, .. } = &mut low.privacy {
        *epsilon_micro = *epsilon_micro * 99 / 100;
    }
    let words = bad_recipe(recipe_entry(&low)).unwrap();
    assert!(words.starts_with(&format!("{guilty}claim: it claims epsilon ")), "{words}");
    let mut senseless = good.clone();
    if let Query::Histogram { mapping, .. } = &mut senseless.query {
        *mapping = "region == 1".to_owned();
    }
    let words = bad_recipe(recipe_entry(&senseless)).unwrap();
    assert!(words.starts_with(&format!("{guilty}derivation: ")), "{words}");

    // Nobody is guilty of what somebody else wrote.
    let json = low.to_json();
    let foreign = entry(EntryKind::Recipe, &json, &[&key_of("somebody", "author.example")]);
    assert!(bad_recipe(foreign).is_err());
    assert!(bad_recipe(entry(EntryKind::Recipe, &json, &[&key("other.example")])).is_err());
    let mut note = Note::parse(&recipe_entry(&low)).unwrap().signatures()[0].clone();
    note.signature[0] ^= 1;
    let text = Entry::text(EntryKind::Recipe, std::str::from_utf8(&json).unwrap());
    let spoiled = Note::new(text).unwrap().with_signature(note);
    assert!(bad_recipe(spoiled.to_bytes()).unwrap_err().contains("does not verify"));
    let operator = key("leader.example");
    let set = key_set_entry(&key_set(&operator, 1, 0), &operator);
    assert_eq!(bad_recipe(set), Err("the entry is not a recipe".to_owned()));
    assert!(bad_recipe(b"sotto.recipe/v1\n{}\n\n".to_vec()).is_err());
}

#[test]
fn a_name_that_is_used_twice_is_proved() {
    let reuse = |one: &[u8], other: &[u8]| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Misbehaviour::NameReuse { one: text(one), other: text(other) }.check()
    };
    let one = recipe_entry(&honest("which-region"));
    let mut changed = honest("which-region");
    changed.purpose = "Something else.".to_owned();
    let other = recipe_entry(&changed);
    let author = key("author.example").verifier();
    let words = format!("the author key {author} signed two recipes named which-region");
    assert_eq!(reuse(&one, &other), Ok(words));
    assert_eq!(reuse(&one, &one), Err("both are the same recipe".to_owned()));
    assert!(reuse(&one, &recipe_entry(&honest("another"))).unwrap_err().contains("different"));
    // Two authors may choose the same name, even the same name for themselves.
    let mut theirs = changed.clone();
    let somebody = key_of("somebody", "author.example");
    theirs.author = sotto_testing::keys::signer(&somebody);
    let theirs = entry(EntryKind::Recipe, &theirs.to_json(), &[&somebody]);
    assert!(reuse(&one, &theirs).unwrap_err().contains("different authors"));
    // The second is not the author's.
    let forged = entry(EntryKind::Recipe, &changed.to_json(), &[&somebody]);
    assert!(reuse(&one, &forged).is_err());
    assert!(reuse(&forged, &one).is_err());
}

#[test]
fn files_are_read_as_they_were_written() {
    let (files, large) = tree(7, 7);
    let (_, small) = tree(3, 1);
    let proof = foreign_root(&files, 3, 7);
    let key = key(ORIGIN).verifier();
    let found = Misbehaviour::split_view(&key, &small, &large, Some(proof)).unwrap();
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.starts_with("{\"kind\":\"split_view\","), "{text}");
    let read: Misbehaviour = serde_json::from_str(&text).unwrap();
    assert_eq!(read, found);
    assert!(read.check().is_ok());
    let more = text.replacen("\"log\"", "\"more\":1,\"log\"", 1);
    assert!(serde_json::from_str::<Misbehaviour>(&more).is_err());
}
