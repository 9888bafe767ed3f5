//! The moirai tool.
fn main() {}
