//! Leader and helper as two processes over TLS; devices and collector as other processes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sotto_testing::ports::free_port;

use crate::{json, read};

/// Longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

fn sotto(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sotto")).args(arguments).output().unwrap()
}

/// A server in its own process.
pub(crate) struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts it and waits until it serves.
    pub(crate) fn start(folder: &Path, role: &str) -> Self {
        let ready = folder.join(format!("{role}.ready"));
        let _ = fs::remove_file(&ready);
        let config = folder.join(format!("{role}.toml"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_sotto"))
            .args(["serve", role, "--config", text(&config), "--ready-file", text(&ready)])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !ready.exists() {
            assert!(child.try_wait().unwrap().is_none(), "{role} ended");
            assert!(Instant::now() < deadline, "{role} does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        let ready = read(&fs::read(&ready).unwrap());
        assert_eq!(ready["role"], role);
        assert!(ready["task_count"].is_null() || ready["task_count"] == 1, "{ready}");
        let address = ready["listen"].as_str().unwrap().to_owned();
        Self { process: child, address }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits until it has ended, and returns its exit code.
    #[cfg(unix)]
    fn wait(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it as an operator does.
    #[cfg(unix)]
    fn stop(self) -> Option<i32> {
        self.signal("-TERM");
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder with certificate, task and configurations of a pair on free ports.
pub(crate) struct Pair {
    pub(crate) folder: tempfile::TempDir,
}

impl Pair {
    pub(crate) fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("cert.pem"), certified.cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
        let [leader, helper] = [(); 2].map(|()| free_port().unwrap());
        let (leader_url, helper_url) =
            (format!("https://localhost:{leader}/dap"), format!("https://localhost:{helper}/"));
        let task = folder.path().join("task");
        let mut arguments = vec!["task", "new", "--out", text(&task)];
        arguments.extend(["--leader", &leader_url, "--helper", &helper_url]);
        arguments.extend(options);
        let made = sotto(&arguments);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let tls = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\nca = \"cert.pem\"\n";
        for (role, port, url) in [("leader", leader, leader_url), ("helper", helper, helper_url)] {
            let config = format!(
                "listen = \"127.0.0.1:{port}\"\npublic_url = \"{url}\"\ndata_dir = \"{role}-data\"\n\
                 tasks = [\"task/{role}.toml\"]\ninsecure_plain_tasks = true\n{tls}"
            );
            fs::write(folder.path().join(format!("{role}.toml")), config).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn upload(&self, value: &str) -> Output {
        let (task, ca) = (self.path("task/client.toml"), self.path("cert.pem"));
        sotto(&[
            "upload",
            "--task",
            text(&task),
            "--ca",
            text(&ca),
            "--json",
            "--measurement",
            value,
        ])
    }

    fn collect(&self, options: &[&str]) -> Output {
        let (task, ca) = (self.path("task/collector.toml"), self.path("cert.pem"));
        let mut arguments = vec!["collect", "--task", text(&task), "--ca", text(&ca), "--json"];
        arguments.extend(options);
        sotto(&arguments)
    }
}

#[cfg(unix)]
#[test]
fn batches_come_one_after_the_other_over_tls_and_restarts() {
    let pair = Pair::new(&[
        "--vdaf",
        "sum",
        "--max-measurement",
        "100",
        "--min-batch-size",
        "2",
        "--batch-mode",
        "leader-selected",
    ]);
    let leader = Server::start(pair.folder.path(), "leader");
    let helper = Server::start(pair.folder.path(), "helper");
    let early = pair.collect(&["--deadline", "0"]);
    assert_eq!(early.status.code(), Some(1), "{early:?}");
    assert_eq!(json(&early)["ready"], false);
    for value in ["40", "2"] {
        let uploaded = pair.upload(value);
        assert_eq!(uploaded.status.code(), Some(0), "{uploaded:?}");
        assert_eq!(json(&uploaded)["accepted"], 1);
    }
    // The same batch again, until the job is deleted.
    for options in [&["--keep"][..], &[]] {
        let collected = json(&pair.collect(options));
        assert_eq!((&collected["result"], &collected["count"]), (&42.into(), &2.into()));
    }
    assert_eq!(leader.stop(), Some(0));
    assert_eq!(helper.stop(), Some(0));
    let _leader = Server::start(pair.folder.path(), "leader");
    let _helper = Server::start(pair.folder.path(), "helper");
    for value in ["100", "1", "0"] {
        assert_eq!(pair.upload(value).status.code(), Some(0));
    }
    // Two or three reports, depending on when the batch closed.
    let collected = json(&pair.collect(&[]));
    assert!(collected["count"].as_u64().unwrap() >= 2, "{collected}");
}

#[test]
fn prepared_reports_are_kept_and_sent_later() {
    let pair = Pair::new(&[
        "--vdaf",
        "histogram",
        "--length",
        "5",
        "--min-batch-size",
        "3",
        "--time-precision",
        "52w",
    ]);
    let _leader = Server::start(pair.folder.path(), "leader");
    let _helper = Server::start(pair.folder.path(), "helper");
    let (task, ca) = (pair.path("task/client.toml"), pair.path("cert.pem"));
    let (lines, reports) = (pair.path("lines"), pair.path("reports"));
    fs::write(&lines, "0\n4\n4\n\n2\n").unwrap();
    let prepared = sotto(&[
        "upload",
        "--task",
        text(&task),
        "--ca",
        text(&ca),
        "--json",
        "--file",
        text(&lines),
        "--prepare-only",
        "--out",
        text(&reports),
    ]);
    assert_eq!(json(&prepared)["prepared"], 4);
    let arguments = [
        "upload",
        "--task",
        text(&task),
        "--ca",
        text(&ca),
        "--json",
        "--prepared",
        text(&reports),
    ];
    assert_eq!(json(&sotto(&arguments))["accepted"], 4);
    let collected = json(&pair.collect(&["--current"]));
    assert_eq!(collected["result"], serde_json::json!([1, 0, 1, 0, 2]));
    // What was counted is not counted again.
    let again = sotto(&arguments);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert_eq!(json(&again)["accepted"], 0);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    let _leader = Server::start(pair.folder.path(), "leader");
    let task = pair.path("task/client.toml");
    let refused = sotto(&[
        "upload",
        "--task",
        text(&task),
        "--json",
        "--measurement",
        "1",
        "--attempts",
        "1",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    let error = json(&refused)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("UnknownIssuer"), "{error}");
    let hint = json(&refused)["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("`--ca FILE`"), "{hint}");
}

#[cfg(unix)]
#[test]
fn a_second_signal_does_not_wait_for_requests() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    // Plain http, with timeouts longer than this test waits.
    let config = "listen = \"127.0.0.1:0\"\ntasks = [\"task/leader.toml\"]\n\
        insecure_plain_tasks = true\n[limits]\ndrain_deadline_s = 3600\nbody_timeout_s = 3600\n";
    fs::write(pair.path("leader.toml"), config).unwrap();
    let leader = Server::start(pair.folder.path(), "leader");
    let shown = json(&sotto(&["task", "show", text(&pair.path("task/client.toml")), "--json"]));
    let mut upload = TcpStream::connect(&leader.address).unwrap();
    write!(
        upload,
        "POST /tasks/{}/reports HTTP/1.1\r\nhost: leader\r\nexpect: 100-continue\r\n\
         content-type: application/ppm-dap;message=upload-req\r\ncontent-length: 100\r\n\r\n",
        shown["task_id"].as_str().unwrap()
    )
    .unwrap();
    // The request is being handled once the server asks for its body.
    let mut line = String::new();
    BufReader::new(&upload).read_line(&mut line).unwrap();
    assert!(line.contains("100"), "{line}");
    leader.signal("-TERM");
    leader.signal("-INT");
    assert_eq!(leader.wait(), Some(1));
}

#[cfg(unix)]
#[test]
fn a_key_that_takes_over_an_id_is_refused() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    let config = fs::read_to_string(pair.path("helper.toml")).unwrap();
    fs::write(pair.path("helper.toml"), format!("hpke_keys = [\"key.toml\"]\n{config}")).unwrap();
    let new_key = |id: &str| {
        let path = pair.path("key.toml");
        let made = sotto(&["keys", "new", "--force", "--id", id, "--out", text(&path)]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
    };
    new_key("5");
    assert_eq!(Server::start(pair.folder.path(), "helper").stop(), Some(0));
    assert_eq!(Server::start(pair.folder.path(), "helper").stop(), Some(0));

    new_key("5");
    let refused = sotto(&["serve", "helper", "--config", text(&pair.path("helper.toml"))]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("id 5") && message.contains("sotto keys new --id "), "{message}");
    assert!(message.contains("hpke_keys_seen.toml"), "{message}");

    new_key("6");
    assert_eq!(Server::start(pair.folder.path(), "helper").stop(), Some(0));
}

/// Adds a line to a configuration, before its tables.
pub(crate) fn configure(pair: &Pair, role: &str, line: &str) {
    let path = pair.path(&format!("{role}.toml"));
    fs::write(&path, format!("{line}\n{}", fs::read_to_string(&path).unwrap())).unwrap();
}

fn serve(pair: &Pair, role: &str, options: &[&str]) -> Output {
    let config = pair.path(&format!("{role}.toml"));
    sotto(&[&["serve", role, "--config", text(&config)], options].concat())
}

/// The names of all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn a_configuration_is_checked_beside_the_running_server() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    let before = files(pair.folder.path());
    for role in ["leader", "helper"] {
        let checked = serve(&pair, role, &["--check-config", "--json"]);
        assert_eq!(checked.status.code(), Some(0), "{checked:?}");
        let checked = json(&checked);
        assert_eq!((&checked["valid"], &checked["task_count"]), (&true.into(), &1.into()));
        assert!(checked["certificate_expires_s"].as_u64().is_some(), "{checked}");
    }
    assert_eq!(files(pair.folder.path()), before);

    let _leader = Server::start(pair.folder.path(), "leader");
    let running = files(&pair.path("leader-data"));
    let checked = serve(&pair, "leader", &["--check-config"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stdout).contains("can be used"), "{checked:?}");
    assert_eq!(files(&pair.path("leader-data")), running);

    // Mistakes in the file, in a file that it names, and between two of them.
    let original = fs::read_to_string(pair.path("leader.toml")).unwrap();
    for (found, instead, message) in [
        ("insecure_plain_tasks = true\n", "", "plain DAP task"),
        ("listen =", "listn =", "unknown field `listn`"),
        ("task/leader.toml", "task/helper.toml", "the other aggregator's file"),
        ("key = \"key.pem\"", "key = \"cert.pem\"", "private key"),
    ] {
        fs::write(pair.path("leader.toml"), original.replace(found, instead)).unwrap();
        let checked = serve(&pair, "leader", &["--check-config", "--json"]);
        assert_eq!(checked.status.code(), Some(2), "{checked:?}");
        let error = json(&checked)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(message), "{error}");
    }
}

/// The history of key ids is in the folder that is left alone, and counts all the same.
#[test]
fn a_key_that_takes_over_an_id_is_found_before_the_start() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    configure(&pair, "helper", "hpke_keys = [\"key.toml\"]");
    let new_key = || {
        let path = pair.path("key.toml");
        sotto(&["keys", "new", "--force", "--id", "5", "--out", text(&path)])
    };
    new_key();
    drop(Server::start(pair.folder.path(), "helper"));
    assert_eq!(serve(&pair, "helper", &["--check-config"]).status.code(), Some(0));
    new_key();
    let refused = serve(&pair, "helper", &["--check-config"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("id 5"), "{refused:?}");
}

#[test]
fn a_running_server_says_what_it_serves() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    let unset = serve(&pair, "leader", &["--status"]);
    assert!(String::from_utf8_lossy(&unset.stderr).contains("`admin_listen` is not set"));
    let port = free_port().unwrap();
    configure(&pair, "leader", &format!("admin_listen = \"127.0.0.1:{port}\""));
    assert_eq!(serve(&pair, "leader", &["--status"]).status.code(), Some(2));

    let _leader = Server::start(pair.folder.path(), "leader");
    let status = serve(&pair, "leader", &["--status", "--json"]);
    assert_eq!(status.status.code(), Some(0), "{status:?}");
    let status = json(&status);
    let shown = json(&sotto(&["task", "show", text(&pair.path("task/client.toml")), "--json"]));
    assert_eq!(status["tasks"][0]["task_id"], shown["task_id"]);
    assert_eq!(status["not_served"], serde_json::json!([]));
    let printed = serve(&pair, "leader", &["--status"]);
    assert!(String::from_utf8_lossy(&printed.stdout).contains("Serves 1 tasks."), "{printed:?}");
}

/// As systemd does with `Type=notify`.
#[cfg(unix)]
#[test]
fn the_service_manager_is_told() {
    let pair = Pair::new(&["--vdaf", "count", "--min-batch-size", "1"]);
    let socket = pair.path("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let process = Command::new(env!("CARGO_BIN_EXE_sotto"))
        .args(["serve", "helper", "--config", text(&pair.path("helper.toml"))])
        .env("NOTIFY_SOCKET", &socket)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let helper = Server { process, address: String::new() };
    let told = || {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    // A reload, which ended servers before.
    helper.signal("-HUP");
    helper.signal("-TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(helper.wait(), Some(0));
}
