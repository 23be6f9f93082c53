//! What a run is asked for.

use crate::episode::Extent;
use crate::matrix::{FAULTS, InjectedFault, promise};
use crate::servers::{KINDS, StoreKind};
use std::time::Duration;

pub(crate) const HELP: &str = "\
usage: cargo xtask faults [OPTION…]

  --store NAME    this store only: sqlite, postgres, redis, valkey, etcd, dynamodb; may be repeated
  --fault NAME    this fault only, as --list names it; may be repeated
  --episodes N    so many episodes a cell [2; 20 with --long]
  --tenures N     at least so many tenures before each fault [12; 50 with --long]
  --ttl MS        the leases' ttl, in milliseconds [1000]
  --long          20 episodes and 1,000 tenures a cell
  --share         what CI runs: 2 episodes a cell, the proofs that the checks see, and two machines' tenure work and elect;
                  a cell whose takeover was too late, and nothing else wrong, is played once more, and that is told
  --proofs        those proofs
  --machines      those machines
  --no-cells      no cells
  --list          the cells, and what is promised in each
";

#[derive(Debug, Clone)]
pub(crate) struct FaultsArgs {
    pub(crate) kinds: Vec<StoreKind>,
    pub(crate) faults: Vec<InjectedFault>,
    pub(crate) extent: Extent,
    pub(crate) proofs: bool,
    pub(crate) machines: bool,
    /// A cell with a takeover that was too late, and nothing else wrong, is played once more.
    pub(crate) again: bool,
    pub(crate) only_list: bool,
}

pub(crate) fn parse(words: &[String]) -> Result<FaultsArgs, String> {
    let (mut kinds, mut faults) = (Vec::new(), Vec::new());
    let mut extent = Extent { episodes: 2, tenures: 12, ttl: Duration::from_secs(1) };
    let (mut proofs, mut machines, mut again, mut only_list, mut cells) = (false, false, false, false, true);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or(format!("{word} takes a value\n\n{HELP}"));
        match word.as_str() {
            "--store" => {
                let name = value()?;
                let kind = KINDS.into_iter().find(|kind| kind.name() == name);
                kinds.push(kind.ok_or(format!("there is no store {name:?}\n\n{HELP}"))?);
            }
            "--fault" => {
                let name = value()?;
                let fault = FAULTS.into_iter().find(|fault| fault.name() == name);
                faults.push(fault.ok_or(format!("there is no fault {name:?}; see --list\n\n{HELP}"))?);
            }
            "--episodes" => extent.episodes = number(word, &value()?)?,
            "--tenures" => extent.tenures = number(word, &value()?)? as usize,
            "--ttl" => extent.ttl = Duration::from_millis(number(word, &value()?)?.into()),
            "--long" => (extent.episodes, extent.tenures) = (20, 50),
            "--share" => (proofs, machines, again) = (true, true, true),
            "--proofs" => proofs = true,
            "--machines" => machines = true,
            "--no-cells" => cells = false,
            "--list" => only_list = true,
            "--help" | "-h" => return Err(HELP.to_owned()),
            other => return Err(format!("there is no option {other:?}\n\n{HELP}")),
        }
    }
    if kinds.is_empty() {
        kinds = KINDS.to_vec();
    }
    // A fault that was asked for and befalls none of these stores would pass without a cell.
    let is_played = |fault: &InjectedFault| kinds.iter().any(|kind| promise(*kind, *fault).is_ok());
    if let Some(fault) = faults.iter().find(|fault| !is_played(fault)) {
        return Err(format!(
            "there is no cell of {:?} with these stores; see --list\n\n{HELP}",
            fault.name()
        ));
    }
    if faults.is_empty() && cells {
        faults = FAULTS.to_vec();
    }
    Ok(FaultsArgs { kinds, faults, extent, proofs, machines, again, only_list })
}

fn number(word: &str, text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|number| *number > 0);
    parsed.ok_or_else(|| format!("{word} takes a whole number above 0, not {text:?}\n\n{HELP}"))
}

/// The matrix.
pub(crate) fn list() {
    for fault in FAULTS {
        println!("{}", fault.name());
        for kind in KINDS {
            match promise(kind, fault) {
                Ok(promise) => println!("  {:<9} {}", kind.name(), promise.letter()),
                Err(reason) => println!("  {:<9} –  {reason}", kind.name()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: without options it is everything, twice; options narrow it; mistakes are named with what there is.
    use super::*;

    fn parsed(line: &str) -> Result<FaultsArgs, String> {
        parse(&line.split('/').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_understood() {
        let all = parsed("").unwrap();
        assert_eq!((all.kinds.len(), all.faults.len(), all.extent.episodes), (6, FAULTS.len(), 2));
        let some = parsed("--store/redis/--store/etcd/--fault/holder killed/--long/--episodes/7").unwrap();
        assert_eq!(some.kinds, [StoreKind::Redis, StoreKind::Etcd]);
        assert_eq!((some.faults, some.extent.episodes), (vec![InjectedFault::HolderKilled], 7));
        assert!(parsed("--store/etcd/--store/redis/--fault/lagging failover").is_ok());
        for kind in KINDS {
            let one = parsed(&format!("--store/{}", kind.name())).unwrap();
            assert_eq!((one.kinds, one.faults.len()), (vec![kind], FAULTS.len()));
        }
        assert!(parsed("--no-cells/--machines").unwrap().faults.is_empty());
        assert!(parsed("--share").unwrap().again && !all.again);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, says) in [
            ("--store/mongo", "no store \"mongo\""),
            ("--fault/rain", "no fault \"rain\""),
            ("--episodes/0", "above 0"),
            ("--episodes", "takes a value"),
            ("--store/etcd/--fault/lagging failover", "no cell of \"lagging failover\""),
            (
                "--store/etcd/--fault/holder killed/--fault/lagging failover",
                "no cell of \"lagging failover\"",
            ),
            ("fast", "no option \"fast\""),
        ] {
            let mistake = parsed(line).unwrap_err();
            assert!(mistake.contains(says) && mistake.ends_with(HELP), "{line}: {mistake}");
        }
    }
}
