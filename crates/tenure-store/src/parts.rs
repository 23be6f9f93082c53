//! Parts that several stores are made of, for whoever writes another one.

mod prefix;
mod subscribers;

pub use prefix::end_of_prefix;
pub use subscribers::Subscribers;
