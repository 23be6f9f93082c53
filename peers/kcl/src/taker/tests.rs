//! Plan: silence is counted from the end of the read that first showed a row so, for each spelling of a change; the even
//! share, with and without free rows, with a limit; beyond it what has been left over for long; stealing from the most loaded only, as many as allowed, and never for
//! ever; shards only between their parents' end and their own; rows of an earlier start of the same name; rows whose takes are refused; a simulated fleet comes to rest evenly.
use super::super::change::RowChange;
use super::super::format::Format;
use super::super::row::Fields;
use super::*;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;

/// No row was refused.
static NONE: BTreeMap<String, Tick> = BTreeMap::new();
const FAILOVER: Duration = Duration::from_secs(10);

fn row(key: &str, owner: Option<&str>) -> Row {
    let row = Row::new(Format::kcl(), key, Fields::new()).unwrap();
    owner.map_or(row.clone(), |owner| RowChange::take(Format::kcl(), &row, owner).after)
}

fn rows(owners: &[Option<&str>]) -> Vec<Row> {
    owners.iter().enumerate().map(|(n, owner)| row(&format!("k{n:03}"), *owner)).collect()
}

fn secs(seconds: u64) -> Tick {
    Tick(0).after(Duration::from_secs(seconds))
}

/// What `me` takes at `now` of rows that it first saw at 0.
fn choice(rows: &[Row], now: Tick, most: usize, steal: usize) -> Vec<(Row, TakeReason)> {
    let mut watch = RowWatch::default();
    watch.look(secs(0), rows);
    let held = rows.iter().filter(|row| row.owner() == Some("me")).map(|row| row.key().to_owned()).collect();
    let view = TakerView {
        me: "me",
        held: &held,
        rows,
        watch: &watch,
        now,
        failover: FAILOVER,
        most,
        steal,
        shards: true,
        unreadable: &[],
        refused: &NONE,
    };
    view.choose(7)
}

#[test]
fn silence_is_counted_from_the_read_that_first_showed_it() {
    let (mut watch, first) = (RowWatch::default(), row("a", Some("w")));
    let (none, at) = (BTreeSet::new(), |watch: &RowWatch, row| watch.silent_at(row, FAILOVER));
    watch.look(secs(5), std::slice::from_ref(&first));
    assert_eq!(at(&watch, &first), Some(secs(15)));
    watch.look(secs(9), std::slice::from_ref(&first));
    assert_eq!(at(&watch, &first), Some(secs(15)), "the same still");
    assert_eq!(watch.next_silence(secs(9), FAILOVER, &none), Some(secs(15)));
    assert_eq!(watch.next_silence(secs(15), FAILOVER, &none), None);
    assert_eq!(watch.next_silence(secs(9), FAILOVER, &["a".to_owned()].into()), None);
    let renewed = RowChange::renew(Format::kcl(), &first, &Default::default()).after;
    watch.look(secs(14), std::slice::from_ref(&renewed));
    assert_eq!(at(&watch, &renewed), Some(secs(24)));
    assert_eq!(at(&watch, &first), None, "what is no more, is not silent");
    // The same counter with another owner is another thing too.
    let mut moved = renewed.clone();
    moved.owner = Some(tenure_dynamodb::service::text("v"));
    watch.look(secs(20), &[moved.clone()]);
    assert_eq!(at(&watch, &moved), Some(secs(30)));
    // A row that was away for a look has been seen anew.
    watch.look(secs(22), &[]);
    watch.look(secs(23), &[moved.clone()]);
    assert_eq!(at(&watch, &moved), Some(secs(33)));
}

#[test]
fn what_is_free_or_silent_is_taken_up_to_the_even_share() {
    let free = rows(&[None; 5]);
    assert_eq!(choice(&free, secs(0), usize::MAX, 1).len(), 5);
    assert_eq!(choice(&free, secs(0), 2, 1).len(), 2);
    let others = rows(&[Some("v"), Some("v"), Some("me"), None, None, Some("w")]);
    let taken = choice(&others, secs(9), usize::MAX, 1);
    assert_eq!(taken.len(), 1, "two each");
    assert!(taken.iter().all(|(row, why)| *why == TakeReason::Free && row.owner().is_none()));
    let silent = choice(&others, secs(10), usize::MAX, 1);
    assert_eq!(silent.len(), 5, "all others were silent for a failover time");
    assert!(choice(&[], secs(0), 9, 1).is_empty());
}

#[test]
fn what_is_left_over_for_three_failover_times_is_taken_beyond_the_share_up_to_the_maximum() {
    // `v` has its most, and lives.
    let mut all = rows(&[Some("v"), Some("me"), Some("me"), Some("me"), None, None]);
    let mut watch = RowWatch::default();
    watch.look(secs(0), &all);
    all[0] = RowChange::renew(Format::kcl(), &all[0], &Default::default()).after;
    watch.look(secs(25), &all);
    let taken = |rows: &[Row], watch: &RowWatch, now, most| {
        let held =
            rows.iter().filter(|row| row.owner() == Some("me")).map(|row| row.key().to_owned()).collect();
        let view = TakerView {
            me: "me",
            held: &held,
            rows,
            watch,
            now: secs(now),
            failover: FAILOVER,
            most,
            steal: 9,
            shards: true,
            unreadable: &[],
            refused: &NONE,
        };
        let mut keys: Vec<String> = view.choose(7).into_iter().map(|(row, _)| row.key().to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(taken(&all, &watch, 29, 9), [""; 0], "it has its share, and others may want theirs");
    assert_eq!(taken(&all, &watch, 30, 9), ["k004", "k005"]);
    assert_eq!(taken(&all, &watch, 30, 4).len(), 1);
    assert_eq!(taken(&all, &watch, 30, 3), [""; 0], "no room");
    // It goes before what may still be another's share, and counts in this worker's.
    let all = rows(&[Some("v"), None, None, None, None, None]);
    let mut watch = RowWatch::default();
    watch.look(secs(0), &all[1..2]);
    watch.look(secs(25), &all);
    let now = taken(&all, &watch, 30, 9);
    assert!(now.len() == 3 && now[0] == "k001", "{now:?}");
    // What is silent for so long is left over, too.
    let all = rows(&[Some("v"), Some("w"), Some("w"), Some("me")]);
    let mut watch = RowWatch::default();
    watch.look(secs(0), &all[1..]);
    watch.look(secs(25), &all);
    assert_eq!(taken(&all, &watch, 30, 9), ["k001", "k002"]);
    assert_eq!(taken(&all, &watch, 29, 9).len(), 1);
}

/// `row` as a shard, with this checkpoint and these parents.
fn shard(key: &str, owner: Option<&str>, checkpoint: &str, parents: &[&str]) -> Row {
    let mut row = row(key, owner);
    row.fields.insert("checkpoint".to_owned(), tenure_dynamodb::service::text(checkpoint));
    let parents = AttributeValue::Ss(parents.iter().map(ToString::to_string).collect());
    row.fields.insert("parentShardId".to_owned(), parents);
    row
}

#[test]
fn a_shard_is_taken_neither_after_its_end_nor_before_that_of_its_parents() {
    let keys = |rows: &[Row], at| {
        let mut keys: Vec<String> =
            choice(rows, secs(at), 9, 9).into_iter().map(|(row, _)| row.key().to_owned()).collect();
        keys.sort();
        keys
    };
    let mut rows = [
        shard("done", None, "SHARD_END", &[]),
        shard("parent", Some("v"), "49", &[]),
        shard("child", None, "TRIM_HORIZON", &["parent"]),
        shard("heir", None, "TRIM_HORIZON", &["done"]),
    ];
    assert_eq!(keys(&rows, 0), ["heir"]);
    assert_eq!(keys(&rows, 10), ["heir", "parent"], "whoever had the parent is silent");
    rows[1] = shard("parent", Some("v"), "SHARD_END", &[]);
    assert_eq!(keys(&rows, 0), ["child", "heir"], "two of three: what is over and nobody's is in no share");
    // Nobody's end is stolen, nor a child that waits with its worker.
    let theirs = [
        shard("done", Some("v"), "SHARD_END", &[]),
        shard("parent", Some("w"), "49", &[]),
        shard("child", Some("v"), "TRIM_HORIZON", &["parent"]),
        shard("other", Some("v"), "TRIM_HORIZON", &["parent"]),
        shard("work", Some("v"), "50", &[]),
    ];
    assert_eq!(keys(&theirs, 0), ["work"]);
    // Who has most has nothing to give.
    let theirs = [
        shard("parent", Some("w"), "49", &[]),
        shard("a", Some("v"), "TRIM_HORIZON", &["parent"]),
        shard("b", Some("v"), "TRIM_HORIZON", &["parent"]),
        shard("c", Some("v"), "TRIM_HORIZON", &["parent"]),
        shard("work", Some("w"), "50", &[]),
    ];
    assert_eq!(keys(&theirs, 0).len(), 1);
    assert!(["parent".to_owned(), "work".to_owned()].contains(&keys(&theirs, 0)[0]));
}

#[test]
fn what_was_evicted_is_believed_in_later_than_what_nobody_can_believe_in() {
    let evicted = [RowChange::evict(Format::kcl(), &row("a", Some("v"))).after];
    let given_back = [RowChange::give_back(Format::kcl(), &row("a", Some("v"))).after];
    let why = |rows: &[Row], at| choice(rows, secs(at), 9, 1).pop().map(|(_, why)| why);
    assert_eq!((why(&evicted, 9), why(&evicted, 10)), (Some(TakeReason::Evicted), Some(TakeReason::Free)));
    assert_eq!(
        (why(&given_back, 0), why(&[row("a", None)], 0)),
        (Some(TakeReason::Free), Some(TakeReason::Free))
    );
    let believed = [TakeReason::Free, TakeReason::Expired, TakeReason::Evicted, TakeReason::Stolen]
        .map(TakeReason::may_be_believed);
    assert_eq!(believed, [false, false, true, true]);
}

#[test]
fn s1_what_was_made_anew_is_believed_in_once_whoever_had_it_before_must_have_noticed() {
    let (held, made) = (row("a", Some("v")), row("a", None));
    let why = |watch: &RowWatch, now| {
        let rows = std::slice::from_ref(&made);
        let held = BTreeSet::new();
        let view = TakerView {
            me: "me",
            held: &held,
            rows,
            watch,
            now,
            failover: FAILOVER,
            most: 9,
            steal: 1,
            shards: true,
            unreadable: &[],
            refused: &NONE,
        };
        view.choose(7).pop().map(|(_, why)| why)
    };
    for is_seen_missing in [false, true] {
        let mut watch = RowWatch::default();
        watch.look(secs(0), std::slice::from_ref(&held));
        if is_seen_missing {
            watch.look(secs(1), &[]);
            watch.look(secs(2), &[]);
        }
        watch.look(secs(3), std::slice::from_ref(&made));
        let known = secs(if is_seen_missing { 1 } else { 3 });
        for (now, is_free) in [(secs(3), false), (known.after(FAILOVER), true)] {
            assert_eq!(why(&watch, now), Some(if is_free { TakeReason::Free } else { TakeReason::Evicted }));
            watch.forget(now, FAILOVER);
            assert_eq!(why(&watch, now), Some(if is_free { TakeReason::Free } else { TakeReason::Evicted }));
        }
        assert!(watch.remade.is_empty());
    }
    let mut one = RowWatch::default();
    one.see(secs(0), &held);
    one.see(secs(1), &made);
    assert!(!one.is_surely_free(secs(2), &made, FAILOVER) && one.is_surely_free(secs(11), &made, FAILOVER));
    let mut new = RowWatch::default();
    new.look(secs(0), std::slice::from_ref(&made));
    new.look(secs(1), &[]);
    new.look(secs(2), std::slice::from_ref(&made));
    assert_eq!(why(&new, secs(2)), Some(TakeReason::Free), "nobody has had it");
}

#[test]
fn only_from_the_most_loaded_is_stolen_and_only_when_nothing_is_free() {
    let owners = |text: &'static str| text.split(' ').map(Some).collect::<Vec<_>>();
    let stolen = |text, steal| {
        let rows = rows(&owners(text));
        let taken = choice(&rows, secs(1), usize::MAX, steal);
        assert!(taken.iter().all(|(_, why)| *why == TakeReason::Stolen));
        taken.iter().filter_map(|(row, _)| row.owner().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(stolen("v v v v w w", 1), ["v"]);
    assert_eq!(stolen("v v v v w w", 9), ["v", "v"], "no more than what is over the share");
    assert_eq!(stolen("v v v v v v", 9), ["v", "v", "v"]);
    assert_eq!(stolen("v v w w", 9).len(), 1, "each has two, and there are none here");
    assert_eq!(stolen("me v v", 9), [""; 0], "one is wanting here, and nobody has too many");
    assert_eq!(stolen("me me v v v", 9), [""; 0]);
    assert_eq!(stolen("v", 9), [""; 0], "more workers than leases");
    let some_free = rows(&[Some("v"), Some("v"), Some("v"), Some("v"), None]);
    let taken = choice(&some_free, secs(1), usize::MAX, 9);
    assert_eq!(taken.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [TakeReason::Free]);
    let full = rows(&owners("v v v v"));
    assert!(choice(&full, secs(1), 0, 9).is_empty(), "no room");
}

#[test]
fn one_that_is_handed_over_is_not_stolen() {
    let mut all = rows(&[Some("v"), Some("v"), Some("v"), Some("v")]);
    for row in &mut all {
        row.checkpoint_owner = Some(tenure_dynamodb::service::text("u"));
    }
    assert!(choice(&all, secs(1), usize::MAX, 9).is_empty());
    assert_eq!(choice(&all, secs(10), usize::MAX, 9).len(), 4, "but what is silent is silent");
}

#[test]
fn what_an_earlier_start_of_the_same_name_left_is_taken_when_it_is_silent() {
    let left = [row("a", Some("me"))];
    let mut watch = RowWatch::default();
    watch.look(secs(0), &left);
    let held = BTreeSet::new();
    let view = |now| TakerView {
        me: "me",
        held: &held,
        rows: &left,
        watch: &watch,
        now,
        failover: FAILOVER,
        most: 9,
        steal: 9,
        shards: true,
        unreadable: &[],
        refused: &NONE,
    };
    assert!(view(secs(9)).choose(1).is_empty());
    assert_eq!(view(secs(10)).choose(1), [(left[0].clone(), TakeReason::Expired)]);
}

#[test]
fn what_still_bears_the_worker_s_own_name_is_waited_for_and_not_made_up_for_by_stealing() {
    let all = rows(&[Some("me"), Some("me"), Some("v"), Some("v"), Some("v")]);
    let mut watch = RowWatch::default();
    watch.look(secs(0), &all);
    let held = BTreeSet::new();
    let view = |now| TakerView {
        me: "me",
        held: &held,
        rows: &all,
        watch: &watch,
        now,
        failover: FAILOVER,
        most: 9,
        steal: 9,
        shards: true,
        unreadable: &[],
        refused: &NONE,
    };
    assert!(view(secs(1)).choose(1).is_empty(), "it has two still, and one more is no share");
    let own = view(secs(10)).choose(1);
    assert!(own.iter().filter(|(row, _)| row.owner() == Some("me")).count() > 0, "{own:?}");
}

#[test]
fn a_fleet_comes_to_rest_evenly_and_lots_decide_which() {
    for (leases, workers, lots) in [(10, 3, 1), (10, 4, 2), (7, 7, 3), (5, 8, 4), (100, 6, 5)] {
        let names: Vec<String> = (0..workers).map(|n| format!("w{n}")).collect();
        let mut all = rows(&vec![Some("w0"); leases]);
        let mut calm = 0;
        for round in 0..leases * workers + 2 {
            let me = &names[round % workers];
            let held: BTreeSet<String> =
                all.iter().filter(|row| row.owner() == Some(me)).map(|row| row.key().to_owned()).collect();
            let mut watch = RowWatch::default();
            watch.look(secs(0), &all);
            let view = TakerView {
                me,
                held: &held,
                rows: &all,
                watch: &watch,
                now: secs(1),
                failover: FAILOVER,
                most: leases,
                steal: 1,
                shards: true,
                unreadable: &[],
                refused: &NONE,
            };
            let taken = view.choose(lots + round as u64);
            calm = if taken.is_empty() { calm + 1 } else { 0 };
            for (stolen, _) in taken {
                let slot = all.iter_mut().find(|row| row.key() == stolen.key()).unwrap();
                *slot = RowChange::take(Format::kcl(), slot, me).after;
            }
        }
        assert!(calm >= workers, "{leases} leases, {workers} workers: something moves still");
        let mut counts = names.iter().map(|name| all.iter().filter(|row| row.owner() == Some(name)).count());
        assert!(counts.all(|count| count <= leases.div_ceil(workers)), "{leases} over {workers}");
    }
    let free = rows(&[None; 20]);
    let picks = |lots| {
        let (held, watch) = (BTreeSet::new(), RowWatch::default());
        let view = TakerView {
            me: "me",
            held: &held,
            rows: &free,
            watch: &watch,
            now: secs(0),
            failover: FAILOVER,
            most: 3,
            steal: 1,
            shards: true,
            unreadable: &[],
            refused: &NONE,
        };
        view.choose(lots).into_iter().map(|(row, _)| row.key().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(picks(1), picks(1));
    assert_ne!(picks(1), picks(2));
}

#[test]
fn a_row_whose_take_is_refused_holds_up_nothing_else() {
    let mut all = rows(&[Some("dead"), Some("busy"), Some("busy"), Some("busy")]);
    let mut watch = RowWatch::default();
    watch.look(secs(0), &all);
    for row in all.iter_mut().skip(1) {
        *row = RowChange::renew(Format::kcl(), row, &Default::default()).after;
    }
    watch.look(secs(9), &all);
    let held = BTreeSet::new();
    let takes = |refused: &BTreeMap<String, Tick>| {
        let view = TakerView {
            me: "me",
            held: &held,
            rows: &all,
            watch: &watch,
            now: secs(11),
            failover: FAILOVER,
            most: 9,
            steal: 1,
            shards: true,
            unreadable: &[],
            refused,
        };
        view.choose(7).into_iter().map(|(row, why)| (row.key().to_owned(), why)).collect::<Vec<_>>()
    };
    assert_eq!(takes(&NONE), [("k000".to_owned(), TakeReason::Expired)]);
    let without = |keys: &[&str]| takes(&keys.iter().map(|key| ((*key).to_owned(), secs(99))).collect());
    let taken = without(&["k000"]);
    assert!(matches!(taken.as_slice(), [(key, TakeReason::Stolen)] if key != "k000"), "{taken:?}");
    // What can't be stolen is left alone, too.
    for left in ["k001", "k002", "k003"] {
        let refused: Vec<&str> =
            ["k000", "k001", "k002", "k003"].into_iter().filter(|key| *key != left).collect();
        assert_eq!(without(&refused), [(left.to_owned(), TakeReason::Stolen)]);
    }
    assert_eq!(without(&["k000", "k001", "k002", "k003"]), []);
}
