//! Fuzz target: the decoder `ohttp_keys`.

#![no_main]

sotto_fuzz::decoder_target!("ohttp_keys");
