//! The certificate that an agent shows at addresses with TLS, and its key.

use std::fmt;
use std::fs::File;
use std::io::{Read, Take};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tenure::{Clock, InvalidInput, Wall};
use tenure_store::parts::quietly;
use tenure_store::tell;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys, ServerConfig};
use tokio_rustls::server::TlsStream;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Time;

/// A certificate and its key, from files in PEM. A new one in the same files is shown to whoever connects from a minute after that.
#[derive(Clone)]
pub struct Certificate {
    files: Arc<CertificateFiles>,
    shown: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
}

struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    clock: Arc<dyn Clock>,
}

/// One that may be shown now.
struct Valid {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    until: Duration,
}

/// What whoever connects is shown.
#[derive(Debug)]
struct CurrentCertificate {
    key: RwLock<Arc<CertifiedKey>>,
    /// Those of former ones, too: whoever connected before a renewal goes on calling it so.
    names: RwLock<Vec<String>>,
}

impl CurrentCertificate {
    fn new(valid: Valid) -> CurrentCertificate {
        CurrentCertificate { key: RwLock::new(valid.key), names: RwLock::new(valid.names) }
    }

    /// Whether it was another one that was shown before.
    fn show(&self, valid: Valid) -> bool {
        // No code that can panic runs under the locks.
        let mut key = self.key.write().unwrap_or_else(PoisonError::into_inner);
        if key.cert == valid.key.cert {
            return false;
        }
        let mut names = self.names();
        for name in valid.names {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        // Known before anybody is shown it.
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
        *key = valid.key;
        true
    }

    fn names(&self) -> Vec<String> {
        self.names.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.read().ok().map(|key| Arc::clone(&key))
    }
}

impl Certificate {
    /// Reads the certificate, with those of the authorities between it and its root behind it, and the key.
    ///
    /// # Errors
    /// When a file can't be read or holds no such thing, the two don't belong together, or the certificate names no host or is not valid now.
    pub fn read(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
    ) -> Result<Certificate, InvalidInput> {
        let files = CertificateFiles { certificate: certificate.into(), key: key.into(), clock };
        let valid = files.read()?;
        let shown = Arc::new(CurrentCertificate::new(valid));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidInput::new(format!("TLS: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Certificate { files: Arc::new(files), shown, acceptor })
    }

    /// Whom it is for, and was for before it was renewed: names of hosts, of which the first label may be `*`, and addresses, those of IPv6 in brackets.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.shown.names()
    }

    /// Whether any of them is like this.
    pub(crate) fn has_name(&self, is: impl Fn(&str) -> bool) -> bool {
        let names = self.shown.names.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().any(|name| is(name))
    }

    pub(crate) async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> std::io::Result<TlsStream<S>> {
        self.acceptor.accept(stream).await
    }

    /// Shows what is in the files from time to time. What can't be shown is told of, and the former one stays.
    pub(crate) async fn follow(&self) {
        const PAUSE: Duration = Duration::from_secs(60);
        let mut told = None;
        loop {
            let this = self.clone();
            let looked = tokio::task::spawn_blocking(move || this.look_again()).await;
            let wrong = looked.ok().and_then(Result::err).map(|error| error.to_string());
            if wrong.is_some() && wrong != told {
                tell!(
                    warn,
                    target: "tenure::agent::certificate",
                    reason = wrong.as_deref(),
                    "the certificate's files can't be used; clients are shown the former one"
                );
            }
            told = wrong;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Shows what is in the files from now on.
    fn look_again(&self) -> Result<(), InvalidInput> {
        let valid = self.files.read()?;
        let until = valid.until.as_secs_f64();
        quietly(|| metrics::gauge!("tenure_agent_certificate_expires_seconds").set(until));
        if self.shown.show(valid) {
            tell!(info, target: "tenure::agent::certificate", "a new certificate is shown");
        }
        Ok(())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.files.certificate).finish_non_exhaustive()
    }
}

impl CertificateFiles {
    fn read(&self) -> Result<Valid, InvalidInput> {
        let chain = beginning(&self.certificate)
            .and_then(|file| CertificateDer::pem_reader_iter(file).collect::<Result<Vec<_>, _>>())
            .map_err(|error| bad(&self.certificate, &said(error), "name a PEM file of certificates"))?;
        let Some(own) = chain.first() else {
            return Err(bad(&self.certificate, "it holds no certificate", "name a PEM file of certificates"));
        };
        let (names, until) = self.judge(own, self.clock.now().wall)?;
        let unlocked = "name a PEM file of a private key, without a passphrase";
        let key = beginning(&self.key)
            .and_then(PrivateKeyDer::from_pem_reader)
            .map_err(|error| bad(&self.key, &said(error), unlocked))?;
        let key = CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => bad(
                &self.key,
                &format!("it is not the key of the certificate in {}", self.certificate.display()),
                "name the two that were made together",
            ),
            error => bad(&self.key, &error.to_string(), unlocked),
        })?;
        Ok(Valid { key: Arc::new(key), names, until })
    }

    /// Whom a certificate is for, and until when, since 1970.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        now: Wall,
    ) -> Result<(Vec<String>, Duration), InvalidInput> {
        let wrong = |what: &str, remedy: &str| bad(&self.certificate, what, remedy);
        let parsed = x509_cert::Certificate::from_der(certificate)
            .map_err(|error| {
                wrong(&format!("it is no certificate: {error}"), "name a PEM file of certificates")
            })?
            .tbs_certificate;
        let (from, until) = (parsed.validity.not_before, parsed.validity.not_after);
        let now = Duration::from_millis(now.0);
        if now > until.to_unix_duration() {
            return Err(wrong(&format!("it has expired at {}", shown(until)), "renew it"));
        }
        if now < from.to_unix_duration() {
            return Err(wrong(
                &format!("it is not valid before {}", shown(from)),
                "set this host's clock, or wait",
            ));
        }
        let alternative = parsed.get::<SubjectAltName>().ok().flatten();
        let names: Vec<_> = alternative.into_iter().flat_map(|(_, names)| names.0).filter_map(host).collect();
        if names.is_empty() {
            return Err(wrong(
                "it names no host (subjectAltName), so no client believes it",
                "have it made with the names by which clients call this host",
            ));
        }
        Ok((names, until.to_unix_duration()))
    }
}

/// What is read of a PEM file: far more than any has. A device has no end.
fn beginning(file: &Path) -> Result<Take<File>, pem::Error> {
    const MOST: u64 = 16 << 20;
    File::open(file).map(|file| file.take(MOST)).map_err(pem::Error::Io)
}

fn bad(file: &Path, what: &str, remedy: &str) -> InvalidInput {
    InvalidInput::new(format!("{}: {what}; {remedy}", file.display()))
}

/// The reader of PEM shows what it was doing besides.
fn said(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it holds no such thing".to_owned(),
        error => error.to_string(),
    }
}

fn shown(time: Time) -> String {
    time.to_date_time().to_string()
}

fn host(name: GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => match *bytes.as_bytes() {
            [a, b, c, d] => Some(IpAddr::from([a, b, c, d]).to_string()),
            ref bytes => {
                let bytes: [u8; 16] = bytes.try_into().ok()?;
                Some(format!("[{}]", IpAddr::from(bytes)))
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what can't be shown is refused by name, with what to do; a new certificate is shown once it is in the files, and a bad one never is; they are looked
    //! at once in a minute, of simulated time; requests by a new name are answered, and those by a former one still.
    use super::*;
    use crate::access::{Access, guard};
    use axum::Router;
    use axum::body::Body;
    use axum::http::Request;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;
    use tenure::clock::{Now, Tick};
    use tower_service::Service;

    const NOON: u64 = 1_800_000_000_000;

    struct At(u64);

    impl Clock for At {
        fn now(&self) -> Now {
            Now { held: Tick(0), waited: Tick(0), wall: Wall(self.0) }
        }
    }

    struct Folder(TempDir);

    impl Folder {
        fn new() -> Folder {
            Folder(tempfile::tempdir().unwrap())
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, names: &[&str], until: i32) {
            let mut params =
                CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                    .unwrap();
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            let key = KeyPair::generate().unwrap();
            std::fs::write(self.file("cert"), params.self_signed(&key).unwrap().pem()).unwrap();
            std::fs::write(self.file("key"), key.serialize_pem()).unwrap();
        }

        fn read_at(&self, wall: u64) -> Result<Certificate, InvalidInput> {
            Certificate::read(self.file("cert"), self.file("key"), Arc::new(At(wall)))
        }

        #[track_caller]
        fn refused(&self, wall: u64, file: &str, says: &str) {
            let error = self.read_at(wall).unwrap_err().to_string();
            let begins = format!("{}: ", self.file(file).display());
            assert!(error.starts_with(&begins) && error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_can_not_be_shown_is_refused_by_name() {
        let folder = Folder::new();
        folder.refused(NOON, "cert", "No such file");
        folder.write(&["a.example", "*.b.example", "10.0.0.1", "::1"], 2030);
        let names = folder.read_at(NOON).unwrap();
        assert_eq!(names.names(), ["a.example", "*.b.example", "10.0.0.1", "[::1]"]);
        folder.refused(2 * NOON, "cert", "expired at 2030-01-01T00:00:00Z; renew it");
        folder.refused(0, "cert", "not valid before 2020-01-01T00:00:00Z");
        let key = std::fs::read(folder.file("key")).unwrap();
        folder.write(&["a.example"], 2030);
        std::fs::write(folder.file("key"), key).unwrap();
        folder.refused(NOON, "key", "not the key of the certificate in");
        for (content, says) in
            [("", "holds no such thing"), ("-----BEGIN PRIVATE KEY-----\nhm", "passphrase")]
        {
            std::fs::write(folder.file("key"), content).unwrap();
            folder.refused(NOON, "key", says);
        }
        std::fs::remove_file(folder.file("key")).unwrap();
        folder.refused(NOON, "key", "No such file");
        folder.write(&[], 2030);
        folder.refused(NOON, "cert", "names no host (subjectAltName)");
        std::fs::copy(folder.file("key"), folder.file("cert")).unwrap();
        folder.refused(NOON, "cert", "it holds no certificate");
        std::fs::write(folder.file("cert"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .unwrap();
        folder.refused(NOON, "cert", "it is no certificate");
    }

    #[test]
    fn a_new_certificate_is_shown_once_it_is_there_and_one_that_is_wrong_never() {
        let folder = Folder::new();
        let shown = |certificate: &Certificate| certificate.shown.key.read().unwrap().cert.clone();
        folder.write(&["a.example"], 2030);
        let certificate = folder.read_at(NOON).unwrap();
        let first = shown(&certificate);
        certificate.look_again().unwrap();
        assert_eq!(shown(&certificate), first);
        folder.write(&["a.example"], 2021);
        certificate.look_again().unwrap_err();
        std::fs::write(folder.file("key"), "").unwrap();
        certificate.look_again().unwrap_err();
        assert_eq!(shown(&certificate), first);
        folder.write(&["a.example"], 2031);
        certificate.look_again().unwrap();
        assert_ne!(shown(&certificate), first);
    }

    #[tokio::test]
    async fn requests_by_the_name_of_a_renewed_certificate_are_answered() {
        let folder = Folder::new();
        folder.write(&["a.example"], 2030);
        let certificate = folder.read_at(NOON).unwrap();
        let access = Access { is_open: true, certificate: Some(certificate.clone()), ..Access::default() };
        let router = Router::new().route("/", get(async || ())).layer(from_fn_with_state(access, guard));
        let status = async |host: &str| {
            let request = Request::builder().uri("/").header("host", host).body(Body::empty()).unwrap();
            router.clone().call(request).await.unwrap().status().as_u16()
        };
        assert_eq!((status("a.example:1").await, status("b.example:1").await), (200, 403));
        folder.write(&["b.example"], 2031);
        certificate.look_again().unwrap();
        assert_eq!((status("a.example:1").await, status("b.example:1").await), (200, 200));
        assert_eq!(status("c.example:1").await, 403);
    }

    #[tokio::test(start_paused = true)]
    async fn the_files_are_looked_at_once_in_a_minute() {
        let folder = Folder::new();
        let shown = |certificate: &Certificate| certificate.shown.key.read().unwrap().cert.clone();
        folder.write(&["a.example"], 2030);
        let certificate = folder.read_at(NOON).unwrap();
        let followed = certificate.clone();
        let follows = tokio::spawn(async move { followed.follow().await });
        let mut before = shown(&certificate);
        // One is made anew again and again, and what is wrong for a while does not end it.
        for until in [2031, 2032] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            std::fs::write(folder.file("key"), "").unwrap();
            tokio::time::sleep(Duration::from_secs(120)).await;
            folder.write(&["a.example"], until);
            assert_eq!(shown(&certificate), before);
            tokio::time::sleep(Duration::from_secs(61)).await;
            assert_ne!(shown(&certificate), before, "a minute later");
            before = shown(&certificate);
        }
        follows.abort();
    }
}
