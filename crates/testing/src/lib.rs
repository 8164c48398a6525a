//! What tests share: data, vectors and parties in memory. No runtime.
//!
//! - [`decoders`]: every decoder of `sotto-wire` in one table, with valid messages to start from.
//! - [`arbitrary`]: recipes, key sets and results from a seed.
//! - [`published`]: files of test vectors; [`rfc9180`], [`x_wing`]: those of HPKE.
//! - `output` (feature): the JSON that commands print, checked against its schema.
//! - `vectors` (feature): the check behind `sotto vectors check`.
//! - Feature `parties`: `keys` of everybody by name, a public `log` in memory, a `recipe` with key
//!   sets and trust, the `world` of one device, an attester and an issuer that grant `tokens`, a
//!   device `asking` for them, both `aggregators` of a task, a device that dies in a `crash`, and
//!   free `ports` for servers, and databases of a `postgres` server.

#[cfg(feature = "parties")]
mod parties;

pub mod arbitrary;
pub mod decoders;
#[cfg(feature = "output")]
pub mod output;
#[cfg(feature = "parties")]
pub mod ports;
#[cfg(feature = "parties")]
pub mod postgres;
pub mod published;
pub mod rfc9180;
#[cfg(feature = "vectors")]
pub mod vectors;
pub mod x_wing;

#[cfg(feature = "parties")]
pub use parties::*;
