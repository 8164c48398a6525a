//! Fuzz target: the decoder `encapsulation_key`.

#![no_main]

sotto_fuzz::decoder_target!("encapsulation_key");
