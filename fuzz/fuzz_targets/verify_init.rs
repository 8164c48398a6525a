//! Fuzz target: the decoder `verify_init`.

#![no_main]

sotto_fuzz::decoder_target!("verify_init");
