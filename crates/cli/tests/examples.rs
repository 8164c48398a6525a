//! Every example in help and documents runs as it is written: the blocks of a page in order, in one
//! empty folder.
//!
//! The walkthrough needs a dozen servers, and runs in `tests/tests/recipes.rs`. A block that needs
//! other machines or root says so in the page (`<!-- not run: REASON -->`); whatever it does with
//! `sotto` is also done in a block that runs. That all command lines are well-formed is checked
//! beside the command line itself (`src/cli.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sotto_testing::ports::free_port;

use crate::pages::{Block, blocks, command_lines, help_examples, pages};

/// Longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// These talk to servers of other operators. Each of them runs in the walkthrough or in the
/// quickstart.
const REMOTE: [&str; 4] = ["keys publish", "recipe publish", "recipe tokens", "upload"];

/// A shell in a folder, with the program in its path.
struct Shell {
    folder: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The 2,000 devices of a demo take too long here.
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*--devices*) ;;\ndemo*) set -- \"$@\" --devices 60 ;;\nesac\n\
             exec {} \"$@\"\n",
            env!("CARGO_BIN_EXE_sotto")
        );
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        fs::create_dir_all(folder.path().join("empty")).unwrap();
        let path = folder.path().join("bin/sotto");
        fs::write(&path, script).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("empty")
    }

    fn command(&self, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-ec", script])
            .current_dir(self.path())
            .env("HOME", self.folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()));
        command
    }

    fn run(&self, block: &Block) -> Output {
        let output = self.command(&block.text).output().unwrap();
        assert!(output.status.success(), "{}\n{}{output:?}", block.place, block.text);
        output
    }
}

/// The name of what a command line of `sotto` runs: the words before the first option or value.
fn name(line: &[String]) -> String {
    let groups = [
        "account", "db", "device", "init", "keys", "log", "recipe", "result", "serve", "task",
        "vectors",
    ];
    let words = if groups.contains(&line[1].as_str()) { 3 } else { 2 };
    line[1..words.min(line.len())].join(" ")
}

fn names(block: &str) -> impl Iterator<Item = String> {
    command_lines(block, &[]).into_iter().map(|line| name(&line))
}

fn is_called(page: &Path, name: &str) -> bool {
    page.file_name().is_some_and(|found| found == name)
}

#[cfg(unix)]
#[test]
fn the_blocks_of_every_page_run() {
    for page in pages() {
        // They have their own tests.
        if is_called(&page, "walkthrough.md") || is_called(&page, "quickstart.md") {
            continue;
        }
        let shell = Shell::new();
        blocks(&page).iter().filter(|block| block.exempt.is_none()).for_each(|block| {
            shell.run(block);
        });
    }
}

/// An exemption is rare, has a reason, and leaves no command untested.
#[test]
fn what_does_not_run_runs_elsewhere() {
    let all: Vec<Block> = pages().iter().flat_map(|page| blocks(page)).collect();
    let (exempt, running): (Vec<_>, Vec<_>) = all.iter().partition(|block| block.exempt.is_some());
    // Most of them need several parties, and are in the walkthrough.
    assert!(exempt.len() * 5 <= all.len() * 2, "{} of {}", exempt.len(), all.len());
    let mut run: BTreeSet<String> = running.iter().flat_map(|block| names(&block.text)).collect();
    // The walkthrough runs this script, too.
    let init = "sotto init two-operators trial --local && cat trial/run.sh";
    let script = Shell::new().command(init).output().unwrap();
    let script = String::from_utf8(script.stdout).unwrap();
    assert!(running.iter().any(|block| block.text.contains("sh run.sh start")));
    let in_script = |name: &&str| script.contains(&format!("sotto {name} "));
    run.extend(REMOTE.into_iter().filter(in_script).map(str::to_owned));
    for block in exempt {
        let reason = block.exempt.as_deref().unwrap();
        assert!(reason.split(' ').count() > 2, "{}: {reason}", block.place);
        for name in names(&block.text) {
            let in_help = name == "recipe certify";
            assert!(run.contains(&name) || in_help, "{}: nobody runs {name}", block.place);
        }
    }
    for name in REMOTE {
        assert!(run.contains(name), "{name}");
    }
}

/// All examples of the help, in a folder with the files that they name.
#[cfg(unix)]
#[test]
fn the_examples_of_the_help_run() {
    let shell = Shell::new();
    let keys = "for who in author leader helper; do sotto keys signer --name $who.example \
                --out $who.key; done";
    assert!(shell.command(keys).output().unwrap().status.success());
    let key = |name: &str| {
        let shown = shell.command(&format!("sotto keys show {name}.key")).output().unwrap();
        String::from_utf8(shown.stdout).unwrap().trim().to_owned()
    };
    let (leader, helper) = (key("leader"), key("helper"));
    let mut examples = Vec::new();
    gather(&shell, &[], &mut examples);
    assert!(examples.len() >= 15, "{}", examples.len());
    for block in &examples {
        let names: Vec<String> = names(&block.text).collect();
        assert!(block.text.contains("sotto "), "{}", block.text);
        if names.iter().any(|name| REMOTE.contains(&name.as_str())) {
            continue;
        }
        // Two commands make the same recipe.
        let _ = fs::remove_file(shell.path().join("commute.toml"));
        let output = shell
            .command(&block.text)
            .env("LEADER", &leader)
            .env("HELPER", &helper)
            .env("ID", "0".repeat(64))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}\n{}{output:?}", block.place, block.text);
    }
}

/// The examples of a command and its subcommands.
fn gather(shell: &Shell, path: &[&str], found: &mut Vec<Block>) {
    let command = path.join(" ");
    let help = shell.command(&format!("sotto {command} --help")).env("COLUMNS", "80").output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    found.extend(help_examples(&command, &help));
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return };
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        let name = name.map(|rest| rest.split(' ').next().unwrap());
        if let Some(name) = name.filter(|name| *name != "help") {
            gather(shell, &[path, &[name]].concat(), found);
        }
    }
}

/// A server that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `docs/quickstart.md`, at free ports: its servers stay in the background.
#[cfg(unix)]
#[test]
fn the_quickstart_works_as_it_is_written() {
    let page = pages().into_iter().find(|page| is_called(page, "quickstart.md")).unwrap();
    let [leader, helper] = [(); 2].map(|()| free_port().unwrap());
    let mut blocks = blocks(&page);
    for block in &mut blocks {
        block.text = block.text.replace(":8080", &format!(":{leader}"));
        block.text = block.text.replace(":8081", &format!(":{helper}"));
    }
    let shell = Shell::new();
    let mut servers = Vec::new();
    let mut used = Vec::new();
    for block in blocks.iter().filter(|block| block.exempt.is_none()) {
        if !block.text.contains("sotto serve") {
            let is_use =
                ["upload", "collect"].contains(&names(&block.text).next().unwrap().as_str());
            if is_use {
                used.push(block)
            } else {
                drop(shell.run(block))
            }
            continue;
        }
        let script = block.text.replace("\nsotto serve", "\nexec sotto serve");
        servers.push(Running(shell.command(&script).stderr(Stdio::null()).spawn().unwrap()));
    }
    assert_eq!((servers.len(), used.len()), (2, 2));
    let deadline = Instant::now() + PATIENCE;
    for port in [leader, helper] {
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "nobody listens at {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let mut collected = use_it(&shell, &used);
    if !collected.status.success() {
        // The page says so: a new hour may have begun.
        collected = use_it(&shell, &used);
    }
    let shown = String::from_utf8(collected.stdout).unwrap();
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains(&format!("```\n{shown}```")), "{shown}");
}

/// Uploads, then collects.
fn use_it(shell: &Shell, blocks: &[&Block]) -> Output {
    shell.run(blocks[0]);
    shell.command(&blocks[1].text).output().unwrap()
}
