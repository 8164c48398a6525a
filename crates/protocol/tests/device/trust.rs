//! What a trust file may pin about relays and the log's gateway.

use sotto_protocol::trust::{LogGatewayFile, PinnedRelay, Trust, TrustFile};

use crate::rows::parties::unknown_suite;
use crate::world::{LOG_OPERATOR, hpke, recipe, trust_file};

fn relay(operator: &str) -> PinnedRelay {
    PinnedRelay { operator: operator.to_owned(), url: format!("https://{operator}/relay/") }
}

fn trust(change: impl FnOnce(&mut TrustFile)) -> Result<Trust, String> {
    let mut file = trust_file();
    change(&mut file);
    Trust::try_from(file).map_err(|error| error.to_string())
}

fn refusal(change: impl FnOnce(&mut TrustFile)) -> String {
    trust(change).expect_err("the file is refused")
}

#[test]
fn a_relay_carries_nothing_to_its_own_operator() {
    let names = ["leader.example", "helper.example", LOG_OPERATOR, "relay.example"];
    let trust = trust(|file| file.relays = names.map(relay).into()).unwrap();
    let url = |name| format!("https://{name}/relay/");
    let recipe = recipe("any");
    let for_recipe: Vec<_> = trust.relays_for(&recipe).collect();
    assert_eq!(for_recipe, [url(LOG_OPERATOR), url("relay.example")]);
    let for_log: Vec<_> = trust.log_relays().collect();
    assert_eq!(for_log, ["leader.example", "helper.example", "relay.example"].map(url));
    let none = self::trust(|file| file.log_gateway = None).unwrap();
    assert_eq!(none.log_relays().count(), 0);
    assert!(none.log_gateway().is_none());
}

#[test]
fn a_url_that_no_relay_can_have_is_named() {
    for bad in [
        "",
        "relay.example",
        "ftp://relay.example/",
        "https:///relay",
        "https://user@relay.example/",
        "https://relay.example/?device=7",
        "https://relay.example/#top",
        "https://relay.example/a b",
    ] {
        let said = refusal(|file| file.relays[0].url = bad.to_owned());
        assert!(said.starts_with("relays: ") && said.contains(&format!("{bad:?}")), "{said}");
    }
    for good in ["https://relay.example", "http://127.0.0.1:8080/", "https://[::1]:1/a/b"] {
        trust(|file| file.relays[0].url = good.to_owned()).unwrap();
    }
    let said = refusal(|file| file.relays[0].operator = "two words".to_owned());
    assert!(said.starts_with("relays: \"two words\""), "{said}");
}

#[test]
fn the_gateway_of_the_log_is_a_pinned_operators_with_a_key_that_can_be_used() {
    let gateway = |operator: &str, keys: &[String]| {
        let file = LogGatewayFile { operator: operator.to_owned(), hpke_configs: keys.to_vec() };
        move |trust: &mut TrustFile| trust.log_gateway = Some(file)
    };
    let said = refusal(gateway("mallory.example", &[hpke(1)]));
    assert_eq!(said, "log_gateway: the operator mallory.example is not pinned");
    for keys in [vec![], vec![unknown_suite()]] {
        let said = refusal(gateway(LOG_OPERATOR, &keys));
        assert_eq!(said, "log_gateway: no key of a supported suite");
    }
    assert!(refusal(gateway(LOG_OPERATOR, &["AQ".to_owned()])).starts_with("log_gateway: "));
    let both = trust(gateway(LOG_OPERATOR, &[unknown_suite(), hpke(1)])).unwrap();
    let pinned = both.log_gateway().unwrap();
    assert_eq!((pinned.operator().as_str(), pinned.configs().len()), (LOG_OPERATOR, 1));
}

#[test]
fn a_gateway_of_the_log_needs_a_relay_that_its_operator_does_not_run() {
    let own = |file: &mut TrustFile| file.relays = vec![relay(LOG_OPERATOR)];
    assert_eq!(
        refusal(own),
        "log_gateway: no relay of another operator is pinned under [[relays]]"
    );
    trust(|file| {
        own(file);
        file.insecure_direct = true;
    })
    .unwrap();
}

#[test]
fn a_file_without_these_settings_reads_as_before() {
    let mut value = serde_json::to_value(trust_file()).unwrap();
    assert!(value.as_object_mut().unwrap().remove("log_gateway").is_some());
    let file: TrustFile = serde_json::from_value(value).unwrap();
    assert!(file.log_gateway.is_none());
    Trust::try_from(file).unwrap();
}
