//! All parties of a training, and the header of a series in the log.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use sotto_wire::Recipe;

use super::{DEVICES, Party, ROUNDS};
use crate::series::Stage;
use crate::web::MODELS;

/// The name of the recipe.
const NAME: &str = "training";

/// The name of the recipe that evaluates the model.
const EVALUATION: &str = "evaluation";

/// A folder beside those of the models.
pub(super) const OTHERS: &str = "others";

/// The least noise that a recipe may have, of each aggregator, in units of the clip.
const SIGMA: &str = "0.5";

pub(super) struct Scene {
    pub(super) stage: Stage,
    /// The header of the series.
    pub(super) header: Recipe,
    /// Whether sums have no noise.
    pub(super) exact: bool,
}

impl Scene {
    /// All parties are serving, and the header is in the log.
    pub(super) fn new(exact: bool) -> Result<Self> {
        let stage = Stage::new("models", exact)?;
        let noise: &[&str] = if exact { &["--insecure-exact"] } else { &["--sigma", SIGMA] };
        let header = publish(&stage, NAME, noise, &["--clip", "1"])?;
        // A model of somebody else, which stays.
        fs::create_dir(stage.world.path("models").join(OTHERS))?;
        Ok(Self { stage, header, exact })
    }

    /// Publishes the header of evaluations, without noise.
    pub(super) fn publish_evaluation(&self) -> Result<()> {
        let options = ["--largest-loss", "4"];
        publish(&self.stage, EVALUATION, &["--insecure-exact"], &options).map(drop)
    }

    /// The arguments of `sotto train` with evaluations after every so many rounds.
    pub(super) fn evaluate_arguments(&self, every: &str) -> Vec<OsString> {
        let mut arguments = self.train_arguments();
        let header = self.stage.world.path(&format!("{EVALUATION}.recipe"));
        arguments.extend(["--evaluation".into(), header.into_os_string()]);
        arguments.extend(["--evaluate-every", every, "--deadline", "2m"].map(OsString::from));
        arguments
    }

    /// The arguments of `sotto train`.
    pub(super) fn train_arguments(&self) -> Vec<OsString> {
        let files = [("--models", "models"), ("--weights", "weights")];
        let mut arguments = self.stage.author_arguments("train", NAME, &files);
        arguments.extend(["--learning-rate", "1"].map(OsString::from));
        arguments
    }

    /// The file that says how far the training is.
    pub(super) fn state_file(&self) -> PathBuf {
        self.stage.world.path("state").join("training.json")
    }

    /// `kill -9` of a server.
    pub(super) fn kill(&mut self, party: Party) -> Result<()> {
        match party {
            Party::Leader => self.stage.world.pair.leader.kill(),
            Party::Helper => self.stage.world.pair.helper.kill(),
            Party::Log => self.stage.world.log.kill(),
            Party::Relay | Party::Train => self.stage.world.relay.kill(),
        }
    }

    /// Starts it again.
    pub(super) fn restart(&mut self, party: Party) -> Result<()> {
        match party {
            Party::Leader => self.stage.world.pair.leader.start(),
            Party::Helper => self.stage.world.pair.helper.start(),
            Party::Log => self.stage.world.log.start(),
            Party::Relay | Party::Train => self.stage.world.relay.start(),
        }
    }
}

/// Writes a header and publishes it: `options` say what its devices compute.
fn publish(stage: &Stage, name: &str, noise: &[&str], options: &[&str]) -> Result<Recipe> {
    let model = format!("own:{DEVICES}");
    let purpose = ["--purpose", "To learn who was counted."];
    let question = [&purpose, &["--training", &model], &["--models", MODELS][..], noise, options];
    let question = question.concat();
    stage.publish(name, DEVICES, ROUNDS, &question)
}
