//! Fuzz target: the decoder `interval`.

#![no_main]

sotto_fuzz::decoder_target!("interval");
