//! Nothing: what matters is what it depends on.
