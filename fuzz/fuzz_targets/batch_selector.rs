//! Fuzz target: the decoder `batch_selector`.

#![no_main]

sotto_fuzz::decoder_target!("batch_selector");
