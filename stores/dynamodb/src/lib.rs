//! x
mod config;
mod connect;
mod dates;
mod error;
mod guard;
mod item;
mod read;
mod store;
mod table;
mod write;

pub use aws_sdk_dynamodb;
pub use config::DynamoConfig;
pub use store::DynamoStore;
