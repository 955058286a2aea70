//! What an agent does on a node, with real images, file servers, mounts and stagings; run as root.
//!
//! Several nodes of a test are several directories of this machine; their file servers are reached over loopback. The
//! processes of an agent are this program run again: see [`roles`].

#[path = "../life/leaks.rs"]
mod leaks;
#[path = "../life/role_program.rs"]
mod role_program;

mod controlled;
mod crash;
mod files;
mod fragments;
mod mounts;
mod roles;
mod scene;
mod staging;
mod stuck;
