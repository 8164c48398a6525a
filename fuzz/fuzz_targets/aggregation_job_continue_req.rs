//! Fuzz target: the decoder `aggregation_job_continue_req`.

#![no_main]

sotto_fuzz::decoder_target!("aggregation_job_continue_req");
