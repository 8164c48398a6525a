//! Fuzz target: the decoder `media_type`.

#![no_main]

sotto_fuzz::decoder_target!("media_type");
