//! What any verb tells of itself, as it is typed.

use super::OF_ALL_VERBS;
use clap::{Parser, ValueEnum};
#[cfg(feature = "serve")]
use std::net::SocketAddr;

/// What any verb tells of itself.
#[derive(Debug, Parser)]
pub(crate) struct TelemetryArgs {
    /// Serve metrics for Prometheus at http://IP:PORT/metrics while the verb runs. They name no keys of locks; whoever can reach the address may
    /// read them
    #[cfg(feature = "serve")]
    #[arg(
        long,
        global = true,
        help_heading = OF_ALL_VERBS,
        env = "TENURE_METRICS",
        hide_env_values = true,
        value_name = "IP:PORT",
        value_parser = address
    )]
    pub(crate) metrics: Option<SocketAddr>,
    /// Log events to standard error: a level (error, warn, info, debug, trace), or levels of parts, such as
    /// warn,tenure::lease=debug [default: none]
    #[arg(long, global = true, help_heading = OF_ALL_VERBS, env = "TENURE_LOG", hide_env_values = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// How events are written: as lines of text, or as JSON objects
    #[arg(
        long,
        global = true,
        help_heading = OF_ALL_VERBS,
        env = "TENURE_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub(crate) log_format: LogFormat,
}

#[cfg(feature = "serve")]
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "not an IP address and a port; write 127.0.0.1:9000, for example".to_owned())
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}
