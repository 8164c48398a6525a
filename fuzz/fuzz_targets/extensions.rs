//! Fuzz target: the decoder `extensions`.

#![no_main]

sotto_fuzz::decoder_target!("extensions");
