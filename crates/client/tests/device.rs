//! A device whose state is a real file: crashes at every step, and files that are damaged. And its ways: relays, gateways, routes.

mod attestors;
mod behind_relay;
mod damage;
mod files;
mod relay;
mod routes;
mod tokens;
