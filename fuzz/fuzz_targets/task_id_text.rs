//! Fuzz target: the decoder `task_id_text`.

#![no_main]

sotto_fuzz::decoder_target!("task_id_text");
