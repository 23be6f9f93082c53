//! What is written is what is read, and what can't be read is left alone.

use super::{read, same, won, write};
use crate::{AnySubject, RecordFactory};
use tenure_core::{
    Ask, Attachment, ErrorKind, Fence, HolderId, Key, Letter, MAILBOX, MARKS, Mark, Metadata, Number, Record,
    Tenure, Tick, Ttl, Value, Wall,
};
use tenure_core::{section, semaphore};
use tenure_store::{Store, StoreExt};

/// Metadata of every kind, nested to the limit.
pub async fn every_kind_of_metadata_comes_back_intact(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let number = |text| Number::new(text).unwrap();
    let mut deep = Value::from("the bottom");
    for level in 1..Value::MAX_DEPTH {
        deep =
            if level % 2 == 0 { Value::List(vec![deep]) } else { Value::Map([("in".into(), deep)].into()) };
    }
    let metadata: Metadata = [
        ("null", Value::Null),
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("number", Value::Number(number("-0.10000000000000000000000000000000000001"))),
        ("exponent", Value::Number(number("1e-7"))),
        ("integer", Value::from(i64::MIN)),
        ("text", Value::from("\u{0}\u{1f}\u{7f} 'quoted' \"twice\" \u{feff}\u{10ffff}é")),
        ("empty text", Value::from("")),
        ("bytes", Value::Bytes((0..=255).collect())),
        ("no bytes", Value::Bytes(Vec::new())),
        ("list", Value::List(vec![Value::Null, Value::from(1), Value::from("x"), Value::List(vec![])])),
        ("map", Value::Map([("".into(), Value::Bool(true)), ("é\u{0}".into(), Value::Null)].into())),
        ("texts", Value::TextSet(["a".into(), "".into(), "\u{10ffff}".into()].into())),
        ("numbers", Value::NumberSet([number("1"), number("1.0"), number("-2")].into())),
        ("byte strings", Value::BytesSet([vec![], vec![0], vec![255, 0]].into())),
        ("", Value::from("a field without a name")),
        ("deep", deep),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (key, record) in [("vacant", factory.vacant(5)), ("held", factory.held(5))] {
        let (key, record) = (factory.key(key), Record { metadata: metadata.clone(), ..record });
        won(write(&store, factory.absent(&key, record.clone())).await);
        same(&read(&store, &key).await.unwrap().0, &record);
    }
}

/// A tenure with every field at an extreme, attached to a session, with all the mail that a record carries.
pub async fn every_part_of_a_tenure_comes_back_intact(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let longest = |c: &str, bytes: usize| c.repeat(bytes / c.len());
    let mail =
        (0..MAILBOX).map(|n| Letter::new(factory.key(&format!("{n}\u{1b}")), Ask::ALL[n % Ask::ALL.len()]));
    let mark = Mark { boot: u64::MAX, held: Tick(u64::MAX), waited: Tick(u64::MAX), wall: Wall(u64::MAX) };
    let tenure = Tenure {
        id: factory.nonce(),
        heartbeat: factory.nonce(),
        holder: HolderId::new(longest("\u{10ffff}", HolderId::MAX_BYTES)).unwrap(),
        ttl: Ttl::MAX,
        since: Wall(u64::MAX),
        attachment: Some(Attachment {
            session: factory.key(&longest("é", Key::MAX_BYTES)),
            fence: Fence::MAX,
        }),
        mail: mail.collect(),
        marks: vec![mark; MARKS],
    };
    let full = Record { stamp: Wall(u64::MAX), tenure: Some(tenure), ..factory.vacant(Fence::MAX.0) };
    let plain = factory.held(0);
    for (name, record) in [("full", full), ("plain", plain)] {
        let key = factory.key(name);
        let (version, _) = won(write(&store, factory.absent(&key, record.clone())).await);
        let (found, at) = read(&store, &key).await.unwrap();
        same(&found, &record);
        assert_eq!(at, version);
    }
}

/// Keys of control characters, of all of Unicode, and of the greatest length.
pub async fn any_text_is_a_key(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let texts = [
        "\u{0}",
        "\u{0}\u{0}",
        "a\u{0}b",
        "\n",
        "\u{1b}[31m",
        " ",
        "  ",
        "/",
        "//",
        "a/../b",
        ".",
        "..",
        "'",
        "\"",
        "\\",
        "%",
        "_",
        "*",
        "?",
        "[a]",
        "{}",
        "--",
        "NULL",
        "0",
        "00",
        "é",
        "e\u{301}",
        "É",
        "A",
        "a",
        "\u{feff}",
        "\u{202e}x",
        "\u{7ff}",
        "\u{ffff}",
        "\u{10ffff}",
        "😀",
        "ß",
        "ss",
    ];
    let longest = ["x".repeat(subject.key_bytes()), "\u{10ffff}".repeat(subject.key_bytes() / 4)];
    let keys: Vec<Key> = texts
        .iter()
        .copied()
        .chain(longest.iter().map(String::as_str))
        .map(|text| factory.key(text))
        .collect();
    for (fence, key) in (1..).zip(&keys) {
        won(write(&store, factory.absent(key, factory.held(fence))).await);
    }
    for (fence, key) in (1..).zip(&keys) {
        assert_eq!(read(&store, key).await.unwrap().0.fence, Fence(fence), "{key}");
    }
}

/// A key that another begins with is another key.
pub async fn keys_that_begin_alike_are_told_apart(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let keys = ["a", "aa", "aaa", "a/", "a/a", "a\u{0}"].map(|text| factory.key(text));
    for (fence, key) in (1..).zip(&keys) {
        assert_eq!(read(&store, key).await, None);
        won(write(&store, factory.absent(key, factory.held(fence))).await);
    }
    let (_, version) = read(&store, &keys[1]).await.unwrap();
    assert!(store.remove(&keys[1], version).await.unwrap());
    for (fence, key) in (1..).zip(&keys) {
        let expected = (fence != 2).then_some(Fence(fence));
        assert_eq!(read(&store, key).await.map(|(record, _)| record.fence), expected, "{key}");
    }
}

/// Too much metadata, or too deep, is the caller's mistake.
pub async fn oversized_metadata_is_refused_and_nothing_written(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let mut deep = Value::Null;
    for _ in 0..Value::MAX_DEPTH {
        deep = Value::List(vec![deep]);
    }
    for value in [Value::Bytes(vec![0; tenure_store::codec::MAX_METADATA_BYTES]), deep] {
        let record = Record { metadata: [("much".to_owned(), value)].into(), ..factory.held(5) };
        let error = store.write(factory.absent(&key, record)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(read(&store, &key).await, None);
    }
}

/// A section's record may be as large as the store's capabilities say, and is written over like any other.
pub async fn a_section_of_the_greatest_size_comes_back_intact(subject: &AnySubject) {
    comes_back_at_its_greatest(subject, section::key("a").unwrap(), section::FIELD).await;
}

/// A semaphore's record may be as large as a section's, and is written over like any other.
pub async fn a_semaphore_of_the_greatest_size_comes_back_intact(subject: &AnySubject) {
    comes_back_at_its_greatest(subject, semaphore::key("a").unwrap(), semaphore::FIELD).await;
}

async fn comes_back_at_its_greatest(subject: &AnySubject, key: Key, field: &str) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let most = store.capabilities().section_bytes();
    let full = |filler: u8| {
        let bytes = (0..most).map(|n| filler.wrapping_add(n as u8)).collect();
        let metadata: Metadata = [(field.to_owned(), Value::Bytes(bytes))].into();
        Record { metadata, ..factory.vacant(5) }
    };
    let (one, next) = (full(0), full(7));
    let (version, _) = won(write(&store, factory.absent(&key, one.clone())).await);
    same(&read(&store, &key).await.unwrap().0, &one);
    won(write(&store, factory.unchanged(&key, version, next.clone())).await);
    same(&read(&store, &key).await.unwrap().0, &next);
}

/// More mail than could be read back is the caller's mistake.
pub async fn too_much_mail_is_refused_and_nothing_written(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let mut record = factory.held(5);
    let letter = Letter::new(key.clone(), Ask::HandOver);
    record.tenure.as_mut().unwrap().mail = vec![letter; MAILBOX + 1];
    let error = store.write(factory.absent(&key, record)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(read(&store, &key).await, None);
}

/// Nothing reads, writes over or removes a record that can't be understood; other keys are none the worse.
pub async fn a_damaged_record_is_foreign_and_left_alone(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let (key, sound) = (factory.key("damaged"), factory.key("sound"));
    let (version, _) = won(write(&store, factory.absent(&key, factory.vacant(5))).await);
    if !subject.damage(&key).await {
        return;
    }
    // Twice: what the first round wrote over, the second would find whole.
    for _ in 0..2 {
        let calls = [
            store.read(&key).await.map(drop),
            store.write(factory.absent(&key, factory.held(9))).await.map(drop),
            store.write(factory.if_vacant(&key, factory.held(9))).await.map(drop),
            store.write(factory.unchanged(&key, version, factory.held(9))).await.map(drop),
            store.remove(&key, version).await.map(drop),
            store.write_many(vec![factory.if_vacant(&key, factory.held(9))]).await.map(drop),
        ];
        for (n, answer) in calls.into_iter().enumerate() {
            assert_eq!(answer.expect_err("damaged").kind(), ErrorKind::Foreign, "call {n}");
        }
    }
    won(write(&store, factory.if_vacant(&sound, factory.held(1))).await);
}

/// What can't be understood is seen byte for byte, with the fence that it tells, and removed or written over only as it was seen.
pub async fn a_damaged_record_is_mended_only_as_it_was_seen(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("damaged");
    assert_eq!(store.image(&key).await.unwrap(), None);
    let (version, _) = won(write(&store, factory.absent(&key, factory.vacant(5))).await);
    let first = store.image(&key).await.unwrap().unwrap();
    assert_eq!(
        (first.record.clone().unwrap().version(), first.fence, first.is_newer),
        (version, Some(Fence(5)), false)
    );
    assert_eq!(store.image(&key).await.unwrap().unwrap().copy, first.copy);
    won(write(&store, factory.unchanged(&key, version, factory.vacant(7))).await);
    assert!(!store.mend(&key, &first, None).await.unwrap(), "it was another write's");
    if !subject.damage(&key).await {
        let now = store.image(&key).await.unwrap().unwrap();
        assert!(store.mend(&key, &now, None).await.unwrap());
        assert_eq!(read(&store, &key).await, None);
        return;
    }
    let damaged = store.image(&key).await.unwrap().unwrap();
    assert_eq!(damaged.record.clone().expect_err("damaged").kind(), ErrorKind::Foreign);
    assert_eq!(damaged.fence, Some(Fence(7)), "what is left of it tells its fence");
    assert!(!store.mend(&key, &first, Some(factory.vacant(9))).await.unwrap());
    assert_eq!(store.image(&key).await.unwrap().unwrap().copy, damaged.copy, "nothing was changed");
    let instead = factory.vacant(9);
    assert!(store.mend(&key, &damaged, Some(instead.clone())).await.unwrap());
    assert_eq!(read(&store, &key).await.unwrap().0, instead);
    assert!(!store.mend(&key, &damaged, None).await.unwrap());
    assert!(subject.damage(&key).await);
    let damaged = store.image(&key).await.unwrap().unwrap();
    assert!(store.mend(&key, &damaged, None).await.unwrap());
    assert_eq!(read(&store, &key).await, None);
    assert!(!store.mend(&key, &damaged, Some(factory.vacant(9))).await.unwrap(), "there is nothing any more");
    won(write(&store, factory.if_vacant(&key, factory.held(9))).await);
}

/// A record that can't be understood is listed, with the reason, among the others.
pub async fn a_damaged_record_is_listed_with_the_reason(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if !store.capabilities().list {
        return;
    }
    let keys = ["a", "b", "c"].map(|text| factory.key(text));
    for key in &keys {
        won(write(&store, factory.absent(key, factory.vacant(5))).await);
    }
    if !subject.damage(&keys[1]).await {
        return;
    }
    let listed = store.list_all("").await.unwrap();
    assert_eq!(listed.iter().map(|listed| listed.key.clone()).collect::<Vec<_>>(), keys);
    let errors: Vec<_> =
        listed.iter().map(|listed| listed.stored.as_ref().err().map(|error| error.kind())).collect();
    assert_eq!(errors, [None, Some(ErrorKind::Foreign), None]);
}
