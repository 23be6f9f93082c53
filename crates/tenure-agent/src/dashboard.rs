//! The dashboard: a page and its parts, which are in this program. All that it shows it asks of the agent's interface, with its
//! reader's token.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Where the page is. Its other files lie below.
const PAGE: &str = "/dashboard/";

macro_rules! files {
    ($($name:literal as $path:literal: $kind:ident),* $(,)?) => {
        [$(Asset { path: concat!("/dashboard/", $path), kind: $kind, text: include_str!(concat!("dashboard/", $name)) }),*]
    };
}

const FILES: [Asset; 10] = files![
    "index.html" as "": HTML,
    "style.css" as "style.css": CSS,
    "main.js" as "main.js": SCRIPT,
    "agent.js" as "agent.js": SCRIPT,
    "records.js" as "records.js": SCRIPT,
    "fleets.js" as "fleets.js": SCRIPT,
    "list.js" as "list.js": SCRIPT,
    "details.js" as "details.js": SCRIPT,
    "words.js" as "words.js": SCRIPT,
    "icon.svg" as "icon.svg": ICON,
];

/// Nothing but what this agent serves, no script in the page, no markup made from text, and no page around this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether it is one of the page's files, which are the same for everybody.
pub(crate) fn has(path: &str) -> bool {
    path == PAGE.trim_end_matches('/') || FILES.iter().any(|file| file.path == path)
}

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let to_page = get(async || Redirect::permanent(PAGE));
    FILES.iter().fold(Router::new().route(PAGE.trim_end_matches('/'), to_page), |router, file| {
        router.route(file.path, get(async || served(file)))
    })
}

fn served(file: &'static Asset) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 7] = [
        (CONTENT_TYPE, file.kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        // The next agent may have another page.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, file.text)
}
