//! What `sotto init two-operators` writes can be used as it is. (`docs/walkthrough.md` goes on from
//! there to a result.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use serde_json::Value;
use sotto_testing::ports::free_ports;
use sotto_testing::postgres::Database;
use sotto_tests::pair::get;
use sotto_tests::process::{self, run, run_json, shown};
use tempfile::TempDir;

/// A deployment in a folder. Its servers, if they run, end with it.
struct Deployment {
    temporary: TempDir,
    written: Value,
}

impl Deployment {
    fn new(options: &[&str]) -> Self {
        let temporary = TempDir::with_prefix("sotto-init-").unwrap();
        let folder = temporary.path().join("all");
        let command = ["--json", "init", "two-operators", folder.to_str().unwrap()];
        let written = run_json([&command, options].concat()).unwrap();
        let bin = temporary.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(process::sotto().unwrap(), bin.join("sotto")).unwrap();
        Self { temporary, written }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.temporary.path().join("all").join(below)
    }

    /// The role and the configuration of every server.
    fn servers(&self) -> Vec<(String, PathBuf)> {
        let files = self.written["written"].as_array().unwrap().iter();
        let files = files.map(|file| self.path(file["file"].as_str().unwrap()));
        let roles = ["leader", "helper", "log", "witness", "relay", "attester", "issuer"];
        let server = |path: PathBuf| {
            let role = path.file_stem()?.to_str()?.to_owned();
            let is_role = roles.contains(&role.as_str()) && path.extension()? == "toml";
            is_role.then_some((role, path))
        };
        files.filter_map(server).collect()
    }

    /// All can be checked, and are secret.
    #[track_caller]
    fn check_all(&self) {
        let servers = self.servers();
        assert_eq!(servers.len(), 11);
        for (role, path) in servers {
            let config = path.to_str().unwrap();
            let checked =
                run_json(["--json", "serve", &role, "--config", config, "--check-config"]);
            assert_eq!(checked.unwrap()["valid"], true, "{config}");
        }
        let compose = fs::read_to_string(self.path("compose.yaml")).unwrap();
        let mounts = compose.lines().filter_map(|line| line.strip_prefix("      - ./"));
        let mounts: Vec<&str> = mounts.map(|mount| mount.split(':').next().unwrap()).collect();
        assert!(mounts.len() >= 22 && mounts.iter().all(|mount| self.path(mount).exists()));
        for file in self.written["written"].as_array().unwrap() {
            use std::os::unix::fs::PermissionsExt;
            let path = self.path(file["file"].as_str().unwrap());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    fn script(&self, verb: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        let bin = self.temporary.path().join("bin");
        let mut command = Command::new("sh");
        command.arg(self.path("run.sh")).arg(verb).env("PATH", format!("{}:{path}", bin.display()));
        command.output().unwrap()
    }

    #[track_caller]
    fn start(&self) {
        let output = self.script("start");
        assert!(output.status.success(), "{}", shown(&output));
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if self.path("pids").exists() {
            self.script("stop");
        }
    }
}

fn local() -> (u16, [String; 3]) {
    let first = free_ports(35).unwrap();
    (first, ["--local".to_owned(), "--port".to_owned(), first.to_string()])
}

/// What `/metrics` shows, as names with kinds.
fn metrics(admin: &str) -> BTreeMap<String, String> {
    let shown = get(admin.parse().unwrap(), "/metrics").unwrap();
    let text = String::from_utf8(shown.body).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            (name.to_owned(), kind.to_owned())
        })
        .collect()
}

/// A line of the page about metrics.
struct Documented {
    group: String,
    name: String,
    kind: String,
    help: String,
}

fn documented() -> Vec<Documented> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let page = page.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut group = String::new();
    let mut all = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            group = title.to_lowercase();
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells[0].split(['{', '`']).next().unwrap().to_owned();
        let (kind, help) = (cells[1].to_owned(), cells[3].to_owned());
        all.push(Documented { group: group.clone(), name, kind, help });
    }
    all
}

/// A trial on one machine: every server starts, is ready, and counts what the page about metrics
/// says, and nothing else.
#[test]
fn a_trial_starts_and_its_metrics_are_documented() {
    let (_, options) = local();
    let trial = Deployment::new(&options.each_ref().map(String::as_str));
    trial.check_all();
    trial.start();
    assert!(!trial.script("start").status.success(), "it runs already");
    let documented = documented();
    assert!(documented.len() > 50);
    for (role, path) in trial.servers() {
        let config = path.to_str().unwrap();
        let status = run_json(["--json", "serve", &role, "--config", config, "--status"]).unwrap();
        assert_eq!(status["status"], "ready", "{config}: {status}");
        let file: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        let shown = metrics(file["admin_listen"].as_str().unwrap());
        let of_role = |line: &&Documented| {
            let mut words = line.group.split(' ');
            line.group == "all servers" || words.any(|word| word == role)
        };
        let listed: Vec<&Documented> = documented.iter().filter(of_role).collect();
        for (name, kind) in &shown {
            let line = listed.iter().find(|line| line.name == *name);
            let line = line.unwrap_or_else(|| panic!("{role}: {name} is not documented"));
            assert_eq!(line.kind, *kind, "{name}");
        }
        for line in listed {
            let is_absent = ["only with TLS", "with receipts"].iter();
            let is_absent = is_absent.into_iter().any(|when| line.help.contains(when));
            let is_known = line.kind == "histogram" || shown.contains_key(&line.name);
            assert!(is_absent || is_known, "{role} does not show {}", line.name);
        }
    }
    let output = trial.script("stop");
    assert!(output.status.success() && !trial.path("pids").exists(), "{}", shown(&output));
    // It starts again from what it has stored.
    trial.start();
}

/// Between machines: with certificates in place, everything that was written can be used.
#[test]
fn what_operators_get_can_be_checked() {
    let folder = TempDir::with_prefix("sotto-init-roots-").unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let roots = folder.path().join("roots.pem");
    fs::write(&roots, root.pem()).unwrap();
    let devices = [
        "--manufacturer",
        "Example Devices",
        "--device-roots",
        roots.to_str().unwrap(),
        "--device-usage",
        "1.3.6.1.4.1.32473.1.1",
        "--name",
        "leader=sums.example.org",
        "--name",
        "keeper=keeper.example",
    ];
    let deployment = Deployment::new(&devices);
    let operators = deployment.written["operators"].as_array().unwrap();
    assert_eq!(operators.len(), 8);
    for operator in operators {
        let operator = operator.as_str().unwrap();
        let tls = deployment.path(&format!("{operator}/server/tls"));
        fs::create_dir(&tls).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![operator.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &root).unwrap();
        fs::write(tls.join("fullchain.pem"), certificate.pem()).unwrap();
        fs::write(tls.join("privkey.pem"), key.serialize_pem()).unwrap();
    }
    deployment.check_all();
    for (role, path) in deployment.servers() {
        let folder = path.parent().unwrap().parent().unwrap();
        let unit = fs::read_to_string(folder.join(format!("sotto-{role}.service"))).unwrap();
        let start = format!("sotto serve {role} --config /etc/sotto/{role}.toml");
        assert!(unit.contains(&start) && !unit.contains("%i"), "{unit}");
        assert!(unit.contains("ProtectSystem=strict"));
        // A trial alone has insecure settings.
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("insecure") && !text.contains("http://"), "{text}");
    }
    let trust = fs::read_to_string(deployment.path("trust.toml")).unwrap();
    assert!(!trust.contains("insecure") && !trust.contains("http://"), "{trust}");
}

/// Nobody else's secrets are in an operator's folder.
#[test]
fn secrets_are_where_they_belong() {
    let (_, options) = local();
    let trial = Deployment::new(&options.each_ref().map(String::as_str));
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in trial.written["written"].as_array().unwrap() {
        let path = file["file"].as_str().unwrap();
        let text = fs::read_to_string(trial.path(path)).unwrap();
        let owner = path.split_once('/').map_or("", |(owner, _)| owner);
        let secrets = text.lines().filter_map(|line| {
            let (key, value) = line.split_once(" = ")?;
            let is_secret = key.ends_with("token")
                || ["seed", "hpke_private_key", "verify_key_init"].contains(&key);
            is_secret.then(|| value.to_owned())
        });
        for secret in secrets {
            assert_eq!(file["is_secret"], true, "{path}");
            places.entry(secret).or_default().insert(owner.to_owned());
        }
    }
    let shared: Vec<_> = places.values().filter(|owners| owners.len() > 1).collect();
    let pair = |one: &str, other: &str| BTreeSet::from([one.to_owned(), other.to_owned()]);
    // Two of leader and helper, one of each attester and its issuer.
    let aggregators = pair("helper.example", "leader.example");
    assert_eq!(shared.iter().filter(|owners| ***owners == aggregators).count(), 2);
    for chain in ["a", "b"] {
        let chain = pair(&format!("attester-{chain}.example"), &format!("issuer-{chain}.example"));
        assert_eq!(shared.iter().filter(|owners| ***owners == chain).count(), 1);
    }
    assert_eq!(shared.len(), 4, "{shared:?}");
    assert!(places.len() >= 15 && !places.values().any(|owners| owners.contains("")));
}

/// Leader and helper on PostgreSQL, each with a database of its own.
#[test]
fn a_trial_on_postgresql_starts() {
    let (Some(leader), Some(helper)) = (Database::new(), Database::new()) else { return };
    let (first, options) = local();
    let options = [
        &options.each_ref().map(String::as_str)[..],
        &["--postgres", "--name", "keeper=k.example"],
    ]
    .concat();
    let trial = Deployment::new(&options);
    for (role, database) in [("leader", &leader), ("helper", &helper)] {
        let path = trial.path(&format!("{role}.example/server/{role}.toml"));
        let text = fs::read_to_string(&path).unwrap();
        let before = format!("host=/run/postgresql user=sotto dbname={role}");
        assert!(text.contains(&before), "{text}");
        fs::write(&path, text.replace(&before, &database.url())).unwrap();
        migrate(&path);
    }
    trial.check_all();
    trial.start();
    let compose = fs::read_to_string(trial.path("compose.yaml")).unwrap();
    for service in ["leader-1", "leader-2", "leader-proxy", "helper-2", "helper-database"] {
        assert!(compose.contains(&format!("\n  {service}:\n")), "{service}");
    }
    // A second process of each, as the compose file runs it.
    for (role, port) in [("leader", first + 12), ("helper", first + 14)] {
        let listen = format!("127.0.0.1:{port}");
        assert!(compose.contains(&format!("SOTTO_LISTEN: \"{listen}\"")), "{compose}");
        let admin_listen = format!("127.0.0.1:{}", port + 20);
        let data_dir = trial.path(&format!("{role}.example/data/{role}-2"));
        let ready_file = data_dir.join("ready");
        let mut second = Command::new(process::sotto().unwrap());
        second
            .args(["serve", role, "--config"])
            .arg(trial.path(&format!("{role}.example/server/{role}.toml")))
            .arg("--ready-file")
            .arg(&ready_file)
            .env("SOTTO_LISTEN", &listen)
            .env("SOTTO_ADMIN_LISTEN", &admin_listen)
            .env("SOTTO_DATA_DIR", &data_dir);
        let mut second = second.spawn().unwrap();
        while !ready_file.exists() {
            assert!(second.try_wait().unwrap().is_none(), "the second {role} ended");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let ready = get(admin_listen.parse().unwrap(), "/readyz");
        second.kill().unwrap();
        second.wait().unwrap();
        assert_eq!(ready.unwrap().status, 200);
    }
}

#[track_caller]
fn migrate(config: &Path) {
    let done = run_json(["--json", "db", "migrate", "--config", config.to_str().unwrap()]).unwrap();
    assert_eq!(done["migrated"], true);
}

#[test]
fn nothing_is_overwritten() {
    let folder = TempDir::with_prefix("sotto-init-").unwrap();
    fs::write(folder.path().join("precious"), "").unwrap();
    let path = folder.path().to_str().unwrap();
    let output = run(["init", "two-operators", path, "--local"]).unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    assert!(shown(&output).contains("is not empty"), "{}", shown(&output));
    let missing = folder.path().join("new");
    let output = run(["init", "two-operators", missing.to_str().unwrap()]).unwrap();
    assert!(shown(&output).contains("--manufacturer"), "{}", shown(&output));
    assert!(!missing.exists());
}
