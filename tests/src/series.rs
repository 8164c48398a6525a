//! A world whose devices read a file in each round of a series, a model or a list of candidates:
//! with tokens, a gateway of its own before the log and a web server.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use sotto_client::{Host, InsecureName, Log, Participant};
use sotto_protocol::device::MemoryState;
use sotto_protocol::trust::Trust;
use sotto_wire::{Entry, Recipe};

use crate::phone::{Source, trust};
use crate::service::Service;
use crate::web::{ORIGIN, web_server};
use crate::world::{World, opens};

/// All parties of a series.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) trust: Arc<Trust>,
    _gateway: Service,
}

impl Stage {
    /// All parties are serving, the files of this folder among them. If sums are exact, devices allow
    /// it.
    pub(crate) fn new(folder: &str, exact: bool) -> Result<Self> {
        let mut gateway = None;
        let mut world = World::arranged(|world| {
            world.add_tokens()?;
            let service = gateway.insert(Service::new(world.pair.folder(), "gateway", "gateway")?);
            world.oblivious.tables.remove("keeper");
            world.oblivious.urls.insert("keeper", service.url());
            Ok(())
        })?;
        let mut gateway = gateway.context("the world was arranged")?;
        let files = world.path(folder);
        fs::create_dir(&files)?;
        gateway.write_config(&format!(
            "keys = [\"keeper-gateway.toml\"]\n[[targets]]\norigin = \"{}\"\n\
             [[targets]]\norigin = \"{ORIGIN}\"\nurl = \"{}\"\n",
            world.log.url(),
            web_server(files)?
        ))?;
        if exact {
            let file = world.path("trust.toml");
            fs::write(&file, format!("insecure_exact = true\n{}", fs::read_to_string(&file)?))?;
        }
        gateway.start()?;
        world.start_with_keys()?;
        Ok(Self { trust: trust(&world)?, world, _gateway: gateway })
    }

    /// Writes a header that all devices answer in every round, and publishes it. `question` are
    /// options of `recipe new`.
    pub(crate) fn publish(
        &self,
        name: &str,
        devices: usize,
        rounds: u64,
        question: &[&str],
    ) -> Result<Recipe> {
        let world = &self.world;
        let (devices, rounds) = (devices.to_string(), rounds.to_string());
        let opens = opens()?.to_string();
        let mut arguments = vec!["recipe", "new", name];
        arguments.extend_from_slice(question);
        arguments.extend(["--rounds", &rounds, "--population", &devices]);
        arguments.extend(["--min-batch", &devices, "--rate", "1"]);
        arguments.extend(["--opens", &opens, "--log-origin", "log.example"]);
        arguments.extend(["--leader-operator", "leader.example"]);
        arguments.extend(["--leader-url", &world.pair.leader.url]);
        arguments.extend(["--helper-operator", "helper.example"]);
        arguments.extend(["--helper-url", &world.pair.helper.url]);
        arguments.extend(["--collector-key", "collector.toml"]);
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

    /// The arguments of a command that runs the rounds of this header, from any folder: `train` or
    /// `discover`. `files` are more options, each with its file.
    pub(crate) fn author_arguments(
        &self,
        command: &str,
        name: &str,
        files: &[(&str, &str)],
    ) -> Vec<OsString> {
        let path = |name: &str| self.world.path(name).into_os_string();
        let mut arguments: Vec<OsString> = ["--json", command].map(Into::into).into();
        arguments.push(path(&format!("{name}.recipe")));
        let usual = [
            ("--signer", "author.key"),
            ("--collector-key", "collector.toml"),
            ("--token-file", "collector.token"),
            ("--trust", "trust.toml"),
            ("--state", "state"),
        ];
        for (option, file) in usual.iter().chain(files) {
            arguments.extend([option.into(), path(file)]);
        }
        arguments
    }

    /// A device that remembers nothing yet. Two with the same seed draw the same numbers.
    pub(crate) fn device(
        &self,
        number: usize,
        seed: u64,
        change: impl FnOnce(&mut Host),
    ) -> Result<Participant<MemoryState>> {
        let mut host = Host::new(Arc::new(Source::new(IpAddr::V4(Ipv4Addr::LOCALHOST))));
        let drawn = AtomicU64::new(0);
        host.random = Arc::new(move || {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            rng.set_stream(drawn.fetch_add(1, Ordering::Relaxed));
            Box::new(rng) as Box<dyn CryptoRng>
        });
        host.attestor = Some(Box::new(InsecureName::new(format!("device-{number}"))?));
        change(&mut host);
        let log = Log::at(&self.world.log.url(), &host, &self.trust)?;
        Ok(Participant::new(host, Arc::clone(&self.trust), MemoryState::default(), log))
    }

    /// The ends of what this command and the parties printed.
    pub(crate) fn log_texts(&self, command: &str) -> String {
        let last = |name: &str| {
            let text = fs::read_to_string(self.world.path(&format!("{name}.log")));
            let lines: Vec<_> = text.iter().flat_map(|text| text.lines().rev().take(30)).collect();
            let lines: Vec<_> = lines.into_iter().rev().collect();
            format!("{name}:\n{}\n", lines.join("\n"))
        };
        [command, "leader", "helper", "log", "relay", "gateway"].map(last).concat()
    }
}
