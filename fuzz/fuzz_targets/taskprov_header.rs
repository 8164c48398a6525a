//! Fuzz target: the decoder `taskprov_header`.

#![no_main]

sotto_fuzz::decoder_target!("taskprov_header");
