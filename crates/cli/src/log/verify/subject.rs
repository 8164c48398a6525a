//! The recipe in question and the proof that it is public, from files or from the log.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use sotto_protocol::log::{Fetch, Reader};
use sotto_protocol::trust::Trust;
use sotto_wire::{Checkpoint, Entry, Note, TlogPolicy, TlogProof};

use super::VerifyArgs;
use crate::log_source::{LogArgs, LogSource};
use crate::output::WithHint;
use crate::private_file::read_bytes;
use crate::recipe_file::{self, Form};

/// What to verify. Nothing about it is trusted yet.
pub(super) struct Subject {
    pub(super) entry: Entry,
    pub(super) proof: TlogProof,
    /// The files of the log, unless everything was read from local files.
    pub(super) fetch: Option<Box<dyn Fetch>>,
}

impl VerifyArgs {
    /// Finds the recipe and its proof.
    pub(super) fn subject(&self, policy: &TlogPolicy, trust: Option<&Trust>) -> Result<Subject> {
        let recipe = self.recipe.as_deref().unwrap_or_default();
        if let Some(proof) = self.proof_file(recipe) {
            return offline(Path::new(recipe), &proof);
        }
        let listed = policy.logs().iter().find_map(|log| log.url.clone());
        let log = LogArgs { log: self.log.log.clone().or(listed), ..self.log.clone() };
        let source = log.source(trust)?.context("no proof is given");
        let source = source.hint("give --proof for a bundle, or --log for the log")?;
        online(recipe, &source)
    }

    /// The given proof, or the one beside the entry.
    fn proof_file(&self, recipe: &str) -> Option<PathBuf> {
        if self.proof.is_some() {
            return self.proof.clone();
        }
        let beside = Path::new(recipe).with_extension("proof");
        (self.log.log.is_none() && Path::new(recipe).is_file() && beside.is_file())
            .then_some(beside)
    }
}

fn offline(recipe: &Path, proof: &Path) -> Result<Subject> {
    let entry = match recipe_file::read(recipe)? {
        Form::Entry(entry) => Ok(*entry),
        Form::Draft(..) | Form::Json(_) => {
            Err(anyhow!("{} is not signed, so no log can hold it", recipe.display()))
        }
    };
    let entry = entry.hint("give the signed entry that `recipe publish` wrote")?;
    let proof = TlogProof::parse(&read_bytes(proof)?)
        .with_context(|| format!("{} is not a proof bundle", proof.display()))?;
    Ok(Subject { entry, proof, fetch: None })
}

fn online(recipe: &str, source: &LogSource) -> Result<Subject> {
    let mut reader = Reader::new(source.fetch());
    let newest = reader.checkpoint().context("cannot read the log")?;
    let newest = newest.ok_or_else(|| anyhow!("the log is empty"))?;
    let (index, entry) = match Path::new(recipe).is_file() {
        true => from_file(Path::new(recipe), &mut reader, &newest)?,
        // Whether the checkpoint can be trusted is one of the findings.
        false => recipe_file::in_log(recipe, &mut source.snapshot(None)?)?,
    };
    let proof = reader.proof(index, &newest)?;
    Ok(Subject { entry, proof, fetch: Some(source.fetch()) })
}

/// The index of a file's recipe in the log, and its entry: that of the file if it is signed, else
/// that of the log.
fn from_file<F: Fetch>(path: &Path, reader: &mut Reader<F>, newest: &Note) -> Result<(u64, Entry)> {
    let mut find_index = |id| {
        let found = reader.find(&id).context("cannot read the log")?;
        found.ok_or_else(|| anyhow!("the log holds no recipe {id}"))
    };
    match recipe_file::read(path)? {
        Form::Entry(entry) => Ok((find_index(entry.id())?, *entry)),
        form => {
            let loaded = form.loaded()?;
            ensure!(
                loaded.id_known(),
                "the recipe has no author or no token keys yet, so it has no id"
            );
            let index = find_index(loaded.recipe.id())?;
            let tree = Checkpoint::parse(newest.text()).context("the log's checkpoint")?;
            Ok((index, Entry::parse(&reader.entry(index, &tree)?)?))
        }
    }
}
