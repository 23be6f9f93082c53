//! Plan: of a lease that has left the table, however it did, no note of its deadline stays, also of one whose deadline is a day ahead. Beats are so near that their connection stays.
use super::*;
use tenure::range::KeyRange;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn terms() -> LeaseTerms {
    LeaseTerms { longest: DAY, at_most: None, on_exit: OnExit::Lapse, is_election: false }
}

#[tokio::test]
async fn of_what_has_left_the_table_no_note_stays() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = LeaseTable::new(
        &leases,
        Arc::new(TenureHistory::new(Arc::clone(leases.clock()))),
        &Limits::default(),
    );
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
            "ended" => assert!(table.end(&reply.id, End::GivenBack).await.unwrap()),
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
        assert_eq!((table.count(), table.state().due.len()), (0, 0), "{how}");
    }
}

#[tokio::test]
async fn what_is_over_while_its_agent_stops_is_not_told_as_a_client_that_was_silent() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let history = Arc::new(TenureHistory::new(Arc::clone(leases.clock())));
    let table = LeaseTable::new(&leases, history, &Limits::default());
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
