//! Tokens at both aggregators, over real wire bytes and each store: one token gives one report, and
//! both sums contain the same reports, whatever devices or a cheating leader do.

mod cheating_leader;
mod distinct;
mod issuing;
mod one_sided;
mod party;
mod refusals;
mod rounds;
mod shared_token;
mod unspent;
mod world;
