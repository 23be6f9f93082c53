//! A server that follows the tests' own by streaming replication, until it is told otherwise.

use super::url;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tenure_postgres::tokio_postgres::config::Host;
use tenure_postgres::tokio_postgres::{Client, Config, NoTls};

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(60);

/// It ends with this value.
pub(crate) struct Standby {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Standby {
    /// A copy of the tests' own server as it is now, which follows it from then on. `access` comes first in its pg_hba.conf.
    pub(crate) async fn start(access: &str) -> Standby {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tenure-standby-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(&folder).status().unwrap().success());
        }
        let port = tenure_ports::unused_port().unwrap();
        let primary: Config = url().parse().unwrap();
        let [Host::Tcp(host)] = primary.get_hosts() else { panic!("the tests' server is on loopback") };
        let data = folder.join("data");
        let mut copy = program("pg_basebackup");
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"])
            .args(["--host", host, "--port", &primary.get_ports()[0].to_string()])
            .args(["--username", primary.get_user().unwrap(), "--pgdata"])
            .arg(&data);
        let copied = copy.current_dir(&folder).stdin(Stdio::null()).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let rules = data.join("pg_hba.conf");
        let text = std::fs::read_to_string(&rules).unwrap();
        std::fs::write(&rules, format!("{access}\n{text}")).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = program("postgres")
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off", "-p"])
            .arg(port.to_string())
            .arg("-k")
            .arg(&folder)
            .arg("-D")
            .arg(&data)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let standby = Standby { child, folder, port };
        let up = async {
            while standby.connected().await.is_none() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LONG, up).await.expect("the standby does not come up; see its log");
        standby
    }

    /// Where it is, with whatever user.
    pub(crate) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.place())
    }

    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A connection of an operator's.
    pub(crate) async fn admin(&self) -> Client {
        self.connected().await.unwrap()
    }

    async fn connected(&self) -> Option<Client> {
        let (client, connection) =
            self.url("postgres").parse::<Config>().unwrap().connect(NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    }

    /// Waits until what is asked for is true here.
    pub(crate) async fn shows(&self, sql: &str) {
        let admin = self.admin().await;
        let shown = async {
            while !admin.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LONG, shown).await.expect(sql);
    }

    /// It hears nothing more of its primary.
    pub(crate) async fn cut_off(&self) {
        let admin = self.admin().await;
        admin.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        self.shows("SELECT count(*) = 0 FROM pg_stat_wal_receiver").await;
    }

    /// It takes writes from now on, whatever its primary does.
    pub(crate) async fn promote(&self) {
        self.admin().await.batch_execute("SELECT pg_promote()").await.unwrap();
        self.shows("SELECT NOT pg_is_in_recovery()").await;
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        let asked = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        // It ends at once, or when it is killed.
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// One of PostgreSQL's programs, which don't run as root.
fn program(name: &str) -> Command {
    let programs =
        std::env::var("TENURE_TEST_POSTGRES_BIN").expect("`cargo xtask services run` says where they are");
    let path = Path::new(&programs).join(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups", "--"]).arg(path);
    command
}
