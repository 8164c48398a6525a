//! End-to-end tests of the binary `sotto`: leader and helper as operating-system processes on
//! loopback, devices and collector beside them.
//!
//! [`process`] finds and starts the binary, [`pair`] runs a leader and a helper, [`task`] reads
//! what `sotto task new` wrote, [`cli`] uploads and collects through the binary, [`devices`] upload
//! from this process, [`http`] is a minimal client. [`world`] adds a log, its witnesses and a relay
//! (each a [`service`]), and whole devices, which [`phone`] runs in this process. [`pipe`] records
//! what passes between two parties, [`tap`] every request to a party, with its time. [`pipeline`]
//! goes from the coins of devices to the result, and compares it with the same coins in memory.
//! [`web`] serves models. [`crash`] is the crash campaign, [`release`] the one of releases with
//! noise, [`training`] the one of trainings, [`squared_error`] the one of the errors of estimates,
//! [`plan`] the one of predicted errors, [`large`] the one of large reports, [`fleet`] the same of
//! devices with recipe and tokens; the tests run a slice of each. [`discovery`] is a whole discovery.
//! [`replicas`] runs several leaders and helpers on PostgreSQL, each group behind a [`balancer`], and
//! [`faults`] breaks them.

pub mod balancer;
pub mod cli;
pub mod crash;
pub mod devices;
pub mod discovery;
pub mod faults;
pub mod fleet;
pub mod http;
pub mod large;
pub mod log;
pub mod pair;
pub mod phone;
pub mod pipe;
pub mod pipeline;
pub mod plan;
pub mod process;
pub mod release;
pub mod replicas;
pub(crate) mod series;
pub mod service;
pub mod squared_error;
pub mod tap;
pub mod task;
pub mod token_services;
pub mod training;
pub mod web;
pub mod world;
