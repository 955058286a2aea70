//! Parallel, verified, resumable copies between a parallel file system and an instance.
