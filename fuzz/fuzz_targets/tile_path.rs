//! Fuzz target: the decoder `tile_path`.

#![no_main]

sotto_fuzz::decoder_target!("tile_path");
