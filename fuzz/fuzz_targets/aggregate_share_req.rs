//! Fuzz target: the decoder `aggregate_share_req`.

#![no_main]

sotto_fuzz::decoder_target!("aggregate_share_req");
