//! `serve`, checked.

use super::ttl;
use crate::args;
use crate::exit::{self, Failure};
use std::path::Path;
use std::time::Duration;
use tenure_agent::{Access, Address, Limits, Secret, default_socket};

/// `serve`.
#[derive(Debug)]
pub(crate) struct Serving {
    /// Where to listen, and who may do what there.
    pub(crate) places: Vec<(Address, Access)>,
    pub(crate) ttl: Duration,
    pub(crate) limits: Limits,
}

impl args::serve::Serve {
    /// Reads the tokens; nothing else.
    pub(crate) fn validated(self) -> Result<Serving, Failure> {
        let ttl = ttl(self.ttl)?;
        if self.max_leases == 0 || self.max_connections == 0 {
            return Err(Failure::usage("--max-leases and --max-connections must allow one at least"));
        }
        let mut addresses =
            self.listen.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
        if addresses.is_empty() {
            let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
            let user = rustix::process::geteuid().as_raw();
            addresses.push(Address::Unix(default_socket(runtime.map(Into::into), user)));
        }
        let full = token(self.token_file.as_deref(), "TENURE_TOKEN")?;
        let read = token(self.read_token_file.as_deref(), "TENURE_READ_TOKEN")?;
        if full.is_some() && full == read {
            return Err(Failure::usage("the token that may look is the one that may do all; choose another"));
        }
        let is_tcp = |address: &&Address| matches!(address, Address::Loopback(_));
        if let Some(address) = addresses.iter().find(is_tcp)
            && full.is_none()
            && read.is_none()
        {
            return Err(Failure::usage(format!(
                "every user of this host can reach {address}, so a token is needed: name its file with --token-file, or set TENURE_TOKEN"
            )));
        }
        let places = addresses.into_iter().map(|address| {
            let is_open = matches!(address, Address::Unix(_));
            let hosts = if is_open { Vec::new() } else { hosts(&address) };
            (address, Access { is_open, full: full.clone(), read: read.clone(), hosts })
        });
        let mut limits = Limits::default();
        (limits.leases, limits.connections) = (self.max_leases, self.max_connections);
        Ok(Serving { places: places.collect(), ttl, limits })
    }
}

/// What browsers and programs call it.
fn hosts(address: &Address) -> Vec<String> {
    let mut hosts = vec!["localhost".to_owned()];
    if let Address::Loopback(address) = address {
        let ip = address.ip();
        hosts.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
    }
    hosts
}

/// From the file if one is named, else from the environment. Neither it nor anything of it is in an error.
fn token(file: Option<&Path>, variable: &str) -> Result<Option<Secret>, Failure> {
    let (text, from) = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::new(exit::USAGE, format!("{}: {error}", file.display())))?;
            (text, file.display().to_string())
        }
        None => match std::env::var(variable) {
            Ok(text) => (text, variable.to_owned()),
            Err(_) => return Ok(None),
        },
    };
    let secret = Secret::new(&text).map_err(|error| Failure::usage(format!("{from}: {error}")))?;
    Ok(Some(secret))
}
