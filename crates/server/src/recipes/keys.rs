//! Compares the server's HPKE keys with those that devices seal to: the operator's newest key set in the
//! log that is old enough to count.
//!
//! Keys that the set does not name are fine. They are old ones, which stay until no stored report names
//! them, or new ones whose set is not old enough yet.

use sotto_protocol::device::Silence;
use sotto_wire::HpkeConfig;
use sotto_wire::recipe::KeySet;

use crate::health::{Concern, Health};

/// Raises and clears the concerns about keys.
pub(super) fn check(health: &Health, held: &[HpkeConfig], newest: &Result<KeySet, Silence>) {
    let (missing, unlogged) = judge(held, newest);
    for (concern, reason) in
        [(Concern::HpkeKeyMissing, missing), (Concern::HpkeKeysUnlogged, unlogged)]
    {
        match reason {
            None => health.clear(concern),
            Some(reason) => {
                if health.raise(concern, reason.as_str()) {
                    tracing::error!(reason, "the HPKE keys are not those of the log");
                }
            }
        }
    }
}

/// What is wrong: a key that devices may seal to is missing; none of our keys is among them.
fn judge(
    held: &[HpkeConfig],
    newest: &Result<KeySet, Silence>,
) -> (Option<String>, Option<String>) {
    let set = match newest {
        Ok(set) => set,
        Err(silence) => {
            return (None, Some(format!("no logged key set to compare with: {}", silence.reason)));
        }
    };
    let named = match set.configs() {
        Ok(named) => named,
        Err(error) => return (None, Some(format!("the newest key set: {error}"))),
    };
    let (operator, seq) = (&set.operator.name, set.seq);
    let absent: Vec<String> = named
        .iter()
        .filter(|config| !held.contains(config))
        .map(|config| config.id().value().to_string())
        .collect();
    if absent.is_empty() {
        return (None, None);
    }
    let missing = format!(
        "key set {seq} of {operator} names HPKE keys that this server does not hold (ids {}): reports \
         that devices seal to them are lost",
        absent.join(", ")
    );
    let unlogged = (absent.len() == named.len())
        .then(|| format!("key set {seq} of {operator} names none of this server's HPKE keys"));
    (Some(missing), unlogged)
}
