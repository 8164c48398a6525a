//! A device whose state is a real file: crashes at every step, and damaged files. And its routes:
//! relays and gateways.

mod attestors;
mod behind_relay;
mod damage;
mod files;
mod models;
mod relay;
mod routes;
mod tokens;
