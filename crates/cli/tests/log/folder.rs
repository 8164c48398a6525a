//! A folder with a policy, a trust file and logs, and the binary running in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use sotto_protocol::log::Reader;
use sotto_protocol::log::witnessing::Cosigned;
use sotto_protocol::trust::TrustFile;
use sotto_store::{FolderFetch, LogDir};
use sotto_testing::keys::witness;
use sotto_testing::log::{Log, Times};
use sotto_testing::recipe::pinned;
use sotto_wire::{Entry, Note, TlogPolicy};
use tempfile::TempDir;

use crate::log::entries::{DAY, ORIGIN, key, now};

/// Where the honest log serves its files.
pub(crate) const LOG: &str = "data/public";

/// A folder to run commands in.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    /// With `policy` and `trust.toml`, and no log.
    pub(crate) fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        world.write("policy", policy());
        world.trust(|_| {});
        world
    }

    /// With an honest log of these entries, each published on its own: the last one now, the others
    /// two days ago, because keys must be public before they come into force.
    pub(crate) fn with(entries: &[Entry]) -> Self {
        let world = Self::new();
        let mut log = world.log();
        for (place, entry) in entries.iter().enumerate() {
            let age = if place + 1 < entries.len() { 2 * DAY } else { 0 };
            publish_at(&mut log, std::slice::from_ref(entry), now() - age);
        }
        world
    }

    /// The honest log, open.
    pub(crate) fn log(&self) -> LogDir {
        LogDir::open(&self.path("data"), key(ORIGIN)).unwrap()
    }

    /// Writes `trust.toml`: it pins the operators, and allows insecure settings where tests need
    /// them.
    pub(crate) fn trust(&self, change: impl FnOnce(&mut TrustFile)) {
        let mut file = TrustFile::new(policy());
        file.operators = pinned(&["leader.example", "helper.example"]);
        file.insecure_no_min_age = true;
        file.insecure_direct = true;
        file.insecure_fresh_start = true;
        file.insecure_no_tokens = true;
        change(&mut file);
        self.write("trust.toml", toml::to_string(&file).unwrap());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Writes the entry `name.recipe` and beside it its proof in the honest log.
    pub(crate) fn write_proof(&self, name: &str, entry: &Entry) {
        self.write(&format!("{name}.recipe"), entry.to_bytes());
        let mut reader = Reader::new(FolderFetch::new(self.path(LOG)));
        let newest = reader.checkpoint().unwrap().unwrap();
        let index = reader.find(&entry.id()).unwrap().unwrap();
        self.write(&format!("{name}.proof"), reader.proof(index, &newest).unwrap().to_bytes());
    }

    /// The misbehaviour files in a folder.
    pub(crate) fn evidence(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let found = names.filter(|name| name.starts_with("misbehaviour-"));
        found.map(|name| format!("{folder}/{name}")).collect()
    }

    /// Runs the binary. Whatever it remembers stays in this folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_sotto"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS")
            .env("XDG_STATE_HOME", self.path("home"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run(output)
    }
}

/// The outcome of a command.
pub(crate) struct Run(Output);

impl Run {
    /// What it printed. Checks that it exited with this code.
    pub(crate) fn says(&self, code: i32) -> String {
        assert_eq!(self.0.status.code(), Some(code), "{:?}", self.0);
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    /// The same as JSON.
    pub(crate) fn json(&self, code: i32) -> Value {
        crate::read(self.says(code).as_bytes())
    }

    /// Why it failed. Checks that nothing is on stdout.
    pub(crate) fn fails(&self) -> String {
        assert_eq!(self.says(2), "");
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }
}

/// The log and two witnesses. Both must cosign.
pub(crate) fn policy() -> String {
    sotto_testing::log::policy(&key(ORIGIN), &[0, 1].map(witness), 2)
}

/// The checkpoint, signed by the log and cosigned by this many witnesses at this time.
pub(crate) fn signed(text: &str, witnesses: usize, time: u64) -> Note {
    sotto_testing::log::signed(text, times(witnesses, time), &key(ORIGIN))
}

fn times(witnesses: usize, time: u64) -> Times {
    [0, 1, 2].map(|number| (number < witnesses).then_some(time))
}

/// Appends entries to the honest log, in one step.
pub(crate) fn publish(log: &mut LogDir, entries: &[Entry]) {
    publish_at(log, entries, now());
}

fn publish_at(log: &mut LogDir, entries: &[Entry], time: u64) {
    let staged = log.stage(entries).unwrap();
    let note = signed(staged.note.text(), 2, time);
    log.publish(&Cosigned::new(note, &TlogPolicy::parse(&policy()).unwrap()).unwrap()).unwrap();
    log.write_index().unwrap();
}

/// The files of a log that accepts anything, published in one step: no admission rules, no memory
/// of what it signed before.
pub(crate) fn forge(folder: &Path, entries: &[Entry]) {
    forge_with(folder, entries, 2, now());
}

/// The same, with this many witnesses at this time.
pub(crate) fn forge_with(folder: &Path, entries: &[Entry], witnesses: usize, time: u64) {
    let mut log = Log::empty();
    let entries: Vec<_> = entries.iter().map(Entry::to_bytes).collect();
    log.publish(&entries, times(witnesses, time), &key(ORIGIN));
    let _ = fs::remove_dir_all(folder);
    for (path, bytes) in log.files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}
