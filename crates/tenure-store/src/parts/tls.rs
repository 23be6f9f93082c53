//! TLS with a verified certificate, for stores that make their connections with rustls.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tenure_core::StoreError;

/// A client that trusts the authorities of a PEM file, or those of the system where there is none. It has a provider of its own,
/// whatever else is in the process. `place` is the server, for people, and `option` the one of the URL that names the file.
///
/// # Errors
/// `Invalid`: the file can't be read or holds no certificate, or the system trusts no authority.
pub fn tls_client(place: &str, authorities: Option<&Path>, option: &str) -> Result<ClientConfig, StoreError> {
    let roots = match authorities {
        Some(file) => roots_of(file, option)?,
        None => roots_of_system(place, option)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::invalid(format!("{place}: TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(client)
}

/// What is read of a file of certificates: far more than all authorities have. A device has no end.
const MOST_PEM: u64 = 16 << 20;

fn roots_of(file: &Path, option: &str) -> Result<RootCertStore, StoreError> {
    let bad = |error: &dyn std::fmt::Display| {
        StoreError::invalid(format!("{option} {}: {error}; name a PEM file of certificates", file.display()))
    };
    let mut roots = RootCertStore::empty();
    let opened = File::open(file).map_err(|error| bad(&pem::Error::Io(error)))?;
    for certificate in CertificateDer::pem_reader_iter(opened.take(MOST_PEM)) {
        roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
    }
    if roots.is_empty() { Err(bad(&"it holds no certificate")) } else { Ok(roots) }
}

fn roots_of_system(place: &str, option: &str) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(StoreError::invalid(format!(
            "{place}: this system trusts no certificate authority; install ca-certificates, or name one with {option}=FILE"
        )));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    //! Plan: a device without an end is no file of certificates, and takes no memory.
    use super::*;

    #[test]
    fn a_device_is_no_file_of_certificates() {
        let error = roots_of(Path::new("/dev/zero"), "ca").unwrap_err().to_string();
        assert!(error.contains("ca /dev/zero: ") && error.contains("name a PEM file"), "{error}");
    }
}
