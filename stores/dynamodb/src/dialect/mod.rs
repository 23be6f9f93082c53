//! Record layouts that other programs read and write too.

pub mod kcl;
