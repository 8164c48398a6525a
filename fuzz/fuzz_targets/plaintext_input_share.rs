//! Fuzz target: the decoder `plaintext_input_share`.

#![no_main]

sotto_fuzz::decoder_target!("plaintext_input_share");
