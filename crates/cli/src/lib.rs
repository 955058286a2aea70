//! The `forebay` and `dwstat` commands.
