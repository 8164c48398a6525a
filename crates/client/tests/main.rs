//! One test program: a device on real files and sockets.

// Tests fail by panicking, and so do their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod device;
