//! Domain-separation strings (DAP "HPKE", "Encrypting Input Shares", "Encrypting Aggregate
//! Shares").
//!
//! All of them begin with the tag of the protocol version, so parties with different versions
//! cannot open each other's messages.

use crate::ids::TaskId;
use crate::task::Role;

/// The tag of the protocol version.
pub const DAP_TAG: &str = "dap-18";

/// The HPKE info string of an input share sealed by a client to `server`.
pub fn input_share_info(server: Role) -> Vec<u8> {
    share_info(" input share", Role::Client, server)
}

/// The HPKE info string of an aggregate share sealed by `server` to the collector.
pub fn aggregate_share_info(server: Role) -> Vec<u8> {
    share_info(" aggregate share", server, Role::Collector)
}

/// The VDAF application context of a task, for sharding and verification.
pub fn vdaf_context(task_id: &TaskId) -> [u8; 38] {
    let mut context = [0; 38];
    let (tag, id) = context.split_at_mut(DAP_TAG.len());
    tag.copy_from_slice(DAP_TAG.as_bytes());
    id.copy_from_slice(task_id.as_bytes());
    context
}

fn share_info(purpose: &str, sender: Role, receiver: Role) -> Vec<u8> {
    let mut info = Vec::with_capacity(DAP_TAG.len() + purpose.len() + 2);
    info.extend_from_slice(DAP_TAG.as_bytes());
    info.extend_from_slice(purpose.as_bytes());
    info.push(sender as u8);
    info.push(receiver as u8);
    info
}
