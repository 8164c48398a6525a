//! What every command prints on a terminal of 80 columns.
//!
//! The commands are found in the help of the program, so that a new one cannot be forgotten. What
//! differs from run to run (keys, ids, times, ports) is replaced by something of the same length.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sotto_testing::ports::free_port;
use unicode_width::UnicodeWidthStr;

use crate::budget::trust;
use crate::log::entries::{key, key_sets, recipe, recipe_entry, result};
use crate::log::folder::{Folder, LOG};
use crate::recipe::{NEW, folder, one_entry_log};
use crate::result::WEEKS;
use crate::serve::{Pair, Server, configure};

/// Not in the help: for other implementations, and for packagers.
const HIDDEN: [&str; 3] = ["interop", "vectors check", "man"];

/// What these print is for programs: a script, a schema. Only the first line is kept.
const DATA: [&str; 2] = ["completions", "recipe schema"];

#[test]
fn every_command_fits_80_columns() {
    let mut commands = BTreeSet::from(HIDDEN.map(str::to_owned));
    leaves(&[], &mut commands);
    assert!(commands.len() > 35, "{commands:?}");
    let mut screens = Screens { commands: commands.clone(), shown: BTreeSet::new() };
    screens.accounts();
    screens.recipes();
    screens.audits();
    screens.tasks();
    screens.others();
    let missing: Vec<_> = commands.difference(&screens.shown).collect();
    assert!(missing.is_empty(), "without a snapshot: {missing:?}");
}

/// The commands without subcommands below this one.
fn leaves(path: &[&str], found: &mut BTreeSet<String>) {
    let help = run(Path::new("."), &[path, &["--help"]].concat());
    let help = String::from_utf8(help.stdout).unwrap();
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        found.insert(path.join(" "));
        return;
    };
    for line in list.lines().take_while(|line| !line.is_empty()) {
        // Other lines continue a description.
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        let name = name.map(|rest| rest.split(' ').next().unwrap());
        if let Some(name) = name.filter(|name| *name != "help") {
            leaves(&[path, &[name]].concat(), found);
        }
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sotto"))
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "80")
        .env("NO_COLOR", "1")
        .env("XDG_STATE_HOME", folder.join("home"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What was shown, by command.
struct Screens {
    commands: BTreeSet<String>,
    shown: BTreeSet<String>,
}

impl Screens {
    /// Runs a command, checks the width of what it prints, and compares it with its snapshot.
    fn show(&mut self, folder: &Path, name: &str, code: i32, arguments: &[&str]) {
        let output = run(folder, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let is_of = |command: &&String| {
            format!("{} ", arguments.join(" ")).starts_with(&format!("{command} "))
        };
        let command = self.commands.iter().find(is_of).unwrap_or_else(|| panic!("{arguments:?}"));
        let mut shown =
            format!("{stdout}{}{stderr}", if stderr.is_empty() { "" } else { "[stderr]\n" });
        if DATA.contains(&command.as_str()) {
            shown = format!("{}\n...", shown.lines().next().unwrap_or_default());
        }
        for line in shown.lines() {
            // What is one word cannot be wrapped: a key, an id.
            let can_wrap = line.trim().contains(' ');
            assert!(line.width() <= 80 || !can_wrap, "{command}: {line}");
        }
        self.shown.insert(command.clone());
        insta::assert_snapshot!(name.replace(' ', "_"), redacted(&shown, folder));
    }

    fn accounts(&mut self) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let event = r#"{"event":"gaussian","sigma":5.1}"#;
        fs::write(folder.join("events.json"), event).unwrap();
        for line in [
            "gaussian --sigma 5.1 --delta 1e-8",
            "sampled-gaussian --rate 0.02 --steps 10 --sigma 5.1 --delta 1e-8",
            "discrete-gaussian --sigma 5.1 --delta 1e-8",
            "shuffle --epsilon0 4 --n 10000 --delta 1e-10",
            "sample --epsilon 1 --delta 1e-8 --rate 0.02",
            "donation --epsilon 1 --delta 1e-8 --slots 100",
            "compose --events events.json --delta 1e-8",
        ] {
            let arguments: Vec<&str> = line.split(' ').collect();
            let name = format!("account {}", arguments[0]);
            self.show(folder, &name, 0, &[&["account"], &arguments[..]].concat());
        }
        let inputs = r#""task":"histogram","N":1e6,"K":9,"T":1,"M":99,"epsilon":1,"delta":1e-6"#;
        fs::write(folder.join("rows.json"), format!("[{{\"inputs\":{{{inputs}}}}}]")).unwrap();
        self.show(folder, "figures", 0, &["figures", "--check", "rows.json"]);
        self.show(folder, "account refused", 2, &["account", "gaussian", "--sigma", "-1"]);
    }

    /// What authors and operators do, with a log that takes one entry.
    fn recipes(&mut self) {
        let folder = folder();
        let folder = folder.path();
        let (log, new) = (one_entry_log(), &NEW[3..]);
        let keys = ["keys", "signer", "--name", "leader.example", "--out", "leader.key"];
        self.show(folder, "keys signer", 0, &keys);
        self.show(folder, "keys show", 0, &["keys", "show", "leader.key"]);
        self.show(folder, "keys new", 0, &["keys", "new", "--id", "3", "--out", "hpke.toml"]);
        self.show(folder, "keys secret", 0, &["keys", "secret"]);
        self.show(folder, "keys store", 0, &["keys", "store", "--out", "store.key"]);
        fs::write(folder.join("plain.toml"), "data_dir = \"data\"").unwrap();
        self.show(folder, "db migrate", 2, &["db", "migrate", "--config", "plain.toml"]);
        let init = ["init", "two-operators", "pilot", "--local"];
        self.show(folder, "init two-operators", 0, &init);
        let publish = ["keys", "publish", "--signer", "leader.key", "--hpke-key", "hpke.toml"];
        let to = ["--url", "https://leader.example/", "--log", &log];
        self.show(folder, "keys publish", 0, &[&publish[..], &to].concat());

        let plan = ["plan", "--buckets", "200", "--population", "1e6", "--epsilon", "0.5"];
        self.show(folder, "plan", 0, &[&plan[..], &["--frontier", "--out", "plan.toml"]].concat());
        self.show(folder, "recipe new", 0, &[&["recipe", "new", "sleep"], new].concat());
        for command in ["check", "show", "explain", "coalitions"] {
            let name = format!("recipe {command}");
            self.show(folder, &name, 0, &["recipe", command, "commute.toml"]);
        }
        trust(folder, 2.0, 10.0);
        let budget = ["account", "recipes", "commute.toml", "sleep.toml", "--trust", "trust.toml"];
        self.show(folder, "account recipes", 0, &budget);
        let text = fs::read_to_string(folder.join("commute.toml")).unwrap();
        let other = text.replace("min_batch = 19434", "min_batch = 500");
        fs::write(folder.join("other.toml"), &other).unwrap();
        self.show(folder, "recipe diff", 1, &["recipe", "diff", "commute.toml", "other.toml"]);
        fs::write(folder.join("wrong.toml"), text.replace("minutes < 15", "minutes = 15")).unwrap();
        self.show(folder, "recipe check refused", 1, &["recipe", "check", "wrong.toml"]);
        fs::write(folder.join("wrong.toml"), text.replace("[who]", "[who")).unwrap();
        self.show(folder, "recipe check not read", 2, &["recipe", "check", "wrong.toml"]);
        self.show(folder, "recipe schema", 0, &["recipe", "schema", "recipe"]);
        let publish = ["recipe", "publish", "commute.toml", "--signer", "author.key"];
        let log = one_entry_log();
        self.show(folder, "recipe publish", 0, &[&publish[..], &["--log", &log]].concat());
        let repeat = ["recipe", "repeat", "commute.toml", "--signer", "author.key"];
        self.show(folder, "recipe repeat", 2, &[&repeat[..], &["--log", &log]].concat());
        let signer = |name: &str| {
            let output = run(folder, &["keys", "show", name]);
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        run(folder, &["keys", "signer", "--name", "helper.example", "--out", "helper.key"]);
        let id = "0".repeat(64);
        let certify = ["recipe", "certify", "--recipe", &id, "--predicate", "country == \"CH\""];
        let more = ["--attribute", "country:string", "--population", "120000", "--signer"];
        let keys = [&signer("leader.key"), "--helper", &signer("helper.key")];
        let to = [&["leader.key", "--out", "ch.result", "--leader"], &keys[..]].concat();
        self.show(folder, "recipe certify", 0, &[&certify[..], &more, &to].concat());
        self.tokens(folder);
        self.kinds(folder);
    }

    /// Recipes of other kinds, protected in other ways.
    fn kinds(&mut self, folder: &Path) {
        let (labels, rest) = (["--labels", "maps,mail,chess"], &NEW[15..]);
        let labels = [&labels[..], &["--epsilon0", "4"]].concat();
        let mean = ["--kind", "mean", "--max", "240", "--mapping", "minutes", "--sigma", "5000"];
        let several = ["--kind", "multi_histogram", "--most", "2", "--mapping", "apps"];
        let needles = ["--kind", "sparse_histogram", "--mapping", "minutes < 99 ? 0 : 1"];
        let rounds = ["--mapping", "minutes < 15 ? 0 : 1", "--rounds", "30"];
        for (name, attribute, kind) in [
            ("mean", "minutes:int", mean.to_vec()),
            ("several", "apps:strings", [&several[..], &labels].concat()),
            ("needles", "minutes:int", [&needles[..], &labels].concat()),
            ("rounds", "minutes:int", [&rounds[..], &labels, &["--round-length", "1w"]].concat()),
            ("donation", "minutes:int", [&rounds[..], &labels, &["--donation"]].concat()),
        ] {
            let new = ["recipe", "new", name, "--purpose", "P.", "--attribute", attribute];
            let made = run(folder, &[&new[..], &kind, rest].concat());
            assert!(made.status.success(), "{name}: {made:?}");
            let file = format!("{name}.toml");
            for command in ["check", "show", "explain"] {
                let words = format!("recipe {command} {name}");
                self.show(folder, &words, 0, &["recipe", command, &file]);
            }
        }
        let files = ["rounds.toml", "donation.toml"];
        self.show(folder, "recipe diff rounds", 1, &[&["recipe", "diff"], &files[..]].concat());
        let text = fs::read_to_string(folder.join("needles.toml")).unwrap();
        let rates = "default_rate = \"1/500\"\nother_rate = \"1/2\"\ndummy_rate = \"1/99\"";
        let rare = text.replace("rate = \"1/50\"", rates);
        fs::write(folder.join("rare.toml"), rare).unwrap();
        self.show(folder, "recipe check rare", 1, &["recipe", "check", "rare.toml"]);
        self.show(folder, "recipe show rare", 0, &["recipe", "show", "rare.toml"]);
        let files = ["needles.toml", "rare.toml"];
        self.show(folder, "recipe diff rare", 1, &[&["recipe", "diff"], &files[..]].concat());
    }

    /// One issuer, which makes the keys of both aggregators.
    fn tokens(&mut self, folder: &Path) {
        run(folder, &["keys", "signer", "--name", "issuer.example", "--out", "issuer.key"]);
        let author =
            String::from_utf8(run(folder, &["keys", "show", "author.key"]).stdout).unwrap();
        let config = format!(
            "listen = \"127.0.0.1:0\"\nkey = \"issuer.key\"\nauthors = [\"{}\"]\n\
             insecure_both_roles = true\n[attester]\noperator = \"attester.example\"\ntoken = \"secret\"\n",
            author.trim()
        );
        fs::write(folder.join("issuer.toml"), config).unwrap();
        let issuer = Server::start(folder, "issuer");
        let new = NEW[3..NEW.len() - 1].to_vec();
        let own = ["--leader-issuer", "issuer.example", "--insecure-single-issuer"];
        run(folder, &[&["recipe", "new", "tokens"], &new[..], &own].concat());
        let url = format!("http://{}", issuer.address());
        let tokens = ["recipe", "tokens", "tokens.toml", "--signer", "author.key"];
        let issuers = ["--leader-issuer", &url, "--helper-issuer", &url];
        self.show(folder, "recipe tokens", 0, &[&tokens[..], &issuers].concat());
        self.show(folder, "recipe show tokens", 0, &["recipe", "show", "tokens.toml"]);
    }

    /// What auditors and devices do, with a log in a folder.
    fn audits(&mut self) {
        let [leader, helper] = key_sets();
        let regions = recipe_entry(&recipe("regions"));
        let world =
            Folder::with(&[leader, helper, result(&key("leader.example")), regions.clone()]);
        world.write_proof("regions", &regions);
        world.write("me.toml", "region = \"two\"\n");
        let folder = world.path("");
        let (folder, trust) = (folder.as_path(), ["--trust", "trust.toml"]);
        let of = |command: &[&'static str]| [&["log"], command, &trust].concat();
        self.show(folder, "log verify", 0, &of(&["verify", "regions.recipe"]));
        self.show(folder, "log list", 0, &of(&["list", "--log", LOG]));
        let monitor =
            of(&["monitor", "--once", "--no-served-keys", "--log", LOG, "--state", "m.json"]);
        self.show(folder, "log monitor", 0, &monitor);
        self.show(folder, "log monitor again", 0, &monitor);
        self.show(folder, "log memory", 0, &["log", "memory"]);
        self.show(folder, "log fsck", 0, &["log", "fsck", LOG, "--policy", "policy"]);
        let files = ["--state", "device.json", "--attributes", "me.toml", "--log", LOG, "--once"];
        self.show(folder, "device run", 0, &[&["device", "run"], &trust[..], &files].concat());
        self.show(folder, "device log", 0, &["device", "log", "--state", "device.json"]);
    }

    /// Plain DAP between processes.
    fn tasks(&mut self) {
        let options = ["--vdaf", "histogram", "--length", "3", "--min-batch-size", "3"];
        let pair = Pair::new(&[&options[..], &["--time-precision", "52w"]].concat());
        let folder = pair.folder.path();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(folder.join("key.pem"), private).unwrap();
        }
        let port = free_port().unwrap();
        configure(&pair, "leader", &format!("admin_listen = \"127.0.0.1:{port}\""));
        let parties = ["--leader", "https://l.example/", "--helper", "https://h.example/"];
        let new = [&["task", "new", "--out", "other"], &options[..], &parties].concat();
        self.show(folder, "task new", 0, &new);
        self.show(folder, "task new again", 2, &new);
        self.show(folder, "task new usage", 2, &["task", "new", "--out", "x", "--vdaf", "median"]);
        self.show(folder, "task show", 0, &["task", "show", "other/leader.toml"]);
        let serve = ["serve", "leader", "--config", "leader.toml"];
        self.show(folder, "serve check config", 0, &[&serve[..], &["--check-config"]].concat());
        let _servers = ["leader", "helper"].map(|role| Server::start(folder, role));
        self.show(folder, "serve status", 0, &[&serve[..], &["--status"]].concat());
        let upload = ["upload", "--task", "task/client.toml", "--attempts", "1"];
        let values = ["--measurement", "0", "--measurement", "2", "--measurement", "2"];
        self.show(folder, "upload untrusted", 2, &[&upload[..], &values].concat());
        fs::remove_file(folder.join("task/client.unsent")).ok();
        let ca = ["--ca", "cert.pem"];
        self.show(folder, "upload", 0, &[&upload[..], &values, &ca].concat());
        let collect = ["collect", "--task", "task/collector.toml", "--ca", "cert.pem"];
        self.show(folder, "collect", 0, &[&collect[..], &["--current"]].concat());
        self.show(folder, "collect list", 0, &[&collect[..], &["--list"]].concat());
    }

    fn others(&mut self) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let demo = ["demo", "--exact", "--devices", "40", "--seed", "1"];
        self.show(folder, "demo", 0, &demo);
        self.show(folder, "demo list", 0, &["demo", "--list"]);
        let train = ["train", "--story", "digits", "--fast", "--devices", "60", "--rounds", "2"];
        self.show(folder, "train", 0, &[&train[..], &["--rate", "1/2"]].concat());
        let discover = ["discover", "--story", "words", "--fast", "--population", "200000"];
        self.show(folder, "discover", 0, &discover);
        let story = ["fleet", "--story", "names", "--mechanism", "servers", "--buckets", "10"];
        let few = ["--population", "20000", "--rate", "1/4", "--repeats", "3", "--seed", "1"];
        self.show(folder, "fleet", 0, &[&story[..], &few].concat());
        WEEKS.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        let show = ["result", "show", "week1.json", "--consistent", "--out", "a.csv"];
        self.show(folder, "result show", 0, &show);
        let compare = ["result", "compare", "week1.json", "week2.json"];
        self.show(folder, "result compare", 1, &compare);
        for role in ["leader", "helper", "log", "witness", "relay", "gateway", "attester", "issuer"]
        {
            let name = format!("serve {role} print config");
            self.show(folder, &name, 0, &["serve", role, "--print-config"]);
        }
        self.show(folder, "completions", 0, &["completions", "bash"]);
        self.show(folder, "man", 0, &["man", "--out", "pages"]);
        assert!(folder.join("pages/sotto-interop.1").exists());
        let missing = ["vectors", "check", "a-file-that-is-not-there.json"];
        self.show(folder, "vectors check", 1, &missing);
        // It runs until it is stopped, unless it cannot listen.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        self.show(folder, "interop", 2, &["interop", "client", "--port", &port]);
    }
}

/// The text with everything that differs from run to run replaced, at the same length.
fn redacted(text: &str, folder: &Path) -> String {
    let text = text.replace(folder.to_str().unwrap().trim_end_matches('/'), "DIR");
    text.split_inclusive('\n').map(redacted_line).collect()
}

fn redacted_line(line: &str) -> String {
    let mut line: Vec<char> = line.chars().collect();
    for at in 0..line.len() {
        // Times.
        set(&mut line, at, "dddd-dd-ddTdd:dd:ddZ", "2026-01-01T00:00:00Z");
        // Keys of signers: name+hash+key.
        set(&mut line, at, &format!("+{}+{}", "h".repeat(8), "b".repeat(44)), "");
        // Ports.
        set(&mut line, at, "127.0.0.1:ddddd", "127.0.0.1:00000");
        set(&mut line, at, "localhost:ddddd", "localhost:00000");
        // Seconds.
        set(&mut line, at, "in d.d s", "in 0.0 s");
        set(&mut line, at, "d.dd s\n", "0.00 s\n");
    }
    let mut out = String::new();
    let mut word = String::new();
    for c in line.into_iter().chain([' ']) {
        if c.is_ascii_alphanumeric() || "_-".contains(c) {
            word.push(c);
            continue;
        }
        // Ids and keys in base64url or hexadecimal.
        let mixed = [char::is_ascii_digit, char::is_ascii_lowercase, char::is_ascii_uppercase];
        let is_base64 = mixed.iter().filter(|is| word.chars().any(|c| is(&c))).count() > 1;
        let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
        match word.len() {
            22.. if is_base64 || (is_hex && word.len() == 64) => out += &"A".repeat(word.len()),
            _ => out += &word,
        }
        word.clear();
        out.push(c);
    }
    out.pop();
    out
}

/// Replaces what matches the pattern at this place: `d` is a digit, `h` a hexadecimal digit, `b` a
/// character of base64. Without a replacement, those become zeros and `A`s.
fn set(line: &mut [char], at: usize, pattern: &str, by: &str) {
    let is = |pattern: char, found: char| match pattern {
        'd' => found.is_ascii_digit(),
        'h' => found.is_ascii_hexdigit(),
        'b' => found.is_ascii_alphanumeric() || "+/=".contains(found),
        other => other == found,
    };
    let pattern: Vec<char> = pattern.chars().collect();
    let Some(found) = line.get_mut(at..at + pattern.len()) else { return };
    if !pattern.iter().zip(found.iter()).all(|(pattern, found)| is(*pattern, *found)) {
        return;
    }
    let by: Vec<char> = match by {
        "" => pattern
            .iter()
            .map(|c| match c {
                'h' => '0',
                'b' => 'A',
                other => *other,
            })
            .collect(),
        by => by.chars().collect(),
    };
    found.copy_from_slice(&by);
}
