//! Plan: whoever waits for the end of a lease that nobody minds any more is told at its deadline, and not before; a renewal puts that off. A row
//! is this tenure's if one of its renewals may have made it and nobody can have taken it again, and no other is; the later of two renewals counts,
//! however they are answered. A renewal that is refused too late tells of no other owner. What anybody was told to be over is not brought back, and
//! can be given back.
use super::*;
use crate::format::Format;
use crate::row::{Fields, OWNER_SWITCHES};
use tenure_dynamodb::service::{number, text};
use tenure_testkit::ManualClock;
use tokio::time::timeout;

fn owned(counter: u64, owner: &str) -> Row {
    let mut row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
    (row.counter, row.owner) = (counter, Some(text(owner)));
    row
}

#[test]
fn s1_no_row_is_taken_up_but_one_that_a_renewal_of_the_same_tenure_may_have_made() {
    let base = owned(7, "me");
    let goes_on = |standing: Option<&Row>, now: u64| {
        let cell = TenureCell::new(&base, Tick(5));
        assert_eq!(cell.begin().1, 8);
        let goes_on = cell.goes_on(&base, standing, "me", Tick(now));
        assert_eq!(cell.until(), Tick(5), "when it was sent, nobody knows");
        goes_on
    };
    let made = owned(8, "me");
    assert!(goes_on(Some(&made), 4));
    assert!(!goes_on(Some(&made), 5), "a later take may have that counter, too");
    assert!(!goes_on(Some(&owned(9, "me")), 4), "no renewal has that counter");
    assert!(!goes_on(Some(&owned(8, "other")), 4) && !goes_on(None, 4));
    let mut back = made.clone();
    back.given_back = Some(6);
    assert!(goes_on(Some(&back), 4), "that was an earlier tenure");
    back.given_back = Some(7);
    assert!(!goes_on(Some(&back), 4), "it was given back meanwhile");
    let mut switched = made.clone();
    switched.fields.insert(OWNER_SWITCHES.to_owned(), number(1));
    assert!(!goes_on(Some(&switched), 4), "it was another's meanwhile");
    let mut handing = owned(8, "next");
    handing.checkpoint_owner = Some(text("me"));
    assert!(goes_on(Some(&handing), 4), "the KCL's leader waits for us");
    handing.counter = 7;
    assert!(goes_on(Some(&handing), 9), "it waits still, and no later take has that counter");
}

#[test]
fn s1_what_was_given_up_is_known_by_its_renewals_for_as_long_as_it_was_to_be_believed() {
    let cell = TenureCell::new(&owned(7, "me"), Tick(5));
    assert_eq!(cell.begin().1, 8);
    assert!(cell.renewed(&owned(8, "me"), Tick(9), Tick(4)));
    let (base, counter) = cell.begin();
    assert!(cell.gives_back());
    assert_eq!((counter, cell.until()), (9, Tick(0)));
    let made = owned(9, "me");
    assert!(!cell.goes_on(&base, Some(&made), "me", Tick(9)), "a later take may have that counter, too");
    assert!(cell.goes_on(&base, Some(&made), "me", Tick(8)));
}

#[test]
fn a_renewal_that_is_refused_when_its_time_has_run_out_tells_of_that_alone() {
    for (held, is_in_time) in [(4, true), (5, false)] {
        let cell = TenureCell::new(&owned(7, "me"), Tick(5));
        cell.refused(Some(&owned(8, "me")), Now { held: Tick(held), ..Now::default() });
        let loss = cell.news().loss.clone();
        assert_eq!(matches!(loss, Some(Loss::Taken(_))), is_in_time, "{loss:?}");
        assert_eq!(loss == Some(Loss::Expired), !is_in_time, "{loss:?}");
    }
}

#[test]
fn of_two_renewals_at_once_the_later_counts_however_they_are_answered() {
    let cell = TenureCell::new(&owned(7, "me"), Tick(5));
    let (base, first) = cell.begin();
    assert_eq!((first, cell.begin().1), (8, 9));
    // The second one is refused because of the first, whose answer has not come, and is made again.
    assert!(cell.goes_on(&base, Some(&owned(first, "me")), "me", Tick(4)));
    cell.unmade(9);
    let (row, again) = cell.begin();
    assert_eq!((row.counter(), again), (8, 9));
    assert!(cell.renewed(&owned(again, "me"), Tick(20), Tick(4)));
    assert!(cell.renewed(&owned(first, "me"), Tick(10), Tick(6)));
    assert_eq!((cell.news().row.counter(), cell.until()), (9, Tick(20)));
    assert!(cell.goes_on(&base, Some(&owned(first, "me")), "me", Tick(4)), "it is further than that by now");
}

#[test]
fn a_renewal_that_is_answered_while_the_lease_is_released_is_known_to_that_release() {
    let cell = TenureCell::new(&owned(7, "me"), Tick(5));
    let (base, counter) = cell.begin();
    assert!(cell.gives_back());
    assert!(!cell.renewed(&owned(counter, "me"), Tick(20), Tick(4)));
    assert_eq!((cell.news().row.counter(), cell.until()), (8, Tick(0)), "it is believed no more");
    assert!(cell.goes_on(&base, Some(&owned(counter, "me")), "me", Tick(30)), "its row would stay");
}

#[tokio::test]
async fn s5_what_was_told_to_be_over_is_not_brought_back_and_can_be_given_back() {
    type Asks = fn(&Held) -> bool;
    let asks: [(&str, Asks); 3] = [
        ("is_held", |lease| !lease.is_held()),
        ("remaining", |lease| lease.remaining().is_zero()),
        ("nobody", |_| true),
    ];
    for (who, ask) in asks {
        let clock = Arc::new(ManualClock::new());
        let until = Tick(0).after(Duration::from_secs(5));
        let lease = Held { cell: Arc::new(TenureCell::new(&owned(7, "me"), until)), clock: clock.clone() };
        let (base, counter) = lease.cell.begin();
        assert!(!ask(&lease) || who == "nobody", "it is held");
        clock.advance(Duration::from_secs(5));
        assert!(ask(&lease));
        if who == "is_held" {
            assert_eq!(lease.lost().await, Loss::Expired);
        }
        // The answer to what was sent before, by whoever looked at the clock before that, or later.
        let now = if who == "nobody" { until } else { Tick(until.0 - 1) };
        let later = until.after(Duration::from_secs(4));
        assert!(!lease.cell.renewed(&owned(counter, "me"), later, now), "{who}");
        assert!(!lease.is_held() && lease.loss() == Some(Loss::Expired), "{who}: {lease:?}");
        assert!(lease.cell.gives_back(), "{who}: its row stands");
        assert_eq!(lease.row().counter(), counter, "{who}: as that renewal has left it");
        assert!(lease.cell.goes_on(&base, Some(&owned(counter, "me")), "me", later));
    }
}

#[test]
fn what_was_refused_is_not_given_back_and_why_nothing_was_renewed_is_told() {
    let cell = TenureCell::new(&owned(7, "me"), Tick(5));
    cell.refused(None, Now { held: Tick(5), ..Now::default() });
    assert!(!cell.gives_back(), "nothing of it is there");
    let cell = TenureCell::new(&owned(7, "me"), Tick(5));
    assert!(!cell.is_over(Tick(4)) && cell.is_over(Tick(5)));
    let why = Loss::Unreachable(tenure_core::StoreError::unavailable("no answer"));
    for loss in [why.clone(), Loss::Deleted] {
        cell.lose(loss);
        assert_eq!(cell.news().loss, Some(why.clone()));
    }
}

#[tokio::test]
async fn s5_an_end_that_nobody_tells_is_noticed() {
    const LONG: Duration = Duration::from_secs(20);
    let clock = Arc::new(ManualClock::new());
    let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
    let at = |ms| Tick(0).after(Duration::from_millis(ms));
    let cell = Arc::new(TenureCell::new(&row, at(400)));
    let held = Held { cell: Arc::clone(&cell), clock: clock.clone() };
    assert!(timeout(Duration::from_millis(150), held.lost()).await.is_err(), "it is held");
    assert!(cell.renewed(&row, at(800), clock.held()));
    clock.advance(Duration::from_millis(400));
    assert!(timeout(Duration::from_millis(150), held.lost()).await.is_err(), "it was renewed");
    // The runtime's timers know nothing of that.
    clock.advance(Duration::from_secs(3600));
    assert!(!held.is_held());
    assert_eq!(timeout(LONG, held.lost()).await, Ok(Loss::Expired));
}
