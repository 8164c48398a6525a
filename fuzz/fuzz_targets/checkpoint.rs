//! Fuzz target: the decoder `checkpoint`.

#![no_main]

sotto_fuzz::decoder_target!("checkpoint");
