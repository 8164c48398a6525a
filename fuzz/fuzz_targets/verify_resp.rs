//! Fuzz target: the decoder `verify_resp`.

#![no_main]

sotto_fuzz::decoder_target!("verify_resp");
