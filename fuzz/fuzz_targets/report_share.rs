//! Fuzz target: the decoder `report_share`.

#![no_main]

sotto_fuzz::decoder_target!("report_share");
