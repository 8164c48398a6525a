//! Fuzz target: the decoder `bhttp_request`.

#![no_main]

sotto_fuzz::decoder_target!("bhttp_request");
