//! Fuzz target: the decoder `task_configuration`.

#![no_main]

sotto_fuzz::decoder_target!("task_configuration");
