//! Fuzz target: the decoder `report_error`.

#![no_main]

sotto_fuzz::decoder_target!("report_error");
