//! The commands of the pages on stores, run as they stand there but for the URL.

use super::remote::Remote;
use crate::examples::{commands, desk, follow_on};
use tenure::registry::feature_of;

/// What a page calls with its own URL, with that one.
fn with_url(command: &str, url: &str) -> String {
    let scheme = url.split(':').next().unwrap();
    let is_url = |piece: &&str| piece.starts_with(&format!("{scheme}://"));
    // A page shows TLS, which the test's server may not speak.
    let is_secure = |piece: &&str| piece.starts_with(&format!("{scheme}s://"));
    let pieces = command.split('\'').map(|piece| match is_url(&piece) || is_secure(&piece) {
        true => url,
        false => piece,
    });
    pieces.collect::<Vec<_>>().join("'")
}

pub fn the_commands_of_its_readme_work(place: &Remote) {
    let store = feature_of(place.url.split(':').next().unwrap()).unwrap();
    let path = format!("{}/../../stores/{store}/README.md", env!("CARGO_MANIFEST_DIR"));
    let commands = commands(&std::fs::read_to_string(path).unwrap());
    assert!(commands.len() >= 2, "{commands:?}");
    let bench = desk();
    for command in commands {
        follow_on(&bench, &place.url, &with_url(&command, &place.url));
    }
}
