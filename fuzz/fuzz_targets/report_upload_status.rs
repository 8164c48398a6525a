//! Fuzz target: the decoder `report_upload_status`.

#![no_main]

sotto_fuzz::decoder_target!("report_upload_status");
