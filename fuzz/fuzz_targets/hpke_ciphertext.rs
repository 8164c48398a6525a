//! Fuzz target: the decoder `hpke_ciphertext`.

#![no_main]

sotto_fuzz::decoder_target!("hpke_ciphertext");
