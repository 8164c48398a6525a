//! Fuzz target: the decoder `key_set`.

#![no_main]

sotto_fuzz::decoder_target!("key_set");
