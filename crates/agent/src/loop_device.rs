//! Loop devices: a file as a block device.

/// The device that hands out free loop devices.
pub(crate) const CONTROL: &str = "/dev/loop-control";
