//! Fuzz target: the decoder `upload_request`.

#![no_main]

sotto_fuzz::decoder_target!("upload_request");
