//! Fuzz target: the decoder `inner_token_request`.

#![no_main]

sotto_fuzz::decoder_target!("inner_token_request");
