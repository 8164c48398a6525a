//! Which crate may depend on which. The table is the architecture of the project (see
//! ARCHITECTURE.md): to change the architecture, change the table.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Dependency, DependencyKind, Metadata, Package};

use crate::workspace::{cargo, metadata, root};

/// The crate of test data and test parties, which depends on `sotto-protocol`.
const TESTING: &str = "sotto-testing";

/// Each crate of the workspace, with the workspace crates that it may depend on.
const ARROWS: [(&str, &[&str]); 15] = [
    ("sotto-wire", &[]),
    ("sotto-vdaf", &[]),
    ("sotto-dp", &[]),
    ("sotto-learn", &["sotto-dp"]),
    // Unsafe code, for C: it has no workspace dependencies and one user.
    ("sotto-rsa-raw", &[]),
    ("sotto-crypto", &["sotto-wire", "sotto-rsa-raw"]),
    ("sotto-protocol", &["sotto-wire", "sotto-vdaf", "sotto-dp", "sotto-crypto"]),
    ("sotto-store", &["sotto-wire", "sotto-vdaf", "sotto-crypto", "sotto-protocol"]),
    (
        "sotto-server",
        &["sotto-wire", "sotto-vdaf", "sotto-crypto", "sotto-protocol", "sotto-store"],
    ),
    (
        "sotto-client",
        &["sotto-wire", "sotto-vdaf", "sotto-dp", "sotto-learn", "sotto-crypto", "sotto-protocol"],
    ),
    // Test data, vectors and parties. Every crate may use it as a development dependency.
    (TESTING, &["sotto-wire", "sotto-vdaf", "sotto-dp", "sotto-crypto", "sotto-protocol"]),
    (
        "sotto",
        &[
            "sotto-wire",
            "sotto-vdaf",
            "sotto-dp",
            "sotto-learn",
            "sotto-crypto",
            "sotto-protocol",
            "sotto-store",
            "sotto-server",
            "sotto-client",
            TESTING,
        ],
    ),
    // They drive the binary from outside, as a device and a collector would. The campaign of the
    // log works on its folder.
    (
        "sotto-tests",
        &[
            "sotto-wire",
            "sotto-vdaf",
            "sotto-dp",
            "sotto-learn",
            "sotto-crypto",
            "sotto-protocol",
            "sotto-store",
            "sotto-client",
            TESTING,
        ],
    ),
    (
        "sotto-bench",
        &[
            "sotto-wire",
            "sotto-vdaf",
            "sotto-dp",
            "sotto-crypto",
            "sotto-protocol",
            "sotto-server",
            "sotto-client",
            TESTING,
            "sotto-tests",
        ],
    ),
    ("xtask", &[]),
];

/// Third-party crates that only these crates of the workspace may depend on.
const RESERVED: [(&str, &[&str]); 14] = [
    // The VDAFs of `prio` stay behind our own trait.
    ("prio", &["sotto-vdaf"]),
    // SQL stays inside the store; the crash campaign and the benchmarks read its databases
    // directly.
    ("rusqlite", &["sotto-store", "sotto-tests", "sotto-bench"]),
    ("tokio-postgres", &["sotto-store"]),
    ("deadpool-postgres", &["sotto-store"]),
    // Layers 1 and 2 and the device do without a runtime. The benchmarks run a relay and a bare
    // proxy.
    ("tokio", &["sotto-store", "sotto-server", "sotto", "sotto-bench"]),
    ("axum", &["sotto-server", "sotto"]),
    ("hyper", &["sotto-server", "sotto-bench"]),
    ("reqwest", &["sotto-server"]),
    // C code, which devices must not need.
    ("aws-lc-rs", &["sotto-crypto", "sotto-server", "sotto", "sotto-bench"]),
    // C without a safe interface: the one place for it.
    ("aws-lc-sys", &["sotto-rsa-raw"]),
    // RSA in Rust, whose private operation is not in constant time: oracles for tests, peers for
    // benchmarks.
    ("blind-rsa-signatures", &["sotto-bench"]),
    ("privacypass", &["sotto-bench"]),
    ("rsa", &[]),
    // Libraries have errors with names.
    ("anyhow", &["sotto", "sotto-tests", "sotto-bench", "xtask"]),
];

/// Modules, and what they must not import: dependencies inside a crate, which `cargo` does not
/// check.
const IMPORTS: [(&str, &[&str]); 4] = [
    // A log knows nothing about its readers.
    ("crates/protocol/src/log", &["crate::admission", "crate::device"]),
    // The proof of a recipe is the same for every device, and for aggregators.
    ("crates/protocol/src/admission", &["crate::device"]),
    ("crates/server/src", &["sotto_protocol::device"]),
    ("crates/store/src", &["sotto_protocol::device"]),
];

/// Where unsafe code may be: calls of C, and vector instructions.
const UNSAFE: [&str; 3] = ["crates/rsa-raw/src", "crates/vdaf/src/simd", "crates/vdaf/src/simd.rs"];

/// How unsafe code looks. Lints forbid it, but any crate may have lints of its own. (Written in two
/// pieces, so that this file passes its own check.)
const UNSAFE_WORDS: [&str; 5] = [
    concat!("unsafe", " {"),
    concat!("unsafe", " fn"),
    concat!("unsafe", " impl"),
    concat!("unsafe", " extern"),
    concat!("unsafe", "("),
];

/// Crates that the device must not link, by the start of their names.
const NOT_ON_DEVICES: [&str; 6] = ["tokio", "aws-lc-", "axum", "hyper", "rusqlite", "postgres"];

/// Checks the dependencies between our crates, the reserved crates and the device's dependency
/// tree.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        arrows(package, &mut faults);
        reserved(package, &mut faults);
    }
    for (module, forbidden) in IMPORTS {
        let path = root().join(module);
        imports(&path, forbidden, &mut faults).with_context(|| module.to_owned())?;
        let head = path.with_extension("rs");
        if head.exists() {
            imports(&head, forbidden, &mut faults)?;
        }
    }
    for folder in ["bench", "crates", "fuzz", "tests", "xtask"] {
        unsafe_code(&root().join(folder), &mut faults)?;
    }
    client_tree(&mut faults)?;
    prio_test_util(&metadata, &mut faults);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

/// Our crates depend only on lower ones. This includes development dependencies, so that the tests
/// of a lower crate do not need a higher one. The only exception is the crate of test parties.
fn arrows(package: &Package, faults: &mut Vec<String>) {
    let name = package.name.as_str();
    let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
        faults.push(format!("{name} is not in the table of xtask/src/layers.rs"));
        return;
    };
    for dependency in &package.dependencies {
        let other = dependency.name.as_str();
        // A crate may depend on itself, to test with its own features enabled.
        let ours = ARROWS.iter().any(|(crate_name, _)| *crate_name == other) && other != name;
        let testing = other == TESTING && dependency.kind == DependencyKind::Development;
        if ours && !testing && !allowed.contains(&other) {
            faults.push(format!("{name} must not depend on {other}"));
        }
    }
}

fn reserved(package: &Package, faults: &mut Vec<String>) {
    let name = package.name.as_str();
    for dependency in &package.dependencies {
        let reservation = RESERVED.iter().find(|(other, _)| *other == dependency.name);
        let Some((other, allowed)) = reservation else { continue };
        if dependency.kind != DependencyKind::Development && !allowed.contains(&name) {
            faults.push(format!("{name} must not depend on {other}"));
        }
    }
}

/// Looks for forbidden imports in a file, or in all files below a folder.
fn imports(path: &Path, forbidden: &[&str], faults: &mut Vec<String>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            imports(&entry?.path(), forbidden, faults)?;
        }
    } else {
        let text = fs::read_to_string(path)?;
        let name = path.strip_prefix(root()).unwrap_or(path).display();
        let found = forbidden_imports(&text, forbidden);
        faults.extend(found.iter().map(|(line, other)| format!("{name}:{line}: imports {other}")));
    }
    Ok(())
}

/// Looks for unsafe code below a folder, except where it may be.
fn unsafe_code(folder: &Path, faults: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(root()).unwrap_or(&path);
        if UNSAFE.iter().any(|place| name == Path::new(place)) || name.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            unsafe_code(&path, faults)?;
        } else if name.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let found = forbidden_imports(&text, &UNSAFE_WORDS);
            let name = name.display();
            faults.extend(found.iter().map(|(line, _)| format!("{name}:{line}: unsafe code")));
        }
    }
    Ok(())
}

/// The lines of code that name a forbidden module. Comments may name it.
fn forbidden_imports<'a>(text: &str, forbidden: &[&'a str]) -> Vec<(usize, &'a str)> {
    let code = (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let named = |(number, line): (usize, &str)| {
        let other = forbidden.iter().find(|other| line.contains(**other))?;
        Some((number, *other))
    };
    code.filter_map(named).collect()
}

/// The dependency tree that an application gets from `sotto-client` with default features. `cargo
/// metadata` cannot tell, because it unifies the features of the whole workspace.
fn client_tree(faults: &mut Vec<String>) -> Result<()> {
    let mut command = cargo(["tree", "-p", "sotto-client", "-e", "normal", "--prefix", "none"]);
    let output = command.args(["--format", "{p}", "--locked"]).output().context("cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    let tree = String::from_utf8_lossy(&output.stdout);
    if !tree.lines().any(|line| line.starts_with("sotto-protocol ")) {
        bail!("unexpected output of cargo tree");
    }
    let mut found: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| NOT_ON_DEVICES.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    found.sort_unstable();
    found.dedup();
    faults.extend(found.iter().map(|name| format!("sotto-client links {name}")));
    Ok(())
}

/// `prio`'s `test-util` shards from a given random-number generator. Only `sotto-vdaf` needs this,
/// and no other crate may enable it.
fn prio_test_util(metadata: &Metadata, faults: &mut Vec<String>) {
    for package in &metadata.packages {
        let asks = |dependency: &Dependency| {
            dependency.name == "prio" && dependency.features.iter().any(|name| name == "test-util")
        };
        if package.name.as_str() != "sotto-vdaf" && package.dependencies.iter().any(asks) {
            faults.push(format!("{} must not enable prio's test-util", package.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ARROWS, forbidden_imports};

    #[test]
    fn forbidden_imports_are_found_outside_comments() {
        let text = "//! see [`crate::device`]\nuse crate::device::State;\nuse crate::log;\n";
        assert_eq!(forbidden_imports(text, &["crate::device"]), [(2, "crate::device")]);
    }

    #[test]
    fn the_table_points_only_downwards() {
        for (index, (name, allowed)) in ARROWS.iter().enumerate() {
            for other in *allowed {
                let place = ARROWS.iter().position(|(crate_name, _)| crate_name == other);
                assert!(place.is_some_and(|place| place < index), "{name} -> {other}");
            }
        }
    }
}
