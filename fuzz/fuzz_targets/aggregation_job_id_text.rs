//! Fuzz target: the decoder `aggregation_job_id_text`.

#![no_main]

sotto_fuzz::decoder_target!("aggregation_job_id_text");
