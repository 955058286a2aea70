//! Kernel adapter: DWFS as a FUSE mount.
