//! Parts that several stores are made of, for whoever writes another one.

mod call;
mod prefix;
mod subscribers;

pub use call::Call;
pub use prefix::end_of_prefix;
pub use subscribers::Subscribers;
