//! Fuzz target: the decoder `entry`.

#![no_main]

sotto_fuzz::decoder_target!("entry");
