//! Fuzz target: the decoder `tlog_proof`.

#![no_main]

sotto_fuzz::decoder_target!("tlog_proof");
