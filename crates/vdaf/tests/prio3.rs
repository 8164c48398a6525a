//! Prio3 through the public interface: two aggregators in memory.

mod corruption;
mod differential;
mod end_to_end;
pub(crate) mod exchange;
mod hostile_inputs;
mod one_sided_rejection;
