//! Requests and answers between the file system's client and its servers.
