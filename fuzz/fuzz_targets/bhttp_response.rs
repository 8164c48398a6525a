//! Fuzz target: the decoder `bhttp_response`.

#![no_main]

sotto_fuzz::decoder_target!("bhttp_response");
