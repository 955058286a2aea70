//! Metadata service, data service and fragment store of the file system.
//!
//! [`local`] opens the fragments of an instance on this machine and hands out the services of its namespaces.

pub mod local;
