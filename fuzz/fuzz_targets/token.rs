//! Fuzz target: the decoder `token`.

#![no_main]

sotto_fuzz::decoder_target!("token");
