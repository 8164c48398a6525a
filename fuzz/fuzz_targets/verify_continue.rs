//! Fuzz target: the decoder `verify_continue`.

#![no_main]

sotto_fuzz::decoder_target!("verify_continue");
