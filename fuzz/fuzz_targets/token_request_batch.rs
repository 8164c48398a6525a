//! Fuzz target: the decoder `token_request_batch`.

#![no_main]

sotto_fuzz::decoder_target!("token_request_batch");
