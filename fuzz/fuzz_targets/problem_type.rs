//! Fuzz target: the decoder `problem_type`.

#![no_main]

sotto_fuzz::decoder_target!("problem_type");
