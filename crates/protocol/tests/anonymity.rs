//! Who sent what: oblivious exchanges between a device and a gateway, in memory, over real wire
//! bytes, and the relay's pools and limits in virtual time.

mod exchange;
mod order;
mod others;
mod padding;
mod parties;
mod pools;
mod replays;
mod sources;
