//! What the integration tests share: the grounds the suites run on, and the process that serves DWFS.
//!
//! Every test target that mounts has this module, and with it the ignored test [`serve::file_system_process`], which is
//! how the test program, started once more, becomes the server of a mount.

// Each test target uses a part of this.
#![allow(dead_code)]

pub mod examples;
pub mod ground;
pub mod serve;
