//! The tokens of a recipe: the rules of the format, what an issuer's operator signs, and drafts
//! without keys.

use sotto_wire::limits::{MAX_TOKEN_KEY_LEN, MIN_TOKEN_KEY_LEN};
use sotto_wire::recipe::{
    EndorsedKey, KeyDraft, PublicKey, TokenKeyRequest, TokenKeyStatement, Tokens, TokensDraft,
};
use sotto_wire::{AuthoringError, KeyName, Recipe, RecipeDraft, Role, Signer};

/// The recipe of the documentation.
fn recipe() -> Recipe {
    let page = include_str!("../../../docs/recipe-format.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    Recipe::from_toml(rest.split_once("```").unwrap().0).unwrap()
}

fn name(text: &str) -> KeyName {
    text.parse().unwrap()
}

fn keys(recipe: &mut Recipe) -> (&mut EndorsedKey, &mut EndorsedKey) {
    match &mut recipe.parties.tokens {
        Tokens::RateLimited { leader, helper } => (leader, helper),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rules_of_tokens_are_kept() {
    type Change = fn(&mut Recipe);
    let cases: [(&str, Change); 15] = [
        ("parties.tokens.leader.issuer must be another operator", |recipe| {
            keys(recipe).0.issuer = name("leader.example");
        }),
        ("parties.tokens.leader.issuer must be another operator", |recipe| {
            keys(recipe).0.issuer = name("helper.example");
        }),
        ("parties.tokens.helper.issuer must be another operator", |recipe| {
            keys(recipe).1.issuer = name("leader.example");
        }),
        ("parties.tokens.helper.issuer must be another operator", |recipe| {
            keys(recipe).1.issuer = name("helper.example");
        }),
        ("parties.tokens.leader.expires must not be earlier", |recipe| keys(recipe).0.expires -= 1),
        ("parties.tokens.helper.expires must not be earlier", |recipe| keys(recipe).1.expires = 0),
        ("parties.tokens.leader.expires must be below", |recipe| {
            keys(recipe).0.expires = 1 << 53;
        }),
        ("token keys of leader and helper must differ", |recipe| {
            keys(recipe).1.public_key = keys(recipe).0.public_key.clone();
        }),
        ("parties.tokens.leader.public_key must be", |recipe| {
            keys(recipe).0.public_key.push('=');
        }),
        ("parties.tokens.leader.public_key must be", |recipe| {
            keys(recipe).0.public_key = EndorsedKey::key_text(&[7; MIN_TOKEN_KEY_LEN - 1]);
        }),
        ("parties.tokens.helper.public_key must be", |recipe| {
            keys(recipe).1.public_key = EndorsedKey::key_text(&[7; MAX_TOKEN_KEY_LEN + 1]);
        }),
        ("parties.tokens.helper.endorsement must be", |recipe| {
            keys(recipe).1.endorsement.push('A');
        }),
        ("parties.tokens.leader.endorsement must be", |recipe| {
            keys(recipe).0.endorsement.clear();
        }),
        ("parties.tokens.leader.issuer contains", |recipe| {
            keys(recipe).0.issuer = name("issuer\u{202e}.example");
        }),
        ("parties.tokens.helper.issuer contains", |recipe| {
            keys(recipe).1.issuer = name("issuer\u{202e}.example");
        }),
    ];
    for (index, (reason, change)) in cases.into_iter().enumerate() {
        let mut recipe = recipe();
        assert_eq!(recipe.check(), Ok(()));
        change(&mut recipe);
        let refused = recipe.check().unwrap_err().to_string();
        assert!(refused.contains(reason), "{index}: {refused}");
        assert!(Recipe::parse(&recipe.to_json()).is_err(), "{index}");
    }
}

#[test]
fn every_kind_says_who_checks() {
    let both = recipe();
    let mut leader_only = both.clone();
    let (leader, helper) = keys(&mut leader_only);
    let (leader, helper) = (leader.clone(), helper.clone());
    leader_only.parties.tokens = Tokens::InsecureLeaderOnly { leader: leader.clone() };
    let mut none = both.clone();
    none.parties.tokens = Tokens::InsecureNone;
    for (recipe, leader, helper, insecure) in [
        (&both, Some(&leader), Some(&helper), false),
        (&leader_only, Some(&leader), None, true),
        (&none, None, None, true),
    ] {
        assert_eq!(Recipe::parse(&recipe.to_json()).as_ref(), Ok(recipe));
        assert_eq!(Recipe::from_toml(&recipe.to_toml()).as_ref(), Ok(recipe));
        let tokens = &recipe.parties.tokens;
        assert_eq!(tokens.issuer(Role::Leader), leader.map(|key| &key.issuer));
        assert_eq!(tokens.issuer(Role::Helper), helper.map(|key| &key.issuer));
        assert_eq!((tokens.key(Role::Leader), tokens.key(Role::Helper)), (leader, helper));
        assert_eq!((tokens.key(Role::Client), tokens.key(Role::Collector)), (None, None));
        assert_eq!(tokens.is_insecure(), insecure);
        assert_eq!(recipe.token_statement(Role::Leader).is_some(), leader.is_some());
        assert_eq!(recipe.token_statement(Role::Helper).is_some(), helper.is_some());
    }
}

/// A recipe that says nothing about tokens is invalid: nobody may assume that they are checked.
#[test]
fn silence_about_tokens_is_an_error() {
    let mut tree: serde_json::Value = serde_json::from_slice(&recipe().to_json()).unwrap();
    tree["parties"].as_object_mut().unwrap().remove("tokens");
    let json = serde_json_canonicalizer::to_vec(&tree).unwrap();
    assert!(Recipe::parse(&json).unwrap_err().to_string().contains("missing field `tokens`"));
    let toml = recipe().to_toml();
    let (before, _) = toml.split_once("[parties.tokens]").unwrap();
    let error = RecipeDraft::from_toml(before).unwrap_err();
    assert!(error.to_string().contains("parties.tokens: is missing"), "{error}");
}

#[test]
fn a_statement_is_canonical_and_has_everything_in_it() {
    let (issuer, leader) = (name("issuer.example"), name("leader.example"));
    let statement = TokenKeyStatement {
        role: Role::Leader,
        aggregator: &leader,
        author: &PublicKey::new([5; 32]),
        issuer: &issuer,
        public_key: "AAAA",
        expires: 1_795_737_600,
    };
    assert_eq!(
        statement.text(),
        "sotto.token-key/v1\n{\"aggregator\":\"leader.example\",\
         \"author\":\"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU\",\"expires\":1795737600,\
         \"issuer\":\"issuer.example\",\"public_key\":\"AAAA\",\"role\":\"leader\"}\n"
    );
    let (other_name, other_author) = (name("other.example"), PublicKey::new([6; 32]));
    for changed in [
        TokenKeyStatement { role: Role::Helper, ..statement },
        TokenKeyStatement { aggregator: &other_name, ..statement },
        TokenKeyStatement { author: &other_author, ..statement },
        TokenKeyStatement { issuer: &other_name, ..statement },
        TokenKeyStatement { public_key: "AAAB", ..statement },
        TokenKeyStatement { expires: 1, ..statement },
    ] {
        assert_ne!(changed.text(), statement.text(), "{changed:?}");
    }
}

#[test]
fn drafts_begin_without_keys() {
    let mut draft = RecipeDraft::from(recipe());
    let missing = |issuer| KeyDraft::Missing(name(issuer));
    let endorsed = draft.token_key_mut(Role::Leader).unwrap().clone();
    for (tokens, role, issuer) in [
        (
            TokensDraft::RateLimited { leader: missing("a.example"), helper: missing("b.example") },
            Role::Leader,
            "a.example",
        ),
        (
            TokensDraft::RateLimited { leader: endorsed, helper: missing("b.example") },
            Role::Helper,
            "b.example",
        ),
        (
            TokensDraft::InsecureLeaderOnly { leader: missing("a.example") },
            Role::Leader,
            "a.example",
        ),
    ] {
        draft.parties.as_mut().unwrap().tokens = tokens;
        assert_eq!(draft.tokens().unwrap().missing_key(), Some((role, &name(issuer))));
        let again = RecipeDraft::from_toml(&draft.to_toml()).unwrap();
        assert_eq!(again, draft);
        let Err(AuthoringError::Rule(error)) = Recipe::from_toml(&draft.to_toml()) else {
            panic!("a recipe without keys")
        };
        assert!(error.to_string().contains(&format!("has no key of {issuer}")), "{error}");
    }
    draft.parties.as_mut().unwrap().tokens = TokensDraft::InsecureNone;
    assert_eq!(draft.tokens().unwrap().missing_key(), None);
    assert!(Recipe::from_toml(&draft.to_toml()).is_ok());
}

#[test]
fn errors_in_tokens_name_the_key() {
    let toml = recipe().to_toml();
    for (from, to, message) in [
        ("kind = \"rate_limited\"", "kind = \"none\"", "parties.tokens.kind: \"none\" is unknown"),
        ("issuer = \"issuer-a.example\"", "", "parties.tokens.leader.issuer: is missing"),
        ("issuer = \"issuer-b.example\"", "", "parties.tokens.helper.issuer: is missing"),
        (
            "kind = \"rate_limited\"",
            "kind = \"insecure_none\"",
            "parties.tokens.helper: is unknown",
        ),
        (
            "kind = \"rate_limited\"",
            "kind = \"insecure_leader_only\"",
            "parties.tokens.helper: is unknown",
        ),
        (
            "issuer = \"issuer-a.example\"\npublic_key",
            "issuer = \"issuer-a.example\"\nkey",
            "parties.tokens.leader",
        ),
    ] {
        assert_eq!(toml.matches(from).count(), 1, "{from}");
        let error = RecipeDraft::from_toml(&toml.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
}

#[test]
fn requests_for_keys_come_back_and_keep_their_rules() {
    let request = TokenKeyRequest {
        author: Signer { name: name("author.example"), key: PublicKey::new([5; 32]) },
        leader: name("leader.example"),
        helper: name("helper.example"),
        role: Role::Leader,
        expires: 1_795_737_600,
        nonce: "abcdefghijklmnopqrstuv".to_owned(),
        participations: None,
    };
    let text = request.text();
    assert!(text.starts_with("sotto.token-key-request/v1\n{\"author\":"), "{text}");
    assert_eq!(TokenKeyRequest::from_text(&text), Ok(request.clone()));
    assert_eq!(*request.aggregator(), request.leader);
    let for_helper = TokenKeyRequest { role: Role::Helper, ..request.clone() };
    assert_eq!(TokenKeyRequest::from_text(&for_helper.text()), Ok(for_helper.clone()));
    assert_eq!(*for_helper.aggregator(), request.helper);
    for text in [
        text.replace("-request/v1", "/v1"),
        text.replace("request/v1\n", "request/v1\n "),
        format!("{text}\n"),
        text.trim_end().to_owned(),
        text.replace("\"nonce\":", "\"nonse\":"),
        text.replace("\"role\":\"leader\"", "\"role\":\"collector\""),
        String::new(),
    ] {
        assert!(TokenKeyRequest::from_text(&text).is_err(), "{text:?}");
    }
    // A request for a recipe of no series is as it was before there were series.
    assert!(!text.contains("participations"));
    for participations in [1, 256] {
        let series = TokenKeyRequest { participations: Some(participations), ..request.clone() };
        assert!(series.text().contains(&format!("\"participations\":{participations},\"role\"")));
        assert_eq!(TokenKeyRequest::from_text(&series.text()), Ok(series));
    }
    let leader = request.leader.clone();
    for wrong in [
        TokenKeyRequest { helper: leader, ..request.clone() },
        TokenKeyRequest { role: Role::Client, ..request.clone() },
        TokenKeyRequest { expires: 1 << 53, ..request.clone() },
        TokenKeyRequest { participations: Some(0), ..request.clone() },
        TokenKeyRequest { participations: Some(257), ..request.clone() },
        TokenKeyRequest { nonce: "short".to_owned(), ..request.clone() },
        TokenKeyRequest { nonce: "x".repeat(65), ..request.clone() },
        TokenKeyRequest { nonce: "abcdefghijklmnopqrst v".to_owned(), ..request.clone() },
    ] {
        assert!(TokenKeyRequest::parse(&wrong.to_json()).is_err(), "{wrong:?}");
    }
}
