//! The device that decides for itself, against a log in memory: what it refuses, what survives a
//! crash, what a fleet does. And what others learn from the same log: who misbehaved, and what a
//! result says about the population.

mod budgets;
mod checks;
mod cover;
mod derivation;
mod estimates;
mod fleet;
mod gateway_keys;
mod key_choice;
mod kinds;
mod misbehaviour;
mod mutation;
mod restarts;
mod rows;
mod series;
mod state;
mod suites;
mod tokens;
mod trust;
mod two_faced;
mod views;
