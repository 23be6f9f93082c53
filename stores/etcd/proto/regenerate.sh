#!/bin/sh
# Makes src/wire/etcdserverpb.rs of etcd.proto, by a project in a temporary folder: neither a build nor Cargo.lock knows of it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
cat > "$work/Cargo.toml" <<'END'
[package]
name = "regenerate"
version = "0.0.0"
edition = "2024"
[dependencies]
protox = "0.9"
prost-build = { version = "=0.14.4", default-features = false }
[workspace]
END
cat > "$work/src/main.rs" <<'END'
fn main() {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let files = protox::compile(["etcd.proto"], [&folders[0]]).expect("the protocol is understood");
    prost_build::Config::new().out_dir(&folders[1]).compile_fds(files).expect("the code is made");
}
END
cargo run --quiet --manifest-path "$work/Cargo.toml" --target-dir "${TMPDIR:-/tmp}/tenure-regenerate" -- "$here" "$here/../src/wire"
rustfmt --edition 2024 --config-path "$here/../../.." "$here/../src/wire/etcdserverpb.rs"
