//! Fuzz target: the decoder `token_challenge`.

#![no_main]

sotto_fuzz::decoder_target!("token_challenge");
