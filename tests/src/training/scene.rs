//! All parties of a training: a world with tokens, a gateway of its own before the log and a web
//! server of models, and the header of a series in the log.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use sotto_protocol::trust::Trust;
use sotto_wire::{Entry, Recipe};

use super::{DEVICES, Party, ROUNDS};
use crate::phone::trust;
use crate::service::Service;
use crate::web::{MODELS, ORIGIN, web_server};
use crate::world::{World, opens};

/// The name of the recipe.
const NAME: &str = "training";

/// The name of the recipe that evaluates the model.
const EVALUATION: &str = "evaluation";

/// A folder beside those of the models.
pub(super) const OTHERS: &str = "others";

/// The least noise that a recipe may have, of each aggregator, in units of the clip.
const SIGMA: &str = "0.5";

pub(super) struct Scene {
    pub(super) world: World,
    pub(super) trust: Arc<Trust>,
    /// The header of the series.
    pub(super) header: Recipe,
    /// Whether sums have no noise.
    pub(super) exact: bool,
    _gateway: Service,
}

impl Scene {
    /// All parties are serving, and the header is in the log.
    pub(super) fn new(exact: bool) -> Result<Self> {
        let mut gateway = None;
        let mut world = World::arranged(|world| {
            world.add_tokens()?;
            let service = gateway.insert(Service::new(world.pair.folder(), "gateway", "gateway")?);
            world.oblivious.tables.remove("keeper");
            world.oblivious.urls.insert("keeper", service.url());
            Ok(())
        })?;
        let mut gateway = gateway.context("the world was arranged")?;
        let models = world.path("models");
        fs::create_dir(&models)?;
        gateway.write_config(&format!(
            "keys = [\"keeper-gateway.toml\"]\n[[targets]]\norigin = \"{}\"\n\
             [[targets]]\norigin = \"{ORIGIN}\"\nurl = \"{}\"\n",
            world.log.url(),
            web_server(models)?
        ))?;
        if exact {
            let file = world.path("trust.toml");
            fs::write(&file, format!("insecure_exact = true\n{}", fs::read_to_string(&file)?))?;
        }
        gateway.start()?;
        world.start_with_keys()?;
        let noise: &[&str] = if exact { &["--insecure-exact"] } else { &["--sigma", SIGMA] };
        let header = publish(&world, NAME, noise, &["--clip", "1"])?;
        // A model of somebody else, which stays.
        fs::create_dir(world.path("models").join(OTHERS))?;
        Ok(Self { trust: trust(&world)?, world, header, exact, _gateway: gateway })
    }

    /// Publishes the header of evaluations, without noise.
    pub(super) fn publish_evaluation(&self) -> Result<()> {
        let options = ["--largest-loss", "4"];
        publish(&self.world, EVALUATION, &["--insecure-exact"], &options).map(drop)
    }

    /// The arguments of `sotto train` with evaluations after every so many rounds.
    pub(super) fn evaluate_arguments(&self, every: &str) -> Vec<OsString> {
        let mut arguments = self.train_arguments();
        let header = self.world.path(&format!("{EVALUATION}.recipe"));
        arguments.extend(["--evaluation".into(), header.into_os_string()]);
        arguments.extend(["--evaluate-every", every, "--deadline", "2m"].map(OsString::from));
        arguments
    }

    /// The arguments of `sotto train`.
    pub(super) fn train_arguments(&self) -> Vec<OsString> {
        let path = |name: &str| self.world.path(name).into_os_string();
        let mut arguments: Vec<OsString> = ["--json", "train"].map(Into::into).into();
        arguments.push(path(&format!("{NAME}.recipe")));
        for (option, file) in [
            ("--signer", "author.key"),
            ("--collector-key", "collector.toml"),
            ("--token-file", "collector.token"),
            ("--trust", "trust.toml"),
            ("--models", "models"),
            ("--state", "state"),
            ("--weights", "weights"),
        ] {
            arguments.extend([option.into(), path(file)]);
        }
        arguments.extend(["--learning-rate", "1"].map(OsString::from));
        arguments
    }

    /// The file that says how far the training is.
    pub(super) fn state_file(&self) -> PathBuf {
        self.world.path("state").join("training.json")
    }

    /// `kill -9` of a server.
    pub(super) fn kill(&mut self, party: Party) -> Result<()> {
        match party {
            Party::Leader => self.world.pair.leader.kill(),
            Party::Helper => self.world.pair.helper.kill(),
            Party::Log => self.world.log.kill(),
            Party::Relay | Party::Train => self.world.relay.kill(),
        }
    }

    /// Starts it again.
    pub(super) fn restart(&mut self, party: Party) -> Result<()> {
        match party {
            Party::Leader => self.world.pair.leader.start(),
            Party::Helper => self.world.pair.helper.start(),
            Party::Log => self.world.log.start(),
            Party::Relay | Party::Train => self.world.relay.start(),
        }
    }

    /// The ends of what the parties printed.
    pub(super) fn log_texts(&self) -> String {
        let last = |name: &str| {
            let text = fs::read_to_string(self.world.path(&format!("{name}.log")));
            let lines: Vec<_> = text.iter().flat_map(|text| text.lines().rev().take(30)).collect();
            let lines: Vec<_> = lines.into_iter().rev().collect();
            format!("{name}:\n{}\n", lines.join("\n"))
        };
        ["train", "leader", "helper", "log", "relay", "gateway"].map(last).concat()
    }
}

/// Writes a header and publishes it: `options` say what its devices compute.
fn publish(world: &World, name: &str, noise: &[&str], options: &[&str]) -> Result<Recipe> {
    let (devices, rounds, opens) = (DEVICES.to_string(), ROUNDS.to_string(), opens()?.to_string());
    let model = format!("own:{devices}");
    let mut arguments = vec!["recipe", "new", name, "--purpose", "To learn who was counted."];
    arguments.extend(["--training", &model, "--models", MODELS, "--rounds", &rounds]);
    arguments.extend(["--population", &devices, "--min-batch", &devices, "--rate", "1"]);
    arguments.extend(["--opens", &opens, "--log-origin", "log.example"]);
    arguments.extend(["--leader-operator", "leader.example"]);
    arguments.extend(["--leader-url", &world.pair.leader.url]);
    arguments.extend(["--helper-operator", "helper.example"]);
    arguments.extend(["--helper-url", &world.pair.helper.url]);
    arguments.extend(["--collector-key", "collector.toml"]);
    arguments.extend_from_slice(noise);
    arguments.extend_from_slice(options);
    let tokens = world.tokens.as_ref().context("a world with tokens")?;
    let [(leader, leader_url), (helper, helper_url)] = tokens.issuers();
    arguments.extend(["--leader-issuer", leader, "--helper-issuer", helper]);
    world.run_json(&arguments)?;
    let (file, log) = (format!("{name}.toml"), world.log.url());
    let mut arguments = vec!["recipe", "tokens", &file, "--signer", "author.key"];
    arguments.extend(["--leader-issuer", &leader_url, "--helper-issuer", &helper_url]);
    arguments.extend(["--trust", "trust.toml", "--grace", "7d"]);
    world.run_json(&arguments)?;
    world.run_json(&["recipe", "publish", &file, "--signer", "author.key", "--log", &log])?;
    let entry = Entry::parse(&fs::read(world.path(&format!("{name}.recipe")))?)?;
    let header = entry.recipe().context("the entry is a recipe")?.clone();
    ensure!(header.is_header(), "it is no header");
    Ok(header)
}
