//! What a trust file may pin about relays, the log's gateway and tokens.

use sotto_protocol::recipe::Assessment;
use sotto_protocol::trust::{
    LogGatewayFile, PinnedAttester, PinnedOperator, PinnedRelay, TokensFile, Trust, TrustFile,
};
use sotto_testing::keys::{hpke, key, key_of};
use sotto_testing::recipe::{ATTESTER, ISSUER, LOG_OPERATOR, recipe, trust_file};
use sotto_testing::world::Plan;

use crate::device::rows::parties::unknown_suite;

fn relay(operator: &str) -> PinnedRelay {
    PinnedRelay {
        operator: operator.to_owned(),
        key: None,
        url: format!("https://{operator}/relay/"),
    }
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
fn a_relay_is_its_operators_under_any_name() {
    let names = ["relay.example", "second.example"];
    let trust = trust(|file| {
        file.relays = names.map(relay).into();
        file.relays[0].key = Some(key_of("leader.example", "relay.example").verifier().to_string());
        let gateway = key_of(LOG_OPERATOR, "second.example");
        file.operators.push(PinnedOperator { key: gateway.verifier().to_string() });
    });
    let trust = trust.unwrap();
    let url = |name| format!("https://{name}/relay/");
    let recipe = recipe("any");
    assert_eq!(trust.relays_for(&recipe).collect::<Vec<_>>(), [url("second.example")]);
    assert_eq!(trust.log_relays().collect::<Vec<_>>(), [url("relay.example")]);
}

#[test]
fn a_leader_does_not_run_the_gateway_of_the_log() {
    let assessment = Assessment::new(Plan::new().recipe).unwrap();
    let run_by = |operator: &str| {
        let trust = trust(|file| {
            file.log_gateway.as_mut().unwrap().operator = operator.to_owned();
            let second = key_of("leader.example", "second.example");
            file.operators.push(PinnedOperator { key: second.verifier().to_string() });
        });
        assessment.check_limits(&trust.unwrap()).map_err(|silence| silence.to_string())
    };
    for leader in ["leader.example", "second.example"] {
        let said = run_by(leader).unwrap_err();
        assert!(said.starts_with("operators: the leader leader.example also runs"), "{said}");
        assert!(said.contains("[log_gateway]"), "{said}");
    }
    for other in [LOG_OPERATOR, "helper.example"] {
        run_by(other).unwrap();
    }
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
    let said = refusal(|file| {
        file.relays[0].key = Some(key("other.example").verifier().to_string());
    });
    assert!(said.contains("its key is that of other.example"), "{said}");
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
    assert_eq!((pinned.operator.as_str(), pinned.configs.len()), (LOG_OPERATOR, 1));
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
fn issuer_and_attester_are_two_operators_and_the_issuer_is_pinned() {
    let file = |issuer: &str, attester: &str, url: &str| {
        let (operator, url) = (attester.to_owned(), url.to_owned());
        let mut plan = Plan::new();
        plan.with_tokens();
        plan.trust.tokens = Some(TokensFile {
            attester: Some(PinnedAttester { operator, url }),
            ..TokensFile::new(issuer)
        });
        Trust::try_from(plan.trust).map_err(|error| error.to_string())
    };
    let url = "https://attester.example/";
    let good = file(ISSUER, ATTESTER, url).unwrap();
    let pinned = good.tokens().unwrap();
    assert_eq!((pinned.issuer.as_str(), pinned.spread_s), (ISSUER, 43_200));
    let attester = pinned.attester.as_ref().unwrap();
    assert_eq!((attester.operator.as_str(), attester.url.as_str()), (ATTESTER, url));
    for (issuer, attester, url, reason) in [
        ("mallory.example", ATTESTER, url, "tokens: the issuer mallory.example is not pinned"),
        (ISSUER, ISSUER, url, "tokens: attester and issuer must be two operators"),
        ("two words", ATTESTER, url, "tokens: \"two words\""),
        (ISSUER, "two words", url, "tokens: \"two words\""),
        (ISSUER, ATTESTER, "attester.example", "tokens: \"attester.example\""),
    ] {
        let said = file(issuer, attester, url).expect_err(reason);
        assert!(said.starts_with(reason), "{said}");
    }
}

#[test]
fn no_party_of_a_recipe_with_tokens_carries_its_reports() {
    let names = [ISSUER, ATTESTER, "leader.example", "relay.example"];
    let mut plan = Plan::new();
    let without = plan.recipe.clone();
    plan.with_tokens();
    plan.trust.relays = names.map(relay).into();
    let trust = Trust::try_from(plan.trust).unwrap();
    let url = |name| format!("https://{name}/relay/");
    let carry: Vec<_> = trust.relays_for(&plan.recipe).collect();
    assert_eq!(carry, [url("relay.example")]);
    // An issuer that issues no tokens for it is not a party to it.
    let carry: Vec<_> = trust.relays_for(&without).collect();
    assert_eq!(carry, [url(ISSUER), url(ATTESTER), url("relay.example")]);
}

#[test]
fn a_recipe_without_tokens_is_refused_with_what_to_do() {
    let mut plan = Plan::new();
    plan.with_tokens();
    let trust = Trust::try_from(plan.trust).unwrap();
    let said = trust.check_token_keys(&recipe("any")).unwrap_err().reason;
    assert!(said.contains("nobody checks") && said.contains("insecure_no_tokens"), "{said}");
    assert!(said.contains("issuer"), "{said}");
    assert!(trust.check_token_keys(&plan.recipe).is_ok());
}

#[test]
fn a_file_without_these_settings_reads_as_before() {
    let mut value = serde_json::to_value(trust_file()).unwrap();
    let fields = value.as_object_mut().unwrap();
    for name in ["log_gateway", "insecure_no_tokens"] {
        assert!(fields.remove(name).is_some());
    }
    assert!(!fields.contains_key("tokens"));
    let file: TrustFile = serde_json::from_value(value).unwrap();
    assert!(file.log_gateway.is_none() && file.tokens.is_none() && !file.insecure_no_tokens);
    Trust::try_from(file).unwrap();
}
