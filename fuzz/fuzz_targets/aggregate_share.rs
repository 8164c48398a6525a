//! Fuzz target: the decoder `aggregate_share`.

#![no_main]

sotto_fuzz::decoder_target!("aggregate_share");
