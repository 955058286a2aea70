//! Carries out the controller's tasks on a node: fragments, mounts, staging.
