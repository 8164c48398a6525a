//! All keys and secrets of a deployment.

use sotto_crypto::HpkeKeypair;
use sotto_crypto::note::NoteKey;
use sotto_wire::KeyName;
use zeroize::Zeroizing;

use super::Plan;
use super::files::Files;
use super::parties::{Parties, Party, WITNESSES};
use crate::keys::{self, store_key};
use crate::{random, signer_file};

pub(super) type Text = Zeroizing<String>;

pub(super) struct Keys {
    pub(super) author: NoteKey,
    pub(super) leader: NoteKey,
    pub(super) helper: NoteKey,
    pub(super) keeper: Option<NoteKey>,
    pub(super) issuers: [NoteKey; 2],
    pub(super) log: NoteKey,
    pub(super) witnesses: [NoteKey; 3],
    pub(super) leader_hpke: HpkeKeypair,
    pub(super) helper_hpke: HpkeKeypair,
    pub(super) collector_hpke: HpkeKeypair,
    pub(super) leader_gateway: HpkeKeypair,
    pub(super) log_gateway: HpkeKeypair,
    pub(super) encapsulation: [HpkeKeypair; 2],
    /// Shared by leader and helper.
    pub(super) verify_key_init: Text,
    pub(super) leader_token: Text,
    /// Shared by leader and collector.
    pub(super) collector_token: Text,
    /// Shared by the attester and the issuer of a chain.
    pub(super) attester_tokens: [Text; 2],
}

impl Keys {
    pub(super) fn generate(parties: &Parties) -> Self {
        let signer = |name: KeyName| NoteKey::generate(name, &mut random::system());
        let of = |party| signer(parties.name(party).clone());
        let witness = |(party, _): &(Party, &str)| of(*party);
        let pair = || {
            let [id] = random::bytes();
            keys::generate_hybrid(id)
        };
        let secret = || random::text::<32>();
        Self {
            author: of(Party::Author),
            leader: of(Party::Leader),
            helper: of(Party::Helper),
            keeper: (parties.keeper() == Party::Keeper).then(|| of(Party::Keeper)),
            issuers: [of(Party::IssuerA), of(Party::IssuerB)],
            log: of(Party::Log),
            witnesses: WITNESSES.each_ref().map(witness),
            leader_hpke: pair(),
            helper_hpke: pair(),
            collector_hpke: pair(),
            leader_gateway: pair(),
            log_gateway: pair(),
            encapsulation: [pair(), pair()],
            verify_key_init: secret(),
            leader_token: secret(),
            collector_token: secret(),
            attester_tokens: [secret(), secret()],
        }
    }

    /// Those that sign key sets.
    pub(super) fn operators(&self) -> impl Iterator<Item = &NoteKey> {
        [&self.leader, &self.helper].into_iter().chain(&self.keeper).chain(&self.issuers)
    }

    /// The key files. Keys that sign nothing but key sets stay off servers.
    pub(super) fn add(&self, plan: &Plan, files: &mut Files) {
        let name = |party| plan.parties.name(party);
        let (leader, helper) = (name(Party::Leader), name(Party::Helper));
        let (author, log) = (name(Party::Author), name(plan.parties.keeper()));
        let mut signers = vec![
            (format!("{leader}/operator.key"), &self.leader),
            (format!("{helper}/operator.key"), &self.helper),
            (format!("{log}/server/log.key"), &self.log),
            (format!("{author}/author.key"), &self.author),
        ];
        let mut pairs = vec![
            (format!("{leader}/server/hpke.toml"), &self.leader_hpke),
            (format!("{leader}/server/gateway.toml"), &self.leader_gateway),
            (format!("{helper}/server/hpke.toml"), &self.helper_hpke),
            (format!("{log}/server/log-gateway.toml"), &self.log_gateway),
            (format!("{author}/collector-hpke.toml"), &self.collector_hpke),
        ];
        signers.extend(self.keeper.iter().map(|key| (format!("{log}/operator.key"), key)));
        for ((party, _), key) in WITNESSES.iter().zip(&self.witnesses) {
            signers.push((format!("{}/server/witness.key", name(*party)), key));
        }
        let issuers = [Party::IssuerA, Party::IssuerB].map(name);
        for ((issuer, signer), pair) in issuers.iter().zip(&self.issuers).zip(&self.encapsulation) {
            signers.push((format!("{issuer}/server/operator.key"), signer));
            pairs.push((format!("{issuer}/server/encapsulation.toml"), pair));
        }
        for (path, key) in signers {
            files.secret(path, signer_file::text(key));
        }
        for (path, pair) in pairs {
            files.secret(path, keys::text(pair));
        }
        files.secret(
            format!("{author}/collector.token"),
            Zeroizing::new(format!("{}\n", *self.collector_token)),
        );
        if plan.postgres.is_some() {
            for operator in [leader, helper] {
                files.secret(format!("{operator}/server/store.key"), store_key());
            }
        }
    }
}
