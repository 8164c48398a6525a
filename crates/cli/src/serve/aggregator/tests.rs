use std::path::Path;
use std::time::Duration;

use sotto_wire::TaskId;

use super::*;
use crate::output::hint_of;
use crate::toml_text;

fn leader(text: &str) -> Result<LeaderFile> {
    toml_text::parse(text)
}

#[test]
fn an_empty_file_is_a_configuration() {
    let file = leader("").unwrap().aggregator;
    assert_eq!(file.data_dir, Path::new("leader-data"));
    let http = load_http(file.http, Start::default()).unwrap();
    assert_eq!(http.listen, "127.0.0.1:8080".parse().unwrap());
    assert!(!file.server.insecure_plain_tasks && http.tls.is_none());
    let helper: HelperFile = toml_text::parse("").unwrap();
    assert_eq!(helper.aggregator.http.http.listen, "127.0.0.1:8081".parse().unwrap());
    assert_eq!(helper.aggregator.data_dir, Path::new("helper-data"));
}

#[test]
fn settings_reach_the_server() {
    let text = "listen = \"[::1]:7000\"\npublic_url = \"https://x.example/a/b/\"\n\
        [limits]\ncpu_threads = 3\nbody_timeout_s = 7\nmax_stored_report_bytes = 9\n\
        [jobs]\nmax_reports = 11\ndelay_ms = 5\nworkers = 2\n";
    let LeaderFile { aggregator: file, leader } = leader(text).unwrap();
    let http = load_http(file.http, Start::default()).unwrap();
    let aggregation = leader.aggregation;
    assert_eq!(http.listen, "[::1]:7000".parse().unwrap());
    assert_eq!(http.base_path, "/a/b/");
    assert_eq!((file.server.cpu_threads, file.server.cpu_queue_len()), (3, 12));
    assert_eq!(http.body_timeout, Duration::from_secs(7));
    assert_eq!(aggregation.max_job_reports, 11);
    assert_eq!(aggregation.job_delay, Duration::from_millis(5));
    assert_eq!(aggregation.workers, Some(2));
    assert_eq!(aggregation.max_segment_bytes, 9);
}

#[test]
fn tasks_to_forget_are_ids() {
    let id = TaskId::new([7; 32]);
    let listed = leader(&format!("forget_tasks = [\"{id}\"]")).unwrap();
    assert_eq!(listed.aggregator.server.forget_tasks, [id]);
    let error = leader("forget_tasks = [\"commute\"]").unwrap_err();
    assert!(format!("{error:#}").contains("\"commute\" is not a task id"), "{error:#}");
    assert!(hint_of(&error).unwrap().contains("sotto task show"), "{error:?}");
}

#[test]
fn mistakes_are_named() {
    for (text, message) in [
        ("lisen = \"127.0.0.1:1\"", "line 1: unknown field `lisen`"),
        ("[limits]\ncpu_thread = 1", "line 2: unknown field `cpu_thread`"),
        ("listen = \"nowhere\"", "line 1"),
        ("[limits]\n\nbody_timeout_s = \"7\"", "line 3: invalid type"),
        ("limits = 1", "line 1: invalid type"),
        ("[taskprov]\nleader = \"https://x/\"", "missing field `helper`"),
    ] {
        let error = format!("{:#}", leader(text).unwrap_err());
        assert!(error.contains(message), "{error}");
    }
    assert!(hint_of(&leader("lisen = 1").unwrap_err()).unwrap().contains("`listen`"));
    let file = leader("[tls]\ncert = \"a\"").unwrap().aggregator;
    let error = load_http(file.http, Start::default()).unwrap_err();
    assert!(error.to_string().contains("both `cert` and `key`"), "{error}");
}

#[test]
fn a_helper_has_no_gateway() {
    let file: HelperFile = toml_text::parse("[jobs]\nmax_reports = 1\n[gateway]\n").unwrap();
    let error =
        load(Role::Helper, file.aggregator, file.leader.gateway, Start::default()).err().unwrap();
    assert!(error.to_string().contains("not to the helper"), "{error}");
}

mod of_recipes {
    use super::*;

    const AUTHOR: &str = "[[authors]]\nkey = \"KEY\"\n";
    const TOKEN: &str = "collector_authentication_token = \"abcdefghijklmnop\"\n";
    const PEER: &str = "[[peers]]\noperator = \"helper.example\"\nurl = \"https://helper.example/dap\"\n\
                        authentication_token = \"abcdefghijklmnop\"\nverify_key_init = \"SECRET\"\n";

    fn key(name: &str, seed: u8) -> sotto_crypto::note::NoteKey {
        sotto_crypto::note::NoteKey::from_seed(name.parse().unwrap(), Secret::new([seed; 32]))
    }

    fn trust(url: &str) -> String {
        let (log, operator) = (key("log.example", 1), key("leader.example", 2));
        let (log, operator) = (log.verifier(), operator.verifier());
        let witness = key("w.example", 4).cosigner();
        format!(
            "policy = \"\"\"\nlog {log} {url}\nwitness w {witness}\nquorum w\n\"\"\"\n\
             [[operators]]\nkey = \"{operator}\"\n"
        )
    }

    fn config(
        trust: &str,
        more: &str,
        public_url: Option<&str>,
        role: Role,
    ) -> Result<RecipesConfig> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trust.toml");
        std::fs::write(&path, trust).unwrap();
        let more = more.replace("KEY", &key("author.example", 3).verifier().to_string());
        let text = format!(
            "trust = \"{}\"\noperator = \"leader.example\"\n{}",
            path.display(),
            more.replace("SECRET", "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ")
        );
        let table: RecipesTable = toml_text::parse(&text)?;
        recipes(&table, role, public_url)
    }

    #[test]
    fn the_table_reaches_the_server() {
        let (trust, author) = (trust("https://log.example/"), format!("{AUTHOR}{TOKEN}{PEER}"));
        let url = Some("https://leader.example/dap/");
        let config = config(&trust, &format!("poll_s = 5\n{author}"), url, Role::Leader).unwrap();
        assert_eq!(config.public_url, "https://leader.example/dap/");
        assert_eq!(config.log_url, "https://log.example/");
        assert_eq!(config.operator.as_str(), "leader.example");
        assert_eq!(config.poll, Duration::from_secs(5));
        let peer = &config.peers[0];
        assert_eq!(peer.operator.as_str(), "helper.example");
        assert_eq!(peer.url, "https://helper.example/dap");
        assert_eq!(peer.verify_key_init.expose(), &[4; 32]);
        assert!(!peer.private_addresses);
        assert_eq!(config.authors[0].key, key("author.example", 3).verifier());
        assert!(config.authors[0].collector_token.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        let url = Some("https://a.example/");
        let (with_url, without) = (trust("https://log.example/"), trust(""));
        let with_token = format!("{AUTHOR}{TOKEN}{PEER}");
        let good = &*format!("{AUTHOR}{PEER}");
        let cosigner = good.replace("KEY", &key("w.example", 4).cosigner().to_string());
        let old = |setting: &str| format!("{setting} = \"SECRET\"\n{AUTHOR}");
        let query = good.replace("/dap", "/?dap");
        let moved = "list each other aggregator under [[recipes.peers]]";
        for (trust, more, url, role, message) in [
            (&with_url, &*with_token, None, Role::Leader, "`public_url` is not set"),
            (&with_url, good, url, Role::Leader, "the leader needs"),
            (&with_url, &with_token, url, Role::Helper, "only the leader may"),
            (&with_url, &format!("authors = []\n{PEER}"), url, Role::Leader, "no author"),
            (&with_url, AUTHOR, url, Role::Helper, "missing field `peers`"),
            (&with_url, &old("verify_key_init"), url, Role::Helper, moved),
            (&with_url, &old("leader_authentication_token"), url, Role::Helper, moved),
            (&with_url, &query, url, Role::Helper, "url has a query"),
            (&with_url, &good.replace("SECRET", "AA"), url, Role::Helper, "verify_key_init"),
            (&with_url, &cosigner, url, Role::Helper, "a witness's key"),
            (&with_url, &format!("poll_s = 0\n{good}"), url, Role::Helper, "poll_s"),
            (&without, good, url, Role::Helper, "`log_url` is not set"),
            (&String::from("policy = 1"), good, url, Role::Helper, "line 1"),
        ] {
            let error = format!("{:#}", config(trust, more, url, role).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
    }
}
