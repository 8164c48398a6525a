//! Fuzz target: the decoder `token_header`.

#![no_main]

sotto_fuzz::decoder_target!("token_header");
