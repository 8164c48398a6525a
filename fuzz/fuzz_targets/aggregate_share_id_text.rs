//! Fuzz target: the decoder `aggregate_share_id_text`.

#![no_main]

sotto_fuzz::decoder_target!("aggregate_share_id_text");
