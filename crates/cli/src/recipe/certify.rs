//! `sotto recipe certify`: a certified population, made by one operator and co-signed by the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::expression::{Expression, Type};
use sotto_wire::recipe::{AttributeName, AttributeType, FORMAT_VERSION};
use sotto_wire::{
    Entry, EntryId, EntryKind, KeyType, Note, PopulationResult, PublicKey, Signer, VerifierKey,
};

use super::words;
use crate::output::{Outcome, Output, WithHint, pointed};
use crate::time_text::parse_moment;
use crate::{private_file, recipe_file, signer_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Example, the leader's operator and then the helper's. LEADER and HELPER are the lines that \
    `sotto keys show` prints for their keys, ID is that of the recipe:\n  \
    sotto recipe certify --recipe \"$ID\" --predicate 'country == \"CH\"' \\\n    \
    --attribute country:string --population 120000 --leader \"$LEADER\" \\\n    \
    --helper \"$HELPER\" --signer leader.key --out ch.result\n  \
    sotto recipe certify --add ch.result --signer helper.key\n\nSign only what your own aggregator's \
    batch says. Then publish it with `sotto recipe publish ch.result`."
)]
pub(super) struct CertifyArgs {
    /// Co-sign this result, as the second operator.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recipe", "predicate", "attribute", "population", "leader", "helper"])]
    add: Option<PathBuf>,
    /// The id of the recipe that measured the population.
    #[arg(long, value_name = "ID", required_unless_present = "add")]
    recipe: Option<EntryId>,
    /// The expression that selects devices.
    #[arg(long, value_name = "EXPRESSION", required_unless_present = "add")]
    predicate: Option<String>,
    /// An attribute that the expression reads, with its type: name:bool, name:int or name:string.
    #[arg(long, value_name = "NAME:TYPE", value_parser = parse_attribute)]
    attribute: Vec<(AttributeName, AttributeType)>,
    /// How many devices the expression selects.
    #[arg(long, value_name = "N", required_unless_present = "add")]
    population: Option<u64>,
    /// When this was measured: POSIX seconds or 2026-11-15T08:00:00Z.
    #[arg(long, value_name = "TIME", default_value = "now")]
    measured_at: String,
    /// The public key of the leader's operator (`sotto keys signer` prints it).
    #[arg(long, value_name = "VKEY", required_unless_present = "add")]
    leader: Option<VerifierKey>,
    /// The public key of the helper's operator.
    #[arg(long, value_name = "VKEY", required_unless_present = "add")]
    helper: Option<VerifierKey>,
    /// Your key file, as the operator of the leader or the helper.
    #[arg(long, value_name = "FILE")]
    signer: PathBuf,
    /// The file to write [default with --add: the same file]
    #[arg(long, value_name = "FILE", required_unless_present = "add")]
    out: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

impl CertifyArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let signer = signer_file::read(&self.signer)?;
        let note = match &self.add {
            Some(path) => unsigned_by(path, &signer)?,
            None => {
                let result = self.result()?;
                Note::new(Entry::text(EntryKind::Result, &String::from_utf8(result.to_json())?))?
            }
        };
        let signature = signer.sign(note.text());
        let entry = Entry::from_note(note.with_signature(signature))?;
        let result = entry.result().ok_or_else(|| anyhow!("the entry holds no result"))?;
        let me = signer.verifier();
        if !result.leader.is(&me) && !result.helper.is(&me) {
            return Err(anyhow!("{me} is neither the leader's operator nor the helper's"))
                .hint("sign with the key of one of the two operators");
        }
        let out = self.out.as_ref().or(self.add.as_ref());
        let out = out.ok_or_else(|| anyhow!("--out is missing"))?;
        // A co-signed file replaces the original.
        let replace = self.force || self.out.is_none();
        recipe_file::write(out, &entry.to_bytes(), replace)?;
        report(&entry, result, out, output)?;
        Ok(Outcome::Yes)
    }

    fn result(&self) -> Result<PopulationResult> {
        let given = (&self.recipe, &self.predicate, self.population, &self.leader, &self.helper);
        let (Some(recipe), Some(predicate), Some(population), Some(leader), Some(helper)) = given
        else {
            bail!("--recipe, --predicate, --population, --leader and --helper are required");
        };
        let attributes: BTreeMap<_, _> = self.attribute.iter().cloned().collect();
        let compiled = Expression::compile(predicate, &attributes).map_err(|error| {
            let place = error.position.map(|position| position.to_string());
            let place = place.and_then(|place| recipe_file::place_in(predicate, &place));
            pointed(error, place).context("--predicate")
        })?;
        if compiled.result_type() != Type::Bool {
            bail!("--predicate gives {}, not a bool", compiled.result_type());
        }
        if let Some(name) =
            attributes.keys().find(|name| !compiled.attributes().contains(name.as_str()))
        {
            return Err(anyhow!("--attribute {name}: the predicate does not read it"))
                .hint("a result names exactly the attributes of its predicate");
        }
        let result = PopulationResult {
            version: FORMAT_VERSION,
            recipe: *recipe,
            predicate: predicate.clone(),
            attributes,
            population,
            measured_at: parse_moment(&self.measured_at).context("--measured-at")?.0,
            leader: public("--leader", leader)?,
            helper: public("--helper", helper)?,
        };
        result.check()?;
        Ok(result)
    }
}

/// The note in a file. Its other signatures are valid, and this key has not signed it yet.
fn unsigned_by(path: &Path, signer: &NoteKey) -> Result<Note> {
    let entry = Entry::parse(&private_file::read_bytes(path)?)
        .with_context(|| format!("{} is not a result", path.display()))?;
    let Some(result) = entry.result() else {
        bail!("{} holds a {}, not a result", path.display(), recipe_file::kind_words(entry.kind()));
    };
    if note::verify(entry.note(), &signer.verifier()).is_ok() {
        return Err(anyhow!("{} has already signed it", signer.name()))
            .hint("the other operator signs next");
    }
    for other in [&result.leader, &result.helper] {
        if !other.is(&signer.verifier()) {
            note::verify(entry.note(), &other.verifier())
                .with_context(|| format!("the signature of {}", other.name))?;
        }
    }
    Ok(entry.note().clone())
}

fn report(entry: &Entry, result: &PopulationResult, out: &Path, output: &Output) -> Result<()> {
    let signed = |who: &Signer| note::verify(entry.note(), &who.verifier()).is_ok();
    let missing: Vec<&Signer> =
        [&result.leader, &result.helper].into_iter().filter(|who| !signed(who)).collect();
    if output.json() {
        let missing: Vec<&str> = missing.iter().map(|who| who.name.as_str()).collect();
        return output.value(&json!({
            "entry_id": entry.id(),
            "file": out,
            "missing_signatures": missing,
        }));
    }
    output.line(entry.id())?;
    let population = words::grouped(result.population);
    output.remark(format!("{} devices with {}", population, result.predicate));
    let file = out.display();
    if let Some(who) = missing.first() {
        output.remark(format!("{} signs next", who.name));
    }
    output.next(&[match missing.first() {
        Some(_) => format!("sotto recipe certify --add {file} --signer FILE"),
        None => format!("sotto recipe publish {file} --log URL"),
    }]);
    Ok(())
}

/// `name:type`.
pub(super) fn parse_attribute(text: &str) -> Result<(AttributeName, AttributeType)> {
    let (name, kind) = text.split_once(':').ok_or_else(|| anyhow!("write it like minutes:int"))?;
    Ok((name.trim().parse()?, kind.trim().parse()?))
}

fn public(option: &str, key: &VerifierKey) -> Result<Signer> {
    if key.key_type() != KeyType::Ed25519 {
        return Err(anyhow!("{option} is the key of a witness"))
            .hint("give the line that `sotto keys signer` prints first");
    }
    Ok(Signer { name: key.name().clone(), key: PublicKey::new(*key.public_key()) })
}
