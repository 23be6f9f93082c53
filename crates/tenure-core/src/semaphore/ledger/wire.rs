//! A semaphore's ledger as bytes: compact, versioned, and bounded by the bytes that hold it.
//!
//! Version 1, where `n` is an unsigned LEB128 number and `b` is an `n` followed by so many bytes:
//!
//! ```text
//! 1  n:permits  n:parties  party …  n:holders  grant …  n:tickets  ticket …
//! party:  b:holder  session  n:fence  n:ttl_ms
//! session: 0            its key is "session/" and the holder
//!          1  b:key
//! grant:  ticket  n:fence
//! ticket: id (16 bytes)  n:party  n:flags (1: exclusive, 2: barges)  n:permits  n:since_ms
//! ```

use super::{Grant, SemaphoreLedger, Ticket};
use crate::semaphore::Mode;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::leb::{put, put_bytes, take, take_bytes};
use crate::values::record::Attachment;
use crate::values::reserved::SESSION;
use crate::values::time::{Ttl, Wall};
use std::collections::BTreeSet;

const VERSION: u8 = 1;
const EXCLUSIVE: u64 = 1;
const BARGES: u64 = 2;

/// A process as its claims name it.
type Party<'a> = (&'a HolderId, &'a Attachment, Ttl);

fn party(ticket: &Ticket) -> Party<'_> {
    (&ticket.holder, &ticket.attachment, ticket.ttl)
}

pub(super) fn encode(ledger: &SemaphoreLedger) -> Vec<u8> {
    let parties: BTreeSet<Party<'_>> = ledger.tickets().map(party).collect();
    let parties: Vec<Party<'_>> = parties.into_iter().collect();
    let mut out = vec![VERSION];
    put(&mut out, u64::from(ledger.permits));
    put(&mut out, parties.len() as u64);
    for (holder, attachment, ttl) in &parties {
        put_bytes(&mut out, holder.as_str().as_bytes());
        let usual = attachment.session.as_str().strip_prefix(SESSION) == Some(holder.as_str());
        put(&mut out, u64::from(!usual));
        if !usual {
            put_bytes(&mut out, attachment.session.as_str().as_bytes());
        }
        put(&mut out, attachment.fence.0);
        put(&mut out, ttl.millis());
    }
    put(&mut out, ledger.holders.len() as u64);
    for grant in &ledger.holders {
        put_ticket(&mut out, &grant.ticket, &parties);
        put(&mut out, grant.fence.0);
    }
    put(&mut out, ledger.queue.len() as u64);
    for ticket in &ledger.queue {
        put_ticket(&mut out, ticket, &parties);
    }
    out
}

fn put_ticket(out: &mut Vec<u8>, ticket: &Ticket, parties: &[Party<'_>]) {
    out.extend_from_slice(&ticket.id.0.to_be_bytes());
    put(out, parties.binary_search(&party(ticket)).unwrap_or(0) as u64);
    let exclusive = if ticket.mode == Mode::Exclusive { EXCLUSIVE } else { 0 };
    put(out, exclusive | if ticket.barges { BARGES } else { 0 });
    put(out, u64::from(ticket.permits));
    put(out, ticket.since.0);
}

pub(super) fn decode(bytes: &[u8]) -> Result<SemaphoreLedger, StoreError> {
    match bytes {
        [VERSION, rest @ ..] => {
            ledger(rest).ok_or_else(|| StoreError::foreign("the semaphore's record is damaged"))
        }
        [] | [0, ..] => Err(StoreError::foreign("the semaphore's record is damaged")),
        [newer, ..] => Err(StoreError::newer(format!(
            "the semaphore's record has version {newer}, this program knows up to {VERSION}; upgrade it"
        ))),
    }
}

fn ledger(bytes: &[u8]) -> Option<SemaphoreLedger> {
    let mut rest = bytes;
    let permits = u32::try_from(take(&mut rest)?).ok()?;
    let count = take(&mut rest)?;
    let mut parties = Vec::new();
    for _ in 0..count {
        let holder = HolderId::from_bytes(take_bytes(&mut rest)?).ok()?;
        let session = match take(&mut rest)? {
            // The text of the id, and not what is shown of it: that escapes what steers terminals.
            0 => Key::new(format!("{SESSION}{}", holder.as_str())).ok()?,
            1 => Key::new(std::str::from_utf8(take_bytes(&mut rest)?).ok()?).ok()?,
            _ => return None,
        };
        let fence = Fence(take(&mut rest)?);
        parties.push((holder, Attachment { session, fence }, Ttl::clamped(take(&mut rest)?)));
    }
    let mut ledger = SemaphoreLedger { permits, ..SemaphoreLedger::default() };
    for _ in 0..take(&mut rest)? {
        let ticket = ticket(&mut rest, &parties)?;
        let fence = Fence(take(&mut rest)?);
        ledger.holders.push(Grant { ticket, fence });
    }
    for _ in 0..take(&mut rest)? {
        ledger.queue.push(ticket(&mut rest, &parties)?);
    }
    (rest.is_empty() && is_sound(&ledger)).then_some(ledger)
}

fn ticket(rest: &mut &[u8], parties: &[(HolderId, Attachment, Ttl)]) -> Option<Ticket> {
    let (id, after) = rest.split_first_chunk::<16>()?;
    *rest = after;
    let (holder, attachment, ttl) = parties.get(usize::try_from(take(rest)?).ok()?)?.clone();
    let flags = take(rest)?;
    let permits = u32::try_from(take(rest)?).ok()?;
    let since = Wall(take(rest)?);
    let mode = if flags & EXCLUSIVE == 0 { Mode::Shared } else { Mode::Exclusive };
    let barges = flags & BARGES != 0;
    let id = Nonce(u128::from_be_bytes(*id));
    (flags <= EXCLUSIVE | BARGES && permits > 0).then_some(Ticket {
        id,
        holder,
        attachment,
        ttl,
        mode,
        permits,
        barges,
        since,
    })
}

/// Whatever a hostile record says, no more permits are out than there are, and each claim is there once.
fn is_sound(ledger: &SemaphoreLedger) -> bool {
    let ids: BTreeSet<Nonce> = ledger.tickets().map(|ticket| ticket.id).collect();
    let alone =
        ledger.holders.len() <= 1 || ledger.holders.iter().all(|grant| grant.ticket.mode == Mode::Shared);
    let out: u64 = ledger.holders.iter().map(|grant| u64::from(grant.ticket.permits)).sum();
    ids.len() == ledger.tickets().count()
        && ledger.permits <= SemaphoreLedger::MOST_PERMITS
        && alone
        && out <= u64::from(ledger.permits)
        && ledger.holders.iter().all(|grant| grant.fence <= Fence::MAX)
        && ledger.queue.iter().all(|ticket| ticket.permits <= ledger.permits)
}

#[cfg(test)]
mod tests {
    //! Plan: any ledger survives a round trip; golden bytes stay readable for ever; damaged, hostile and newer bytes are
    //! refused and never panic; nothing that is read has more permits out than there are.
    use super::*;
    use proptest::prelude::*;

    fn ticket(id: u128, who: u8, mode: Mode, permits: u32, barges: bool) -> Ticket {
        // What is shown of such an id is not its text.
        let name = if who == 4 { "h\u{200d}\n".to_owned() } else { format!("h{who}") };
        let session =
            if who.is_multiple_of(2) { format!("session/{name}") } else { format!("elsewhere/{who}") };
        Ticket {
            id: Nonce(id),
            holder: HolderId::new(name).unwrap(),
            attachment: Attachment {
                session: Key::new(session).unwrap(),
                fence: Fence(u64::from(who) + 300),
            },
            ttl: Ttl::clamped(10_000),
            mode,
            permits,
            barges,
            since: Wall(5),
        }
    }

    fn any_ledger() -> impl Strategy<Value = SemaphoreLedger> {
        let claim = (0u8..5, 1u32..4, any::<bool>(), any::<bool>());
        (prop::collection::vec(claim.clone(), 0..6), prop::collection::vec(claim, 0..6), any::<u64>())
            .prop_map(|(held, waiting, base)| {
                let id = |n: usize| u128::from(base) << 8 | n as u128;
                let alone = held.len() == 1;
                let holders = held.iter().enumerate().map(|(n, (who, permits, exclusive, barges))| {
                    let mode = if *exclusive && alone { Mode::Exclusive } else { Mode::Shared };
                    Grant::new(ticket(id(n), *who, mode, *permits, *barges), Fence(n as u64))
                });
                let queue = waiting.iter().enumerate().map(|(n, (who, permits, exclusive, barges))| {
                    let mode = if *exclusive { Mode::Exclusive } else { Mode::Shared };
                    ticket(id(100 + n), *who, mode, *permits, *barges)
                });
                SemaphoreLedger::new(20, holders.collect(), queue.collect())
            })
    }

    #[test]
    fn any_ledger_survives_a_round_trip() {
        proptest!(|(ledger in any_ledger())| {
            prop_assert_eq!(decode(&encode(&ledger)), Ok(ledger));
        });
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_but_never_panic() {
        proptest!(|(ledger in any_ledger(), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), by: u8)| {
            let bytes = encode(&ledger);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
            let mut other = bytes.clone();
            other[flip.index(bytes.len())] ^= by;
            if let Ok(read) = decode(&other) {
                prop_assert!(is_sound(&read));
            }
        });
        proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..200))| {
            let _whatever = decode(&bytes);
        });
    }

    fn golden() -> (SemaphoreLedger, Vec<u8>) {
        let holders = vec![Grant::new(ticket(0x0102, 0, Mode::Shared, 2, false), Fence(300))];
        let ledger = SemaphoreLedger::new(3, holders, vec![ticket(0x0103, 1, Mode::Exclusive, 1, true)]);
        let mut bytes = vec![1, 3, 2];
        bytes.extend([2, b'h', b'0', 0, 0xac, 2, 0x90, 0x4e]);
        bytes.extend([2, b'h', b'1', 1, 11]);
        bytes.extend(b"elsewhere/1");
        bytes.extend([0xad, 2, 0x90, 0x4e]);
        bytes.push(1);
        bytes.extend([0; 14]);
        bytes.extend([1, 2, 0, 0, 2, 5, 0xac, 2]);
        bytes.push(1);
        bytes.extend([0; 14]);
        bytes.extend([1, 3, 1, 3, 1, 5]);
        (ledger, bytes)
    }

    #[test]
    fn golden_bytes_are_read_and_written() {
        let (ledger, bytes) = golden();
        assert_eq!(encode(&ledger), bytes);
        assert_eq!(decode(&bytes), Ok(ledger));
    }

    #[test]
    fn s8_what_says_more_than_there_is_newer_and_damaged_records_are_refused_by_name() {
        let two = |one, other| {
            SemaphoreLedger::new(3, vec![Grant::new(one, Fence(1)), Grant::new(other, Fence(2))], Vec::new())
        };
        let shared = |id, permits| ticket(id, 0, Mode::Shared, permits, false);
        let exclusive = |id| ticket(id, 0, Mode::Exclusive, 1, false);
        for unsound in [
            two(shared(1, 2), shared(2, 2)),
            two(shared(1, 1), exclusive(2)),
            two(shared(1, 1), shared(1, 1)),
            SemaphoreLedger::new(3, Vec::new(), vec![shared(1, 4)]),
            SemaphoreLedger::new(3, vec![Grant::new(shared(1, 1), Fence(1))], vec![shared(1, 1)]),
        ] {
            assert!(decode(&encode(&unsound)).unwrap_err().to_string().contains("damaged"), "{unsound:?}");
        }
        assert!(decode(&encode(&two(shared(1, 2), shared(2, 1)))).is_ok());
        let (_, mut newer) = golden();
        newer[0] = 2;
        let error = decode(&newer).unwrap_err();
        assert!(error.is_newer() && error.to_string().contains("upgrade"), "{error}");
        for damaged in [&[][..], &[0], &[1]] {
            assert!(decode(damaged).unwrap_err().to_string().contains("damaged"), "{damaged:?}");
        }
        assert_eq!(decode(&encode(&SemaphoreLedger::default())), Ok(SemaphoreLedger::default()));
    }
}
