//! Plan: what agrees, what is on the move and what is missed, each alone and together; a dispute takes a renewal, and the same remainder; who has too much
//! on the move is left alone; what was on the move for long is not any more.
use super::*;
use crate::fleet::worker::alone::*;
use crate::values::fence::Fence;

/// The share of a unit by its number.
fn share(n: usize) -> u64 {
    Digest::share(&unit(n), (Nonce(1), Fence(3)))
}

/// One worker's account, as the planner keeps it.
struct Watched {
    account: Account,
    peer: Peer,
    is_first: bool,
}

impl Watched {
    fn new() -> Watched {
        let peer = worker(1).roster.remove(&session(1)).unwrap();
        Watched { account: Account::default(), peer, is_first: true }
    }

    /// All is listed, in this second. The units' records show these, and the session's, which was renewed that often, says those.
    fn lists(&mut self, secs: u64, listed: &[usize], beat: u128, has: &[usize]) -> Found {
        self.peer.heartbeat = Nonce(beat);
        let shares = listed.iter().map(|n| share(*n)).collect();
        self.account.list(at(secs), &self.peer, shares, std::mem::take(&mut self.is_first));
        let has = has.iter().fold(Digest::default(), |has, n| has.with(share(*n)));
        self.account.compare(has, Nonce(beat))
    }
}

fn missing(n: usize) -> Found {
    Found::Disputed(Digest::default().without(share(n)))
}

#[test]
fn who_has_what_is_listed_agrees_and_who_lacks_a_unit_before_and_after_a_renewal_does_not() {
    let mut one = Watched::new();
    assert_eq!(one.lists(0, &[1, 2], 1, &[1, 2]), Found::Agrees);
    assert_eq!(one.lists(10, &[1, 2, 3], 1, &[1, 2]), Found::Open);
    assert_eq!(one.lists(11, &[1, 2, 3], 1, &[1, 2]), Found::Open, "it has not renewed since");
    assert_eq!(one.lists(20, &[1, 2, 3], 2, &[1, 2]), Found::Open, "it may know of it by a letter now");
    assert_eq!(one.lists(30, &[1, 2, 3], 3, &[1, 2]), missing(3));
    assert_eq!(one.lists(31, &[1, 2, 3], 3, &[1, 2]), missing(3), "the same one");
    assert_eq!(one.lists(40, &[1, 2, 3], 4, &[1, 2, 3]), Found::Agrees);
}

#[test]
fn what_a_new_planner_finds_on_the_move_is_no_dispute() {
    let mut one = Watched::new();
    assert_eq!(one.lists(0, &[1, 2], 1, &[1]), Found::Open);
    assert_eq!(one.lists(1, &[1, 2], 1, &[1]), Found::Open);
    assert_eq!(one.lists(2, &[1, 2], 2, &[1, 2]), Found::Agrees);
}

#[test]
fn a_unit_that_is_missed_is_found_whatever_else_moves() {
    let mut one = Watched::new();
    assert_eq!(one.lists(0, &[0, 1, 2], 1, &[0, 1, 2]), Found::Agrees);
    let mut found = Vec::new();
    for n in 0..8_usize {
        let secs = 4 + 8 * n as u64;
        // A unit comes each time, and one goes, which it says in its next renewal; unit 9 it never hears of.
        let (listed, has) = ([9, 20 + n, 40 + n], [20 + n, 40 + n.saturating_sub(1)]);
        found.push(one.lists(secs, &listed, n as u128 + 2, &has));
    }
    assert!(found[..3].iter().all(|found| *found == Found::Open), "{found:?}");
    assert!(found[4..].iter().all(|found| *found == missing(9)), "{found:?}");
}

#[test]
fn what_comes_and_goes_unseen_is_no_dispute() {
    let mut one = Watched::new();
    assert_eq!(one.lists(0, &[1], 1, &[1]), Found::Agrees);
    for n in 0..20_usize {
        let found = one.lists(10 + 20 * n as u64, &[1], n as u128 + 2, &[1, 100 + n]);
        assert_eq!(found, Found::Open, "each time another unit that is done by now");
    }
}

#[test]
fn what_has_gone_is_not_missed() {
    let mut one = Watched::new();
    assert_eq!(one.lists(0, &[1, 2], 1, &[1, 2]), Found::Agrees);
    assert_eq!(one.lists(10, &[1], 1, &[1, 2]), Found::Open);
    assert_eq!(one.lists(20, &[1], 2, &[1]), Found::Agrees);
    // It goes on with a unit that it has no more.
    let stays = Found::Disputed(Digest::default().with(share(1)));
    assert_eq!(one.lists(30, &[], 2, &[1]), Found::Open);
    assert_eq!(one.lists(60, &[], 3, &[1]), stays);
}

#[test]
fn whoever_has_much_on_the_move_is_left_alone_until_it_has_not() {
    let mut one = Watched::new();
    assert_eq!(one.lists(0, &[], 1, &[]), Found::Agrees);
    let many: Vec<usize> = (0..=CHOICES).collect();
    assert_eq!(one.lists(1, &many, 1, &[]), Found::Open);
    assert_eq!(one.lists(2, &many, 2, &[]), Found::Open);
    assert_eq!(one.lists(22, &many, 3, &[]), Found::Open, "the first time that it counts");
    assert!(matches!(one.lists(40, &many, 4, &[]), Found::Disputed(_)));
    assert_eq!(one.lists(50, &many, 5, &many), Found::Agrees);
}
