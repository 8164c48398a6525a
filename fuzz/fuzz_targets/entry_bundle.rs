//! Fuzz target: the decoder `entry_bundle`.

#![no_main]

sotto_fuzz::decoder_target!("entry_bundle");
