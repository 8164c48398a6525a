//! Fuzz target: the decoder `collection_job_id_text`.

#![no_main]

sotto_fuzz::decoder_target!("collection_job_id_text");
