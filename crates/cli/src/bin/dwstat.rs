//! The `dwstat` command.
fn main() {}
