//! Clusters of a test's own: their members are started, killed, stopped for a while, and started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_ports::unused_port;

/// As long as a busy machine may take.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Members on loopback, in a folder that goes with this value.
pub(crate) struct Cluster {
    folder: PathBuf,
    members: Vec<Member>,
    /// What every member is started with besides.
    more: Vec<String>,
    tls: bool,
}

struct Member {
    client: u16,
    peer: u16,
    process: Option<Child>,
}

impl Cluster {
    /// Starts that many members, and waits until they answer.
    pub(crate) async fn start(count: usize) -> Cluster {
        let cluster = Cluster::prepared(count, false, &[]);
        cluster.ready().await
    }

    /// One member that speaks TLS; with `client` only to clients that show a certificate. See [`Self::file`] for the files.
    pub(crate) async fn secured(client: bool) -> Cluster {
        let mut cluster = Cluster::prepared(1, true, &[]);
        cluster.make_certificates();
        let mut more = vec![
            "--cert-file".to_owned(),
            cluster.file("server.crt"),
            "--key-file".into(),
            cluster.file("server.key"),
        ];
        if client {
            more.extend(["--client-cert-auth".into(), "--trusted-ca-file".into(), cluster.file("ca.crt")]);
        }
        cluster.more.extend(more);
        cluster.begin(0);
        cluster
    }

    /// One member with options of its own.
    pub(crate) async fn with(options: &[&str]) -> Cluster {
        Cluster::prepared(1, false, options).ready().await
    }

    fn prepared(count: usize, tls: bool, options: &[&str]) -> Cluster {
        let folder = std::env::temp_dir().join(format!("tenure-{}", super::unique("etcd-cluster")));
        std::fs::create_dir_all(&folder).unwrap();
        let members = (0..count)
            .map(|_| Member { client: unused_port().unwrap(), peer: unused_port().unwrap(), process: None })
            .collect();
        let more = options.iter().map(|&option| option.to_owned()).collect();
        Cluster { folder, members, more, tls }
    }

    async fn ready(mut self) -> Cluster {
        for member in 0..self.members.len() {
            self.begin(member);
        }
        for member in 0..self.members.len() {
            self.answers(member).await;
        }
        self
    }

    /// Starts a member: with what it knew, or as a new one.
    pub(crate) fn begin(&mut self, member: usize) {
        let scheme = if self.tls { "https" } else { "http" };
        let all: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(n, member)| format!("m{n}=http://127.0.0.1:{}", member.peer))
            .collect();
        let Member { client, peer, .. } = self.members[member];
        let data = self.folder.join(format!("data-{member}"));
        let log = std::fs::File::create(self.folder.join(format!("log-{member}"))).unwrap();
        let mut command = Command::new("etcd");
        command
            .args(["--name", &format!("m{member}"), "--data-dir", &data.display().to_string()])
            .args(["--listen-client-urls", &format!("{scheme}://127.0.0.1:{client}")])
            .args(["--advertise-client-urls", &format!("{scheme}://127.0.0.1:{client}")])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peer}")])
            .args(["--initial-advertise-peer-urls", &format!("http://127.0.0.1:{peer}")])
            .args(["--initial-cluster", &all.join(","), "--logger", "zap"])
            .args(["--initial-cluster-token", &self.folder.display().to_string()])
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.members[member].process =
            Some(command.spawn().expect("etcd starts: apt-get install etcd-server"));
    }

    /// Starts one more member that has no vote. It answers no question, but for what is its own.
    pub(crate) fn add_learner(&mut self) -> usize {
        let (client, peer) = (unused_port().unwrap(), unused_port().unwrap());
        let name = format!("m{}", self.members.len());
        self.by_hand(&["member", "add", &name, "--learner", &format!("--peer-urls=http://127.0.0.1:{peer}")]);
        self.members.push(Member { client, peer, process: None });
        self.more.extend(["--initial-cluster-state".to_owned(), "existing".into()]);
        self.begin(self.members.len() - 1);
        self.members.len() - 1
    }

    /// Waits until a member answers by itself.
    pub(crate) async fn answers(&self, member: usize) {
        let config = EtcdConfig::from_url(&self.url_of(&[member])).unwrap();
        let answered = async {
            while EtcdStore::open(config.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LONG, answered).await.expect("the member does not answer");
    }

    /// What a member has logged since it was started.
    pub(crate) fn log(&self, member: usize) -> String {
        std::fs::read_to_string(self.folder.join(format!("log-{member}"))).unwrap()
    }

    /// Kills a member.
    pub(crate) fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Makes a member forget all, as one that is restored from a copy of when it was new.
    pub(crate) fn forget(&mut self, member: usize) {
        std::fs::remove_dir_all(self.folder.join(format!("data-{member}"))).unwrap();
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, member: usize, signal: &str) {
        let id = self.members[member].process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    }

    /// The URL of these members, with the prefix `t`.
    pub(crate) fn url_of(&self, members: &[usize]) -> String {
        let hosts: Vec<String> =
            members.iter().map(|member| format!("127.0.0.1:{}", self.members[*member].client)).collect();
        let scheme = if self.tls { "etcds" } else { "etcd" };
        format!("{scheme}://{}/t", hosts.join(","))
    }

    /// The URL of all.
    pub(crate) fn url(&self) -> String {
        self.url_of(&(0..self.members.len()).collect::<Vec<_>>())
    }

    pub(crate) fn port(&self) -> u16 {
        self.members[0].client
    }

    /// What the first member counts.
    pub(crate) fn metrics(&self) -> String {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// etcd's own client on the first member.
    pub(crate) fn by_hand(&self, arguments: &[&str]) -> Vec<u8> {
        let endpoint = format!("127.0.0.1:{}", self.port());
        super::etcdctl(&[&["--endpoints", &endpoint], arguments].concat(), &[])
    }

    /// The same on another member.
    pub(crate) fn by_hand_of(&self, member: usize, arguments: &[&str]) -> Vec<u8> {
        let endpoint = format!("127.0.0.1:{}", self.members[member].client);
        super::etcdctl(&[&["--endpoints", &endpoint], arguments].concat(), &[])
    }

    /// `ca.crt`; `server.crt` and `server.key` for the name `localhost`; `client.crt` and `client.key` of the user `app`.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn make_certificates(&self) {
        let make = |arguments: &[&str]| {
            let output = Command::new("openssl")
                .args(arguments)
                .current_dir(&self.folder)
                .stdin(Stdio::null())
                .output();
            let output = output.expect("openssl starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let authority = ["-subj", "/CN=tests", "-days", "30", "-keyout", "ca.key", "-out", "ca.crt"];
        make(&[&["req", "-x509"], &curve[..], &authority].concat());
        for (name, subject, extension) in [
            ("server", "/CN=server", "subjectAltName=DNS:localhost"),
            ("client", "/CN=app", "extendedKeyUsage=clientAuth"),
        ] {
            let (key, request, signed) =
                (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"));
            make(
                &[&["req", "-new"], &curve[..], &["-subj", subject, "-keyout", &key, "-out", &request]]
                    .concat(),
            );
            std::fs::write(self.folder.join("extensions"), extension).unwrap();
            let by = [
                "-CA",
                "ca.crt",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-days",
                "30",
                "-extfile",
                "extensions",
            ];
            make(&[&["x509", "-req", "-in", &request, "-out", &signed], &by[..]].concat());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
        let _ = std::fs::remove_dir_all(Path::new(&self.folder));
    }
}
