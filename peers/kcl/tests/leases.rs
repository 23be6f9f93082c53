//! The suite of leases over the dialect `kcl`, in the KCL's layout and in a8m's, on DynamoDB Local.
//!
//! Plan: a claimant for each process, all on one clock that moves when told to; rows spoiled in each way that a condition could
//! overlook; requests and answers lost between a claimant and the service. A handoff of the KCL's that begins meanwhile ends no lease before it is
//! released, and the next owner has it then. A renewal that nobody waited for costs no lease, however it went, nor do two at once; a release finds what
//! they have made, and can be made again; nothing of that prolongs a lease by itself, or takes a later one, whoever has that. Of two takes at once one
//! is made; a take that finds what another may have set is believed from before it read the row.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

mod late_answers;

use crate::support::{item, lease_table, name_of, number, put, text};
use std::collections::{BTreeMap, VecDeque};
use std::iter::repeat_n;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::{Clock, Fence, StoreError, Wall};
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{Losing, client, endpoint};
use tenure_kcl::{Claimant, Edit, Format, Held, LeaseError, Options, Table};
use tenure_testkit::{LeaseRefusal, LeaseSubject, LostMessage, ManualClock, Tenant, lease_conformance, run};

const FAILOVER: Duration = Duration::from_secs(10);

struct Leases {
    name: String,
    format: Format,
    clock: Arc<ManualClock>,
}

impl Leases {
    async fn new(format: Format) -> Leases {
        let name = name_of(&lease_table("kcl-suite", format).await);
        Leases { name, format, clock: Arc::new(ManualClock::new()) }
    }
}

struct Process {
    claimant: Claimant,
    losing: Losing,
}

fn refusal(error: LeaseError) -> LeaseRefusal {
    match error {
        LeaseError::Store(error) => LeaseRefusal::Store(error),
        LeaseError::NotHeld(_) => LeaseRefusal::NotOwned,
        other => LeaseRefusal::Store(StoreError::unavailable(other.to_string())),
    }
}

impl LeaseSubject for Leases {
    type Tenant = Process;

    async fn tenant(&self) -> Process {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let losing = Losing::default();
        let client = Client::from_conf(client(&endpoint()).interceptor(losing.clone()).build());
        let config = DynamoConfig::new(&self.name);
        let table = Table::with_client(&client, config, self.format, self.clock.clone()).await.unwrap();
        let worker = format!("w{}", LAST.fetch_add(1, Ordering::SeqCst));
        let claimant = Claimant::new(table, Options::new(worker).failover(FAILOVER)).unwrap();
        Process { claimant, losing }
    }

    fn ttl(&self) -> Duration {
        FAILOVER
    }

    fn takeover(&self) -> Duration {
        FAILOVER * 11 / 10
    }

    fn has_fences(&self) -> bool {
        true
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn raw(&self, key: &str) -> Option<String> {
        item(&self.name, key).await.map(|item| format!("{item:?}"))
    }

    async fn damage(&self, key: &str, way: usize) -> bool {
        let mut row = item(&self.name, key).await.unwrap();
        let (name, value) = match way {
            0 => ("leaseCounter", Some(text("2"))),
            1 => ("leaseCounter", None),
            2 => ("leaseCounter", Some(number("-2"))),
            3 => ("leaseCounter", Some(number("2.5"))),
            4 => ("leaseOwner", Some(number("2"))),
            5 => ("leaseOwner", Some(AttributeValue::Bool(true))),
            6 if self.format == Format::kcl() => ("checkpointOwner", Some(number("2"))),
            _ => return false,
        };
        row.remove(name);
        row.extend(value.map(|value| (name.to_owned(), value)));
        let row: Vec<_> = row.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        put(&self.name, &row).await;
        true
    }
}

impl Tenant for Process {
    type Lease = Held;

    async fn try_acquire(&self, key: &str) -> Result<Held, LeaseRefusal> {
        self.claimant.try_take(key).await.map_err(refusal)?.ok_or(LeaseRefusal::Held)
    }

    async fn renew(&self, lease: &mut Held) -> Result<(), LeaseRefusal> {
        self.claimant.renew(lease, &Edit::new()).await.map_err(refusal)
    }

    async fn release(&self, lease: &mut Held) -> Result<(), LeaseRefusal> {
        self.claimant.release(lease).await.map_err(refusal)
    }

    fn is_held(&self, lease: &Held) -> bool {
        lease.is_held()
    }

    fn fence(&self, lease: &Held) -> Result<Fence, LeaseRefusal> {
        Ok(lease.fence())
    }

    fn lose_next(&self, lost: LostMessage) {
        self.losing.lose_next(lost);
    }
}

lease_conformance!(as_the_kcl_has_them, run, || Leases::new(Format::kcl()));
lease_conformance!(as_a8m_has_them, run, || Leases::new(Format::a8m()));

/// The KCL's leader begins to hand the lease over.
/// Somebody else writes to a row.
async fn change(table: &str, key: &str, change: impl FnOnce(&mut BTreeMap<String, AttributeValue>)) {
    let mut row = item(table, key).await.unwrap();
    change(&mut row);
    let row: Vec<_> = row.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    put(table, &row).await;
}

async fn hand_over(table: &str, key: &str, from: &str) {
    let owners = [("leaseOwner", "next"), ("checkpointOwner", from)];
    change(table, key, |row| row.extend(owners.map(|(name, who)| (name.to_owned(), text(who))))).await;
}

#[tokio::test]
async fn a_lease_that_is_handed_over_meanwhile_is_renewed_and_goes_to_the_next_one() {
    let table = lease_table("kcl-handed", Format::kcl()).await;
    let name = name_of(&table);
    let claimant = Claimant::new(table, Options::new("me").failover(FAILOVER)).unwrap();
    for is_renewed in [true, false] {
        let key = if is_renewed { "a" } else { "b" };
        let lease = claimant.try_take(key).await.unwrap().unwrap();
        hand_over(&name, key, "me").await;
        if is_renewed {
            claimant.renew(&lease, &Edit::new().set("n", number(1))).await.unwrap();
            assert!(lease.is_held() && lease.row().handing_over() == Some("me"), "{lease:?}");
        }
        claimant.release(&lease).await.unwrap();
        let row = item(&name, key).await.unwrap();
        assert_eq!((row.get("leaseOwner"), row.get("checkpointOwner")), (Some(&text("next")), None));
        assert_eq!(row.contains_key("n"), is_renewed);
    }
}

#[tokio::test]
async fn s1_an_earlier_lease_of_one_claimant_takes_nothing_from_a_later_one() {
    let table = lease_table("kcl-earlier", Format::kcl()).await;
    let name = name_of(&table);
    let claimant = Claimant::new(table, Options::new("me").failover(FAILOVER)).unwrap();
    for is_handed_over in [false, true] {
        let key = if is_handed_over { "a" } else { "b" };
        let earlier = claimant.try_take(key).await.unwrap().unwrap();
        // Another process of ours has taken it, and given it back.
        change(&name, key, |row| {
            row.remove("leaseOwner");
            row.extend(["leaseCounter", "tenureGivenBack"].map(|name| (name.to_owned(), number(100))));
        })
        .await;
        let later = claimant.try_take(key).await.unwrap().unwrap();
        if is_handed_over {
            hand_over(&name, key, "me").await;
        }
        claimant.release(&earlier).await.unwrap();
        claimant.renew(&later, &Edit::new()).await.unwrap();
        assert!(later.is_held(), "{later:?}");
    }
}

/// A claimant behind a stub, and the lease "a" that it has taken.
struct CutOff {
    claimant: Claimant,
    lease: Held,
    name: String,
    stub: Stub,
    /// What becomes of the next writes.
    script: Arc<Mutex<VecDeque<Fate>>>,
    clock: Arc<ManualClock>,
    /// How much time passes while a row is read.
    reading: Arc<Mutex<Duration>>,
    /// How much time passes while the next write is under way, and how much of it shows on the wall clock alone.
    writing: Arc<Mutex<Option<(Duration, Duration)>>>,
}

/// Each of them is the same worker, made anew.
async fn claimant(stub: &Stub, table: &str, clock: &Arc<ManualClock>) -> Claimant {
    let (client, config) = (Client::from_conf(client(&stub.endpoint).build()), DynamoConfig::new(table));
    let table = Table::with_client(&client, config, Format::kcl(), clock.clone()).await.unwrap();
    Claimant::new(table, Options::new("me").failover(FAILOVER)).unwrap()
}

/// The next writes have these fates, one each.
async fn cut_off(fates: impl IntoIterator<Item = Fate>) -> CutOff {
    let name = name_of(&lease_table("kcl-cut-off", Format::kcl()).await);
    let script: Arc<Mutex<VecDeque<Fate>>> = Arc::default();
    let next = Arc::clone(&script);
    let (clock, reading) = (Arc::new(ManualClock::new()), Arc::<Mutex<Duration>>::default());
    let writing: Arc<Mutex<Option<(Duration, Duration)>>> = Arc::default();
    let (passing, reads, writes) = (Arc::clone(&clock), Arc::clone(&reading), Arc::clone(&writing));
    let stub = Stub::start(move |action, _| {
        if action == "GetItem" {
            passing.advance(*reads.lock().unwrap());
        }
        let passes = if action == "UpdateItem" { writes.lock().unwrap().take() } else { None };
        if let Some((passed, hidden)) = passes {
            passing.advance(passed);
            let wall = passing.now().wall.0 + u64::try_from(hidden.as_millis()).unwrap();
            passing.set_wall(Wall(wall));
        }
        let fate = if action == "UpdateItem" { next.lock().unwrap().pop_front() } else { None };
        fate.unwrap_or(Fate::Through)
    })
    .await;
    let claimant = claimant(&stub, &name, &clock).await;
    let lease = claimant.try_take("a").await.unwrap().unwrap();
    stub.take();
    script.lock().unwrap().extend(fates);
    CutOff { claimant, lease, name, stub, script, clock, reading, writing }
}

impl CutOff {
    /// Waits until that many writes have come.
    async fn come(&self, writes: usize) {
        while self.stub.requests("UpdateItem").len() < writes {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Drops a future once that many writes have come.
    async fn dropped(&self, act: impl Future<Output = Result<(), LeaseError>>, writes: usize) {
        let done = tokio::select! {
            done = act => Some(done),
            () = self.come(writes) => None,
        };
        assert_eq!(done, None, "nobody answers");
    }

    async fn row(&self) -> BTreeMap<String, AttributeValue> {
        item(&self.name, "a").await.unwrap()
    }
}

/// What was asked for lands, and nobody hears of it.
const LANDS: [Fate; 2] = [Fate::AnswerLost, Fate::Silence];
/// It never lands.
const NEVER_LANDS: [Fate; 2] = [Fate::RequestLost, Fate::Silence];

#[tokio::test]
async fn l4_a_renewal_that_nobody_waited_for_costs_no_lease() {
    const SECOND: Duration = Duration::from_secs(1);
    for fates in [LANDS, NEVER_LANDS] {
        let ours = cut_off(fates).await;
        let left = ours.lease.remaining();
        ours.clock.advance(SECOND);
        ours.dropped(ours.claimant.renew(&ours.lease, &Edit::new()), 2).await;
        ours.clock.advance(SECOND);
        assert_eq!(ours.lease.remaining(), left - 2 * SECOND, "nobody knows of it");
        ours.claimant.renew(&ours.lease, &Edit::new()).await.unwrap();
        let found = (ours.lease.row().counter(), ours.lease.remaining());
        assert_eq!(found, (4, left), "each renewal has a counter of its own");
    }
}

#[tokio::test]
async fn l4_two_renewals_at_once_are_both_made() {
    let ours = cut_off([]).await;
    let edits = ["x", "y"].map(|name| Edit::new().set(name, number(1)));
    let (one, other) = tokio::join!(
        ours.claimant.renew(&ours.lease, &edits[0]),
        ours.claimant.renew(&ours.lease, &edits[1])
    );
    assert_eq!((one, other, ours.lease.loss()), (Ok(()), Ok(()), None));
    let row = ours.row().await;
    assert!(row.contains_key("x") && row.contains_key("y"), "{row:?}");
    ours.claimant.renew(&ours.lease, &Edit::new()).await.unwrap();
}

#[tokio::test]
async fn an_edit_counts_as_made_only_where_its_own_renewal_was() {
    let ours = cut_off(LANDS.into_iter().chain([Fate::RequestLost])).await;
    let edit = |name: &str| Edit::new().set(name, number(1));
    ours.dropped(ours.claimant.renew(&ours.lease, &edit("x")), 2).await;
    // The row that the second one finds was made by the first one.
    ours.claimant.renew(&ours.lease, &edit("y")).await.unwrap();
    let row = ours.row().await;
    assert!(row.contains_key("x") && row.contains_key("y"), "{row:?}");
}

#[tokio::test]
async fn what_is_released_after_a_renewal_that_nobody_waited_for_is_given_back() {
    for is_handed_over in [false, true] {
        let ours = cut_off(LANDS).await;
        ours.dropped(ours.claimant.renew(&ours.lease, &Edit::new()), 2).await;
        if is_handed_over {
            hand_over(&ours.name, "a", "me").await;
            ours.claimant.renew(&ours.lease, &Edit::new()).await.unwrap();
            assert_eq!(ours.lease.row().handing_over(), Some("me"));
        }
        ours.claimant.release(&ours.lease).await.unwrap();
        let row = ours.row().await;
        let owner = is_handed_over.then(|| text("next"));
        assert_eq!((row.get("leaseOwner"), row.get("checkpointOwner")), (owner.as_ref(), None));
    }
}

#[tokio::test]
async fn s1_a_renewal_that_never_landed_takes_nothing_from_a_later_lease() {
    for is_made_anew in [false, true] {
        let ours = cut_off(NEVER_LANDS).await;
        ours.dropped(ours.claimant.renew(&ours.lease, &Edit::new()), 2).await;
        let anew = claimant(&ours.stub, &ours.name, &ours.clock).await;
        let later_one = if is_made_anew { &anew } else { &ours.claimant };
        assert!(later_one.try_take("a").await.unwrap().is_none(), "it was seen just now");
        ours.clock.advance(FAILOVER);
        let later = later_one.try_take("a").await.unwrap().unwrap();
        assert_eq!(later.counter_at_take(), 3, "the renewal had that counter, too");
        ours.claimant.release(&ours.lease).await.unwrap();
        later_one.renew(&later, &Edit::new()).await.unwrap();
        assert!(later.is_held(), "{later:?}");
    }
}

#[tokio::test]
async fn l4_a_renewal_that_landed_before_a_handoff_began_is_known_though_its_answer_was_lost() {
    let lost = repeat_n(Fate::RequestLost, 1000);
    let ours = cut_off([Fate::AnswerLost].into_iter().chain(lost)).await;
    let handed_over = async {
        // The second request comes when the first one has landed. None does until the handoff has begun.
        ours.come(2).await;
        hand_over(&ours.name, "a", "me").await;
        ours.script.lock().unwrap().clear();
    };
    let edit = Edit::new();
    let (renewed, ()) = tokio::join!(ours.claimant.renew(&ours.lease, &edit), handed_over);
    assert_eq!((renewed, ours.lease.loss()), (Ok(()), None));
    let row = ours.lease.row();
    assert_eq!((row.handing_over(), row.counter()), (Some("me"), 4), "it goes by the one that landed");
    ours.claimant.release(&ours.lease).await.unwrap();
    let row = ours.row().await;
    assert_eq!((row.get("leaseOwner"), row.get("checkpointOwner")), (Some(&text("next")), None));
}

#[tokio::test]
async fn s2_of_two_takes_at_once_one_is_made_and_one_that_nobody_waited_for_stands_in_no_way() {
    let ours = cut_off(NEVER_LANDS.into_iter().chain([Fate::RequestLost])).await;
    put(&ours.name, &[("leaseKey", text("b")), ("leaseCounter", number(1))]).await;
    let take = || ours.claimant.try_take("b");
    ours.dropped(async { take().await.map(drop) }, 2).await;
    let (one, other) = tokio::join!(take(), take());
    let taken: Vec<Held> = [one, other].into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(taken.iter().map(Held::counter_at_take).collect::<Vec<_>>(), [2], "{taken:?}");
}

#[tokio::test]
async fn s1_a_take_that_finds_what_a_dropped_one_may_have_set_is_believed_from_before_it_read_the_row() {
    const SECOND: Duration = Duration::from_secs(1);
    let ours = cut_off([Fate::Silence].into_iter().chain(repeat_n(Fate::RequestLost, 1000))).await;
    let belief = ours.lease.remaining();
    put(&ours.name, &[("leaseKey", text("b")), ("leaseCounter", number(1))]).await;
    ours.dropped(async { ours.claimant.try_take("b").await.map(drop) }, 1).await;
    let dropped = ours.stub.last();
    *ours.reading.lock().unwrap() = SECOND;
    let lands = async {
        // When it lands after the row was read, nobody can tell.
        ours.come(2).await;
        let answer = dropped.repeat().await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        ours.script.lock().unwrap().clear();
    };
    let (taken, ()) = tokio::join!(ours.claimant.try_take("b"), lands);
    let lease = taken.unwrap().unwrap();
    assert_eq!((lease.counter_at_take(), lease.remaining()), (2, belief - SECOND), "{lease:?}");
    // What is answered was done by this very take.
    let answered = ours.claimant.try_take("c").await.unwrap().unwrap();
    assert_eq!(answered.remaining(), belief, "however long the row was read");
}

#[tokio::test]
async fn a_release_that_failed_or_that_nobody_waited_for_can_be_made_again() {
    let denied = cut_off([Fate::refusal(400, "AccessDeniedException", "on purpose")]).await;
    denied.claimant.release(&denied.lease).await.unwrap_err();
    let dropped = cut_off(NEVER_LANDS).await;
    dropped.dropped(dropped.claimant.release(&dropped.lease), 2).await;
    for ours in [denied, dropped] {
        assert!(!ours.lease.is_held());
        assert!(ours.row().await.contains_key("leaseOwner"), "it was not given back");
        ours.claimant.release(&ours.lease).await.unwrap();
        assert!(!ours.row().await.contains_key("leaseOwner"), "it is, once that is told");
    }
}
