//! Fuzz target: the decoder `note`.

#![no_main]

sotto_fuzz::decoder_target!("note");
