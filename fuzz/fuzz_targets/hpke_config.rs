//! Fuzz target: the decoder `hpke_config`.

#![no_main]

sotto_fuzz::decoder_target!("hpke_config");
