//! Fuzz target: the decoder `report_metadata`.

#![no_main]

sotto_fuzz::decoder_target!("report_metadata");
