//! What the tests of this store share: the servers that `cargo xtask` has started, and servers of their own, which they may break.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_ports::unused_port;
use tenure_redis::RedisConfig;
use tenure_store::Changes;
pub(crate) use tenure_testkit::unique;

/// As long as a busy machine may take.
pub(crate) const LONG: Duration = Duration::from_secs(60);

fn told(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set; run `cargo xtask services run -- cargo test -p tenure-redis`")
    })
}

/// Where the server is: the variable that `cargo xtask test` and `cargo xtask services run` set.
pub(crate) fn url() -> String {
    told("TENURE_TEST_REDIS")
}

pub(crate) fn valkey_url() -> String {
    told("TENURE_TEST_VALKEY")
}

pub(crate) fn tls_url() -> String {
    told("TENURE_TEST_REDISS")
}

pub(crate) fn authority() -> String {
    told("TENURE_TEST_REDIS_CA")
}

pub(crate) fn cluster_url() -> String {
    told("TENURE_TEST_REDIS_CLUSTER")
}

/// The same of the cluster that speaks TLS only.
pub(crate) fn tls_cluster_url() -> String {
    told("TENURE_TEST_REDISS_CLUSTER")
}

/// A URL with the authority of the servers' certificates.
pub(crate) fn trusted(url: &str) -> String {
    format!("{url}?ca={}", authority())
}

/// A namespace at a URL.
pub(crate) fn at(url: &str, namespace: &str) -> RedisConfig {
    RedisConfig::from_url(url).unwrap().namespace(namespace)
}

/// `redis-cli` at the first server of a URL.
pub(crate) fn client(url: &str) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-u", url.split([',', '?']).next().unwrap()]).stdin(Stdio::null());
    if url.starts_with("rediss:") {
        command.args(["--cacert", &authority()]);
    }
    command
}

/// What an operator or another program does, by `redis-cli`; the answer as text.
pub(crate) fn cli(url: &str, words: &[&str]) -> String {
    let output = client(url).args(["-e", "-c"]).args(words).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !err.contains("ERR"), "{words:?}: {out}{err}");
    out.trim_end().to_owned()
}

/// A server of a test's own, which is killed with this value.
pub(crate) struct Server {
    pub(crate) port: u16,
    speaks_tls: bool,
    folder: tempfile::TempDir,
    program: String,
    settings: Vec<String>,
    child: Child,
}

impl Server {
    /// One with these further options, such as `--appendonly yes`.
    pub(crate) fn start(settings: &str) -> Server {
        Server::of("redis-server", settings, &[])
    }

    /// A Valkey server.
    pub(crate) fn valkey(settings: &str) -> Server {
        Server::of(&told("TENURE_TEST_VALKEY_SERVER"), settings, &[])
    }

    /// One that speaks TLS only, also to the others of its cluster, and shows the certificate of the server that `cargo xtask` has started.
    pub(crate) fn with_tls(settings: &str) -> Server {
        let (port, certificate) = (unused_port().unwrap(), authority());
        let key = Path::new(&certificate).with_file_name("server.key").display().to_string();
        let tls = format!(
            "--port 0 --tls-port {port} --tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {certificate} --tls-auth-clients no \
             --tls-cluster yes --tls-replication yes"
        );
        Server::begin("redis-server", port, true, &format!("{tls} {settings}"), &[])
    }

    /// One of a program, with variables of its environment.
    pub(crate) fn of(program: &str, settings: &str, variables: &[(&str, &str)]) -> Server {
        Server::begin(program, unused_port().unwrap(), false, settings, variables)
    }

    fn begin(
        program: &str,
        port: u16,
        speaks_tls: bool,
        settings: &str,
        variables: &[(&str, &str)],
    ) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let settings: Vec<String> = settings.split_whitespace().map(str::to_owned).collect();
        let child = spawn(program, port, &folder, &settings, variables);
        let server = Server { port, speaks_tls, folder, program: program.to_owned(), settings, child };
        server.await_answer();
        server
    }

    /// A sentinel that watches a server and its replicas, and decides alone.
    pub(crate) fn sentinel(primary: u16) -> Server {
        let (port, folder) = (unused_port().unwrap(), tempfile::tempdir().unwrap());
        let file = folder.path().join("sentinel.conf");
        let lines = [
            format!("port {port}\nbind 127.0.0.1\ndir {}", folder.path().display()),
            format!("sentinel monitor watched 127.0.0.1 {primary} 1"),
            "sentinel down-after-milliseconds watched 500\nsentinel failover-timeout watched 2000".to_owned(),
        ];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null());
        let (program, settings, child) = (String::new(), Vec::new(), command.spawn().unwrap());
        let server = Server { port, speaks_tls: false, folder, program, settings, child };
        server.await_answer();
        server
    }

    pub(crate) fn url(&self) -> String {
        // A certificate is for a name.
        let place = if self.speaks_tls { "rediss://localhost" } else { "redis://127.0.0.1" };
        format!("{place}:{}", self.port)
    }

    pub(crate) fn cli(&self, words: &[&str]) -> String {
        cli(&self.url(), words)
    }

    /// As a power cut would, but for what the system has not written yet.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.program, self.port, &self.folder, &self.settings, &[]);
        self.await_answer();
    }

    /// Sends a signal such as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn await_answer(&self) {
        let mut ping = client(&self.url());
        ping.arg("PING");
        for _ in 0..600 {
            // One that wants a password is up, too.
            let answer = ping.output().unwrap();
            let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
            if answer.contains("PONG") || answer.contains("NOAUTH") {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("redis-server does not answer at port {}", self.port);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that is stopped can be killed, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(
    program: &str,
    port: u16,
    folder: &tempfile::TempDir,
    settings: &[String],
    variables: &[(&str, &str)],
) -> Child {
    Command::new(program)
        .envs(variables.iter().copied())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path())
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the server is installed")
}

/// Waits until somebody who listens from now on is subscribed.
pub(crate) async fn subscribed(changes: &mut Changes) {
    assert_eq!(next(changes).await, Hint::Any);
}

/// The next hint.
pub(crate) async fn next(changes: &mut Changes) -> Hint {
    let hint = tokio::time::timeout(LONG, changes.recv()).await.expect("no hint comes");
    hint.expect("the hints ended")
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Asks again while the trouble passes.
pub(crate) async fn at_last<T>(mut ask: impl AsyncFnMut() -> Result<T, tenure_core::StoreError>) -> T {
    let asking = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, asking).await.expect("it stays in trouble")
}
