//! What checking costs a device: `cargo xtask bench device`.
//!
//! Each line is compared with its floor, measured in alternation in the same run: a proof with the
//! four bare signature checks in it, and the work per recipe with the work per device.

mod world;

use std::hint::black_box;

use anyhow::Result;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::json;
use sotto_crypto::{merkle, note};
use sotto_protocol::admission::{Assessments, View};
use sotto_protocol::device::{DeviceStore, Host, MemoryState, advance, consider};
use sotto_protocol::expression::Attributes;
use sotto_protocol::recipe::Assessment;
use sotto_wire::{Entry, TlogProof};

pub(crate) use self::world::Shown;
use crate::turns::least;

/// Options of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Fewer repetitions: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Seconds, at best.
struct Line {
    name: &'static str,
    ours_s: f64,
    floor: Option<(&'static str, f64)>,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let times = if options.quick { 20 } else { 500 };
    let world = Shown::new()?;
    let lines = [proof(&world, times)?, admission(&world, times)?, consideration(&world, times)?];
    if options.json {
        let line = |line: &Line| {
            json!({
                "name": line.name,
                "seconds": line.ours_s,
                "floor": line.floor.map(|(name, _)| name),
                "floor_seconds": line.floor.map(|(_, seconds)| seconds),
            })
        };
        println!("{:#}", json!(lines.iter().map(line).collect::<Vec<_>>()));
        return Ok(());
    }
    println!("{:<44} {:>10}   beside", "on a device", "us");
    for Line { name, ours_s, floor } in &lines {
        let beside = floor.map_or_else(String::new, |(name, floor_s)| {
            format!("{name}: {:.1} us, ratio {:.2}", floor_s * 1e6, ours_s / floor_s)
        });
        println!("{name:<44} {:>10.1}   {beside}", ours_s * 1e6);
    }
    Ok(())
}

/// Parses and verifies a proof bundle: inclusion in a tree of a million, the log's signature, three
/// cosignatures.
fn proof(world: &Shown, times: usize) -> Result<Line> {
    let bytes = world.offer.recipe.first.to_bytes();
    let leaf = merkle::leaf_hash(&world.offer.recipe.entry);
    let mut whole = || -> Result<()> {
        let proof = TlogProof::parse(&bytes)?;
        black_box(note::verify_proof(&leaf, &proof, world.trust.policy())?);
        Ok(())
    };
    let entry = Entry::parse(&world.offer.recipe.entry)?;
    let author = entry.recipe().map(|recipe| recipe.author.verifier());
    let author = author.ok_or_else(|| anyhow::anyhow!("a recipe"))?;
    let mut bare = || -> Result<()> {
        for _ in 0..4 {
            black_box(note::verify(entry.note(), &author)?);
        }
        Ok(())
    };
    let [ours_s, floor_s] = least(times, [&mut whole, &mut bare])?;
    Ok(Line {
        name: "proof bundle, 20 hashes, 4 signatures",
        ours_s,
        floor: Some(("4 signatures alone", floor_s)),
    })
}

/// The work on a recipe that all devices share, the first time and when the recipe is known.
fn admission(world: &Shown, times: usize) -> Result<Line> {
    let entry = Entry::parse(&world.offer.recipe.entry)?;
    let recipe = entry.recipe().cloned().ok_or_else(|| anyhow::anyhow!("a recipe"))?;
    let mut library = Assessments::default();
    library.admit(&world.offer, &world.view, &world.trust)?;
    let mut first = || -> Result<()> {
        black_box(Assessment::new(recipe.clone())?);
        Ok(())
    };
    let mut known = || -> Result<()> {
        black_box(library.admit(&world.offer, &world.view, &world.trust)?);
        Ok(())
    };
    let [ours_s, floor_s] = least(times, [&mut first, &mut known])?;
    Ok(Line {
        name: "a new recipe: task, expressions, epsilon",
        ours_s,
        floor: Some(("all proofs of a known one", floor_s)),
    })
}

/// One device's own decision.
fn consideration(world: &Shown, times: usize) -> Result<Line> {
    let admitted = Assessments::default().admit(&world.offer, &world.view, &world.trust)?.into();
    let attributes = Attributes::new();
    let host = Host { conditions_met: true, attributes: &attributes, learner: None };
    let mut state = MemoryState::default();
    let seen = advance(state.state(), &world.view, &[], &world.trust, world.now)?;
    if let Some(seen) = seen {
        state.commit(seen)?;
    }
    let (view, trust, now) = (&world.view, &world.trust, world.now);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut ours = || -> Result<()> {
        let considered = consider(state.state(), &admitted, view, trust, &host, now, &mut rng)?;
        black_box(&considered.change);
        Ok(())
    };
    let note = world.checkpoint.to_bytes();
    let mut open = || -> Result<()> {
        black_box(View::open(&note, &world.trust)?);
        Ok(())
    };
    let [ours_s, floor_s] = least(times, [&mut ours, &mut open])?;
    Ok(Line {
        name: "one device considers a recipe",
        ours_s,
        floor: Some(("opening a checkpoint", floor_s)),
    })
}
