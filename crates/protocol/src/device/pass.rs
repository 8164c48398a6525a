//! One pass of a device over the open recipes: all steps up to the report, each committed before
//! the next.

use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_wire::EntryId;

use super::consider::route;
use super::gateway::advance_log_gateway;
use super::{Change, DeviceState, DeviceStore, Host, StateError, advance, consider, toss};
use crate::Moment;
use crate::admission::{Admitted, Silence, View, Watch};
use crate::log::{Fetch, ReaderError};
use crate::trust::Trust;

/// What a pass did. It tells which recipes were considered, never which were answered.
#[derive(Debug, Default)]
pub struct Pass {
    /// Considered and charged in this pass.
    pub considered: Vec<EntryId>,
    /// Not considered, and why. At most cover is sent for them.
    pub silent: Vec<(EntryId, Silence)>,
}

/// Why a pass ended early. Nothing is lost: committed changes stay, and the next pass continues.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The log has not been read.
    #[error("the log has not been read yet")]
    NoView,
    /// The log cannot be believed.
    #[error(transparent)]
    Silence(#[from] Silence),
    /// The log's files cannot be read.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The state could not be stored.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Considers every open recipe of the watched log, once.
pub fn pass<F: Fetch>(
    store: &mut dyn DeviceStore,
    watch: &mut Watch<F>,
    trust: &Trust,
    host: &Host<'_>,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Pass, PassError> {
    let view = follow(store, watch, trust, now)?;
    let mut done = Pass::default();
    let mut open: Vec<_> = watch.recipes().iter().collect();
    open.sort_by_key(|(_, admitted)| admitted.as_ref().map_or(u64::MAX, |admitted| admitted.index));
    let is_header = |admitted: &Arc<Admitted>| admitted.assessment.recipe().is_header();
    for (id, admitted) in open {
        // Its rounds are considered.
        if admitted.as_ref().is_ok_and(is_header) {
            continue;
        }
        if let Some(rerouted) = rerouted(store.state(), *id, admitted.as_ref().ok(), trust) {
            store.commit(rerouted)?;
        }
        let considered = match admitted {
            Err(silence) => Err(silence.clone()),
            Ok(admitted) => consider(store.state(), admitted, &view, trust, host, now, rng),
        };
        match considered {
            Err(silence) => done.silent.push((*id, silence)),
            Ok(consideration) => {
                store.commit(consideration.change)?;
                match consideration.silence {
                    None => done.considered.push(*id),
                    Some(silence) => done.silent.push((*id, silence)),
                }
                // If the report cannot be made, stay silent: an error would reveal that the coin
                // came up heads.
                if let Ok(Some(answered)) = toss(consideration.ticket, host, rng) {
                    store.commit(answered)?;
                }
            }
        }
    }
    Ok(done)
}

/// The newest way of an answer that waits, if it is another one: the gateway's keys change.
fn rerouted(
    state: &DeviceState,
    recipe: EntryId,
    admitted: Option<&Arc<Admitted>>,
    trust: &Trust,
) -> Option<Change> {
    let (_, pending) = state.pending().find(|(id, _)| *id == recipe)?;
    let route = route(admitted?, trust).ok()??;
    (pending.route.as_ref() != Some(&route)).then_some(Change::Rerouted { recipe, route })
}

/// Takes the newest view of the watched log, if it extends what this device saw before.
pub fn follow<F: Fetch>(
    store: &mut dyn DeviceStore,
    watch: &mut Watch<F>,
    trust: &Trust,
    now: Moment,
) -> Result<View, PassError> {
    let view = watch.view().ok_or(PassError::NoView)?.clone();
    let from = store.state().log_size(&view.checkpoint().origin).unwrap_or(0);
    let proof = watch.consistency(from, view.checkpoint().size)?;
    if let Some(seen) = advance(store.state(), &view, &proof, trust, now)? {
        store.commit(seen)?;
    }
    // Without a newer key the device keeps using the one it has.
    let newer = watch
        .log_gateway_set()
        .and_then(|set| advance_log_gateway(store.state(), set, &view, trust, now).ok().flatten());
    if let Some(newer) = newer {
        store.commit(newer)?;
    }
    Ok(view)
}
