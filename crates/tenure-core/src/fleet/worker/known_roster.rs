//! The other workers, as far as this one knows them: those that it has listed, and those whom parts of a plan have named. And the units that are to go
//! to one of them, once they were listed.

use super::choice::Choice;
use super::env::FleetEnv;
use super::listed::Peer;
use crate::fleet::part::Part;
use crate::fleet::talk::Reason;
use crate::holder::lease_id::LeaseId;
use crate::holder::update::Transferee;
use crate::values::fence::Fence;
use crate::values::key::{HolderId, Key};
use crate::values::record::Attachment;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref};

/// So many others are remembered in any fleet.
const STRANGERS: usize = 32;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct KnownRoster {
    /// By their sessions.
    peers: BTreeMap<Key, Peer>,
    /// Units that are to go to others, who have to be listed first.
    choices: Vec<Choice>,
}

impl Deref for KnownRoster {
    type Target = BTreeMap<Key, Peer>;

    fn deref(&self) -> &BTreeMap<Key, Peer> {
        &self.peers
    }
}

impl KnownRoster {
    /// These are all workers that there are.
    pub(super) fn listed(&mut self, env: &FleetEnv, all: BTreeMap<Key, Peer>) {
        self.peers = all;
        self.peers.remove(&env.me);
    }

    /// What a part says of others, so that who they are is known without a listing.
    pub(super) fn meet(&mut self, env: &FleetEnv, part: &Part) {
        for (holder, (fence, ttl)) in &part.peers {
            let Ok(session) = env.fleet().worker(holder) else { continue };
            if !self.has(&session, *fence) {
                self.peers.insert(session, Peer::named(holder.clone(), *fence, *ttl));
            }
        }
    }

    /// Parts name others all the time, and who does not list hears of no end of them. Once these are more than the workers that there are, those stay
    /// that this worker has something to do with.
    pub(super) fn forget_strangers(
        &mut self,
        env: &FleetEnv,
        part: &Part,
        workers: usize,
        near: impl Iterator<Item = Key>,
    ) {
        if self.peers.len() <= workers.max(STRANGERS) {
            return;
        }
        let named = part.peers.keys().filter_map(|who| env.fleet().worker(who).ok());
        let kept: BTreeSet<Key> = named.chain(near).collect();
        self.peers.retain(|session, _| kept.contains(session));
    }

    /// Whether a session's record tells at first sight how long its worker has been silent.
    pub(super) fn attest(&mut self, session: &Key, attested: bool) {
        if let Some(peer) = self.peers.get_mut(session) {
            peer.attested = attested;
        }
    }

    /// Its session is over, or is another one now. Who that was, if this worker knew it.
    pub(super) fn left(&mut self, session: &Key) -> Option<Peer> {
        self.peers.remove(session)
    }

    /// Whether the worker with this session lives, and it shows this fence.
    pub(super) fn has(&self, session: &Key, fence: Fence) -> bool {
        self.peers.get(session).is_some_and(|peer| peer.fence == fence)
    }

    /// The fence of a worker's session, as far as this one knows.
    pub(super) fn fence_of(&self, session: &Key) -> Option<Fence> {
        self.peers.get(session).map(|peer| peer.fence)
    }

    /// The session of a worker that does not leave.
    pub(super) fn session_of(&self, who: &HolderId) -> Option<&Key> {
        let is_it = |peer: &Peer| peer.holder == *who && !peer.about.leaving;
        self.peers.iter().find(|(_, peer)| is_it(peer)).map(|(session, _)| session)
    }

    /// Why a unit goes that is planned for the worker with this session.
    pub(super) fn moved_to(&self, session: &Key) -> Option<Reason> {
        self.peers.get(session).map(|peer| Reason::Moved(peer.holder.clone()))
    }

    /// The worker with this session, if it may have what is passed on.
    pub(super) fn transferee(&self, session: &Key) -> Option<Transferee> {
        let peer = self.peers.get(session).filter(|peer| !peer.about.leaving)?;
        let attachment = Attachment { session: session.clone(), fence: peer.fence };
        Some(Transferee { holder: peer.holder.clone(), attachment, ttl: peer.ttl })
    }

    /// All in the order of their sessions, from the one on that comes after this worker.
    pub(super) fn in_turn(&self, env: &FleetEnv) -> impl Iterator<Item = (&Key, &Peer)> {
        let after = self.peers.range((Bound::Excluded(env.me.clone()), Bound::Unbounded));
        after.chain(self.peers.range(..env.me.clone()))
    }

    /// A unit is to go to one of them, who have to be listed first.
    pub(super) fn choose_from(&mut self, choice: Choice) {
        self.choices.push(choice);
    }

    /// Whether a unit waits for the others to be listed.
    pub(super) fn is_awaited(&self) -> bool {
        !self.choices.is_empty()
    }

    /// The others are known, or as many of them as there are to be known.
    pub(super) fn take_choices(&mut self) -> Vec<Choice> {
        std::mem::take(&mut self.choices)
    }

    /// The unit of this lease is no unit of this worker any more.
    pub(super) fn forget_choice(&mut self, lease: LeaseId) {
        self.choices.retain(|choice| choice.lease != lease);
    }
}

#[cfg(test)]
impl std::ops::DerefMut for KnownRoster {
    fn deref_mut(&mut self) -> &mut BTreeMap<Key, Peer> {
        &mut self.peers
    }
}
