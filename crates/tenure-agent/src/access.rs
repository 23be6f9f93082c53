//! Who may do what: tokens, hosts and origins.

use crate::certificate::Certificate;
use crate::dashboard;
use crate::problem::Problem;
use crate::strangers::Stranger;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tenure::InvalidInput;
use utoipa::ToSchema;

/// A token, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// 16 visible ASCII characters at least.
    ///
    /// # Errors
    /// When it has fewer, or others. The token is not in the message.
    pub fn new(text: &str) -> Result<Secret, InvalidInput> {
        const LEAST: usize = 16;
        let text = text.trim();
        if text.len() < LEAST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidInput::new(format!(
                "a token must have {LEAST} visible ASCII characters at least; `openssl rand -hex 32` makes one"
            )));
        }
        Ok(Secret(text.to_owned()))
    }

    /// Takes as long for every text of the same length.
    fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Who may do what at one address. [`Access::default`] lets nobody in: each field that is set lets somebody.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Access {
    /// Whoever can connect may do all, as on a Unix socket, unless it comes with a token that says less.
    pub is_open: bool,
    /// May do all.
    pub full: Option<Secret>,
    /// May look.
    pub read: Option<Secret>,
    /// What the agent is called by its clients, for the check of the header `Host`; `*.` stands for any first label. Where it is empty, and there is no
    /// certificate, nothing is checked.
    pub hosts: Vec<String>,
    /// Where TLS is spoken: the names of the certificate are such, too, also after it has been renewed.
    pub certificate: Option<Certificate>,
}

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[schema(as = Role)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AccessLevel {
    /// Look at everything, and change nothing.
    Read,
    /// All.
    Full,
}

impl Access {
    fn role(&self, headers: &HeaderMap) -> Result<AccessLevel, Problem> {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let token = match (sent.next(), sent.next()) {
            (None, _) if self.is_open => return Ok(AccessLevel::Full),
            (None, _) => return Err(Problem::no_token()),
            (Some(header), None) => header.to_str().ok().and_then(bearer).ok_or_else(Problem::no_token)?,
            _ => return Err(Problem::no_token()),
        };
        let is = |secret: &Option<Secret>| secret.as_ref().is_some_and(|secret| secret.is(token));
        // Both are compared, whatever the first says.
        match (is(&self.full), is(&self.read)) {
            (true, _) => Ok(AccessLevel::Full),
            (_, true) => Ok(AccessLevel::Read),
            _ => Err(Problem::wrong_token()),
        }
    }

    /// A page of another site, which a browser shows, must not reach the agent: neither by its own name for it, as rebinding does, nor
    /// by the agent's.
    fn check_site(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let host = one(headers, &HOST)?;
        let is_checked = !self.hosts.is_empty() || self.certificate.is_some();
        if is_checked {
            let host = host.ok_or_else(|| Problem::wrong_site("there is no Host header"))?;
            let name = without_port(host);
            if !self.is_called(name) {
                return Err(Problem::wrong_site("the Host header names another host than this agent's"));
            }
        }
        let Some(origin) = one(headers, &ORIGIN)? else { return Ok(()) };
        let site = origin.split_once("://").map(|(_, site)| site);
        if !is_checked || host.is_none() || site != host {
            return Err(Problem::wrong_site("the Origin header names another site"));
        }
        Ok(())
    }

    fn is_called(&self, name: &str) -> bool {
        let is = |known: &str| is_named(known, name);
        self.hosts.iter().any(|known| is(known))
            || self.certificate.as_ref().is_some_and(|one| one.has_name(is))
    }

    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<AccessLevel, Problem> {
        self.check_site(headers)?;
        let needed = if method.is_safe() { AccessLevel::Read } else { AccessLevel::Full };
        let role = self.role(headers)?;
        if role < needed { Err(Problem::only_read()) } else { Ok(role) }
    }
}

/// The header's value, if there is one; that there are two is refused.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Problem::wrong_site("a header is not text")),
        },
        _ => Err(Problem::wrong_site("a header is there twice")),
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// As certificates have it: `*.a.example` is `b.a.example`, and neither `a.example` nor `c.b.a.example`.
fn is_named(known: &str, name: &str) -> bool {
    match known.strip_prefix("*.") {
        Some(known) => name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(known)),
        None => known.eq_ignore_ascii_case(name),
    }
}

/// `[::1]:80` is `[::1]`, and `localhost:80` is `localhost`.
fn without_port(host: &str) -> &str {
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    host.get(..end).unwrap_or(host)
}

/// Every request passes this.
pub(crate) async fn guard(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // Who watches processes has no token. It learns that the agent is there.
    if path == "/healthz" {
        return next.run(request).await;
    }
    // A browser sends no token for a page. These files are the same for all, and say nothing of leases.
    let is_page = dashboard::has(path) && request.method().is_safe();
    let checked = if is_page {
        access.check_site(request.headers()).map(|()| AccessLevel::Read)
    } else {
        access.check(request.method(), request.headers())
    };
    match checked {
        Ok(role) => {
            // Nobody has looked at the token of whoever asks for a page.
            if !is_page && let Some(stranger) = request.extensions().get::<Arc<Stranger>>() {
                let stays = match role {
                    AccessLevel::Full => stranger.is_known(),
                    AccessLevel::Read => stranger.is_reader(),
                };
                if !stays {
                    let problem = Problem::unavailable("the agent has no place for this connection any more");
                    return ([(CONNECTION, "close")], problem).into_response();
                }
            }
            request.extensions_mut().insert(role);
            next.run(request).await
        }
        // What it sends besides is not read.
        Err(problem) => ([(CONNECTION, "close")], problem).into_response(),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each role with each method; tokens that are nearly right; hosts and origins, with the tricks of browsers; secrets are not shown.
    use super::*;
    use axum::http::HeaderValue;

    const FULL: &str = "full-token-0123456789";
    const READ: &str = "read-token-0123456789";

    fn tcp() -> Access {
        Access {
            is_open: false,
            full: Some(Secret::new(FULL).unwrap()),
            read: Some(Secret::new(READ).unwrap()),
            hosts: ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec(),
            certificate: None,
        }
    }

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in of {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn status(access: &Access, method: &Method, of: &[(&'static str, &str)]) -> u16 {
        access.check(method, &headers(of)).map_or_else(|problem| problem.status(), |_| 200)
    }

    #[test]
    fn a_token_decides_what_may_be_done() {
        let with = |token: &str| format!("Bearer {token}");
        for (token, get, post) in [
            (with(FULL), 200, 200),
            (with(READ), 200, 403),
            (with(&FULL[1..]), 401, 401),
            (with(&format!("{FULL}0")), 401, 401),
            (with(""), 401, 401),
            (FULL.to_owned(), 401, 401),
            (format!("Basic {FULL}"), 401, 401),
            (format!("bearer {FULL}"), 200, 200),
        ] {
            let of = [("host", "localhost:1"), ("authorization", token.as_str())];
            assert_eq!(status(&tcp(), &Method::GET, &of), get, "{token}");
            assert_eq!(status(&tcp(), &Method::POST, &of), post, "{token}");
            assert_eq!(status(&tcp(), &Method::DELETE, &of), post, "{token}");
        }
        let none = [("host", "localhost:1")];
        assert_eq!(status(&tcp(), &Method::GET, &none), 401);
        let twice = [("host", "localhost"), ("authorization", &with(FULL)), ("authorization", &with(READ))];
        assert_eq!(status(&tcp(), &Method::GET, &twice), 401);
        // Where there are no tokens, none is right.
        let closed = Access { is_open: false, ..Access::default() };
        assert_eq!(status(&closed, &Method::GET, &[("authorization", "Bearer ")]), 401);
    }

    #[test]
    fn whoever_can_open_a_unix_socket_may_do_all_unless_it_says_less() {
        let unix = Access { is_open: true, read: Some(Secret::new(READ).unwrap()), ..Access::default() };
        assert_eq!(status(&unix, &Method::POST, &[]), 200);
        assert_eq!(status(&unix, &Method::POST, &[("host", "anything")]), 200);
        let read = format!("Bearer {READ}");
        assert_eq!(status(&unix, &Method::POST, &[("authorization", &read)]), 403);
        assert_eq!(status(&unix, &Method::POST, &[("authorization", "Bearer wrong")]), 401);
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        let token = format!("Bearer {FULL}");
        let check = |of: &[(&'static str, &str)]| {
            status(&tcp(), &Method::GET, &[of, &[("authorization", token.as_str())]].concat())
        };
        for host in ["localhost", "LOCALHOST:99", "127.0.0.1:99", "[::1]:99", "[::1]"] {
            assert_eq!(check(&[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "", "[::1", "::1"]
        {
            assert_eq!(check(&[("host", host)]), 403, "{host}");
        }
        assert_eq!(check(&[]), 403);
        assert_eq!(check(&[("host", "localhost"), ("host", "evil.example")]), 403);
        let from = |origin: &str| check(&[("host", "localhost:8080"), ("origin", origin)]);
        assert_eq!(from("http://localhost:8080"), 200);
        for origin in
            ["http://localhost:9090", "http://evil.example", "null", "", "http://localhost:8080.evil.example"]
        {
            assert_eq!(from(origin), 403, "{origin}");
        }
        let wild = Access { hosts: vec!["*.a.example".to_owned()], ..tcp() };
        for (host, is) in
            [("b.A.example:1", 200), ("a.example", 403), ("c.b.a.example", 403), ("b.xa.example", 403)]
        {
            let of = [("host", host), ("authorization", token.as_str())];
            assert_eq!(status(&wild, &Method::GET, &of), is, "{host}");
        }
        // No browser speaks to a Unix socket by itself.
        let unix = Access { is_open: true, ..Access::default() };
        assert_eq!(status(&unix, &Method::GET, &[("host", "x"), ("origin", "http://x")]), 403);
    }

    #[test]
    fn a_token_is_long_enough_and_never_shown() {
        for bad in ["", "short", "with a space in the middle", "ümlaut-0123456789"] {
            let error = Secret::new(bad).unwrap_err().to_string();
            assert!(error.contains("16 visible") && (bad.is_empty() || !error.contains(bad)), "{error}");
        }
        assert!(!format!("{:?}", tcp()).contains("0123456789"));
        assert_eq!(Secret::new(&format!("{FULL}\n")).unwrap(), Secret::new(FULL).unwrap());
    }
}
