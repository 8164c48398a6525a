//! Fuzz target: the decoder `token_key_request`.

#![no_main]

sotto_fuzz::decoder_target!("token_key_request");
