//! Fuzz target: the decoder `report_id_text`.

#![no_main]

sotto_fuzz::decoder_target!("report_id_text");
