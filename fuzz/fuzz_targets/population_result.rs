//! Fuzz target: the decoder `population_result`.

#![no_main]

sotto_fuzz::decoder_target!("population_result");
