//! `sotto recipe` and `sotto keys` for signers, as a person or a script uses them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::{Value, json};
use sotto_crypto::merkle::leaf_hash;
use sotto_crypto::note::NoteKey;
use sotto_wire::{Checkpoint, Entry, Note, Recipe, TlogProof};
use tempfile::TempDir;

use crate::{flat, read};

pub(crate) fn sotto(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sotto"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = sotto(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn good_json(folder: &Path, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    read(good(folder, &arguments).as_bytes())
}

fn failed(folder: &Path, arguments: &[&str]) -> String {
    let output = sotto(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// Without tokens: there is no issuer here.
pub(crate) const NEW: [&str; 29] = [
    "recipe",
    "new",
    "commute",
    "--purpose",
    "How long do people commute?",
    "--attribute",
    "minutes:int",
    "--labels",
    "short,middle,long",
    "--mapping",
    "minutes < 15 ? 0 : minutes < 45 ? 1 : 2",
    "--fallback",
    "short",
    "--epsilon0",
    "4",
    "--population",
    "1000000",
    "--leader-operator",
    "leader.example",
    "--leader-url",
    "https://leader.example/",
    "--helper-operator",
    "helper.example",
    "--helper-url",
    "https://helper.example/",
    "--collector-key",
    "collector.toml",
    "--log-origin=log.example",
    "--insecure-no-tokens",
];

/// A folder with `commute.toml`, the collector's key and the author's key.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    good(folder.path(), &["keys", "new", "--id", "7", "--out", "collector.toml"]);
    good(folder.path(), &["keys", "signer", "--name", "analytics.example", "--out", "author.key"]);
    good(folder.path(), &NEW);
    folder
}

/// The first line that `keys signer` prints.
fn signer(folder: &Path, name: &str) -> String {
    let file = format!("{name}.key");
    good(folder, &["keys", "signer", "--name", name, "--out", &file]).trim().to_owned()
}

/// A log of at most one entry: answers each `POST /add` with a proof for it, and serves no other
/// file.
pub(crate) fn one_entry_log() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let key =
            NoteKey::generate("log.example".parse().unwrap(), &mut ChaCha20Rng::seed_from_u64(1));
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let (status, answer) = match first.starts_with("POST /add ") {
                true => ("200 OK", proof(&key, &body)),
                false => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            stream.get_mut().write_all(&[head.as_bytes(), &answer].concat()).unwrap();
        }
    });
    url
}

fn proof(key: &NoteKey, entry: &[u8]) -> Vec<u8> {
    let checkpoint = Checkpoint {
        origin: key.name().to_string(),
        size: 1,
        root: leaf_hash(entry),
        extensions: Vec::new(),
    };
    let text = checkpoint.to_text();
    let checkpoint = Note::new(text.clone()).unwrap().with_signature(key.sign(&text));
    TlogProof { extra: None, index: 0, hashes: Vec::new(), checkpoint }.to_bytes()
}

#[test]
fn a_new_recipe_is_checked_shown_and_explained() {
    let folder = folder();
    let checked = good(folder.path(), &["recipe", "check", "commute.toml"]);
    for part in
        ["device computes", "paper's figure", "both collude", "randomizer alone", "almost sure"]
    {
        assert!(checked.contains(part), "{part}: {checked}");
    }
    let json = good_json(folder.path(), &["recipe", "check", "commute.toml"]);
    assert_eq!(json["ok"], true);
    assert_eq!(json["crowd"]["safe_min_batch"], 19_434);
    let privacy = &json["privacy"];
    let computed = privacy["computed_epsilon"].as_f64().unwrap();
    assert!(computed <= privacy["epsilon"].as_f64().unwrap());
    assert!(privacy["paper_epsilon"].as_f64().unwrap() < computed);
    assert!(privacy["colluding"]["epsilon"].as_f64().unwrap() < 4.0);
    assert_eq!(json["contribution"]["vdaf"]["type"], "Prio3Histogram");
    let shown = good(folder.path(), &["recipe", "show", "commute.toml"]);
    assert!(shown.contains("histogram of 3 buckets (short, middle, long)"), "{shown}");
    let told = good(folder.path(), &["recipe", "explain", "commute.toml"]);
    assert!(told.contains("1 in 50 devices answer") && !told.contains("epsilon"), "{told}");
}

#[test]
fn scripts_learn_what_is_missing_and_nothing_is_overwritten() {
    let folder = folder();
    let error = failed(folder.path(), &["recipe", "new", "commute", "--labels", "a,b"]);
    assert!(error.contains("missing: --purpose, --mapping, --population"), "{error}");
    assert!(error.contains("hint"), "{error}");
    let error = failed(folder.path(), &NEW);
    assert!(error.contains("already exists"), "{error}");
}

#[test]
fn bad_files_are_errors_with_the_name_of_the_field() {
    let folder = folder();
    let path = folder.path().join("commute.toml");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, part) in [
        ("rate = \"1/50\"", "rate = \"3/2\"", "sampling.rate"),
        ("min_batch", "min_bach", "aggregation.min_batch"),
        ("kind = \"histogram\"", "kind = \"histogramm\"", "query.kind"),
        ("version = 1", "version = 2", "version"),
        ("[who]", "[who", "line"),
    ] {
        fs::write(&path, text.replace(from, to)).unwrap();
        let error = failed(folder.path(), &["recipe", "check", "commute.toml"]);
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = failed(folder.path(), &["recipe", "check", "nowhere.toml"]);
    assert!(error.contains("no file nowhere.toml") && error.contains("--log"), "{error}");
}

#[test]
fn a_claim_that_is_too_low_is_refused_and_not_published() {
    let folder = folder();
    let path = folder.path().join("commute.toml");
    let text = fs::read_to_string(&path).unwrap();
    let claim = text.lines().rfind(|line| line.starts_with("epsilon = ")).unwrap();
    fs::write(&path, text.replace(claim, "epsilon = 0.000001")).unwrap();
    let output = sotto(folder.path(), &["recipe", "check", "commute.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("claim             FAILED"), "{shown}");
    let url = one_entry_log();
    let publish = ["recipe", "publish", "commute.toml", "--signer", "author.key", "--log", &url];
    assert_eq!(sotto(folder.path(), &publish).status.code(), Some(1));
    assert!(!folder.path().join("commute.recipe").exists());
    good(folder.path(), &[&publish[..], &["--force"]].concat());
}

#[test]
fn published_recipes_come_with_entry_and_proof() {
    let folder = folder();
    let url = one_entry_log();
    let publish = ["recipe", "publish", "commute.toml", "--signer", "author.key", "--log", &url];
    let published = good_json(folder.path(), &publish);
    assert_eq!(published["index"], 0);
    let entry = Entry::parse(&fs::read(folder.path().join("commute.recipe")).unwrap()).unwrap();
    assert_eq!(published["entry_id"], entry.id().to_string());
    assert_eq!(entry.recipe().unwrap().author.name.as_str(), "analytics.example");
    let proof = TlogProof::parse(&fs::read(folder.path().join("commute.proof")).unwrap()).unwrap();
    assert_eq!(proof.index, 0);
    // Publishing again gives the same result, from the TOML and from the signed entry.
    assert_eq!(good_json(folder.path(), &publish)["entry_id"], published["entry_id"]);
    good(folder.path(), &["recipe", "publish", "commute.recipe", "--log", &url]);
    let show = ["recipe", "show", "commute.recipe"];
    let canonical = good(folder.path(), &[&show[..], &["--canonical"]].concat());
    let canonical = canonical.trim_end().as_bytes();
    assert_eq!(Recipe::parse(canonical).unwrap(), *entry.recipe().unwrap());
    let shown = good_json(folder.path(), &show);
    assert_eq!(shown["recipe"], serde_json::from_slice::<Value>(canonical).unwrap());
    assert_eq!((&shown["recipe_id"], &shown["signed"]), (&published["entry_id"], &json!(true)));
    let error = failed(folder.path(), &["recipe", "show", "commute.toml", "--canonical"]);
    assert!(error.contains("it has no id"), "{error}");
    // Another recipe with the same name does not replace the first.
    let path = folder.path().join("commute.toml");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("How long", "How far")).unwrap();
    assert!(failed(folder.path(), &publish).contains("already exists"));
}

/// A round is published beside its header, without a wait, and differs from it in the round alone.
#[test]
fn a_round_is_published_beside_its_header() {
    let folder = folder();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let opens = (now - now % 3_600 + 7_200).to_string();
    let when = ["--rounds", "30", "--opens", &opens, "--force"];
    good(folder.path(), &[&NEW[..], &when].concat());
    let publish = |file: &str| {
        let url = one_entry_log();
        let publish = ["recipe", "publish", file, "--signer", "author.key", "--log", &url];
        let output = sotto(folder.path(), &publish);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let path = folder.path().join("commute.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(folder.path().join("round.toml"), format!("{text}\n[series.round]\nindex = 3\n"))
        .unwrap();
    let early = "devices want to see it in the log for a day";
    let said = publish("commute.toml").replace("\n         ", " ");
    assert!(said.contains(early), "{said}");
    let said = publish("round.toml").replace("\n         ", " ");
    assert!(!said.contains(early), "{said}");
    let files = ["commute.recipe", "commute-round-3.recipe"];
    let [header, round] = files.map(|file| {
        Entry::parse(&fs::read(folder.path().join(file)).unwrap())
            .unwrap()
            .recipe()
            .unwrap()
            .clone()
    });
    assert_eq!(round.header(), Some(header));
    let diff = good(folder.path(), &[&["recipe", "diff"], &files[..]].concat());
    assert_eq!(diff, "is the header -> round 3\n");
}

/// An evaluation is a recipe like any other: it is checked, shown, explained and compared.
#[test]
fn an_evaluation_of_a_model_is_checked_shown_and_explained() {
    let folder = folder();
    let question = [
        "--kind",
        "vector_sum",
        "--dimension",
        "2",
        "--attribute",
        "evaluation:vector(2)",
        "--mapping",
        "evaluation",
        "--rounds",
        "5",
        "--sigma",
        "2",
    ];
    let parties = NEW.iter().position(|word| *word == "--population").unwrap();
    let new = ["recipe", "new", "evaluation", "--purpose", "How good is the model?"];
    good(folder.path(), &[&new[..], &question, &NEW[parties..]].concat());
    let path = folder.path().join("evaluation.toml");
    let text = fs::read_to_string(&path).unwrap();
    let training = "\n[series.training]\nmodels = \"https://models.example/\"\nlargest_loss = 4.0\n\
                    vote_weight = 0.1\nmodel = { kind = \"softmax\", features = 65, classes = 10 }\n";
    fs::write(&path, format!("{text}{training}")).unwrap();
    let round = format!("\n[series.round]\nindex = 1\nmodel = \"{}\"\n", "07".repeat(32));
    fs::write(folder.path().join("round.toml"), format!("{text}{training}{round}")).unwrap();
    let other = training.replace("4.0", "5.0");
    fs::write(folder.path().join("other.toml"), format!("{text}{other}")).unwrap();
    let wrong = training.replace("largest_loss = 4.0", "largest_loss = 4.0\nsteps = 1");
    fs::write(folder.path().join("wrong.toml"), format!("{text}{wrong}")).unwrap();
    let said = |command: &str, file: &str| flat(&good(folder.path(), &["recipe", command, file]));
    let shown = said("show", "round.toml");
    for part in [
        "evaluates softmax regression of 65 features and 10 classes (650 weights)",
        "evaluation the loss, at most 4, and the part of right predictions",
        "clip the last number of a model",
        "this is round 1, model 0707",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let explained = said("explain", "round.toml");
    for part in [
        "evaluation says how well a model that everybody can read predicts your data",
        "650 weights",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let checked = good_json(folder.path(), &["recipe", "check", "evaluation.toml"]);
    let checks = checked["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["verdict"] != "failed"), "{checked:#}");
    let verdict = |name: &str| {
        let check = checks.iter().find(|check| check["check"] == name).unwrap();
        check["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(["canonical", "derivation", "model"].map(verdict), ["ok", "ok", "unknown"]);
    let diff = sotto(folder.path(), &["recipe", "diff", "evaluation.toml", "other.toml"]);
    assert_eq!(
        flat(&String::from_utf8(diff.stdout).unwrap()),
        "device says the loss, at most 4, and the part of right predictions -> the loss, at most 5, and the part of right predictions"
    );
    let refused = failed(folder.path(), &["recipe", "show", "wrong.toml"]);
    assert!(flat(&refused).contains("with largest_loss devices train nothing"), "{refused}");
}

/// What `recipe new` writes with an issuer can be checked and shown as it is, and published once it
/// has its keys.
#[test]
fn a_recipe_with_tokens_is_not_published_without_its_keys() {
    let folder = folder();
    let mut new: Vec<&str> = NEW[..NEW.len() - 1].to_vec();
    let error = failed(folder.path(), &[&new[..], &["--force"]].concat());
    assert!(error.contains("missing: --leader-issuer (or --insecure-no-tokens)"), "{error}");
    new.extend(["--leader-issuer", "issuer-a.example"]);
    new.extend(["--helper-issuer", "issuer-b.example", "--force"]);
    good(folder.path(), &new);
    let text = fs::read_to_string(folder.path().join("commute.toml")).unwrap();
    for tokens in [
        "[parties.tokens]\nkind = \"rate_limited\"\n",
        "[parties.tokens.leader]\nissuer = \"issuer-a.example\"\n",
        "[parties.tokens.helper]\nissuer = \"issuer-b.example\"\n",
    ] {
        assert!(text.contains(tokens), "{text}");
    }
    let checked = good_json(folder.path(), &["recipe", "check", "commute.toml"]);
    assert_eq!((&checked["ok"], &checked["recipe_id"]), (&json!(true), &json!(null)));
    assert_eq!(checked["warnings"], json!([]));
    let shown = good(folder.path(), &["recipe", "show", "commute.toml"]);
    assert!(shown.contains("the leader checks a token of issuer-a.example"), "{shown}");
    assert!(shown.contains("sotto recipe tokens"), "{shown}");
    let shown = good_json(folder.path(), &["recipe", "show", "commute.toml"]);
    let kind = json!({
        "kind": "rate_limited",
        "leader": { "issuer": "issuer-a.example" },
        "helper": { "issuer": "issuer-b.example" },
    });
    assert_eq!(shown["recipe"]["parties"]["tokens"], kind, "no placeholders are shown");
    let url = one_entry_log();
    let publish = ["recipe", "publish", "commute.toml", "--signer", "author.key", "--log", &url];
    let error = failed(folder.path(), &publish);
    assert!(error.contains("no token key of issuer-a.example yet"), "{error}");
    assert!(error.contains("sotto recipe tokens"), "{error}");
}

/// An author who does without tokens gets a clear warning about what that means.
#[test]
fn recipes_without_tokens_come_with_a_warning() {
    let folder = folder();
    let checked = good_json(folder.path(), &["recipe", "check", "commute.toml"]);
    let warning = checked["warnings"][0].as_str().unwrap();
    assert!(warning.contains("nobody checks tokens"), "{warning}");
    let shown = sotto(folder.path(), &["recipe", "show", "commute.toml"]);
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(said.contains("warning: nobody checks tokens"), "{said}");
    let told = good(folder.path(), &["recipe", "explain", "commute.toml"]);
    assert!(told.contains("Nobody makes sure that a device answers only once"), "{told}");
}

/// The hint is for attributes only, where an attribute is missing.
#[test]
fn a_mapping_that_is_refused_gets_the_hint_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let new = |mapping: &str| {
        let mut new = NEW[..9].to_vec();
        new.extend(["--mapping", mapping, "--population", "1e6"]);
        failed(folder.path(), &new)
    };
    let error = new("minutes < 15 ? \"short\" : \"lang\"");
    assert!(error.contains("it can give \"lang\", which is counted nowhere"), "{error}");
    assert!(error.contains("or its label: \"short\", \"middle\", \"long\""), "{error}");
    assert!(!error.contains("--attribute"), "{error}");
    let error = new("minutes < 15 ? short : \"long\"");
    assert!(error.contains("if it is the label, write it in quotes: \"short\""), "{error}");
    assert!(!error.contains("--attribute"), "{error}");
    let error = new("hours < 15 ? \"short\" : \"long\"");
    assert!(error.contains("hint: declare what it reads: --attribute hours:int"), "{error}");
    assert!(error.contains("\n       hours < 15 ? \"short\" : \"long\"\n       ^\n"), "{error}");
}

/// A log that has stopped says so. Trying again is no advice then, and nobody waits.
#[test]
fn a_log_that_has_stopped_is_not_tried_again() {
    let folder = folder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut read = [0; 65_536];
        let _ = stream.read(&mut read).unwrap();
        let body = r#"{"detail":"The log has stopped for good: its disk failed."}"#;
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nretry-after: 30\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let publish = ["recipe", "publish", "commute.toml", "--signer", "author.key", "--log", &url];
    let error = failed(folder.path(), &publish);
    server.join().unwrap();
    assert!(error.contains("The log has stopped for good: its disk failed."), "{error}");
    assert!(error.contains("hint: trying again does not help"), "{error}");
}

/// The hint names the option of this command, not a setting of the library.
#[test]
fn plain_http_is_refused_with_the_option_that_allows_it() {
    let folder = folder();
    let show = ["recipe", "show", "commute", "--log", "http://192.0.2.1/"];
    let error = failed(folder.path(), &show);
    assert!(error.contains("plain http to another machine is not allowed"), "{error}");
    assert!(error.contains("hint: use https, or give `--insecure-http`"), "{error}");
}

#[test]
fn a_forged_entry_is_not_published() {
    let folder = folder();
    let url = one_entry_log();
    let publish = ["recipe", "publish", "commute.toml", "--signer", "author.key", "--log", &url];
    good(folder.path(), &publish);
    let path = folder.path().join("commute.recipe");
    fs::write(
        &path,
        fs::read_to_string(&path)
            .unwrap()
            .replace("\"population\":1000000", "\"population\":2000000"),
    )
    .unwrap();
    let error = failed(folder.path(), &["recipe", "publish", "commute.recipe", "--log", &url]);
    assert!(error.contains("signature"), "{error}");
    let error = failed(folder.path(), &["recipe", "check", "commute.recipe"]);
    assert!(error.contains("signature"), "{error}");
}

#[test]
fn differences_are_told_in_words() {
    let folder = folder();
    let text = fs::read_to_string(folder.path().join("commute.toml")).unwrap();
    let other = text.replace("min_batch = 19434", "min_batch = 500");
    fs::write(folder.path().join("other.toml"), other).unwrap();
    let same = good(folder.path(), &["recipe", "diff", "commute.toml", "commute.toml"]);
    assert_eq!(same, "no difference\n");
    let output = sotto(folder.path(), &["recipe", "diff", "commute.toml", "other.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "minimum batch 19,434 -> 500 (weaker)\n");
}

#[test]
fn two_operators_certify_a_population() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (leader, helper) = (signer(folder, "leader.example"), signer(folder, "helper.example"));
    let (id, predicate) = ("0".repeat(64), "country == \"CH\"");
    let first = [
        "recipe",
        "certify",
        "--recipe",
        &id,
        "--predicate",
        predicate,
        "--attribute",
        "country:string",
        "--population",
        "120000",
        "--leader",
        &leader,
        "--helper",
        &helper,
        "--signer",
        "leader.example.key",
        "--out",
        "ch.result",
    ];
    assert_eq!(good_json(folder, &first)["missing_signatures"][0], "helper.example");
    let url = one_entry_log();
    let publish = ["recipe", "publish", "ch.result", "--log", &url];
    assert!(failed(folder, &publish).contains("helper.example"));
    let again = ["recipe", "certify", "--add", "ch.result", "--signer", "leader.example.key"];
    assert!(failed(folder, &again).contains("already signed it"));
    signer(folder, "stranger.example");
    let strange = ["recipe", "certify", "--add", "ch.result", "--signer", "stranger.example.key"];
    failed(folder, &strange);
    let second = ["recipe", "certify", "--add", "ch.result", "--signer", "helper.example.key"];
    assert_eq!(good_json(folder, &second)["missing_signatures"].as_array().unwrap().len(), 0);
    let published = good_json(folder, &publish);
    assert_eq!(published["kind"], "result");
    let wrong = first.map(|part| if part == "country:string" { "country:int" } else { part });
    assert!(failed(folder, &wrong).contains("--predicate"));
}

#[test]
fn operators_publish_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    signer(folder, "leader.example");
    good(folder, &["keys", "new", "--id", "3", "--out", "hpke.toml"]);
    let url = one_entry_log();
    let publish = [
        "keys",
        "publish",
        "--signer",
        "leader.example.key",
        "--hpke-key",
        "hpke.toml",
        "--log",
        &url,
        "--out",
        "leader.keys",
        "--url",
        "https://leader.example/dap",
    ];
    // Recipes must name an aggregator where its operator says, so the operator must say where.
    assert!(failed(folder, &publish[..10]).contains("--url"));
    let published = good_json(folder, &publish);
    assert_eq!((&published["seq"], &published["index"]), (&1.into(), &0.into()));
    let entry = Entry::parse(&fs::read(folder.join("leader.keys")).unwrap()).unwrap();
    assert_eq!(entry.key_set().unwrap().configs().unwrap()[0].id().value(), 3);
    assert_eq!(entry.key_set().unwrap().url.as_deref(), Some("https://leader.example/dap"));
    assert!(PathBuf::from(folder).join("leader.keys.proof").exists());
    let twice = [&publish[..], &["--hpke-key", "hpke.toml"]].concat();
    assert!(failed(folder, &twice).contains("same id"));
    // An operator that receives no reports has only other keys: an issuer, for instance.
    let none = ["keys", "publish", "--signer", "leader.example.key", "--log", &url];
    let error = failed(folder, &none);
    for key in ["--hpke-key", "--gateway-key", "--encapsulation-key"] {
        assert!(error.contains(key), "{error}");
    }
    let url = one_entry_log();
    let issuer = ["--encapsulation-key", "hpke.toml", "--log", &url];
    let published = good_json(folder, &[&none[..4], &issuer[..]].concat());
    assert_eq!((&published["hpke_keys"], &published["encapsulation_keys"]), (&0.into(), &1.into()));
}

#[test]
fn signers_keys_are_private_and_kept() {
    let folder = folder();
    let path = folder.path().join("author.key");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let again = ["keys", "signer", "--name", "analytics.example", "--out", "author.key"];
    assert!(failed(folder.path(), &again).contains("already exists"));
    assert!(
        failed(folder.path(), &["keys", "signer", "--name", "a b", "--out", "x"]).contains("space")
    );
}

#[test]
fn public_halves_are_shown_again_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let verifier = signer(folder, "alpha.example");
    let shown = |arguments: &[&str]| good(folder, arguments).trim().to_owned();
    assert_eq!(shown(&["keys", "show", "alpha.example.key"]), verifier);
    let made = ["keys", "signer", "--witness", "--name", "w.example", "--out", "w.key"];
    let cosigner = shown(&made);
    assert_eq!(shown(&["keys", "show", "--witness", "w.key"]), cosigner);
    assert_ne!(shown(&["keys", "show", "w.key"]), cosigner);
    let config = shown(&["keys", "new", "--out", "hpke.toml"]);
    assert_eq!(shown(&["keys", "show", "hpke.toml"]), config);
    assert!(failed(folder, &["keys", "show", "--witness", "hpke.toml"]).contains("HPKE"));
    assert!(failed(folder, &["keys", "show", "nothing.key"]).contains("no file"));
    let seed = "c2VjcmV0c2VjcmV0c2VjcmV0";
    fs::write(folder.join("odd.key"), format!("name = \"a\"\nseed = \"{seed}\"\n")).unwrap();
    let message = failed(folder, &["keys", "show", "odd.key"]);
    assert!(message.contains("not a key file") && !message.contains(seed), "{message}");
    let (one, two) = (shown(&["keys", "secret"]), shown(&["keys", "secret"]));
    assert!(one.len() == 43 && one != two);
}

#[test]
fn schemas_are_json() {
    for kind in ["recipe", "key-set", "result"] {
        let schema: Value =
            serde_json::from_str(&good(Path::new("."), &["recipe", "schema", kind])).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{kind}");
    }
}

/// The parties are added later; until then every command says what is missing.
#[test]
fn a_question_comes_before_its_operators() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &["keys", "signer", "--name", "analytics.example", "--out", "author.key"]);
    let new = [&NEW[..11], &["--population", "1e6", "--epsilon", "0.05"]].concat();
    good(folder, &new);
    let text = fs::read_to_string(folder.join("commute.toml")).unwrap();
    assert!(text.contains("labels = [\"short\", \"middle\", \"long\", \"unknown\"]"), "{text}");
    assert!(text.contains("fallback = 3") && text.contains("#[parties.leader]"), "{text}");
    let checked = sotto(folder, &["recipe", "check", "commute.toml"]);
    assert_eq!(checked.status.code(), Some(1));
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.contains("operators         FAILED  [parties] is missing"), "{checked}");
    assert!(checked.contains("device computes"), "everything else is shown: {checked}");
    let shown = good_json(folder, &["recipe", "show", "commute.toml"]);
    assert_eq!(shown["recipe"]["parties"], json!(null), "no placeholders are shown");
    assert!(
        good(folder, &["recipe", "show", "commute.toml"]).contains("none yet: fill in [parties]")
    );
    good(folder, &["recipe", "explain", "commute.toml"]);
    let same = good(folder, &["recipe", "diff", "commute.toml", "commute.toml"]);
    assert_eq!(same, "no difference\n", "nobody is not another party");
    let url = one_entry_log();
    for command in ["publish", "tokens"] {
        let mut arguments = vec!["recipe", command, "commute.toml", "--signer", "author.key"];
        arguments.extend(if command == "publish" {
            ["--log", &url]
        } else {
            ["--leader-issuer", &url]
        });
        let error = failed(folder, &arguments);
        assert!(error.contains("[parties] is missing: who runs leader, helper"), "{error}");
        assert!(error.contains("hint: fill in [parties]"), "{error}");
    }
}
