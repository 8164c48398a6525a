//! Fuzz target: the decoder `recipe`.

#![no_main]

sotto_fuzz::decoder_target!("recipe");
