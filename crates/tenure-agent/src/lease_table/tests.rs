//! Plan: of a lease that has left the table, however it did, no note of its deadline stays, also of one whose deadline is a day ahead.
use super::*;
use tenure::range::KeyRange;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn terms() -> LeaseTerms {
    LeaseTerms { longest: DAY, at_most: None, on_exit: OnExit::Lapse, is_election: false }
}

#[tokio::test]
async fn of_what_has_left_the_table_no_note_stays() {
    let leases = Leases::new(tenure::memory()).unwrap();
    let table = LeaseTable::new(&leases, Arc::new(TenureHistory::new(Arc::clone(leases.clock()))), 100);
    let section = leases.section("s").start().unwrap();
    let client = Arc::new(ClientIdentity::unknown());
    for how in ["ended", "lost", "outlasts"] {
        let guard = section.acquire("0_10".parse::<KeyRange>().unwrap(), DAY).await.unwrap();
        let (key, fence) = (tenure::Key::new("section/s").unwrap(), guard.fence().unwrap());
        let reply = table.enter(Holding::Ranges(guard, key, fence), terms(), &client).unwrap();
        // A beat tells of a later deadline.
        table.beat(&reply.id, &client).unwrap();
        assert_eq!(table.state().due.len(), 1, "{how}");
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
