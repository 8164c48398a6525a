//! What leader and helper have in common when a batch is collected: judging the collector's request
//! and sealing a share to the collector. DAP, sections "Collection Job Initialization" and
//! "Aggregate Share Encryption".

use rand_core::CryptoRng;
use sotto_crypto::server_hpke;
use sotto_vdaf::AggregateShare;
use sotto_wire::labels::aggregate_share_info;
use sotto_wire::{AggregateShareAad, CollectionJobReq, Encode, HpkeCiphertext, ProblemType, Role};
use zeroize::Zeroizing;

use crate::{Abort, AggregatorTask, Fault};

/// Checks that the aggregation parameter is one of the VDAF's. Prio3 has only one, so the reports
/// were aggregated with it too.
pub(crate) fn check_agg_param(
    task: &AggregatorTask,
    request: &CollectionJobReq,
) -> Result<(), Abort> {
    if task.task.vdaf().is_valid_agg_param(&request.agg_param) {
        return Ok(());
    }
    Err(Abort::new(
        ProblemType::InvalidAggregationParameter,
        "the aggregation parameter is not one of the task's VDAF",
    ))
}

/// No collection job extensions are known, so there must be none.
pub(crate) fn check_collection_extensions(request: &CollectionJobReq) -> Result<(), Abort> {
    match request.extensions.iter().next() {
        None => Ok(()),
        Some(extension) => Err(Abort::new(
            ProblemType::UnsupportedExtension,
            format!("collection job extension {:#06x} is not known", extension.extension_type),
        )),
    }
}

/// Adds the task's noise to an aggregate share, and seals it to the collector, bound to the task and
/// to the collector's request.
///
/// Each call draws new noise: who holds two results of it has two draws for the same sum. So it is
/// called only for a batch that may be released, and the store releases a batch once: only the
/// result that is stored with the release may leave.
pub(crate) fn seal_aggregate_share(
    task: &AggregatorTask,
    role: Role,
    collection_request: &[u8],
    share: &AggregateShare,
    rng: &mut dyn CryptoRng,
) -> Result<HpkeCiphertext<'static>, Fault> {
    let aad = AggregateShareAad {
        task_id: *task.task.id(),
        task_configuration: task.task.encoded_configuration(),
        collection_job_req: collection_request,
    }
    .to_bytes();
    let plaintext = Zeroizing::new(match task.task.noise() {
        Some(noise) => {
            let mut share = share.clone();
            share.add_each(|| noise.sample(rng));
            share.encode()
        }
        None => share.encode(),
    });
    server_hpke::seal(
        &task.collector_hpke_config,
        &aggregate_share_info(role),
        &aad,
        &plaintext,
        rng,
    )
    .map_err(|error| Fault(format!("the aggregate share cannot be sealed: {error}")))
}
