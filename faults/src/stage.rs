//! What a cell is played on: contenders on machines of their own, an onlooker, servers, and the resource.

use crate::clocks::Clocks;
use crate::ledger::{ContenderLedger, ContenderProcess, Helper};
use crate::load::HostLoad;
use crate::matrix::InjectedFault;
use crate::net::{NetMachine, Network};
use crate::process::NetNamespace;
use crate::resource::ResourceServer;
use crate::roles::ContenderSettings;
use crate::servers::{StoreKind, StoreServers};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The first one is the holder that things happen to.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// As long as a server may take to start on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// What all lanes of a run share.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) folder: PathBuf,
    /// What shows processes other clocks.
    pub(crate) preload: PathBuf,
    pub(crate) load: Arc<HostLoad>,
}

/// Of one store: it lasts for all its cells.
#[derive(Debug)]
pub(crate) struct StoreLane {
    // In the order in which they end: servers before the machines that they run on.
    pub(crate) servers: StoreServers,
    pub(crate) probe: Helper,
    pub(crate) machines: Vec<NetMachine>,
    pub(crate) onlooker: Option<NetMachine>,
    pub(crate) clocks: Vec<Clocks>,
    pub(crate) folder: PathBuf,
    pub(crate) load: Arc<HostLoad>,
    _network: Option<Network>,
}

impl StoreLane {
    /// Makes machines, starts servers, and waits until they answer.
    pub(crate) fn start(kind: StoreKind, shop: &Workshop) -> Result<StoreLane, String> {
        let (folder, preload) = (shop.folder.join(kind.name()), shop.preload.as_path());
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut network = Network::new(kind.name())?;
        let servers = StoreServers::start(kind, &mut network, &folder, preload)?;
        let (mut machines, mut clocks, mut onlooker) = (Vec::new(), Vec::new(), None);
        for (n, name) in NAMES.iter().enumerate() {
            clocks.push(Clocks::new(preload, folder.join(format!("{name}.clocks")))?);
            if kind != StoreKind::Sqlite {
                machines.push(network.machine(u8::try_from(n).unwrap_or(0) + 1)?);
            }
        }
        if kind != StoreKind::Sqlite {
            onlooker = Some(network.machine(4)?);
        }
        let place = onlooker.as_ref().map(|machine| machine.place.clone()).unwrap_or_default();
        if kind.moves() {
            for machine in machines.iter().chain(&onlooker) {
                machine.sends(crate::servers::FLOATING, &servers.members[0].machine)?;
            }
        }
        let probe = start_probe(&servers, &place)?;
        Ok(StoreLane {
            servers,
            probe,
            machines,
            onlooker,
            clocks,
            folder,
            load: Arc::clone(&shop.load),
            _network: Some(network),
        })
    }

    /// Another onlooker, in place of one that has ended.
    pub(crate) fn renew_probe(&mut self) -> Result<(), String> {
        let place = self.onlooker.as_ref().map(|machine| machine.place.clone()).unwrap_or_default();
        self.probe = start_probe(&self.servers, &place)?;
        Ok(())
    }

    /// Where the n-th contender runs.
    pub(crate) fn place(&self, n: usize) -> NetNamespace {
        self.machines.get(n).map(|machine| machine.place.clone()).unwrap_or_default()
    }

    /// Waits until the store answers; starts again what has ended meanwhile.
    pub(crate) fn answers(&mut self) -> Result<(), String> {
        let start = crate::raw::now();
        loop {
            match self.probe.ask("look answers") {
                Ok(_) => return Ok(()),
                Err(error) if crate::raw::since(start) > LONG => {
                    return Err(format!("the store does not answer again: {error}"));
                }
                Err(_) => self.servers.revive()?,
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

fn start_probe(servers: &StoreServers, place: &NetNamespace) -> Result<Helper, String> {
    let words = ["probe".to_owned(), servers.url(&servers.addresses())];
    let probe = Helper::start(place, &servers.environment(), &words)?;
    probe.ready(LONG).map_err(|error| format!("{}: {error}", servers.kind.name()))
}

/// Of one cell.
#[derive(Debug)]
pub(crate) struct CellStage<'a> {
    pub(crate) lane: &'a mut StoreLane,
    pub(crate) ledger: Arc<ContenderLedger>,
    pub(crate) contenders: Vec<ContenderProcess>,
    pub(crate) proxy: Option<Helper>,
    pub(crate) resource: ResourceServer,
    pub(crate) ttl: Duration,
    settings: ContenderSettings,
    key: String,
    /// On purpose: the holder goes on when its lease is over.
    overstays: bool,
}

impl<'a> CellStage<'a> {
    pub(crate) fn set(
        lane: &'a mut StoreLane,
        fault: InjectedFault,
        ttl: Duration,
        broken: Option<Broken>,
    ) -> Result<CellStage<'a>, String> {
        let name = format!(
            "{}{}",
            fault.name().replace([' ', '\''], "-"),
            if broken.is_some() { "-broken" } else { "" }
        );
        let resource =
            ResourceServer::listen(&lane.folder.join("resource"), broken != Some(Broken::Resource))?;
        // Whom Sentinel promotes is found by asking all servers, each at its own address.
        let addresses = match fault {
            InjectedFault::SentinelFailover => lane.servers.all_addresses(),
            _ => lane.servers.addresses(),
        };
        // No process goes by them now.
        lane.clocks.iter().try_for_each(Clocks::reset)?;
        let settings = ContenderSettings {
            url: lane.servers.url(&addresses),
            key: format!("cell/{name}"),
            resource: resource.path.clone(),
            ttl,
            own_heartbeat: false,
            overstays: false,
        };
        let key = settings.key.clone();
        let mut stage = CellStage {
            ledger: Arc::default(),
            contenders: Vec::new(),
            proxy: None,
            resource,
            ttl,
            settings,
            key,
            overstays: broken.is_some(),
            lane,
        };
        if fault.wants_proxy() {
            stage.proxy = Some(stage.start_proxy(&addresses)?);
        }
        for n in 0..NAMES.len() {
            let contender = stage.start_contender(n)?;
            stage.contenders.push(contender);
        }
        stage.all_ready()?;
        Ok(stage)
    }

    fn start_proxy(&self, addresses: &[String]) -> Result<Helper, String> {
        let pairs = addresses.iter().enumerate().map(|(n, to)| format!("127.0.0.1:{}={to}", 7000 + n));
        let words: Vec<String> = ["proxy".to_owned()].into_iter().chain(pairs).collect();
        Helper::start(&self.lane.place(0), &[], &words)?.ready(LONG)
    }

    fn start_contender(&self, n: usize) -> Result<ContenderProcess, String> {
        let mut settings = self.settings.clone();
        // Both kinds of leases compete.
        settings.own_heartbeat = n == 1;
        settings.overstays = n == 0 && self.overstays;
        if n == 0 && self.proxy.is_some() {
            let count = self.lane.servers.addresses().len();
            let proxies: Vec<String> = (0..count).map(|n| format!("127.0.0.1:{}", 7000 + n)).collect();
            settings.url = self.lane.servers.url(&proxies);
        }
        let mut env = self.lane.servers.environment();
        env.extend(self.lane.clocks[n].environment());
        ContenderProcess::start(NAMES[n], &self.lane.place(n), &env, &settings, &self.ledger)
    }

    fn all_ready(&self) -> Result<(), String> {
        let all = self.ledger.until(LONG, |told| (told.ready.len() == NAMES.len()).then_some(()));
        all.ok_or_else(|| {
            format!(
                "not all contenders have the store open: {:?}",
                self.ledger.read(|told| told.troubles.clone())
            )
        })
    }

    /// Tells all of them.
    pub(crate) fn tell_all(&mut self, order: &str) -> Result<(), String> {
        self.contenders.iter_mut().try_for_each(|contender| contender.tell(order))
    }

    /// A process that ends by a kill, and another one in its place, which competes like the others.
    pub(crate) fn replace(&mut self, n: usize) -> Result<(), String> {
        self.contenders[n].process.kill();
        self.contenders[n] = self.start_contender(n)?;
        self.contenders[n].tell("flow")
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

/// What is wrong on purpose, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The holder goes on when its lease is over.
    Holder,
    /// So does it, and the resource takes what comes.
    Resource,
}
