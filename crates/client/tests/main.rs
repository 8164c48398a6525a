//! One test program: a device on real files and sockets.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod device;
