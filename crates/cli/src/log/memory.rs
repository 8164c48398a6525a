//! What an auditor remembers: the last accepted checkpoint of each log, so that the next command
//! notices if the log shrinks or forks, and every proof of misbehaviour, until it is removed by
//! name. `sotto log memory` shows both.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};
use sotto_protocol::log::{Accused, Misbehaviour};
use sotto_wire::{Note, TlogPolicy};

use super::fork::SignedTree;
use super::misbehaviour;
use crate::output::{Outcome, Output, WithHint};
use crate::private_file;

/// The longest part of a key's name in the name of a proof: file names are short.
const MAX_SHOWN_NAME: usize = 100;

#[derive(Debug, Args)]
#[command(
    after_help = "A proof of misbehaviour is a file in the folder `misbehaviour`. It is the answer \
    of `log verify` and `log monitor` until you remove it."
)]
pub(super) struct MemoryArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Forget a proof, by the name that this command shows.
    #[arg(long, value_name = "NAME")]
    remove: Option<String>,
}

/// Where the memory is.
#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    /// Where checkpoints and proofs are remembered [default: in the state folder of this user]
    #[arg(long, value_name = "DIR")]
    remember: Option<PathBuf>,
}

/// Where checkpoints and proofs are remembered.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    folder: PathBuf,
}

/// A remembered proof. It is not checked again yet.
pub(super) struct Proof {
    pub(super) name: String,
    pub(super) accused: Accused,
    pub(super) evidence: Misbehaviour,
}

impl MemoryArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let memory = self.place.open().context("there is no state folder");
        let memory = memory.hint("give --remember, or set HOME")?;
        if let Some(name) = self.remove {
            // Also if it is damaged. The name is compared, so it cannot lead to another folder.
            let files = files(&memory.proof_folder())?;
            let found = files.iter().find(|path| file_name(path) == name);
            let path = found.ok_or_else(|| anyhow!("there is no proof {name} in the memory"));
            let path = path.hint("`sotto log memory` shows the names")?;
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
            match output.json() {
                true => output.value(&json!({ "removed": name }))?,
                false => output.line(format!("removed {name}"))?,
            }
            return Ok(Outcome::Yes);
        }
        let (logs, proofs) = (memory.checkpoints()?, memory.proofs()?);
        if output.json() {
            let logs =
                logs.iter().map(|log| json!({ "log": log.tree.origin, "size": log.tree.size }));
            let proofs =
                proofs.iter().map(|proof| json!({ "name": proof.name, "words": proof.words() }));
            output.value(&json!({
                "folder": memory.folder,
                "logs": logs.collect::<Vec<_>>(),
                "misbehaviour": proofs.collect::<Vec<_>>(),
            }))?;
            return Ok(Outcome::Yes);
        }
        output.line(format!("in {}", memory.folder.display()))?;
        for log in &logs {
            output.line(format!("  seen    {} with {} entries", log.tree.origin, log.tree.size))?;
        }
        for proof in &proofs {
            output.entry("  proved  ", format!("{}\n{}", proof.name, proof.words()))?;
        }
        if logs.is_empty() && proofs.is_empty() {
            output.line("  nothing")?;
        }
        Ok(Outcome::Yes)
    }
}

impl PlaceArgs {
    /// The given folder, or the default one of this user; `None` if there is neither.
    pub(super) fn open(&self) -> Option<Memory> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let usual = || {
            let state = variable("XDG_STATE_HOME").map(PathBuf::from);
            let state =
                state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
            Some(state?.join("sotto/checkpoints"))
        };
        Some(Memory { folder: self.remember.clone().or_else(usual)? })
    }
}

impl Memory {
    /// The remembered checkpoint of a log.
    pub(super) fn recall(&self, origin: &str) -> Result<Option<SignedTree>> {
        let path = self.path(origin);
        let is_there = path.try_exists().with_context(|| format!("cannot read {}", path.display()));
        is_there?.then(|| checkpoint(&path)).transpose()
    }

    /// Remembers an accepted checkpoint.
    pub(super) fn keep(&self, believed: &SignedTree) -> Result<()> {
        let text = String::from_utf8(believed.note.to_bytes()).context("a note is text")?;
        write(&self.path(&believed.tree.origin), &text)
    }

    /// Remembers a proof, one of each kind for a log or a recipe.
    pub(super) fn accuse(&self, evidence: &Misbehaviour) -> Result<()> {
        let path = self.proof_folder().join(name(evidence)?);
        if path.exists() {
            return Ok(());
        }
        write(&path, &misbehaviour::text(evidence)?)
    }

    /// All proofs, by name.
    pub(super) fn proofs(&self) -> Result<Vec<Proof>> {
        let mut proofs = Vec::new();
        for path in files(&self.proof_folder())? {
            let name = file_name(&path);
            let read = misbehaviour::read(&path).and_then(|evidence| {
                let accused = evidence.accused().map_err(|reason| anyhow!(reason))?;
                Ok(Proof { name: name.clone(), accused, evidence })
            });
            let read = read.with_context(|| format!("{} is damaged", path.display()));
            proofs.push(read.hint(format!("`sotto log memory --remove {name}` removes it"))?);
        }
        Ok(proofs)
    }

    fn checkpoints(&self) -> Result<Vec<SignedTree>> {
        files(&self.folder)?.iter().map(|path| checkpoint(path)).collect()
    }

    fn path(&self, origin: &str) -> PathBuf {
        let name: String =
            Sha256::digest(origin).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }

    fn proof_folder(&self) -> PathBuf {
        self.folder.join("misbehaviour")
    }
}

impl Proof {
    /// The charge and how to remove it, or why the file proves nothing any more.
    pub(super) fn check(&self) -> Result<String, String> {
        let stays = format!("it stays until `sotto log memory --remove {}`", self.name);
        match self.evidence.check() {
            Ok(charge) => Ok(format!("{charge}. This was proved before; {stays}")),
            Err(reason) => Err(format!("a proof does not hold any more: {reason}; {stays}")),
        }
    }

    /// Whether it accuses the log with this origin, by a key that the policy has for it.
    pub(super) fn accuses_log(&self, policy: &TlogPolicy, origin: &str) -> bool {
        let Accused::Log(accused) = &self.accused else { return false };
        policy.log_keys(origin).any(|key| key == accused)
    }

    fn words(&self) -> String {
        self.evidence.check().unwrap_or_else(|reason| format!("not proved: {reason}"))
    }
}

/// The name of a proof, which is also that of its file: the key, the recipe if there is one, and
/// what it proves.
pub(super) fn name(evidence: &Misbehaviour) -> Result<String> {
    let accused = evidence.accused().map_err(|reason| anyhow!("no proof: {reason}"))?;
    let key = accused.key();
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let signer: String = key.name().as_str().chars().take(MAX_SHOWN_NAME).map(plain).collect();
    let recipe = match &accused {
        Accused::Log(_) => String::new(),
        Accused::Author { recipe, .. } => format!("{recipe}."),
    };
    let kind = match evidence {
        Misbehaviour::SplitView { .. } => "split-view",
        Misbehaviour::BadRecipe { .. } => "bad-recipe",
        Misbehaviour::NameReuse { .. } => "name-reuse",
    };
    Ok(format!("{signer}+{:08x}.{recipe}{kind}", u32::from_be_bytes(key.key_id())))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn checkpoint(path: &Path) -> Result<SignedTree> {
    let bytes = private_file::read_bytes(path)?;
    let tree = Note::parse(&bytes).map_err(Into::into).and_then(SignedTree::new);
    tree.with_context(|| format!("{} is damaged", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    private_file::write(path, text, true)
}

/// The complete files of a folder, by name; none if there is no folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot read {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(failed)?.path();
        // A file gets its name when it is complete.
        if path.is_file() && path.extension().is_none_or(|extension| extension != "new") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
