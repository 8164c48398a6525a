//! Fuzz target: the decoder `receipt`.

#![no_main]

sotto_fuzz::decoder_target!("receipt");
