//! Fuzz target: the decoder `ohttp_request`.

#![no_main]

sotto_fuzz::decoder_target!("ohttp_request");
