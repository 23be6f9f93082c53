//! Plan: of a lease that has left the table, however it did, no note of its deadline stays, also of one whose deadline is a day ahead. Beats are so near that their connection
//! stays, and no nearer where nothing can be put off. A tick that has begun is told though the agent stops. A leadership is given up by its own key. A stop waits for what
//! is given back last until its client is answered, and not without end. A loss is told by its name, too. A lease is told of once it is there, and whoever is told may ask.
use super::*;
use tenure::range::KeyRange;
use tenure_store::{Fault, FaultyStore};
use tenure_testkit::listens_by;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn terms() -> LeaseTerms {
    LeaseTerms { longest: DAY, at_most: None, on_exit: OnExit::Lapse, is_election: false }
}

fn table_of(leases: &Leases) -> Arc<LeaseTable> {
    let history = Arc::new(TenureHistory::new(Arc::clone(leases.clock())));
    LeaseTable::new(leases, history, &Limits::default())
}

#[tokio::test]
async fn of_what_has_left_the_table_no_note_stays() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let section = leases.section("s").start().unwrap();
    let client = Arc::new(ClientIdentity::unknown());
    for how in ["ended", "lost", "outlasts"] {
        let guard = section.try_acquire("0_10".parse::<KeyRange>().unwrap(), DAY).await.unwrap();
        let (key, fence) = (tenure::Key::new("section/s").unwrap(), guard.fence());
        let reply = table.enter(Holding::Ranges(guard, key, fence), terms(), &client).unwrap();
        // A beat tells of a later deadline.
        table.beat(&reply.id, &client).unwrap();
        assert_eq!(table.state().due.len(), 1, "{how}");
        // A connection that rests for half a minute is closed.
        assert!(reply.beat_in_ms <= 20_000, "{reply:?}");
        match how {
            "ended" => assert!(table.end(&reply.id, End::GivenBack, &client).await.unwrap()),
            "lost" => {
                let id = id_of(&reply.id).unwrap();
                let entry = table.state().take(id, LAPSED).unwrap();
                assert!(entry.give_back(End::GivenBack).await.unwrap());
            }
            _ => {
                let entries: Vec<_> = table.state().outlasting();
                for entry in entries {
                    entry.leave().await;
                }
            }
        }
        let state = table.state();
        assert_eq!((state.entries.len(), state.due.len(), state.by_fence.len()), (0, 0, 0), "{how}");
    }
}

#[tokio::test]
async fn what_is_over_while_its_agent_stops_is_not_told_as_a_client_that_was_silent() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let mut heard = table.listen(1).unwrap();
    let client = Arc::new(ClientIdentity::unknown());
    let short = LeaseTerms { longest: Duration::from_millis(100), ..terms() };
    for (key, is_stopped, event) in [("silent", false, "lapsed"), ("stopped", true, "stopped")] {
        let guard = leases.acquire(key).await.unwrap();
        let reply = table.enter(Holding::Lease(guard), short, &client).unwrap();
        let over = async {
            if is_stopped {
                tokio::join!(table.stop(), async {
                    assert_eq!(table.beat(&reply.id, &client).unwrap_err().code(), "stopping");
                });
            }
            loop {
                let told = heard.recv().await.unwrap();
                if told.id == reply.id && told.event != "acquired" {
                    return told.event;
                }
            }
        };
        let told = tokio::select! { () = table.sweep() => unreachable!(), told = over => told };
        assert_eq!(told, event);
    }
}

#[tokio::test]
async fn a_loss_is_told_in_words_and_by_its_name() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let mut heard = table.listen(1).unwrap();
    let client = Arc::new(ClientIdentity::unknown());
    let short = LeaseTerms { at_most: Some(Duration::from_millis(50)), ..terms() };
    let guard = leases.acquire("k").await.unwrap();
    let reply = table.enter(Holding::Lease(guard), short, &client).unwrap();
    let over = async {
        let acquired = heard.recv().await.unwrap();
        assert_eq!((acquired.event, acquired.loss), ("acquired", None));
        heard.recv().await.unwrap()
    };
    let lost = tokio::select! { () = table.sweep() => unreachable!(), lost = over => lost };
    assert_eq!((lost.event, lost.id), ("lost", reply.id));
    let loss = tenure::Loss::Overran;
    assert_eq!((lost.loss.as_deref(), lost.reason), (Some(loss.name()), Some(loss.to_string())));
}

#[tokio::test]
async fn a_tick_that_has_begun_is_told_though_the_agent_stops_and_what_else_comes_is_not() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let client = Arc::new(ClientIdentity::unknown());
    let begun = leases.once_every("tick", Duration::from_secs(1)).begin().await.unwrap();
    let tenure::once::Ticked::Here(tick) = begun else { panic!("{begun:?}") };
    let late = leases.acquire("late").await.unwrap();
    table.state().is_stopping = true;
    let told = table.enter(Holding::Tick(tick, crate::holding::Again::No), terms(), &client).unwrap();
    assert_eq!(table.beat(&told.id, &client).unwrap_err().code(), "stopping");
    assert!(table.end(&told.id, End::Ran(String::new()), &client).await.unwrap());
    let refused = table.enter(Holding::Lease(late), terms(), &client).unwrap_err();
    assert_eq!(refused.code(), "stopping");
}

#[tokio::test]
async fn a_leadership_is_given_up_by_its_own_key() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let client = Arc::new(ClientIdentity::unknown());
    let mut ids = Vec::new();
    for (key, is_election) in [("led", true), ("locked", false)] {
        let guard = leases.acquire(key).await.unwrap();
        let terms = LeaseTerms { is_election, ..terms() };
        ids.push(table.enter(Holding::Lease(guard), terms, &client).unwrap().id);
    }
    assert!(table.check_leads(&ids[0], "led").is_ok());
    for (id, key) in [(&ids[0], "locked"), (&ids[1], "locked"), (&ids[1], "led")] {
        assert_eq!(table.check_leads(id, key).unwrap_err().code(), "bad_request", "{key}");
    }
}

#[tokio::test]
async fn what_can_not_be_put_off_is_not_asked_for_all_the_time() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let client = Arc::new(ClientIdentity::unknown());
    let guard = leases.acquire("k").await.unwrap();
    let reply = table.enter(Holding::Lease(guard), terms(), &client).unwrap();
    let id = id_of(&reply.id).unwrap();
    // As of a unit whose time to end is over, or of a lease in which belief is suspended.
    table.state().entries.get_mut(&id).unwrap().longest = Duration::ZERO;
    let told = table.beat(&reply.id, &client).unwrap();
    assert!(told.good_for_ms == 0 && told.beat_in_ms > 500, "{told:?}");
}

#[tokio::test]
async fn a_stop_waits_for_a_tick_whose_begin_is_being_written_and_not_for_one_that_waits() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = table_of(&leases);
    let (written, writes) = tokio::sync::oneshot::channel();
    let begins = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.begun(async { writes.await.map_err(|_| Problem::stopping()) }).await }
    });
    let waits = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.begun(std::future::pending::<Result<(), Problem>>()).await }
    });
    while table.state().beginning < 2 {
        tokio::task::yield_now().await;
    }
    let stop = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.stop().await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!stop.is_finished());
    written.send(7).unwrap();
    assert_eq!(begins.await.unwrap().unwrap(), 7);
    assert_eq!(waits.await.unwrap().unwrap_err().code(), "stopping");
    stop.await.unwrap();
}

/// A lease that is given back from now on, on a store that answers no more until it is told to.
async fn given_back(
    table: &Arc<LeaseTable>,
    leases: &Leases,
    slow: &FaultyStore<tenure::AnyStore>,
    client: &Arc<ClientIdentity>,
) -> tokio::task::JoinHandle<Result<bool, Problem>> {
    let guard = leases.acquire("k").await.unwrap();
    let id = table.enter(Holding::Lease(guard), terms(), client).unwrap().id;
    slow.always(Fault::Held);
    let (ends, client) = (Arc::clone(table), Arc::clone(client));
    let ends = tokio::spawn(async move { ends.end(&id, End::GivenBack, &client).await });
    while table.count() > 0 {
        tokio::task::yield_now().await;
    }
    ends
}

#[tokio::test]
async fn a_stop_waits_until_what_is_given_back_last_is_written_and_answered() {
    let slow = FaultyStore::new(tenure::memory());
    let leases = Leases::new(slow.clone()).unwrap();
    let (table, client) = (table_of(&leases), Arc::new(ClientIdentity::unknown()));
    let ends = given_back(&table, &leases, &slow, &client).await;
    let stops = Arc::clone(&table);
    let stop = tokio::spawn(async move { stops.stop().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!stop.is_finished(), "the store has not answered");
    slow.always(Fault::None);
    while !ends.is_finished() {
        slow.go_on();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(ends.await.unwrap().unwrap(), "it was not lost");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!stop.is_finished(), "its client has not been answered");
    // Its connection is over, and with it the answer.
    drop(client);
    stop.await.unwrap();
}

#[tokio::test]
async fn what_a_store_does_not_answer_while_the_agent_stops_is_told_as_unknown_and_not_as_lost() {
    let slow = FaultyStore::new(tenure::memory());
    let leases = Leases::new(slow.clone()).unwrap();
    let (table, client) = (table_of(&leases), Arc::new(ClientIdentity::unknown()));
    let ends = given_back(&table, &leases, &slow, &client).await;
    // The runtime has nothing else to do than to wait, so its time passes at once.
    tokio::time::pause();
    table.stop().await;
    let told = ends.await.unwrap().unwrap_err();
    assert_eq!(told.code(), "unavailable", "{told:?}");
    slow.always(Fault::None);
    slow.go_on();
}

#[tokio::test]
async fn a_lease_is_told_of_once_it_is_there_and_whoever_is_told_may_ask_for_it() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let (table, client) = (table_of(&leases), Arc::new(ClientIdentity::unknown()));
    let guard = leases.acquire("k").await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (asked, sees) = (Arc::clone(&table), Arc::clone(&seen));
    let listens = listens_by(tracing::Level::DEBUG, move |event: &tracing::Event<'_>| {
        if event.metadata().name() == "agent.lease" {
            // Whoever asked in earnest would wait for ever where the table is locked.
            let count = asked.state.try_lock().map(|state| state.entries.len()).ok();
            sees.lock().unwrap().push(count);
        }
    });
    table.enter(Holding::Lease(guard), terms(), &client).unwrap();
    drop(listens);
    assert_eq!(*seen.lock().unwrap(), [Some(1)]);
}
