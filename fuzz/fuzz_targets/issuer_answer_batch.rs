//! Fuzz target: the decoder `issuer_answer_batch`.

#![no_main]

sotto_fuzz::decoder_target!("issuer_answer_batch");
