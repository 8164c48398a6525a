//! Fuzz target: the decoder `token_request`.

#![no_main]

sotto_fuzz::decoder_target!("token_request");
