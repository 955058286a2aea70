//! Metadata service, data service and fragment store of the file system.
//!
//! [`node`] opens one fragment of an instance whose fragments are on several machines; [`local`] opens the fragments of an instance on this machine and hands out the services of its namespaces:
//!
//! ```text
//! Fragments ── one per process ──┬─ Fragment 0: names (tree), counters, its share of the data
//!                                ├─ Fragment 1..: their shares of the data
//!                                └─ namespace ─┬─ MetadataService over the tree
//!                                              └─ DataService over each fragment
//! ```
//!
//! Uses `forebay-model` (stripe arithmetic) and `forebay-wire` (what the services promise). Knows no client.

mod boot;
pub mod check;
mod content;
mod data;
mod deeds;
mod descriptors;
mod fragment;
pub mod guard;
mod home;
mod host;
mod ids;
mod limits;
pub mod local;
pub mod locks;
mod metadata;
mod meter;
pub mod net;
pub mod node;
mod recover;
