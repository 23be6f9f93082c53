//! That the checks see: a holder that goes on when its lease is over is caught, and a resource that does not check takes its writes.

use crate::episode::{Extent, play};
use crate::matrix::{InjectedFault, Promise};
use crate::stage::{Broken, StoreLane};

/// Stops a holder for longer than a ttl that does not notice, once before each kind of resource.
pub(crate) fn prove(lane: &mut StoreLane, extent: &Extent) -> Result<String, String> {
    let extent = Extent { episodes: 1, ..extent.clone() };
    let checked = play(lane, InjectedFault::HolderStopped, Promise::S, &extent, Some(Broken::Holder))?;
    if checked.double_holds == 0 {
        return Err("a holder that goes on when its lease is over was not caught".into());
    }
    if checked.old_accepted > 0 || checked.refused == 0 {
        return Err("the resource did not refuse the writes of a holder that goes on".into());
    }
    let unchecked = play(lane, InjectedFault::HolderStopped, Promise::S, &extent, Some(Broken::Resource))?;
    if unchecked.old_accepted == 0 {
        return Err("a resource that does not check was not seen to take an old fence".into());
    }
    Ok(format!(
        "on purpose, a holder goes on when its lease is over: caught {} times, {} of its writes refused; a resource that does \
         not check took {} of them",
        checked.double_holds, checked.refused, unchecked.old_accepted
    ))
}
