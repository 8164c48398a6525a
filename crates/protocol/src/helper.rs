//! The helper: answers the leader. DAP, sections "Aggregate Initialization" and "Obtaining
//! Aggregate Shares", helper's side.
//!
//! Each request is handled in two steps, with a store lookup in between: `parse_<message>` makes
//! the checks that concern the request alone, `consume_<message>` those that concern reports or
//! batches. The store knows what was spent, collected or answered before.

mod aggregate;
mod collect;

pub use aggregate::{
    HelperOutcome, ParsedJob, consume_aggregation_job_continue_req,
    consume_aggregation_job_init_req, parse_aggregation_job_init_req,
};
pub use collect::{
    ParsedAggregateShareReq, consume_aggregate_share_req, parse_aggregate_share_req,
};
