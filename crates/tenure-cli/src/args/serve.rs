//! `serve` as it is typed.

use crate::text::span;
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Run the lease agent of this host: leases for programs in any language, by HTTP and JSON.
///
/// A program asks for a lease (POST /v1/leases), is told a deadline, and asks again before that (POST /v1/leases/ID/beat) for as long as it wants
/// the lease. It also finds semaphores, elections, events, /healthz, /readyz, /metrics, and all of it described at /openapi.json. All clients share
/// one store session: thousands of their leases cost one write an interval.
///
/// A deadline is told as "deadline_boottime_ms", by CLOCK_BOOTTIME of this host, and as "good_for_ms", which a client on another clock counts from when
/// it sent the request. A client stops acting by its deadline, whatever becomes of the agent. No beat before it gives the lease back then. A
/// client that asks with "on_exit": "release" has it given back as soon as its process ends.
///
/// The Unix socket is open to this user alone. A TCP address asks for a token (Authorization: Bearer TOKEN):
/// that of --token-file, or of TENURE_TOKEN in the environment, may do all; that of --read-token-file, or of TENURE_READ_TOKEN, may look.
/// A browser shows the dashboard there, at /dashboard. An address that is not of the loopback network speaks TLS alone: it needs --tls-cert and --tls-key,
/// with which all TCP addresses do. New files in their place are shown to clients from a minute later on.
///
/// The first INT, TERM or HUP prolongs nothing any more, and ends the agent when all that it told is over, after a ttl at most. The second ends it at once, and
/// its clients' leases are left to expire.
#[derive(Debug, Parser)]
pub(crate) struct ServeArgs {
    /// Where to listen: unix:PATH, IP:PORT of the loopback network, or any IP:PORT with TLS. May be given several times [default:
    /// unix:$XDG_RUNTIME_DIR/tenure/agent.sock, or unix:/tmp/tenure-UID/agent.sock]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// A file with the token that may do all
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the token that may look
    #[arg(long, value_name = "FILE")]
    pub(crate) read_token_file: Option<PathBuf>,
    /// A PEM file of the certificate for TLS, with those of the authorities between it and its root behind it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// A PEM file of the certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// How long clients' leases outlive the agent if it dies
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// The most leases that clients have, or wait for, at a time
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) max_leases: usize,
    /// The most connections at a time, at all addresses together
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) max_connections: usize,
}

/// Ask whether the lease agent of this host is ready, for probes.
///
/// The status is 0 if the agent and its store answer. It is 69 if one of them does not, or if the agent is being stopped. One question is asked, by the
/// agent's Unix socket. At an address of the network any client of HTTP asks the same: /readyz, with a token. In /tmp, only an agent of this user or of
/// root is believed.
#[derive(Debug, Parser)]
pub(crate) struct ReadyArgs {
    /// Where the agent listens: unix:PATH [default: as `serve` listens]
    #[arg(value_name = "ADDRESS", env = "TENURE_AGENT", hide_env_values = true)]
    pub(crate) address: Option<String>,
}
