//! Fuzz target: the decoder `tlog_policy`.

#![no_main]

sotto_fuzz::decoder_target!("tlog_policy");
