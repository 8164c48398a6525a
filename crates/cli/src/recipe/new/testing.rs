//! A recipe for tests.

use sotto_crypto::note::NoteKey;
use sotto_wire::Recipe;

use super::{Inquiry, NewArgs, with_claim};
use crate::{keys, random, signer_file};

/// 2026-11-15.
pub(crate) const NOW: u64 = 1_794_700_800;

/// Options of a script, with a key file in `folder`.
pub(crate) fn arguments(folder: &std::path::Path) -> NewArgs {
    let key = folder.join("collector.toml");
    keys::write(&key, &keys::generate(7), true).unwrap();
    let text = |text: &str| Some(text.to_owned());
    NewArgs {
        name: text("commute"),
        purpose: text("How long do people commute?"),
        labels: text("short,middle,long"),
        attribute: vec!["minutes:int".to_owned()],
        mapping: text("minutes < 15 ? 0 : minutes < 45 ? 1 : 2"),
        fallback: text("short"),
        population: text("1000000"),
        leader_operator: text("leader.example"),
        leader_url: text("https://leader.example/"),
        helper_operator: text("helper.example"),
        helper_url: text("https://helper.example/"),
        collector_key: text(key.to_str().unwrap()),
        log_origin: text("log.example"),
        leader_issuer: text("issuer-a.example"),
        helper_issuer: text("issuer-b.example"),
        window: 3_600,
        ..NewArgs::default()
    }
}

/// A commute recipe for a million devices, of which 1 in 50 answers.
pub(crate) fn recipe() -> Recipe {
    made(|_| {})
}

/// The same in up to 30 rounds: the header.
pub(crate) fn header() -> Recipe {
    made(|args| args.rounds = Some(30))
}

/// The same in 26 weeks: the header.
pub(crate) fn weekly() -> Recipe {
    made(|args| (args.rounds, args.round_length) = (Some(26), Some(7 * 86_400)))
}

fn made(change: impl FnOnce(&mut NewArgs)) -> Recipe {
    let folder = tempfile::tempdir().unwrap();
    let mut args = arguments(folder.path());
    args.epsilon0 = Some("4".to_owned());
    change(&mut args);
    let mut draft = args.draft(&mut Inquiry::new(None), NOW).unwrap();
    let mut recipe = with_claim(&mut draft, None).unwrap();
    recipe.author = signer_file::public(&author());
    recipe
}

/// A new author.
pub(crate) fn author() -> NoteKey {
    NoteKey::generate("analytics.example".parse().unwrap(), &mut random::system())
}
