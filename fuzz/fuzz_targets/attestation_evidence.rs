//! Fuzz target: the decoder `attestation_evidence`.

#![no_main]

sotto_fuzz::decoder_target!("attestation_evidence");
