//! The servers of one store, on machines of their own: killed, stopped, filled up, promoted, and started again.

mod disk;
mod dynamodb;
mod etcd;
mod postgres;
mod redis;

use crate::clocks::Clocks;
use crate::net::{NetMachine, Network};
use crate::process::{NetNamespace, OwnedProcess, is_left_over, run};
use crate::raw;
use disk::Disk;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
    Redis,
    Valkey,
    Etcd,
    DynamoDb,
}

pub(crate) const KINDS: [StoreKind; 6] = [
    StoreKind::Sqlite,
    StoreKind::Postgres,
    StoreKind::Redis,
    StoreKind::Valkey,
    StoreKind::Etcd,
    StoreKind::DynamoDb,
];

/// What the folders of runs are called; the process's id follows.
pub(crate) const MARK: &str = "tenure-faults-";

/// Unmounts what runs left behind that were killed. What they wrote down stays.
pub(crate) fn sweep() {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    for path in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        let Some((_, rest)) = path.split_once(MARK) else { continue };
        if is_left_over(rest) {
            unmount(Path::new(path));
        }
    }
}

/// What is unmounted in this folder is so for all processes: each that is started on a machine has mounts of its own, copies of those that are
/// there, which follow only what is shared.
pub(crate) fn share_mounts(folder: &Path) -> Result<(), String> {
    run(Command::new("mount").arg("--bind").args([folder, folder]))?;
    run(Command::new("mount").arg("--make-shared").arg(folder)).map(drop)
}

/// Lazily: a process that is about to end may still be there.
pub(crate) fn unmount(path: &Path) {
    let _ = run(Command::new("umount").arg("-l").arg(path));
}

/// The address that moves between a primary and whoever is promoted.
pub(crate) const FLOATING: &str = "10.77.0.100";

impl StoreKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Postgres => "postgres",
            StoreKind::Redis => "redis",
            StoreKind::Valkey => "valkey",
            StoreKind::Etcd => "etcd",
            StoreKind::DynamoDb => "dynamodb",
        }
    }

    /// Machines that servers are on, from the first start on.
    fn members(self) -> u8 {
        match self {
            StoreKind::Sqlite => 0,
            StoreKind::Etcd => 3,
            // The second one is for who follows the first.
            StoreKind::Postgres | StoreKind::Redis | StoreKind::Valkey => 2,
            StoreKind::DynamoDb => 1,
        }
    }

    /// One server takes writes, and its address moves to whoever is promoted.
    pub(crate) fn moves(self) -> bool {
        matches!(self, StoreKind::Postgres | StoreKind::Redis | StoreKind::Valkey)
    }

    fn port(self) -> u16 {
        match self {
            StoreKind::Sqlite => 0,
            StoreKind::Postgres => 5432,
            StoreKind::Redis | StoreKind::Valkey => 6379,
            StoreKind::Etcd => 2379,
            StoreKind::DynamoDb => 8000,
        }
    }

    /// The size of each server's disk, in MiB.
    fn disk(self) -> u32 {
        match self {
            StoreKind::Sqlite => 16,
            StoreKind::Redis | StoreKind::Valkey | StoreKind::DynamoDb => 64,
            StoreKind::Postgres => 192,
            // It makes room for 64 MiB of its log beforehand, twice.
            StoreKind::Etcd => 320,
        }
    }
}

/// One server's machine, disk, clocks and, while it runs, process.
#[derive(Debug)]
pub(crate) struct ClusterMember {
    pub(crate) machine: NetMachine,
    pub(crate) clocks: Clocks,
    disk: Disk,
    process: Option<OwnedProcess>,
}

/// All of one store.
#[derive(Debug)]
pub(crate) struct StoreServers {
    pub(crate) kind: StoreKind,
    pub(crate) members: Vec<ClusterMember>,
    /// Who takes writes, where one does.
    pub(crate) primary: usize,
    folder: PathBuf,
    /// Where SQLite's file is.
    file: Option<Disk>,
}

impl StoreServers {
    /// Machines and disks for them; and starts those that are there from the first.
    pub(crate) fn start(
        kind: StoreKind,
        network: &mut Network,
        folder: &Path,
        preload: &Path,
    ) -> Result<StoreServers, String> {
        let mut members = Vec::new();
        for n in 0..kind.members() {
            let machine = network.machine(10 + n)?;
            let clocks = Clocks::new(preload, folder.join(format!("server-{n}.clocks")))?;
            let disk = Disk::new(&folder.join(format!("server-{n}")), kind.disk())?;
            members.push(ClusterMember { machine, clocks, disk, process: None });
        }
        let file = match kind {
            StoreKind::Sqlite => Some(Disk::new(&folder.join("disk"), kind.disk())?),
            _ => None,
        };
        let mut servers = StoreServers { kind, members, primary: 0, folder: folder.to_owned(), file };
        match kind {
            StoreKind::Postgres => postgres::make(&servers.members[0])?,
            StoreKind::Redis
            | StoreKind::Valkey
            | StoreKind::Etcd
            | StoreKind::DynamoDb
            | StoreKind::Sqlite => {}
        }
        for member in servers.always() {
            servers.begin(member)?;
        }
        if kind.moves() {
            for member in &servers.members {
                member.machine.also(FLOATING)?;
            }
        }
        Ok(servers)
    }

    /// Those that run when nothing is the matter.
    pub(crate) fn always(&self) -> Vec<usize> {
        match self.kind {
            kind if kind.moves() => vec![self.primary],
            _ => (0..self.members.len()).collect(),
        }
    }

    /// Starts one, with what it has on its disk.
    pub(crate) fn begin(&mut self, member: usize) -> Result<(), String> {
        let addresses: Vec<String> = self.members.iter().map(|m| m.machine.address.clone()).collect();
        let log = self.folder.join(format!("server-{member}.log"));
        let one = &self.members[member];
        let mut command = match self.kind {
            StoreKind::Redis | StoreKind::Valkey => redis::command(self.kind, one, None)?,
            StoreKind::Etcd => etcd::command(one, member, &addresses),
            StoreKind::Postgres => postgres::command(one)?,
            StoreKind::DynamoDb => dynamodb::command(one)?,
            StoreKind::Sqlite => return Ok(()),
        };
        self.members[member].process = Some(OwnedProcess::logged(&mut command, &log)?);
        Ok(())
    }

    /// Starts again what has ended.
    pub(crate) fn revive(&mut self) -> Result<(), String> {
        for member in self.always() {
            if self.members[member].process.as_mut().is_none_or(OwnedProcess::has_ended) {
                self.kill(member);
                self.begin(member)?;
            }
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self, member: usize) {
        self.members[member].process = None;
    }

    fn kill_all(&mut self) {
        self.always().into_iter().for_each(|member| self.kill(member));
    }

    /// How many processes of one stand still.
    pub(crate) fn stopped(&self, member: usize) -> u64 {
        self.members[member].process.as_ref().map_or(0, OwnedProcess::stopped)
    }

    pub(crate) fn signal(&self, member: usize, signal: Signal) {
        if let Some(process) = &self.members[member].process {
            process.signal(signal);
        }
    }

    /// Where clients find them: host and port of each.
    pub(crate) fn addresses(&self) -> Vec<String> {
        if self.kind.moves() {
            vec![format!("{FLOATING}:{}", self.kind.port())]
        } else {
            self.all_addresses()
        }
    }

    /// The same without the address that moves.
    pub(crate) fn all_addresses(&self) -> Vec<String> {
        let port = self.kind.port();
        self.members.iter().map(|member| format!("{}:{port}", member.machine.address)).collect()
    }

    /// The store's URL, by way of these addresses.
    pub(crate) fn url(&self, addresses: &[String]) -> String {
        let all = addresses.join(",");
        match self.kind {
            StoreKind::Sqlite => {
                let file = self.file.as_ref().map(|disk| disk.path.join("leases.db")).unwrap_or_default();
                format!("sqlite:{}", file.display())
            }
            StoreKind::Postgres => format!("postgres://postgres@{all}/postgres?sslmode=disable"),
            StoreKind::Redis | StoreKind::Valkey => format!("redis://{all}/0?namespace=faults&plain=accept"),
            StoreKind::Etcd => format!("etcd://{all}/faults?tls=off"),
            StoreKind::DynamoDb => {
                format!("dynamodb://faults?region=eu-west-1&namespace=f&endpoint=http://{all}&plain_text=yes")
            }
        }
    }

    /// What a client has to have in its environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match self.kind {
            // What DynamoDB Local takes, as it takes any; and nobody is to look for others.
            StoreKind::DynamoDb => [
                ("AWS_ACCESS_KEY_ID", "local"),
                ("AWS_SECRET_ACCESS_KEY", "local"),
                ("AWS_EC2_METADATA_DISABLED", "true"),
            ]
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec(),
            _ => Vec::new(),
        }
    }

    /// The member that leads a cluster of etcd.
    pub(crate) fn leader(&self, onlooker: &NetMachine) -> Result<usize, String> {
        etcd::leader(onlooker, &self.addresses())
    }

    /// The disks that servers write to.
    pub(crate) fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.members.iter().map(|member| &member.disk).chain(&self.file)
    }

    /// Has servers use up what they have reserved on their full disks; tells whether one of them could not write any more.
    pub(crate) fn use_up(&self) -> bool {
        let ended = self.always().into_iter().filter(|member| match self.kind {
            StoreKind::Postgres => postgres::use_up(&self.members[*member]),
            StoreKind::Redis | StoreKind::Valkey => redis::use_up(&self.members[*member]),
            StoreKind::Etcd => etcd::use_up(&self.members[*member]),
            StoreKind::Sqlite | StoreKind::DynamoDb => false,
        });
        ended.count() > 0
    }

    /// From now on the primary acknowledges what its follower has, too.
    pub(crate) fn wait_for_follower(&self) -> Result<(), String> {
        postgres::wait_for_follower(&self.members[self.primary])
    }

    /// The one that is not the primary follows it from now on, with a copy of all that it has.
    pub(crate) fn follow(&mut self) -> Result<(), String> {
        let (primary, second) = (self.primary, 1 - self.primary);
        self.kill(second);
        let of = self.members[primary].machine.address.clone();
        self.members[second].disk.clear()?;
        let log = self.folder.join(format!("server-{second}.log"));
        let one = &self.members[second];
        let mut command = match self.kind {
            StoreKind::Redis | StoreKind::Valkey => redis::command(self.kind, one, Some(&of))?,
            StoreKind::Postgres => {
                postgres::copy(one, &of)?;
                postgres::command(one)?
            }
            _ => return Err(format!("no server follows another of {}", self.kind.name())),
        };
        self.members[second].process = Some(OwnedProcess::logged(&mut command, &log)?);
        let (first, second) = (&self.members[primary], &self.members[second]);
        until("the second server does not follow the first", || match self.kind {
            StoreKind::Redis | StoreKind::Valkey => redis::follows(second),
            _ => postgres::follows(first),
        })
    }

    /// Makes the follower a primary.
    pub(crate) fn promote(&mut self) -> Result<(), String> {
        let second = 1 - self.primary;
        let one = &self.members[second];
        match self.kind {
            StoreKind::Redis | StoreKind::Valkey => redis::promote(one)?,
            _ => postgres::promote(one)?,
        }
        self.primary = second;
        Ok(())
    }

    /// Starts a Sentinel on that machine, which watches the primary, and waits until it knows the follower.
    pub(crate) fn guard(&self, onlooker: &NetMachine) -> Result<OwnedProcess, String> {
        redis::sentinel(
            self.kind,
            onlooker,
            &self.members[self.primary],
            &self.members[1 - self.primary],
            &self.folder,
        )
    }

    /// Waits until Sentinel has promoted the follower; the old primary does not know it yet.
    pub(crate) fn await_promotion(&mut self) -> Result<(), String> {
        let second = 1 - self.primary;
        self.until_sentinel("has promoted nobody", || redis::is_primary(&self.members[second]))?;
        self.primary = second;
        Ok(())
    }

    /// Waits until Sentinel has made the old primary a follower of the new one.
    pub(crate) fn await_demotion(&self) -> Result<(), String> {
        let old = &self.members[1 - self.primary];
        let follows = || redis::is_primary(old).map(|is_primary| !is_primary);
        self.until_sentinel("has not made the old primary a follower", follows)
    }

    fn until_sentinel(&self, what: &str, holds: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
        until(&format!("Sentinel {what}"), holds)
            .map_err(|error| format!("{error}; it says: {}", redis::last_words_of_sentinel(&self.folder)))
    }

    /// Whether the power of disks can be cut.
    pub(crate) fn are_on_block_devices(&self) -> bool {
        self.disks().all(Disk::is_block_device)
    }

    /// Moves what is stored to disks whose power can be cut. Servers start again.
    pub(crate) fn on_block_devices(&mut self) -> Result<(), String> {
        self.kill_all();
        let disks = self.members.iter_mut().map(|member| &mut member.disk);
        disks.chain(&mut self.file).try_for_each(Disk::become_block_device)?;
        self.revive()
    }

    /// All servers lose their power at once, and with it what is not written down. They are started later. Tells how many disks have
    /// lost something.
    pub(crate) fn cut_power(&mut self) -> Result<u64, String> {
        // While servers run, and answer.
        self.disks().try_for_each(Disk::lose_power)?;
        self.kill_all();
        let lost: Result<Vec<bool>, String> = self.disks().map(Disk::get_power).collect();
        lost.map(|lost| lost.into_iter().map(u64::from).sum())
    }

    /// Starts the primary without anything that it knew.
    pub(crate) fn forget(&mut self) -> Result<(), String> {
        self.kill(self.primary);
        self.members[self.primary].disk.clear()?;
        self.begin(self.primary)
    }
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    /// As long as a busy machine may take.
    const LIMIT: Duration = Duration::from_secs(60);
    let start = raw::now();
    let mut last = String::new();
    while raw::since(start) < LIMIT {
        match holds() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => last = error,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("{what}, after {} s: {last}", LIMIT.as_secs()))
}

impl ClusterMember {
    fn place(&self) -> &NetNamespace {
        &self.machine.place
    }

    fn data(&self) -> PathBuf {
        self.disk.path.join("data")
    }
}
