//! Plan: every record survives a round trip; golden bytes stay readable for ever; hostile bytes never panic, loop or
//! allocate without bound; newer versions and foreign bytes are refused by name; what only a newer version asks is written as it was read, and
//! fields that only a newer version has are left out.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use tenure_core::{ErrorKind, Number, Value};

fn value() -> impl Strategy<Value = Value> {
    let number = any::<i64>().prop_map(Number::from);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.clone().prop_map(Value::Number),
        ".{0,8}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
        prop::collection::btree_set(".{0,4}", 0..4).prop_map(Value::TextSet),
        prop::collection::btree_set(number, 1..4).prop_map(Value::NumberSet),
        prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..4), 1..4).prop_map(Value::BytesSet),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(Value::Map),
        ]
    })
}

fn tenure() -> impl Strategy<Value = Tenure> {
    let attachment = prop::option::of((".{1,20}", 0..=Fence::MAX.0)).prop_map(|attachment| {
        attachment.map(|(key, fence)| Attachment { session: Key::new(key).unwrap(), fence: Fence(fence) })
    });
    let newer = (4..=u64::MAX).prop_map(Ask::of_code);
    let ask = prop_oneof![prop::sample::select(Ask::ALL.to_vec()), newer];
    let letter = (".{1,20}", ask, prop::option::of(0..=Fence::MAX.0)).prop_map(|(key, ask, fence)| {
        let letter = Letter::new(Key::new(key).unwrap(), ask);
        Letter { fence: fence.map(Fence), ..letter }
    });
    let mail = prop::collection::vec(letter, 0..=MAILBOX);
    let mark = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let mark = mark.prop_map(|(boot, held, waited, wall)| Mark {
        boot,
        held: Tick(held),
        waited: Tick(waited),
        wall: Wall(wall),
    });
    let marks = prop::collection::vec(mark, 0..=MARKS);
    (any::<u128>(), any::<u128>(), ".{1,20}", 10u64..=86_400_000, any::<u64>(), attachment, mail, marks)
        .prop_map(|(id, heartbeat, holder, ttl, since, attachment, mail, marks)| Tenure {
            id: Nonce(id),
            heartbeat: Nonce(heartbeat),
            holder: HolderId::new(holder).unwrap(),
            ttl: Ttl::clamped(ttl),
            since: Wall(since),
            attachment,
            mail,
            marks,
        })
}

fn record() -> impl Strategy<Value = Record> {
    let metadata = prop::collection::btree_map(".{0,8}", value(), 0..4);
    (0..=Fence::MAX.0, any::<u128>(), any::<u64>(), prop::option::of(tenure()), metadata).prop_map(
        |(fence, nonce, stamp, tenure, metadata)| Record {
            fence: Fence(fence),
            nonce: Nonce(nonce),
            stamp: Wall(stamp),
            tenure,
            metadata,
        },
    )
}

fn sample() -> Record {
    let attachment = Attachment { session: Key::new("s/a").unwrap(), fence: Fence(41) };
    let letter = Letter::new(Key::new("k").unwrap(), Ask::Revoke);
    let tenure = Tenure {
        heartbeat: Nonce(2),
        attachment: Some(attachment),
        mail: vec![letter],
        ..Tenure::new(Nonce(1), HolderId::new("a").unwrap(), Ttl::clamped(10_000), Wall(1000))
    };
    let metadata = [
        ("n".to_owned(), Value::from(-7)),
        ("t".to_owned(), Value::TextSet(BTreeSet::from(["x".to_owned()]))),
    ];
    Record {
        fence: Fence(42),
        nonce: Nonce(3),
        stamp: Wall(2000),
        tenure: Some(tenure),
        metadata: metadata.into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

proptest! {
    #[test]
    fn every_record_survives_a_round_trip(record in record()) {
        match encode(&record) {
            Ok(bytes) => prop_assert_eq!(decode(&bytes), Ok(record)),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Invalid),
        }
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let framed: Vec<u8> = [MAGIC, VERSION].into_iter().chain(bytes.iter().copied()).collect();
        for bytes in [&bytes, &framed] {
            if let Err(error) = decode(bytes) {
                prop_assert_eq!(error.kind(), ErrorKind::Foreign);
            }
        }
    }

    #[test]
    fn damaged_records_never_panic(record in record(), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        if let Ok(mut bytes) = encode(&record) {
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Err(error) = decode(&bytes) {
                prop_assert_eq!(error.kind(), ErrorKind::Foreign);
            }
        }
    }
}

/// Written by version 1. These bytes stay readable for as long as the crate exists.
const GOLDEN_V1: &str = "5401a500182a0150000000000000000000000000000000030219\
07d003a7005000000000000000000000000000000001015000000000000000000000000000000002026161031927100\
41903e8058263732f611829068182616b0104a2616eda00010000622d376174d9010281617 8";

#[test]
fn golden_bytes_of_version_1_stay_readable() {
    let golden: String = GOLDEN_V1.chars().filter(|c| !c.is_whitespace()).collect();
    assert_eq!(hex(&encode(&sample()).unwrap()), golden);
    assert_eq!(decode(&unhex(&golden)).unwrap(), sample());
}

/// What a host has left is one field more. An older program skips it, and leaves none when it writes the record.
#[test]
fn golden_bytes_of_a_record_with_marks_stay_readable() {
    let mut record = sample();
    let mark = Mark { boot: 9, held: Tick(8), waited: Tick(7), wall: Wall(6) };
    record.tenure.as_mut().unwrap().marks = vec![mark];
    let bytes = hex(&encode(&record).unwrap());
    let without = hex(&encode(&sample()).unwrap());
    let golden =
        without.replacen("a7005000", "a8005000", 1).replacen("82616b01", "82616b0107818409080706", 1);
    assert_eq!(bytes, golden);
    assert_eq!(decode(&encode(&record).unwrap()).unwrap(), record);
    record.tenure.as_mut().unwrap().marks = vec![mark; MARKS + 1];
    assert_eq!(encode(&record).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Which tenure a letter is about is one field more, beside the letters. An older program skips it, and hears the letter as one about any tenure.
#[test]
fn golden_bytes_of_a_record_whose_letter_names_a_fence_stay_readable() {
    let mut record = sample();
    let mail = &mut record.tenure.as_mut().unwrap().mail;
    mail[0] = mail[0].clone().of(Fence(41));
    let without = hex(&encode(&sample()).unwrap());
    let golden = without.replacen("a7005000", "a8005000", 1).replacen("82616b01", "82616b0108811829", 1);
    assert_eq!(hex(&encode(&record).unwrap()), golden);
    assert_eq!(decode(&encode(&record).unwrap()).unwrap(), record);
    let mail = &mut record.tenure.as_mut().unwrap().mail;
    mail[0].fence = Some(Fence(Fence::MAX.0 + 1));
    assert_eq!(encode(&record).unwrap_err().kind(), ErrorKind::Invalid);
}

/// An older program writes the record of a newer holder, as it leaves a letter or a mark there.
#[test]
fn a_letter_that_only_a_newer_version_knows_is_written_as_it_was_read() {
    let known = hex(&encode(&sample()).unwrap());
    for (code, bytes) in [(4, "04"), (99, "1863"), (70_000, "1a00011170")] {
        let newer = known.replacen("82616b01", &format!("82616b{bytes}"), 1);
        let record = decode(&unhex(&newer)).unwrap();
        assert_eq!(record.tenure.as_ref().unwrap().mail[0].ask, Ask::Newer(code));
        assert_eq!(hex(&encode(&record).unwrap()), newer);
    }
}

#[test]
fn a_newer_version_and_foreign_bytes_are_refused_by_name() {
    let mut bytes = encode(&sample()).unwrap();
    bytes[1] = VERSION + 1;
    let error = decode(&bytes).unwrap_err();
    assert_eq!((error.kind(), error.is_newer()), (ErrorKind::Foreign, true));
    assert!(error.to_string().contains("version 2") && error.to_string().contains("upgrade"), "{error}");
    for bytes in [&b""[..], b"T", b"{\"json\": 1}", &[0; 40]] {
        let error = decode(bytes).unwrap_err();
        assert_eq!((error.kind(), error.is_newer()), (ErrorKind::Foreign, false));
    }
    let mut large = vec![MAGIC, VERSION];
    large.resize(MAX_BYTES + 1, 0);
    assert_eq!(decode(&large).unwrap_err().kind(), ErrorKind::Foreign);
}

#[test]
fn unknown_fields_of_the_same_version_are_skipped() {
    let vacant = Record { tenure: None, metadata: Metadata::new(), ..sample() };
    let mut bytes = encode(&vacant).unwrap();
    bytes[2] += 1; // one field more in the map …
    bytes.extend([0x18, 99, 0x82, 0x01, 0x61, b'x']); // … number 99: [1, "x"]
    assert_eq!(decode(&bytes).unwrap(), vacant);
}

/// Number 9 in the tenure, after those that are known.
#[test]
fn an_unknown_field_of_a_tenure_is_skipped_and_left_out_by_whoever_writes_the_record_again() {
    let known = hex(&encode(&sample()).unwrap());
    let newer = known.replacen("a7005000", "a8005000", 1).replacen("82616b01", "82616b0109a1016178", 1);
    assert_eq!(newer.len(), known.len() + 10);
    let record = decode(&unhex(&newer)).unwrap();
    assert_eq!(record, sample());
    assert_eq!(hex(&encode(&record).unwrap()), known);
}

/// Hence unknown fields are not kept: a program that does not know of letters' fences would leave them so beside a letter more.
#[test]
fn what_is_said_of_one_letter_beside_two_is_damage() {
    let mut record = sample();
    let mail = &mut record.tenure.as_mut().unwrap().mail;
    mail[0] = mail[0].clone().of(Fence(41));
    let one = hex(&encode(&record).unwrap());
    let kept = one.replacen("068182616b01", "068282616b0182616b01", 1);
    let error = decode(&unhex(&kept)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("fences of other letters"), "{error}");
    let left_out = kept.replacen("a8005000", "a7005000", 1).replacen("82616b0108811829", "82616b01", 1);
    let mail = decode(&unhex(&left_out)).unwrap().tenure.unwrap().mail;
    assert_eq!(mail, vec![Letter::new(Key::new("k").unwrap(), Ask::Revoke); 2]);
}

#[test]
fn deep_nesting_is_refused_both_ways_without_recursion_trouble() {
    let mut deep = Value::Null;
    for _ in 0..20 {
        deep = Value::List(vec![deep]);
    }
    let error = encode(&Record { metadata: [("d".into(), deep)].into(), ..sample() }).unwrap_err();
    assert!(error.to_string().contains("21 deep"), "{error}");
    let mut bytes = vec![MAGIC, VERSION, 0xa1, 0x04, 0xa1, 0x61, b'd'];
    bytes.extend(std::iter::repeat_n(0x81, 60_000));
    assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Foreign);
}

#[test]
fn large_metadata_is_the_callers_mistake() {
    let metadata = [("big".to_owned(), Value::Text("x".repeat(MAX_METADATA_BYTES)))].into();
    let error = encode(&Record { metadata, ..sample() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("limit of 8192"), "{error}");
}

/// A unit that fails has its failures counted there.
#[test]
fn metadata_of_a_user_that_are_as_large_as_can_be_leave_room_for_fields_of_our_own() {
    let name = ("big".to_owned(), Value::Text("x".repeat(MAX_METADATA_BYTES - 8)));
    let largest = Metadata::from([name]);
    assert_eq!(check_metadata(&largest), Ok(()));
    let with = |own: usize| {
        let own = Value::Map([("retry".to_owned(), Value::Text("y".repeat(own)))].into());
        let mut metadata = largest.clone();
        metadata.insert(tenure_core::RESERVED.to_owned(), own);
        metadata
    };
    assert_eq!(check(&Record { metadata: with(RESERVED_BYTES - 32), ..sample() }), Ok(()));
    assert!(check(&Record { metadata: with(RESERVED_BYTES), ..sample() }).is_err());
    assert!(check_metadata(&with(1)).is_err(), "that is no user's");
}

#[test]
fn a_sections_record_may_be_larger_than_that_of_a_lease() {
    let most = SectionLedger::MAX_BYTES;
    let record = |bytes: usize, tenure: Option<Tenure>, more: bool| {
        let mut metadata: Metadata = [(section::FIELD.to_owned(), Value::Bytes(vec![1; bytes]))].into();
        if more {
            metadata.insert("more".to_owned(), Value::Null);
        }
        Record { tenure, metadata, ..sample() }
    };
    let large = record(most, None, false);
    assert_eq!(check(&large), Ok(()));
    assert_eq!(decode(&encode(&large).unwrap()), Ok(large));
    for (what, refused) in [
        ("over a section's limit", record(most + 64, None, false)),
        ("held", record(MAX_METADATA_BYTES, sample().tenure, false)),
        ("with other fields", record(MAX_METADATA_BYTES, None, true)),
    ] {
        let error = check(&refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}");
        assert_eq!(encode(&refused), Err(error), "{what}");
    }
    assert!(check_metadata(&record(MAX_METADATA_BYTES, None, false).metadata).is_err(), "users' metadata");
}
