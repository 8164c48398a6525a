//! `sotto log`, `sotto device` and `sotto collect --recipe` on logs that the test itself keeps:
//! what auditors and devices print, and their exit codes.

mod collect;
mod device;
pub(crate) mod entries;
pub(crate) mod folder;
mod fsck;
mod list;
mod monitor;
mod receipts;
mod verify;
mod web;
