//! Fuzz target: the decoder `url`.

#![no_main]

sotto_fuzz::decoder_target!("url");
