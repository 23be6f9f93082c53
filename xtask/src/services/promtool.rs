//! promtool, by which Prometheus reads alarms, from Debian's package. That is unpacked and not installed: a server of Prometheus comes with it.

use super::package::Unpacked;

/// What the tests of `ops/` ask for.
pub(super) const VARIABLE: &str = "TENURE_TEST_PROMTOOL";

pub(super) const PROMTOOL: Unpacked = Unpacked {
    program: "promtool",
    call: &["--version"],
    folder: "usr/bin",
    packages: &["prometheus"],
    suite: "bookworm",
};
