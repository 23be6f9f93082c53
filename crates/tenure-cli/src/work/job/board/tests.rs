use super::*;
use tenure::store::{Record, Tenure};
use tenure::{HolderId, Metadata, StoreError, Ttl, Wall};

fn listed(name: &str, metadata: Metadata, session: Option<&str>) -> Listed {
    let tenure = session.map(|session| Tenure {
        attachment: Some(Attachment { session: Key::new(session).unwrap(), fence: Fence(1) }),
        ..Tenure::new(Default::default(), HolderId::new("h").unwrap(), Ttl::MIN, Wall(0))
    });
    let record = Record { fence: Fence(1), nonce: Default::default(), stamp: Wall(1000), tenure, metadata };
    let stored = Stored::new(record);
    Listed { key: Key::new(format!("work/j/{name}")).unwrap(), stored: Ok(stored) }
}

fn with(mut metadata: Metadata, name: &str, value: impl Into<tenure::Value>) -> Metadata {
    metadata.insert(name.into(), value.into());
    metadata
}

fn terms(now: u64) -> ClaimTerms<'static> {
    ClaimTerms { now, worker: "me" }
}

fn names<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> Vec<&'a str> {
    candidates.into_iter().map(|candidate| candidate.key.as_str().trim_start_matches("work/j/")).collect()
}

/// The board of the units that a full listing shows, and of those that are added to them.
fn board(listing: &[Listed], added: &[Key]) -> Board {
    let mut board = Board::default();
    board.refresh(listing);
    added.iter().for_each(|key| board.note_new(key.clone(), Local::Open));
    board.merge();
    board
}

#[test]
fn free_units_are_candidates_and_each_session_gets_one_probe() {
    let page = || {
        vec![
            listed("a", Unit::fresh(), None),
            listed("b", Unit::fresh(), Some("session/1")),
            listed("c", Unit::fresh(), Some("session/1")),
            listed("d", Unit::fresh(), Some("session/2")),
            listed("e", with(Unit::fresh(), "status", "done"), None),
            listed("f", Metadata::new(), None),
            Listed { key: Key::new("work/j/g").unwrap(), stored: Err(StoreError::foreign("x")) },
        ]
    };
    let mut board = board(&page(), &[]);
    assert_eq!(board.counts(), UnitCounts { open: 4, done: 1, damaged: 2, ..UnitCounts::default() });
    board.begin_round(7);
    assert_eq!(board.next_page(), Some((None, 16)));
    assert!(board.is_round_over());
    board.take_in(page(), &terms(5000), 3);
    assert_eq!(names(&board.candidates), ["a"]);
    let probed: Vec<Candidate> = std::iter::from_fn(|| board.next_probe()).collect();
    assert_eq!(names(&probed), ["b", "d"]);
    board.candidates.clear();
    board.bury(Attachment { session: Key::new("session/1").unwrap(), fence: Fence(1) });
    board.take_in(page(), &terms(5000), 0);
    assert_eq!(names(&board.candidates), ["a", "b", "c"], "what a dead session held is free");
}

#[test]
fn units_that_a_newer_version_may_read_are_told_apart_from_damaged_ones() {
    let key = |name: &str| Key::new(format!("work/j/{name}")).unwrap();
    let unreadable = |name: &str, error| Listed { key: key(name), stored: Err(error) };
    let paused = with(Unit::fresh(), "status", "paused");
    let mut board = board(
        &[
            listed("a", paused.clone(), None),
            listed("b", Metadata::new(), None),
            unreadable("c", StoreError::foreign("x")),
            unreadable("d", StoreError::newer("x")),
            listed("e", Unit::fresh(), None),
        ],
        &[],
    );
    let unread = board.unread().map(|(key, is_newer)| (key.clone(), is_newer)).collect::<Vec<_>>();
    assert_eq!(unread, [("a", true), ("b", false), ("c", false), ("d", true)].map(|(n, is)| (key(n), is)));
    // A claim tells the same; and neither kind is held against whoever was not given it.
    assert_eq!(terms(0).claimed(&key("e"), &paused), Local::Newer);
    assert_eq!(board.bad(), 4);
    board.forgive(|given| *given == key("a"));
    assert_eq!((board.counts().damaged, board.bad()), (4, 1));
}

#[test]
fn a_unit_waits_for_its_time_and_longer_where_it_failed() {
    let failed = |worker: &str| with(with(Unit::fresh(), "not_before", 3000), "worker", worker);
    for (worker, now, taken) in [
        ("me", 2999, false),
        ("me", 3500, false),
        ("me", 4000, true),
        ("other", 2999, false),
        ("other", 3000, true),
    ] {
        let mut board = board(&[listed("a", failed(worker), None)], &[]);
        board.take_in(vec![listed("a", failed(worker), None)], &terms(now), 0);
        assert_eq!(board.candidates.len(), usize::from(taken), "{worker} {now}");
        assert_eq!((board.next_due().is_some(), board.resting().count), (!taken, usize::from(!taken)));
    }
    // A clock that is a year off does not keep a unit for a year.
    let odd = with(Unit::fresh(), "not_before", 3000);
    let mut board = board(&[listed("a", odd.clone(), None)], &[]);
    let mut page = vec![listed("a", odd, None)];
    if let Ok(stored) = &mut page[0].stored {
        stored.record.stamp = Wall(2000)
    }
    board.take_in(page, &terms(0), 0);
    assert_eq!(board.candidates.len(), 1);
}

#[test]
fn what_is_ours_is_not_offered_again_and_news_wait_for_the_merge() {
    let b = Key::new("work/j/b").unwrap();
    let mut board = board(&[], std::slice::from_ref(&b));
    board.set(&b, Local::Ours);
    board.take_in(vec![listed("a", Unit::fresh(), None), listed("b", Unit::fresh(), None)], &terms(0), 0);
    assert!(board.candidates.is_empty());
    assert_eq!(board.counts().total(), 1);
    assert!(board.merge());
    assert_eq!((board.counts().total(), board.counts().ours), (2, 1));
}

#[test]
fn what_a_whole_listing_does_not_show_is_gone_and_a_page_that_lacks_it_is_told() {
    let fresh = |name: &str| listed(name, Unit::fresh(), None);
    let key = |name: &str| Key::new(format!("work/j/{name}")).unwrap();
    let all: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let mut board = board(&all.iter().map(|name| fresh(name)).collect::<Vec<_>>(), &[]);
    let page = |names: &[String]| names.iter().map(|name| fresh(name)).collect::<Vec<_>>();
    board.begin_round(7);
    let mut is_whole = |names: &[String]| {
        board.todo = [1].into();
        assert_eq!(board.next_page(), Some((Some(key("15")), 16)));
        board.take_in(page(names), &terms(0), 0)
    };
    assert!(is_whole(&all[16..32]));
    assert!(!is_whole(&[&all[16..20], &all[21..33]].concat()), "20 is missing");
    assert!(!is_whole(&all[16..31]), "no more than these follow");
    // One that came while the page was on its way is not missed.
    board.todo = [0].into();
    board.next_page();
    board.add([(key("00a"), fresh("00a").stored.unwrap())].into_iter());
    assert!(board.take_in(page(&all[..16]), &terms(0), 0));

    board.begin_listing();
    board.set(&key("05"), Local::Ours);
    board.add([(key("x"), fresh("x").stored.unwrap())].into_iter());
    board.refresh(&page(&all[10..40]));
    board.end_listing();
    let gone = |board: &Board| board.keys(Local::Gone).cloned().collect::<Vec<_>>();
    let expected = ["00", "00a", "01", "02", "03", "04", "06", "07", "08", "09"].map(key);
    assert_eq!(gone(&board), expected, "what was open from its beginning to its end");
    assert_eq!((board.counts().open, board.counts().ours, board.bad()), (31, 1, 10));
    board.refresh(&page(&all[..10]));
    assert_eq!(gone(&board), [key("00a")], "what is made again is there again");
}

#[test]
fn processes_go_through_the_pages_in_different_orders() {
    let all: Vec<Listed> = (0..2000).map(|n| listed(&format!("{n:04}"), Unit::fresh(), None)).collect();
    let mut board = board(&all, &[]);
    let mut order = |seed| {
        board.begin_round(seed);
        std::iter::from_fn(|| board.next_page()).map(|(after, _)| after).collect::<Vec<_>>()
    };
    let (one, other) = (order(1), order(2));
    assert_eq!(one.len(), 65);
    assert_ne!(one, other);
}
