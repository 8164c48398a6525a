//! Fuzz target: the decoder `batch_id_text`.

#![no_main]

sotto_fuzz::decoder_target!("batch_id_text");
