//! Fuzz target: the decoder `hpke_config_list`.

#![no_main]

sotto_fuzz::decoder_target!("hpke_config_list");
