//! Parts that several stores are made of, for whoever writes another one.

mod prefix;

pub use prefix::end_of_prefix;
