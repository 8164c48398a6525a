//! Every decoder has a fuzz target, and every fuzz target is for a decoder or is listed among the
//! others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sotto_testing::decoders::DECODERS;

/// Targets of other crates, with the function that each calls.
const OTHER_TARGETS: [(&str, &str); 1] = [("expression", "Expression::compile")];

#[test]
fn one_target_per_decoder() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let decoders: BTreeSet<_> = DECODERS.iter().map(|decoder| decoder.name.to_owned()).collect();
    assert_eq!(decoders.len(), DECODERS.len(), "two decoders share a name");

    for name in &decoders {
        let target = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(target.contains(&format!("decoder_target!(\"{name}\")")), "{name}");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
    for (name, called) in OTHER_TARGETS {
        let target = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(target.contains(called), "{name}");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        assert!(!decoders.contains(name), "{name} is a decoder");
    }
    let expected: BTreeSet<_> =
        decoders.into_iter().chain(OTHER_TARGETS.map(|(name, _)| name.to_owned())).collect();
    let targets: BTreeSet<_> = fs::read_dir(fuzz.join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(targets, expected);
}
