//! There is nothing to build: what matters is what it depends on.

fn main() {}
