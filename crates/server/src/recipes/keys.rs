//! Compares the keys of the server and of its gateway with those that devices seal to: the
//! operator's newest key set in the log that is old enough to count.
//!
//! Keys that the set does not name are fine: they are either old keys, which stay until no stored
//! report names them and no device uses them, or new keys whose set is not old enough yet.

use sotto_protocol::admission::Silence;
use sotto_wire::recipe::KeySet;
use sotto_wire::{FormatError, HpkeConfig, PublicKey, VerifierKey};

use crate::health::{Concern, Health};

/// Raises and clears the concerns about the keys that reports are sealed to.
pub(super) fn check(health: &Health, held: &[HpkeConfig], newest: &Result<KeySet, Silence>) {
    const KIND: Kind = Kind {
        name: "HPKE",
        named: KeySet::configs,
        loss: "reports that devices seal to them are lost",
        missing: Concern::HpkeKeyMissing,
        unlogged: Concern::HpkeKeysUnlogged,
    };
    KIND.check(health, held, newest);
}

/// Raises and clears the concerns about the keys of the gateway.
pub(super) fn check_gateway(
    health: &Health,
    held: &[HpkeConfig],
    newest: &Result<KeySet, Silence>,
) {
    const KIND: Kind = Kind {
        name: "gateway",
        named: KeySet::gateway_keys,
        loss: "devices that use them are refused",
        missing: Concern::GatewayKeyMissing,
        unlogged: Concern::GatewayKeysUnlogged,
    };
    KIND.check(health, held, newest);
}

/// Raises and clears the concern about the key that signs receipts. The operator's own key needs no
/// set.
pub(super) fn check_receipt_key(
    health: &Health,
    key: &PublicKey,
    pinned: Option<&VerifierKey>,
    newest: &Result<KeySet, Silence>,
) {
    let logged = newest.as_ref().ok().and_then(|set| set.receipt_key.as_ref());
    let is_known =
        logged == Some(key) || pinned.is_some_and(|pinned| pinned.public_key() == key.as_bytes());
    let reason = (!is_known).then_some(
        "the operator's newest key set does not name the key that signs receipts: auditors ignore \
         what it signs",
    );
    if health.set(Concern::ReceiptKeyUnlogged, reason) {
        tracing::error!(reason, "the keys do not match those in the log");
    }
}

/// Keys for one purpose.
struct Kind {
    name: &'static str,
    /// The keys of this kind in a key set.
    named: fn(&KeySet) -> Result<Vec<HpkeConfig>, FormatError>,
    /// The consequence if one is missing.
    loss: &'static str,
    missing: Concern,
    unlogged: Concern,
}

impl Kind {
    fn check(&self, health: &Health, held: &[HpkeConfig], newest: &Result<KeySet, Silence>) {
        let (missing, unlogged) = self.judge(held, newest);
        for (concern, reason) in [(self.missing, missing), (self.unlogged, unlogged)] {
            if health.set(concern, reason.as_deref()) {
                tracing::error!(reason, "the keys do not match those in the log");
            }
        }
    }

    /// What is wrong: a key that devices may seal to is missing, or none of our keys is among
    /// those.
    fn judge(
        &self,
        held: &[HpkeConfig],
        newest: &Result<KeySet, Silence>,
    ) -> (Option<String>, Option<String>) {
        let set = match newest {
            Ok(set) => set,
            Err(silence) => {
                let reason = format!("no logged key set to compare with: {}", silence.reason);
                return (None, Some(reason));
            }
        };
        let named = match (self.named)(set) {
            Ok(named) => named,
            Err(error) => return (None, Some(format!("the newest key set: {error}"))),
        };
        let (operator, seq, name) = (&set.operator.name, set.seq, self.name);
        let absent: Vec<String> = named
            .iter()
            .filter(|config| !held.contains(config))
            .map(|config| config.id().value().to_string())
            .collect();
        let missing = (!absent.is_empty()).then(|| {
            format!(
                "key set {seq} of {operator} names {name} keys that this server does not hold (ids \
                 {}): {}",
                absent.join(", "),
                self.loss
            )
        });
        let unlogged = (absent.len() == named.len()).then(|| {
            format!("key set {seq} of {operator} names none of this server's {name} keys")
        });
        (missing, unlogged)
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;
    use sotto_crypto::HpkeKeypair;
    use sotto_protocol::admission::Check;
    use sotto_wire::{HpkeConfigId, Signer};

    use super::*;

    fn config(id: u8) -> HpkeConfig {
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(id));
        HpkeKeypair::generate(HpkeConfigId::new(id), &mut rng).config().clone()
    }

    fn set(gateway: &[u8]) -> Result<KeySet, Silence> {
        let texts = gateway.iter().map(|id| KeySet::config_text(&config(*id))).collect();
        Ok(KeySet {
            version: 1,
            operator: Signer {
                name: "leader.example".parse().unwrap(),
                key: PublicKey::new([0; 32]),
            },
            seq: 3,
            not_before: 0,
            not_after: 1,
            hpke_configs: vec![KeySet::config_text(&config(1))],
            gateway_configs: (!gateway.is_empty()).then_some(texts),
            encapsulation_configs: None,
            url: None,
            receipt_key: Some(PublicKey::new([7; 32])),
        })
    }

    fn raised(health: &Health) -> Vec<String> {
        let (ready, document) = health.report();
        assert!(ready);
        let reasons = document["reasons"].as_array().unwrap().iter();
        reasons.map(|reason| reason["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn gateway_keys_are_compared_with_the_log() {
        let health = Health::default();
        let held = [config(7), config(8)];
        for (named, concerns) in [
            (&[7, 8][..], &[][..]),
            (&[8], &[]),
            (&[8, 9], &["gateway_key_missing"]),
            (&[9], &["gateway_key_missing", "gateway_keys_unlogged"]),
            // The set has none: devices cannot use the gateway.
            (&[], &["gateway_keys_unlogged"]),
            (&[7], &[]),
        ] {
            check_gateway(&health, &held, &set(named));
            assert_eq!(raised(&health), concerns, "{named:?}");
        }
        let silence = Silence { check: Check::KeySets, reason: "there is none".into() };
        check_gateway(&health, &held, &Err(silence));
        assert_eq!(raised(&health), ["gateway_keys_unlogged"]);
        // The keys for reports are checked separately.
        check(&health, &[config(1)], &set(&[]));
        check(&health, &[config(2)], &set(&[]));
        assert_eq!(
            raised(&health),
            ["hpke_key_missing", "hpke_keys_unlogged", "gateway_keys_unlogged"]
        );
    }

    #[test]
    fn the_key_for_receipts_is_pinned_or_in_the_log() {
        let health = Health::default();
        let (named, pinned, other) = ([7; 32], [0; 32], [9; 32]);
        let name: sotto_wire::KeyName = "leader.example".parse().unwrap();
        let verifier = VerifierKey::new(name, sotto_wire::KeyType::Ed25519, pinned);
        for (key, is_known) in [(named, true), (other, false), (pinned, true)] {
            check_receipt_key(&health, &PublicKey::new(key), Some(&verifier), &set(&[]));
            let concerns: &[&str] = if is_known { &[] } else { &["receipt_key_unlogged"] };
            assert_eq!(raised(&health), concerns, "{key:?}");
        }
        let silence = Silence { check: Check::KeySets, reason: "there is none".into() };
        check_receipt_key(&health, &PublicKey::new(named), Some(&verifier), &Err(silence));
        assert_eq!(raised(&health), ["receipt_key_unlogged"]);
    }
}
