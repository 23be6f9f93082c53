//! Contenders for one key while things go wrong between them and DynamoDB Local, or in the table.
//!
//! Plan: for each kind of trouble two episodes, in each of which three contenders take turns, the trouble lasts for some ttls and
//! ends, and all go on; at no time do two of them believe, and fences grow throughout. Requests and answers are lost; writes
//! come late, or twice; one contender is cut off, in full, one way, or on and off; the service fails or throttles, or is
//! silent, or its clock jumps; the record is damaged, or made by a foreign client, which is told and never written over, or deleted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

mod arena;

use arena::{Arena, Fault, KEY, TABLE, TTL};
use std::time::Duration;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb_testkit::plain;
use tenure_dynamodb_testkit::stub::Fate;

/// One episode for each of the faults, side by side.
async fn episodes(name: &str, faults: &[Fault]) {
    let mut running = tokio::task::JoinSet::new();
    for fault in faults {
        let (name, fault) = (name.to_owned(), *fault);
        running.spawn(async move {
            let arena = Arena::start(&name, fault).await;
            arena.goes_on().await;
            arena.spoil(TTL * 4).await;
            arena.goes_on().await;
            arena.check(true);
        });
    }
    while let Some(episode) = running.join_next().await {
        episode.unwrap();
    }
}

#[tokio::test]
async fn requests_and_answers_are_lost() {
    let some: Fault = |_, _, nth| match nth % 4 {
        1 => Fate::RequestLost,
        3 => Fate::AnswerLost,
        _ => Fate::Through,
    };
    let answers_of_writes: Fault = |_, action, nth| match action {
        "UpdateItem" if nth % 3 != 0 => Fate::AnswerLost,
        _ => Fate::Through,
    };
    episodes("lost", &[some, answers_of_writes]).await;
}

#[tokio::test]
async fn writes_come_late_or_twice() {
    let late: Fault = |_, action, nth| match action {
        "UpdateItem" if nth % 3 == 1 => Fate::Late(TTL * 3 / 2),
        _ => Fate::Through,
    };
    let twice: Fault = |_, action, nth| match action {
        "UpdateItem" if nth % 3 == 2 => Fate::Late(TTL / 2),
        "UpdateItem" => Fate::Twice(TTL * u32::try_from(nth % 5).unwrap_or_default() / 3),
        _ => Fate::Through,
    };
    episodes("late", &[late, twice]).await;
}

#[tokio::test]
async fn one_is_cut_off() {
    let full: Fault = |contender, _, _| if contender == 0 { Fate::RequestLost } else { Fate::Through };
    let silent: Fault = |contender, _, _| if contender == 1 { Fate::Silence } else { Fate::Through };
    let one_way: Fault = |contender, _, _| if contender == 1 { Fate::AnswerLost } else { Fate::Through };
    let flapping: Fault = |contender, _, nth| match (contender, nth / 3 % 2) {
        (2, 0) => Fate::AnswerLost,
        (2, _) | (0, 1) => Fate::RequestLost,
        _ => Fate::Through,
    };
    episodes("cut-off", &[full, silent, one_way, flapping]).await;
}

#[tokio::test]
async fn the_service_fails_throttles_or_is_silent() {
    let fails: Fault = |_, _, _| Fate::refusal(500, "InternalServerError", "sorry");
    let throttles: Fault = |_, _, _| Fate::refusal(400, "ThrottlingException", "too fast");
    let silent: Fault = |_, _, _| Fate::Silence;
    episodes("service", &[fails, throttles, silent]).await;
}

#[tokio::test]
async fn the_service_s_clock_jumps() {
    let to_and_fro: Fault = |_, _, nth| Fate::Redated(Some(if nth / 4 % 2 == 0 { 3600 } else { -3600 }));
    // Its clock is another one for each of its clients, as if each spoke to another host of it.
    let apart: Fault = |contender, _, _| Fate::Redated(Some(if contender == 0 { -3600 } else { 3600 }));
    episodes("dates", &[to_and_fro, apart]).await;
}

/// The item of the key, for hands that are not tenure's.
struct Hand {
    client: Client,
    namespace: String,
}

impl Hand {
    fn of(arena: &Arena) -> Hand {
        Hand { client: plain(), namespace: arena.namespace.clone() }
    }

    fn keys(&self) -> [(&'static str, AttributeValue); 2] {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        [("namespace", text(&self.namespace)), ("key", text(KEY))]
    }

    /// Puts an item there that tenure did not make.
    async fn replace(&self, attribute: &str) {
        let mut put = self.client.put_item().table_name(TABLE).item(attribute, junk());
        for (name, value) in self.keys() {
            put = put.item(name, value);
        }
        put.send().await.unwrap();
    }

    async fn damage(&self, attribute: &str) {
        let mut update = self.client.update_item().table_name(TABLE).update_expression("SET #a = :junk");
        for (name, value) in self.keys() {
            update = update.key(name, value);
        }
        let update = update.expression_attribute_names("#a", attribute);
        update.expression_attribute_values(":junk", junk()).send().await.unwrap();
    }

    /// Damages it until no holder is left that writes it anew at its next renewal or release, as it does whatever it has.
    async fn damage_for_good(&self, attribute: &str) {
        let look = Duration::from_millis(20);
        let looks_in = |span: Duration| span.as_millis() / look.as_millis();
        let mut unchanged = 0;
        for _ in 0..looks_in(TTL * 20) {
            if self.is_damaged(attribute).await {
                unchanged += 1;
            } else {
                self.damage(attribute).await;
                unchanged = 0;
            }
            if unchanged > looks_in(TTL * 2) {
                return;
            }
            tokio::time::sleep(look).await;
        }
        panic!("{attribute} is written over again and again");
    }

    async fn delete(&self) {
        let mut delete = self.client.delete_item().table_name(TABLE);
        for (name, value) in self.keys() {
            delete = delete.key(name, value);
        }
        delete.send().await.unwrap();
    }

    async fn is_damaged(&self, attribute: &str) -> bool {
        let mut get = self.client.get_item().table_name(TABLE).consistent_read(true);
        for (name, value) in self.keys() {
            get = get.key(name, value);
        }
        let item = get.send().await.unwrap().item.expect("an item");
        item.get(attribute) == Some(&junk())
    }
}

fn junk() -> AttributeValue {
    AttributeValue::B(Blob::new(*b"junk"))
}

#[tokio::test]
async fn a_damaged_record_is_told_and_left_alone() {
    // Also in the middle of a tenure: its holder goes on to its deadline, and nobody follows.
    for attribute in ["encoded", "terms", "seal"] {
        let arena = Arena::start("damaged", |_, _, _| Fate::Through).await;
        arena.goes_on().await;
        let hand = Hand::of(&arena);
        hand.damage_for_good(attribute).await;
        arena.alarms().await;
        tokio::time::sleep(TTL * 2).await;
        arena.alarms().await;
        assert!(hand.is_damaged(attribute).await, "{attribute} was written over");
        hand.delete().await;
        arena.goes_on().await;
        arena.check(true);
    }
}

#[tokio::test]
async fn a_foreign_item_is_told_and_left_alone() {
    for _ in 0..2 {
        let arena = Arena::start("foreign", |_, _, _| Fate::Through).await;
        arena.goes_on().await;
        let hand = Hand::of(&arena);
        hand.replace("their-own").await;
        arena.alarms().await;
        tokio::time::sleep(TTL * 2).await;
        assert!(hand.is_damaged("their-own").await);
        hand.delete().await;
        arena.goes_on().await;
        arena.check(true);
    }
}

#[tokio::test]
async fn fences_grow_past_a_record_that_is_deleted_by_hand() {
    for _ in 0..2 {
        let arena = Arena::start("deleted", |_, _, _| Fate::Through).await;
        for _ in 0..3 {
            arena.goes_on().await;
            Hand::of(&arena).delete().await;
        }
        arena.goes_on().await;
        // Nothing keeps two from believing for a while when a hand takes the record from one of them.
        arena.check(false);
    }
}
