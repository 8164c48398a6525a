//! Fuzz target: the decoder `add_checkpoint`.

#![no_main]

sotto_fuzz::decoder_target!("add_checkpoint");
