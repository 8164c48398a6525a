//! Fuzz target: the decoder `batch_mode`.

#![no_main]

sotto_fuzz::decoder_target!("batch_mode");
