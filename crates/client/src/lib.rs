//! Attach, path and handle operations, stripe I/O.
