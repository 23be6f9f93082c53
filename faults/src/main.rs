//! Faults on real servers: processes on machines of their own compete for leases while servers, networks, disks and clocks fail.
//! `cargo xtask faults` runs it, with what it needs; so does `cargo xtask test`, a share of it.
//!
//! Machines are network namespaces on one host, so that one clock tells who believed when: every process logs that. A cell is one
//! fault on one store. In each of its episodes three processes compete, one of them keeps the lease, and the fault happens to it, to
//! the network or to servers. What is checked: no two tenures overlap when sorted by fence; the resource, which no fault reaches,
//! accepts no older fence after a newer one; what was released stays released; the key is had again in time.

mod check;
mod clocks;
mod episode;
mod inflict;
mod ledger;
mod load;
mod machines;
mod matrix;
mod net;
mod options;
mod process;
mod proof;
mod raw;
mod resource;
mod roles;
mod servers;
mod stage;
mod table;

use episode::{CellResult, play};
use load::HostLoad;
use matrix::{FAULTS, promise};
use options::{FaultsArgs, parse};
use servers::StoreKind;
use stage::{StoreLane, Workshop};
use std::process::ExitCode;
use table::CellRow;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match roles::run(&words) {
        Some(ended) => ended.map(|()| true),
        None => parse(&words).and_then(|options| run(&options)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tenure-faults: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs all lanes side by side: mostly they wait. True if nothing was wrong.
fn run(options: &FaultsArgs) -> Result<bool, String> {
    if options.only_list {
        options::list();
        return Ok(true);
    }
    if !rustix::process::geteuid().is_root() {
        return Err("machines, disks and faults are made by root: run it as root, or by sudo".into());
    }
    net::sweep();
    servers::sweep();
    let shop = workshop()?;
    println!("{}", table::HEAD);
    let lanes: Vec<(Vec<CellRow>, Vec<String>)> = std::thread::scope(|scope| {
        let lanes: Vec<_> = options
            .kinds
            .iter()
            .map(|kind| {
                let shop = &shop;
                scope.spawn(move || lane(*kind, options, shop))
            })
            .collect();
        let ended = |lane: std::thread::ScopedJoinHandle<'_, _>| {
            lane.join().unwrap_or_else(|_| (Vec::new(), vec!["a lane has panicked".to_owned()]))
        };
        lanes.into_iter().map(ended).collect()
    });
    let (rows, wrong): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
    let (rows, wrong): (Vec<CellRow>, Vec<String>) = (rows.concat_rows(), wrong.concat());
    let not_tested = options.kinds.iter().flat_map(|kind| {
        FAULTS.iter().filter_map(|fault| promise(*kind, *fault).err().map(|reason| (*kind, *fault, reason)))
    });
    table::print(&rows, &not_tested.collect::<Vec<_>>());
    wrong.iter().for_each(|wrong| println!("WRONG: {wrong}"));
    let is_right = rows.iter().all(CellRow::is_right) && wrong.is_empty();
    servers::unmount(&shop.folder);
    if is_right {
        // What is kept is for whoever looks for a cause.
        let _ = std::fs::remove_dir_all(&shop.folder);
    }
    Ok(is_right)
}

trait Rows {
    fn concat_rows(self) -> Vec<CellRow>;
}

impl Rows for Vec<Vec<CellRow>> {
    fn concat_rows(self) -> Vec<CellRow> {
        self.into_iter().flatten().collect()
    }
}

/// All cells of one store; what is wrong besides.
fn lane(kind: StoreKind, options: &FaultsArgs, shop: &Workshop) -> (Vec<CellRow>, Vec<String>) {
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    let mut lane = None;
    let cells = FAULTS.iter().filter(|fault| options.faults.contains(fault));
    for (fault, promise) in cells.filter_map(|fault| Some((*fault, promise(kind, *fault).ok()?))) {
        let mut played =
            || with(&mut lane, kind, shop, |lane| play(lane, fault, promise, &options.extent, None));
        let result = match played() {
            // A host without time for it shows the same only rarely; what is slow does so again.
            Ok(first) if options.again && first.is_only_late() => {
                played().map(|seen| CellResult { late_before: first.late, ..seen })
            }
            result => result,
        };
        if result.is_err() {
            // Whatever state it left the servers in, the next cell is not to suffer from it.
            lane = None;
        }
        let row = CellRow::new(kind, fault, promise, result);
        println!("{}", row.line());
        rows.push(row);
    }
    if options.proofs {
        let proved = with(&mut lane, kind, shop, |lane| proof::prove(lane, &options.extent));
        match proved {
            Ok(said) => println!("{}: {said}", kind.name()),
            Err(error) => wrong.push(format!("{}: {error}", kind.name())),
        }
    }
    if options.machines && kind != StoreKind::Sqlite {
        let worked = with(&mut lane, kind, shop, machines::play);
        match worked {
            Ok(said) => println!("{}: {said}", kind.name()),
            Err(error) => wrong.push(format!("{}: two machines: {error}", kind.name())),
        }
    }
    (rows, wrong)
}

fn with<T>(
    lane: &mut Option<StoreLane>,
    kind: StoreKind,
    shop: &Workshop,
    act: impl FnOnce(&mut StoreLane) -> Result<T, String>,
) -> Result<T, String> {
    if lane.is_none() {
        *lane = Some(StoreLane::start(kind, shop)?);
    }
    lane.as_mut().map_or_else(|| Err("no lane".to_owned()), act)
}

/// With a folder that all may enter: servers run under users of their own.
fn workshop() -> Result<Workshop, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("{}{}", servers::MARK, std::process::id()));
    let made = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)));
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    servers::share_mounts(&folder)?;
    let preload = clocks::compile(&folder)?;
    Ok(Workshop { folder, preload, load: HostLoad::watch() })
}
