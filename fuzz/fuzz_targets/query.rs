//! Fuzz target: the decoder `query`.

#![no_main]

sotto_fuzz::decoder_target!("query");
