//! What a trust file may say about budgets, relays, the log's gateway and tokens.

use sotto_crypto::hpke::Suite;
use sotto_protocol::admission::Check;
use sotto_protocol::recipe::Assessment;
use sotto_protocol::trust::{
    ChainFile, LogGatewayFile, PinnedOperator, PinnedServer, Trust, TrustFile,
};
use sotto_testing::arbitrary::TOKEN_KEYS;
use sotto_testing::keys::{hpke, key, key_of};
use sotto_testing::recipe::{ATTESTERS, ISSUERS, LOG_OPERATOR, recipe, trust_file};
use sotto_testing::world::Plan;
use sotto_wire::Role;

use crate::device::rows::parties::{unknown_suite, x25519};

fn relay(operator: &str) -> PinnedServer {
    PinnedServer {
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
fn a_cap_on_a_life_is_a_budget_and_has_a_default() {
    let cap = |trust: &Trust| (trust.lifetime().epsilon, trust.lifetime().delta);
    assert_eq!(cap(&trust(|_| {}).unwrap()), (10.0, 1e-5));
    let set = |epsilon, delta| {
        move |file: &mut TrustFile| {
            (file.budget.lifetime_epsilon, file.budget.lifetime_delta) = (epsilon, delta);
        }
    };
    assert_eq!(cap(&trust(set(0.5, 1e-9)).unwrap()), (0.5, 1e-9));
    for (epsilon, delta) in
        [(0.0, 1e-5), (f64::NAN, 1e-5), (f64::INFINITY, 1e-5), (1.0, 0.0), (1.0, 1.0)]
    {
        let reason = refusal(set(epsilon, delta));
        assert!(reason.starts_with("budget: lifetime: "), "{epsilon} {delta}: {reason}");
    }
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
fn an_operator_has_one_key() {
    let said = refusal(|file| {
        file.relays = vec![relay("leader.example")];
        file.relays[0].key = Some(key_of("mallory", "leader.example").verifier().to_string());
        file.log_gateway = None;
    });
    assert!(said.contains("another key of this operator is pinned elsewhere"), "{said}");
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

    let said = refusal(gateway(LOG_OPERATOR, &[x25519()]));
    assert!(said.starts_with("log_gateway: no key of the hybrid suite"), "{said}");
    let suites = |change: &dyn Fn(&mut TrustFile)| -> Vec<_> {
        let trust = trust(|file| {
            gateway(LOG_OPERATOR, &[x25519(), hpke(1)])(file);
            change(file);
        });
        let gateway = trust.unwrap().log_gateway().unwrap().clone();
        gateway.configs.iter().map(|config| Suite::of(config).unwrap()).collect()
    };
    assert_eq!(suites(&|_| {}), [Suite::Hybrid]);
    let both = suites(&|file| file.require_post_quantum = false);
    assert_eq!(both, [Suite::Hybrid, Suite::X25519], "the better one first");
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

/// A trust file with tokens, changed.
fn with_tokens(change: impl FnOnce(&mut TrustFile)) -> Result<Trust, String> {
    let mut plan = Plan::new();
    plan.with_tokens();
    change(&mut plan.trust);
    Trust::try_from(plan.trust).map_err(|error| error.to_string())
}

/// The chains of the leader's and the helper's tokens.
fn chains(file: &mut TrustFile) -> [&mut ChainFile; 2] {
    let tokens = file.tokens.as_mut().unwrap();
    [&mut tokens.leader, &mut tokens.helper]
}

#[test]
fn issuers_and_attesters_are_named_and_issuers_are_pinned() {
    let good = with_tokens(|_| {}).unwrap();
    let pinned = good.tokens().unwrap();
    assert_eq!(pinned.spread_s, 43_200);
    for (chain, role) in [Role::Leader, Role::Helper].into_iter().enumerate() {
        assert_eq!(pinned.chain(role).issuer.as_str(), ISSUERS[chain]);
        let attester = pinned.attester(role).unwrap();
        let url = format!("https://{}/", ATTESTERS[chain]);
        assert_eq!((attester.operator.as_str(), &attester.url), (ATTESTERS[chain], &url));
        let issuer = |name: &'static str| {
            move |file: &mut TrustFile| chains(file)[chain].issuer = name.to_owned()
        };
        let attester = |operator: &'static str, url: &'static str| {
            let pinned =
                PinnedServer { operator: operator.to_owned(), key: None, url: url.to_owned() };
            move |file: &mut TrustFile| chains(file)[chain].attester = Some(pinned)
        };
        let url = "https://attester.example/";
        for (refused, reason) in [
            (
                with_tokens(issuer("mallory.example")),
                "tokens: the issuer mallory.example is not pinned",
            ),
            (with_tokens(issuer("two words")), "tokens: \"two words\""),
            (with_tokens(attester("two words", url)), "tokens: \"two words\""),
            (
                with_tokens(attester("x.example", "attester.example")),
                "tokens: \"attester.example\"",
            ),
            (
                with_tokens(|file| chains(file)[chain].attester = None),
                "tokens: an attester is pinned for one aggregator only",
            ),
        ] {
            let said = refused.expect_err(reason);
            assert!(said.starts_with(reason), "{said}");
        }
    }
    // An aggregator's file has no attesters.
    with_tokens(|file| chains(file).into_iter().for_each(|chain| chain.attester = None)).unwrap();
}

/// Every pair of the four is refused, by name and by key. One attester or one issuer for both needs
/// the setting; an attester that is an issuer is never allowed.
#[test]
fn issuers_and_attesters_are_four_operators() {
    type Change = fn(&mut TrustFile);
    let share_attester: Change = |file| {
        let [leader, helper] = chains(file);
        helper.attester = leader.attester.clone();
    };
    let share_issuer: Change = |file| {
        let [leader, helper] = chains(file);
        helper.issuer = leader.issuer.clone();
    };
    let share_both: Change = |file| {
        let [leader, helper] = chains(file);
        *helper = leader.clone();
    };
    let issuers_share_a_key: Change = |file| {
        file.operators.pop();
        let key = key_of(ISSUERS[0], ISSUERS[1]).verifier().to_string();
        file.operators.push(PinnedOperator { key });
    };
    let attesters_share_a_key: Change = |file| {
        for (chain, name) in chains(file).into_iter().zip(ATTESTERS) {
            let key = key_of("one", name).verifier().to_string();
            chain.attester.as_mut().unwrap().key = Some(key);
        }
    };
    for (change, who) in [
        (share_attester, "the attester of the leader's tokens and the attester of the helper's"),
        (share_issuer, "the issuer of the leader's tokens and the issuer of the helper's"),
        (share_both, "the issuer of the leader's tokens and the issuer of the helper's"),
        (issuers_share_a_key, "the issuer of the leader's tokens and the issuer of the helper's"),
        (
            attesters_share_a_key,
            "the attester of the leader's tokens and the attester of the helper's",
        ),
    ] {
        let said = with_tokens(change).unwrap_err();
        assert!(said.contains(who) && said.contains("insecure_single_attester"), "{said}");
        with_tokens(|file| {
            change(file);
            file.insecure_single_attester = true;
        })
        .unwrap();
    }
    let said = with_tokens(|file| {
        let [leader, helper] = chains(file).map(|chain| chain.attester.as_mut().unwrap());
        helper.url = leader.url.clone();
    });
    assert!(said.unwrap_err().contains("have the same URL"));
    for (attester, issuer) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let by_name = |file: &mut TrustFile| {
            let attester = chains(file)[attester].attester.as_mut().unwrap();
            attester.operator = ISSUERS[issuer].to_owned();
        };
        let by_key = |file: &mut TrustFile| {
            let key = key_of(ISSUERS[issuer], ATTESTERS[attester]).verifier().to_string();
            chains(file)[attester].attester.as_mut().unwrap().key = Some(key);
        };
        let changes: [&dyn Fn(&mut TrustFile); 2] = [&by_name, &by_key];
        for change in changes {
            for single in [false, true] {
                let said = with_tokens(|file| {
                    change(file);
                    file.insecure_single_attester = single;
                });
                assert!(said.unwrap_err().contains("are one operator"), "{attester} {issuer}");
            }
        }
    }
}

/// A recipe whose keys both come from one issuer, where that is allowed and where it is not.
#[test]
fn one_issuer_for_both_aggregators_needs_the_setting() {
    let mut plan = Plan::new();
    plan.with_tokens();
    plan.issuer_signers[1] = key(ISSUERS[0]);
    plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
    let two = Trust::try_from(plan.trust.clone()).unwrap();
    let said = two.check_token_keys(&plan.recipe).unwrap_err();
    assert_eq!(said.check, Check::TokenKeys);
    assert!(said.reason.contains("the pinned issuer is issuer-b.example"), "{}", said.reason);
    let [leader, helper] = chains(&mut plan.trust);
    *helper = leader.clone();
    plan.trust.insecure_single_attester = true;
    let one = Trust::try_from(plan.trust.clone()).unwrap();
    one.check_token_keys(&plan.recipe).unwrap();
    // And a recipe with two issuers is then none of its recipes.
    let mut two_chains = Plan::new();
    two_chains.with_tokens();
    assert!(one.check_token_keys(&two_chains.recipe).is_err());
}

#[test]
fn no_party_of_a_recipe_with_tokens_carries_its_reports() {
    let names = [ISSUERS[0], ATTESTERS[0], ISSUERS[1], ATTESTERS[1]];
    let names = [names.as_slice(), &["leader.example", "relay.example"]].concat();
    let mut plan = Plan::new();
    let without = plan.recipe.clone();
    plan.with_tokens();
    plan.trust.relays = names.iter().map(|name| relay(name)).collect();
    let trust = Trust::try_from(plan.trust).unwrap();
    let url = |name| format!("https://{name}/relay/");
    let carry: Vec<_> = trust.relays_for(&plan.recipe).collect();
    assert_eq!(carry, [url("relay.example")]);
    // An issuer that issues no tokens for it is not a party to it.
    let carry: Vec<_> = trust.relays_for(&without).collect();
    let carriers = [ISSUERS[0], ATTESTERS[0], ISSUERS[1], ATTESTERS[1], "relay.example"];
    assert_eq!(carry, carriers.map(url));
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
