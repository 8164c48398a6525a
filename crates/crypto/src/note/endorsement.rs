//! Endorsements of token keys: plain Ed25519 over the text of a [`TokenKeyStatement`], with the key
//! that signs notes.
//!
//! The first line of the text differs from that of any entry, so an endorsement can never pass for
//! a signed entry of the log, nor the other way round.

use sotto_wire::recipe::{EndorsedKey, Recipe, TokenKeyStatement};
use sotto_wire::{KeyType, Role, VerifierKey};

use super::{NoteError, NoteKey, verify_bytes};

impl NoteKey {
    /// Signs the issuer operator's statement about a token key. The statement must name this key as
    /// the issuer.
    pub fn endorse(&self, statement: &TokenKeyStatement<'_>) -> EndorsedKey {
        EndorsedKey {
            issuer: statement.issuer.clone(),
            public_key: statement.public_key.to_owned(),
            expires: statement.expires,
            endorsement: EndorsedKey::signature_text(&self.sign_bytes(&statement.text())),
        }
    }

    /// The token key of this aggregator of a recipe (in the form that an [`EndorsedKey`] holds),
    /// endorsed by this operator until the second `expires`.
    pub fn endorse_for(
        &self,
        recipe: &Recipe,
        role: Role,
        public_key: &str,
        expires: u64,
    ) -> EndorsedKey {
        let aggregator = match role {
            Role::Helper => &recipe.parties.helper.operator,
            _ => &recipe.parties.leader.operator,
        };
        let (author, issuer) = (&recipe.author.key, self.name());
        self.endorse(&TokenKeyStatement { role, aggregator, author, issuer, public_key, expires })
    }
}

/// Checks that `issuer` endorsed the token key that this aggregator uses for the recipe: for this
/// role, this operator, the author of this recipe and this expiry. [`NoteError::Missing`] if the
/// aggregator has no key, or another issuer is named.
pub fn verify_endorsement(
    recipe: &Recipe,
    role: Role,
    issuer: &VerifierKey,
) -> Result<(), NoteError> {
    if issuer.key_type() != KeyType::Ed25519 {
        return Err(NoteError::WrongKeyType);
    }
    let (Some(statement), Some(key)) =
        (recipe.token_statement(role), recipe.parties.tokens.key(role))
    else {
        return Err(NoteError::Missing);
    };
    if statement.issuer != issuer.name() {
        return Err(NoteError::Missing);
    }
    let signature = key.signature().map_err(|_| NoteError::Bad)?;
    verify_bytes(issuer, statement.text().as_bytes(), &signature)
}

#[cfg(test)]
mod tests {
    use sotto_wire::KeyName;
    use sotto_wire::recipe::Tokens;

    use super::*;
    use crate::Secret;

    /// The recipe of the documentation, whose keys another implementation endorsed.
    fn documented() -> Recipe {
        let page = include_str!("../../../../docs/recipe-format.md");
        let (_, rest) = page.split_once("```json\n").unwrap();
        Recipe::parse(rest.split_once("\n```").unwrap().0.as_bytes()).unwrap()
    }

    fn key(name: &str, seed: u8) -> NoteKey {
        NoteKey::from_seed(name.parse().unwrap(), Secret::new([seed; 32]))
    }

    /// The issuer of the leader's tokens, and that of the helper's.
    fn issuers() -> [NoteKey; 2] {
        [key("issuer-a.example", 9), key("issuer-b.example", 8)]
    }

    fn verify(recipe: &Recipe) -> Result<(), NoteError> {
        let [a, b] = issuers().map(|issuer| issuer.verifier());
        verify_endorsement(recipe, Role::Leader, &a)?;
        verify_endorsement(recipe, Role::Helper, &b)
    }

    fn keys(recipe: &mut Recipe) -> (&mut EndorsedKey, &mut EndorsedKey) {
        match &mut recipe.parties.tokens {
            Tokens::RateLimited { leader, helper } => (leader, helper),
            _ => panic!("no tokens"),
        }
    }

    #[test]
    fn the_documented_endorsements_verify_and_are_made_again() {
        let mut recipe = documented();
        assert_eq!(verify(&recipe), Ok(()));
        let (leader, helper) = keys(&mut recipe);
        let (leader, helper) = (leader.clone(), helper.clone());
        let [a, b] = issuers();
        for (role, issuer, made) in [(Role::Leader, a, leader), (Role::Helper, b, helper)] {
            let again = issuer.endorse_for(&recipe, role, &made.public_key, made.expires);
            assert_eq!(again, made);
        }
    }

    #[test]
    fn an_endorsement_is_for_one_key_role_operator_author_issuer_and_expiry() {
        type Change = fn(&mut Recipe);
        let name = |text: &str| -> KeyName { text.parse().unwrap() };
        let changes: [(&str, Change); 9] = [
            ("another author", |recipe| {
                recipe.author.key = sotto_wire::PublicKey::new([6; 32]);
            }),
            ("another leader", |recipe| {
                recipe.parties.leader.operator = "other.example".parse().unwrap();
            }),
            ("another helper", |recipe| {
                recipe.parties.helper.operator = "other.example".parse().unwrap();
            }),
            ("a longer life", |recipe| keys(recipe).0.expires += 1),
            ("a shorter life", |recipe| keys(recipe).1.expires -= 1),
            ("the keys swapped", |recipe| {
                let (leader, helper) = keys(recipe);
                std::mem::swap(&mut leader.public_key, &mut helper.public_key);
            }),
            ("the operators swapped", |recipe| {
                let parties = &mut recipe.parties;
                std::mem::swap(&mut parties.leader.operator, &mut parties.helper.operator);
            }),
            ("another key", |recipe| {
                let (leader, helper) = keys(recipe);
                leader.public_key = helper.public_key.clone();
            }),
            ("the other's signature", |recipe| {
                let (leader, helper) = keys(recipe);
                leader.endorsement = helper.endorsement.clone();
            }),
        ];
        for (why, change) in changes {
            let mut recipe = documented();
            change(&mut recipe);
            assert_eq!(verify(&recipe), Err(NoteError::Bad), "{why}");
        }
        let mut other_issuer = documented();
        keys(&mut other_issuer).0.issuer = name("mallory.example");
        assert_eq!(verify(&other_issuer), Err(NoteError::Missing));
        // Each issuer's endorsement counts for its own aggregator only.
        let mut roles_swapped = documented();
        let (leader, helper) = keys(&mut roles_swapped);
        std::mem::swap(leader, helper);
        assert_eq!(verify(&roles_swapped), Err(NoteError::Missing));
        let [a, _] = issuers();
        let swapped = verify_endorsement(&roles_swapped, Role::Helper, &a.verifier());
        assert_eq!(swapped, Err(NoteError::Bad));
        // The right name, with another party's endorsement.
        let mut forged = documented();
        let leader = keys(&mut forged).0.clone();
        let forger = key("issuer-a.example", 8);
        let made = forger.endorse_for(&forged, Role::Leader, &leader.public_key, leader.expires);
        *keys(&mut forged).0 = made;
        assert_eq!(verify(&forged), Err(NoteError::Bad));
    }

    #[test]
    fn without_a_key_nothing_is_endorsed() {
        let mut recipe = documented();
        let leader = keys(&mut recipe).0.clone();
        recipe.parties.tokens = Tokens::InsecureLeaderOnly { leader };
        let [issuer, _] = issuers();
        let verifier = issuer.verifier();
        assert_eq!(verify_endorsement(&recipe, Role::Leader, &verifier), Ok(()));
        for role in [Role::Helper, Role::Client, Role::Collector] {
            assert_eq!(verify_endorsement(&recipe, role, &verifier), Err(NoteError::Missing));
        }
        let cosigner = issuer.cosigner();
        assert_eq!(
            verify_endorsement(&recipe, Role::Leader, &cosigner),
            Err(NoteError::WrongKeyType)
        );
    }

    /// An operator signs both: neither must pass for the other.
    #[test]
    fn an_endorsement_is_no_entry() {
        let recipe = documented();
        let text = recipe.token_statement(Role::Leader).unwrap().text();
        let note = sotto_wire::Note::new(text.clone()).unwrap();
        let [issuer, _] = issuers();
        let note = note.with_signature(issuer.sign(&text));
        assert!(super::super::verify(&note, &issuer.verifier()).is_ok());
        assert!(sotto_wire::Entry::parse(&note.to_bytes()).is_err());
    }
}
