//! Fuzz target: the decoder `report`.

#![no_main]

sotto_fuzz::decoder_target!("report");
