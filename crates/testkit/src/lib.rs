//! Scratch directories, users, mounts and faults for the tests.
