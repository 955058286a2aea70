//! Random operations against an oracle.
