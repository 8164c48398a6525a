//! All parties that a recipe needs, as processes of the binary: a log, its witnesses, leader and
//! helper, a relay in front of log and leader, and devices that run one pass each. Keys, policy,
//! trust file and configurations are made by the same commands that people type.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::pair::{Aggregator, Pair};
use crate::process::{read_json, shown, sotto};
use crate::service::Service;
use crate::token_services::TokenServices;

/// Longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The parties that sign entries of the log.
const SIGNERS: [&str; 6] = ["author", "leader", "helper", "keeper", "issuer-a", "issuer-b"];

/// The issuers of the leader's and of the helper's tokens.
const ISSUERS: [&str; 2] = ["issuer-a", "issuer-b"];

const WITNESSES: [&str; 3] = ["alpha", "beta", "gamma"];

/// The question of most recipes here, practically without noise: rate 1, and a local epsilon so
/// large that the value is kept.
const COMMUTE: [&str; 12] = [
    "--purpose",
    "How long do people commute?",
    "--attribute",
    "minutes:int",
    "--labels",
    "short,middle,long",
    "--mapping",
    "minutes < 15 ? 0 : minutes < 45 ? 1 : 2",
    "--epsilon0",
    "30",
    "--fallback",
    "short",
];

/// The token that the leader sends to the helper.
pub const LEADER_TOKEN: &str = "leaders-token-0123";

/// Operators that have a gateway. The log's operator has a different key than the log: it signs key
/// sets, the log signs trees.
const GATEWAYS: [&str; 2] = ["leader", "keeper"];

/// All parties, in one temporary folder. Dropping it kills the processes.
#[derive(Debug)]
pub struct World {
    /// Leader and helper; they serve only recipes in the log.
    pub pair: Pair,
    /// The log.
    pub log: Service,
    /// Alpha, beta and gamma: any two of them are a quorum.
    pub witnesses: Vec<Service>,
    /// Between devices and everybody else.
    pub relay: Service,
    /// How relay and gateways are set up.
    pub oblivious: Oblivious,
    /// Lines of `[floors]` in the trust file, beside those of batch and population.
    pub floors: String,
    /// Whether leader and helper say that the other one is at a private address.
    pub private_addresses: bool,
    /// Attesters and issuers. Without them recipes ask for no tokens, and devices allow that.
    pub tokens: Option<TokenServices>,
    /// The operators that write receipts: `leader`, `helper`. Each has a key for them.
    pub receipts: &'static [&'static str],
}

/// How relay and gateways are set up. Change it in [`World::arranged`], before the files are
/// written.
#[derive(Debug)]
pub struct Oblivious {
    /// The relay's settings, before its list of gateways.
    pub relay: String,
    /// Where the relay finds the gateway of an operator, if not at the leader or the log.
    pub urls: BTreeMap<&'static str, String>,
    /// The tables of leader (`leader`) and log (`keeper`), if they have their own gateway.
    pub tables: BTreeMap<&'static str, String>,
}

impl Default for Oblivious {
    /// Requests wait briefly, so that some are mixed but no test waits for long. All devices have
    /// the same address.
    fn default() -> Self {
        let table = |operator| format!("[gateway]\nkeys = [\"{operator}-gateway.toml\"]\n");
        Self {
            relay: "[sources]\nmax = 0\n[pool]\nmin = 2\nwait_ms = 5\n".to_owned(),
            urls: BTreeMap::new(),
            tables: GATEWAYS.iter().map(|operator| (*operator, table(operator))).collect(),
        }
    }
}

impl World {
    /// Makes all keys and files. Nothing runs yet.
    pub fn new() -> Result<Self> {
        Self::arranged(|_| Ok(()))
    }

    /// The same with attesters and issuers: every report carries tokens.
    pub fn with_tokens() -> Result<Self> {
        Self::arranged(Self::add_tokens)
    }

    /// Adds attesters and issuers, before the files are written.
    pub fn add_tokens(&mut self) -> Result<()> {
        self.tokens = Some(TokenServices::new(self.pair.folder())?);
        Ok(())
    }

    /// The same after `arrange` has changed things: addresses, log levels, gateways.
    pub fn arranged(arrange: impl FnOnce(&mut Self) -> Result<()>) -> Result<Self> {
        let pair = Pair::new()?;
        let folder = pair.folder().to_path_buf();
        let log = Service::new(&folder, "log", "log")?;
        let witnesses: Result<Vec<_>> =
            WITNESSES.iter().map(|name| Service::new(&folder, name, "witness")).collect();
        let relay = Service::new(&folder, "relay", "relay")?;
        let oblivious = Oblivious::default();
        let mut world = Self {
            pair,
            log,
            witnesses: witnesses?,
            relay,
            oblivious,
            floors: String::new(),
            private_addresses: true,
            tokens: None,
            receipts: &[],
        };
        arrange(&mut world)?;
        world.make_keys()?;
        world.make_log_files()?;
        world.make_relay_file()?;
        world.make_trust_file()?;
        world.configure_aggregators()?;
        if let Some(tokens) = &world.tokens {
            tokens.write_configs(&world.public("author", "verifier")?)?;
        }
        Ok(world)
    }

    /// Starts all parties, and waits until they are serving.
    pub fn start(&mut self) -> Result<()> {
        for witness in &mut self.witnesses {
            witness.start()?;
        }
        self.log.start()?;
        self.relay.start()?;
        if let Some(tokens) = &mut self.tokens {
            tokens.start()?;
        }
        self.pair.start()
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.pair.folder().join(name)
    }

    /// Runs a command of the binary in the folder.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(sotto()?);
        command.args(arguments).current_dir(self.pair.folder()).stdin(Stdio::null());
        command.output().context("cannot start sotto")
    }

    /// Runs a command that must succeed, and reads its one JSON object.
    pub fn run_json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.run(&[&["--json"], arguments].concat())?;
        if !output.status.success() {
            bail!("sotto {arguments:?} failed ({}): {}", output.status, shown(&output));
        }
        read_json(&output)
    }

    /// The exit code of a command, and everything that it printed.
    pub fn exit_code(&self, arguments: &[&str]) -> Result<(Option<i32>, String)> {
        let output = self.run(arguments)?;
        Ok((output.status.code(), shown(&output)))
    }

    /// Makes an HPKE key for an aggregator and lists it before the existing ones, for the next
    /// start.
    pub fn add_hpke_key(&mut self, operator: &str, id: u8) -> Result<String> {
        let file = format!("{operator}-hpke-{id}.toml");
        self.run_json(&["keys", "new", "--id", &id.to_string(), "--out", &file])?;
        let aggregator = self.aggregator(operator);
        aggregator.hpke_keys_first(&file)?;
        Ok(file)
    }

    /// Publishes the next key set of an operator, the preferred key first, and the key of its
    /// gateway.
    pub fn publish_keys(&self, operator: &str, files: &[&str]) -> Result<Value> {
        let gateway = format!("{operator}-gateway.toml");
        match self.path(&gateway).exists() {
            true => self.publish_key_set(operator, files, &[&gateway]),
            false => self.publish_key_set(operator, files, &[]),
        }
    }

    /// Publishes the next key set of an operator: these keys, those of each kind in order of
    /// preference.
    pub fn publish_key_set(
        &self,
        operator: &str,
        files: &[&str],
        gateway: &[&str],
    ) -> Result<Value> {
        let signer = format!("{operator}.key");
        let url = match operator {
            "leader" => Some(&self.pair.leader.url),
            "helper" => Some(&self.pair.helper.url),
            _ => None,
        };
        // With the trust file, the set is in force at once, because this file requires no age.
        let mut arguments = vec!["keys", "publish", "--signer", &signer, "--trust", "trust.toml"];
        arguments.extend(files.iter().flat_map(|file| ["--hpke-key", file]));
        arguments.extend(gateway.iter().flat_map(|file| ["--gateway-key", file]));
        arguments.extend(url.iter().flat_map(|url| ["--url", url]));
        let receipt_key = match self.receipts.contains(&operator) {
            true => Some(self.public(&format!("{operator}-receipts"), "verifier")?),
            false => None,
        };
        arguments.extend(receipt_key.iter().flat_map(|key| ["--receipt-key", key]));
        self.run_json(&arguments)
    }

    /// Makes an HPKE key for each aggregator, starts all parties, and publishes all keys in the
    /// log.
    pub fn start_with_keys(&mut self) -> Result<()> {
        let files = [self.add_hpke_key("leader", 1)?, self.add_hpke_key("helper", 1)?];
        self.start()?;
        for (operator, file) in ["leader", "helper"].iter().zip(&files) {
            self.publish_keys(operator, &[file])?;
        }
        self.publish_keys("keeper", &[])?;
        for issuer in ISSUERS.iter().filter(|_| self.tokens.is_some()) {
            let (signer, key) = (format!("{issuer}.key"), format!("{issuer}-encapsulation.toml"));
            let mut arguments = vec!["keys", "publish", "--signer", &signer];
            arguments.extend(["--trust", "trust.toml", "--encapsulation-key", &key]);
            self.run_json(&arguments)?;
        }
        Ok(())
    }

    /// Writes and publishes a recipe that asks every device this.
    pub fn publish_question(&self, name: &str, devices: u64, question: &[&str]) -> Result<Value> {
        let (url, opens) = (&self.pair.helper.url, opens()?.to_string());
        self.publish_recipe_between(url, name, devices, question, &["--opens", &opens], "7d")
    }

    /// Writes and publishes a histogram `minutes -> short, middle, long` that every device answers,
    /// practically without noise.
    pub fn publish_recipe(&self, name: &str, devices: u64) -> Result<Value> {
        self.publish_recipe_with(name, devices, &[])
    }

    /// The same, with options of `recipe new`.
    pub fn publish_recipe_with(&self, name: &str, devices: u64, options: &[&str]) -> Result<Value> {
        let opens = opens()?.to_string();
        self.publish_recipe_when(name, devices, &[&["--opens", &opens], options].concat(), "7d")
    }

    /// The same, but the author chooses where the helper is.
    pub fn publish_recipe_with_helper_at(
        &self,
        url: &str,
        name: &str,
        devices: u64,
    ) -> Result<Value> {
        let opens = opens()?.to_string();
        self.publish_recipe_between(url, name, devices, &COMMUTE, &["--opens", &opens], "7d")
    }

    /// The same with other times: options of `recipe new`, and how long the token keys outlive the
    /// recipe.
    pub fn publish_recipe_when(
        &self,
        name: &str,
        devices: u64,
        when: &[&str],
        grace: &str,
    ) -> Result<Value> {
        self.publish_recipe_between(&self.pair.helper.url, name, devices, &COMMUTE, when, grace)
    }

    fn publish_recipe_between(
        &self,
        helper: &str,
        name: &str,
        devices: u64,
        question: &[&str],
        when: &[&str],
        grace: &str,
    ) -> Result<Value> {
        let leader = self.pair.leader.url.clone();
        let count = devices.to_string();
        let mut arguments = vec!["recipe", "new", name];
        arguments.extend(question);
        arguments.extend(["--population", &count, "--min-batch", &count, "--rate", "1"]);
        arguments.extend(when);
        arguments.extend(["--leader-operator", "leader.example", "--leader-url", &leader]);
        arguments.extend(["--helper-operator", "helper.example", "--helper-url", helper]);
        arguments.extend(["--collector-key", "collector.toml", "--log-origin", "log.example"]);
        let issuers = self.tokens.as_ref().map(TokenServices::issuers);
        match &issuers {
            Some([(leader, _), (helper, _)]) if leader == helper => {
                arguments.extend(["--leader-issuer", leader, "--insecure-single-issuer"]);
            }
            Some([(leader, _), (helper, _)]) => {
                arguments.extend(["--leader-issuer", leader, "--helper-issuer", helper]);
            }
            None => arguments.push("--insecure-no-tokens"),
        }
        self.run_json(&arguments)?;
        let (file, log) = (format!("{name}.toml"), self.log.url());
        if let Some([(_, leader), (_, helper)]) = &issuers {
            let mut arguments = vec!["recipe", "tokens", &file, "--signer", "author.key"];
            arguments.extend(["--leader-issuer", leader, "--helper-issuer", helper]);
            arguments.extend(["--trust", "trust.toml", "--grace", grace]);
            self.run_json(&arguments)?;
        }
        self.run_json(&["recipe", "publish", &file, "--signer", "author.key", "--log", &log])
    }

    /// One pass of a device with these minutes. The same name is the same device.
    pub fn device(&self, name: &str, minutes: u64) -> Result<Value> {
        let (state, attributes) = (format!("{name}.json"), format!("{name}.attributes.toml"));
        fs::write(self.path(&attributes), format!("minutes = {minutes}\n"))?;
        let mut arguments = vec!["device", "run", "--once", "--trust", "trust.toml"];
        arguments.extend(["--state", &state, "--attributes", &attributes]);
        if self.tokens.is_some() {
            arguments.extend(["--insecure-name", name]);
        }
        self.run_json(&arguments)
    }

    /// Collects everything that a recipe has received so far.
    pub fn collect(&self, name: &str) -> Result<Value> {
        self.collect_within(name, "60")
    }

    /// The same, but gives up after this many seconds.
    pub fn collect_within(&self, name: &str, deadline_s: &str) -> Result<Value> {
        // The recipe is still open, and nobody answers later.
        let arguments = self.collect_arguments(name, &["--deadline", deadline_s, "--anyway"]);
        self.run_json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// `sotto collect` for a recipe, from any folder.
    pub fn collect_arguments(&self, name: &str, options: &[&str]) -> Vec<String> {
        let path = |file: &str| self.path(file).to_string_lossy().into_owned();
        let recipe = path(&format!("{name}.recipe"));
        let mut arguments: Vec<String> = ["collect", "--recipe"].map(Into::into).into();
        arguments.extend([recipe, "--token-file".into(), path("collector.token")]);
        arguments.extend(["--collector-key".into(), path("collector.toml")]);
        arguments.extend(options.iter().map(|&option| option.to_owned()));
        arguments
    }

    /// Waits until a metric of an aggregator is at least this.
    pub fn wait_for(&self, aggregator: &Aggregator, metric: &str, value: f64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while aggregator.metric(metric)? < value {
            if Instant::now() > deadline {
                bail!("{metric} stays below {value}: {}", aggregator.log_text());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// `leader` or `helper`.
    pub fn aggregator(&mut self, operator: &str) -> &mut Aggregator {
        match operator {
            "leader" => &mut self.pair.leader,
            _ => &mut self.pair.helper,
        }
    }

    fn make_keys(&self) -> Result<()> {
        for name in SIGNERS.iter().chain(&["log"]).chain(&WITNESSES) {
            let (name, out) = (format!("{name}.example"), format!("{name}.key"));
            let made = self.run_json(&["keys", "signer", "--name", &name, "--out", &out])?;
            fs::write(self.path(&format!("{out}.json")), made.to_string())?;
        }
        for operator in self.receipts {
            let (name, out) = (format!("{operator}.example"), format!("{operator}-receipts.key"));
            let made = self.run_json(&["keys", "signer", "--name", &name, "--out", &out])?;
            fs::write(self.path(&format!("{out}.json")), made.to_string())?;
        }
        self.run_json(&["keys", "new", "--id", "9", "--out", "collector.toml"])?;
        for (operator, id) in GATEWAYS.iter().zip(["21", "22"]) {
            let file = format!("{operator}-gateway.toml");
            self.run_json(&["keys", "new", "--id", id, "--out", &file])?;
        }
        for (issuer, id) in ISSUERS.iter().zip(["31", "32"]) {
            let file = format!("{issuer}-encapsulation.toml");
            self.run_json(&["keys", "new", "--id", id, "--out", &file])?;
        }
        Ok(())
    }

    /// The public line of a signer.
    pub fn public(&self, name: &str, line: &str) -> Result<String> {
        let text = fs::read(self.path(&format!("{name}.key.json")))?;
        let made: Value = serde_json::from_slice(&text)?;
        Ok(made[line].as_str().context("keys signer prints both lines")?.to_owned())
    }

    fn make_log_files(&self) -> Result<()> {
        let log = self.public("log", "verifier")?;
        let mut policy = format!("log {log} {}\n", self.log.url());
        for witness in &self.witnesses {
            let name = witness.name();
            witness.write_config(&format!("key = \"{name}.key\"\nlogs = [\"{log}\"]\n"))?;
            let cosigner = self.public(name, "cosigner")?;
            policy += &format!("witness {name} {cosigner} {}\n", witness.url());
        }
        policy += "group most 2 alpha beta gamma\nquorum most\n";
        fs::write(self.path("policy"), &policy)?;
        let receipts = self.receipts.iter().map(|operator| format!("{operator}-receipts"));
        let signers = SIGNERS.iter().map(|&name| name.to_owned()).chain(receipts);
        let keys: Result<Vec<_>> = signers.map(|name| self.public(&name, "verifier")).collect();
        let keys = serde_json::to_string(&keys?)?;
        let gateway = self.oblivious.tables.get("keeper").cloned().unwrap_or_default();
        self.log.write_config(&format!(
            "key = \"log.key\"\nsubmitters = {keys}\nbatch_delay_ms = 5\npolicy = \"\"\"\n{policy}\"\"\"\n\
             {gateway}"
        ))
    }

    fn make_relay_file(&self) -> Result<()> {
        let mut text = self.oblivious.relay.clone();
        for (operator, own) in
            [("leader", self.pair.leader.url.clone()), ("keeper", self.log.url())]
        {
            let url = self.oblivious.urls.get(operator).unwrap_or(&own);
            text += &format!(
                "[[gateways]]\noperator = \"{operator}.example\"\nurl = \"{url}gateway\"\n"
            );
        }
        self.relay.write_config(&text)
    }

    fn make_trust_file(&self) -> Result<()> {
        let policy = fs::read_to_string(self.path("policy"))?;
        let mut text = format!(
            "policy = \"\"\"\n{policy}\"\"\"\ninsecure_no_min_age = true\ninsecure_fresh_start = true\n\
             insecure_no_tokens = {}\ninsecure_single_attester = {}\ntargeting_attributes = [\"minutes\"]\n[floors]\ndishonest_devices = 1\nmin_population = 2\n{}[budget]\nepsilon = 100.0\nlifetime_epsilon = 100.0\n\
             [[relays]]\noperator = \"relay.example\"\nurl = \"{}\"\n",
            self.tokens.is_none(),
            self.tokens.as_ref().is_some_and(|tokens| tokens.single),
            self.floors,
            self.relay.url()
        );
        for operator in SIGNERS.into_iter().filter(|name| *name != "author") {
            let key = self.public(operator, "verifier")?;
            text += &format!("[[operators]]\nkey = \"{key}\"\n");
        }
        let shown = self.run_json(&["keys", "show", "keeper-gateway.toml"])?;
        let config = shown["hpke_config"].as_str().context("keys show")?;
        text += &format!(
            "[log_gateway]\noperator = \"keeper.example\"\nhpke_configs = [\"{config}\"]\n"
        );
        text += &self.tokens.as_ref().map(TokenServices::trust).unwrap_or_default();
        Ok(fs::write(self.path("trust.toml"), text)?)
    }

    fn configure_aggregators(&mut self) -> Result<()> {
        let author = self.public("author", "verifier")?;
        // Test secrets: their values do not matter, only who holds them.
        let verify_key = "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ";
        let collector_token = "collectors-token-0123";
        fs::write(self.path("collector.token"), collector_token)?;
        for (operator, peer) in [("leader", "helper"), ("helper", "leader")] {
            let peer_url = self.aggregator(peer).url.clone();
            let private = self.private_addresses;
            let token = match operator {
                "leader" => format!("collector_authentication_token = \"{collector_token}\"\n"),
                _ => String::new(),
            };
            let gateway = self.oblivious.tables.get(operator).cloned().unwrap_or_default();
            let receipts = match self.receipts.contains(&operator) {
                true => format!("[recipes.receipts]\nkey = \"{operator}-receipts.key\"\n"),
                false => String::new(),
            };
            let aggregator = self.aggregator(operator);
            let url = aggregator.url.clone();
            aggregator.configure(&format!(
                "public_url = \"{url}\"\ninsecure_plain_tasks = false\n[jobs]\n[recipes]\ntrust = \"trust.toml\"\n\
                 operator = \"{operator}.example\"\npoll_s = 1\n\
                 insecure_early_release = true\n{receipts}\
                 [[recipes.peers]]\noperator = \"{peer}.example\"\nurl = \"{peer_url}\"\n\
                 authentication_token = \"{LEADER_TOKEN}\"\nverify_key_init = \"{verify_key}\"\n\
                 private_addresses = {private}\n[[recipes.authors]]\nkey = \"{author}\"\n{token}{gateway}"
            ))?;
        }
        Ok(())
    }
}

/// The start of the previous hour: reports made now, and a little later, are within the recipe's
/// time.
pub(crate) fn opens() -> Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    Ok(now / 3_600 * 3_600 - 3_600)
}
