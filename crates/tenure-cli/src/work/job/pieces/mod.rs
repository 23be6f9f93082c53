//! What commands write, each command's in one piece: caught in files, and written by one thread when the command is over. Where it is to be
//! saved, another thread does that before.

pub(crate) mod capture;
pub(crate) mod joblog;
mod order;
pub(crate) mod printer;
pub(crate) mod saver;
