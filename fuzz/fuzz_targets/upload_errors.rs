//! Fuzz target: the decoder `upload_errors`.

#![no_main]

sotto_fuzz::decoder_target!("upload_errors");
