//! What may be wrong with a store, and what that makes of a key and of a record.

use tenure_core::{Fence, Key, Record, Value};

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    IgnoresConditions,
    IgnoresVersions,
    ComparesHalfOfVersions,
    NoticesAnyChangeButDeletion,
    TakesVacantForAbsent,
    TakesHeldForVacant,
    WritesAfterLosing,
    LosesWithoutRecord,
    LosesWithStaleRecord,
    ComparesThenWrites,
    ResetsFences,
    IgnoresFloors,
    AnswersWithTheFloor,
    RaisesFencesAlways,
    RefusesALowerFenceTooLate,
    WrapsFencesAround,
    AcceptsHugeFences,
    AcceptsLargeMetadata,
    AcceptsMuchMail,
    ForgetsNulls,
    CutsLongBytes,
    CutsTextAtNul,
    FoldsCase,
    TrimsKeys,
    ReadsFromACache,
    ReadsTheFirstOfMany,
    ListsTheFirstPageOnly,
    ListsTheLastKeyTwice,
    ListsBackwards,
    ListsWithPatterns,
    ListsWithoutVacant,
    ShortensPages,
    ReversesOutcomes,
    StopsBatchesAtLosses,
    JudgesBatchesFirst,
    TakesAnyBatch,
    RefusesLargeBatches,
    RemovesUnconditionally,
    RemovesNothing,
    RemovesOnlyTheVacant,
    TellsAgesTooHigh,
    TellsNoAges,
    TellsAgesOfKeys,
    TellsAgesInReadsOnly,
    TellsTimesSinceEachWrite,
    TellsAgesThatItDenies,
    HintsNothing,
    HintsOnce,
    HintsOnItsFirstRuntime,
    HintsAtWhatWasNotWritten,
    LagsForEver,
    WatchesButDeniesIt,
    PromisesToWatch,
    ListsButDeniesIt,
    HasAnIdForEachHandle,
    TakesNoBatches,
    ReadsAnotherKeys,
    RepeatsVersions,
    ForgetsMarks,
    TakesSlashesForNothing,
    RefusesEmptyBatches,
    DeniesListsInLaterHandles,
    WritesOverTheDamaged,
    MendsWhateverIsThere,
    ListsWithoutTheDamaged,
}

impl Flaw {
    /// The key in whose place the store takes another, or this one.
    pub(crate) fn key(self, key: &Key) -> Key {
        let text = key.as_str();
        let text = match self {
            Flaw::CutsTextAtNul => text.split_once('\0').map_or(text, |(head, _)| head).to_owned(),
            Flaw::FoldsCase => text.to_lowercase(),
            Flaw::TakesSlashesForNothing => text.trim_end_matches('/').to_owned(),
            Flaw::TrimsKeys => text.trim_end().to_owned(),
            _ => return key.clone(),
        };
        Key::new(text).unwrap_or_else(|_| Key::new("nameless").unwrap())
    }

    /// A record that the memory store takes in place of one that it would rightly refuse.
    pub(crate) fn accept(self, record: &mut Record) {
        match self {
            Flaw::AcceptsHugeFences => record.fence = record.fence.min(Fence::MAX),
            Flaw::AcceptsLargeMetadata if tenure_store::codec::check(record).is_err() => {
                record.metadata.clear()
            }
            Flaw::AcceptsMuchMail => {
                if let Some(tenure) = &mut record.tenure {
                    tenure.mail.truncate(tenure_core::MAILBOX);
                }
            }
            Flaw::ForgetsMarks => {
                if let Some(tenure) = &mut record.tenure {
                    tenure.marks.clear();
                }
            }
            Flaw::ForgetsNulls => record.metadata.retain(|_, value| *value != Value::Null),
            Flaw::CutsLongBytes => {
                for value in record.metadata.values_mut() {
                    if let Value::Bytes(bytes) = value {
                        bytes.truncate(65_535);
                    }
                }
            }
            _ => {}
        }
    }
}
