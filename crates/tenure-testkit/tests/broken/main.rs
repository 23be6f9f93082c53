//! The suite is sharp: a store with any one of these flaws fails the check that is named for it, and no check fails on the
//! store without a flaw. Some flaw is named for each check. What a check says of its failure is short.
//!
//! Every check is run against every flaw, on a runtime whose time is simulated, so that checks which wait for something
//! that never comes don't really wait.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, also in what they share")]

mod flaw;
mod spoilt;
mod store;

use flaw::Flaw;
use spoilt::Spoilt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use store::Broken;
use tenure_testkit::{AnySubject, ManualClock, checks};

/// As many bytes as somebody reads of a check that failed.
const LEGIBLE: usize = 4000;

/// The names of the checks that fail on a store with `flaw`.
fn failing(flaw: Flaw) -> Vec<&'static str> {
    let checks = checks::all();
    let fails = |check: &checks::Check| {
        let clock = Arc::new(ManualClock::new());
        let subject = AnySubject::new(Spoilt::new(Broken::new(flaw, clock.clone()), clock));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on((check.run)(&subject))));
        if let Err(panic) = &outcome {
            let says = panic.downcast_ref::<String>().map_or(0, String::len);
            assert!(says <= LEGIBLE, "{} says {says} bytes about a store that {flaw:?}", check.name);
        }
        outcome.is_err()
    };
    checks.iter().filter(|check| fails(check)).map(|check| check.name).collect()
}

#[test]
fn no_check_fails_on_a_sound_store() {
    assert_eq!(failing(Flaw::None), [""; 0]);
}

#[test]
fn some_flaw_is_named_for_each_check() {
    let all = checks::all();
    let bare: Vec<&str> = all.iter().map(|check| check.name).filter(|name| !NAMED.contains(name)).collect();
    assert_eq!(bare, [""; 0], "nothing shows that they can fail");
}

macro_rules! flaws {
    ($($test:ident: $flaw:ident => $check:literal,)*) => {
        /// The checks for which a flaw is named.
        const NAMED: &[&str] = &[$($check,)*];

        $(
            #[test]
            fn $test() {
                let failing = failing(Flaw::$flaw);
                assert!(failing.contains(&$check), "{:?} passes {}; it fails {failing:?}", Flaw::$flaw, $check);
            }
        )*
    };
}

flaws! {
    ignored_conditions: IgnoresConditions => "absent_wins_only_where_there_is_nothing",
    ignored_versions: IgnoresVersions => "unchanged_wins_on_the_very_version_only",
    half_versions: ComparesHalfOfVersions => "unchanged_wins_on_the_very_version_only",
    resurrection: NoticesAnyChangeButDeletion => "a_stale_version_never_wins_again",
    vacant_for_absent: TakesVacantForAbsent => "absent_wins_only_where_there_is_nothing",
    held_for_vacant: TakesHeldForVacant => "vacant_wins_where_no_tenure_stands",
    writing_after_losing: WritesAfterLosing => "vacant_wins_where_no_tenure_stands",
    losing_without_record: LosesWithoutRecord => "absent_wins_only_where_there_is_nothing",
    losing_with_stale_record: LosesWithStaleRecord => "unchanged_wins_on_the_very_version_only",
    compare_then_write: ComparesThenWrites => "one_contender_wins_a_vacant_key",
    compare_then_write_counts: ComparesThenWrites => "no_increment_is_lost",
    fence_reset: ResetsFences => "vacant_over_a_vacant_record_raises_the_fence",
    fence_reset_over_tenures: ResetsFences => "a_fence_outlives_many_tenures",
    fence_without_floor: IgnoresFloors => "vacant_over_a_vacant_record_raises_the_fence",
    fence_answered_wrongly: AnswersWithTheFloor => "vacant_over_a_vacant_record_raises_the_fence",
    fence_raised_always: RaisesFencesAlways => "only_vacant_raises_the_fence",
    lower_fence_raised: RaisesFencesAlways => "a_lower_fence_is_written_as_it_was_given_or_refused",
    lower_fence_refused_too_late: RefusesALowerFenceTooLate => "a_lower_fence_is_written_as_it_was_given_or_refused",
    fence_wrapped: WrapsFencesAround => "used_up_fences_are_refused_and_nothing_is_written",
    fence_too_high: AcceptsHugeFences => "a_fence_beyond_the_highest_is_refused",
    large_metadata: AcceptsLargeMetadata => "oversized_metadata_is_refused_and_nothing_written",
    much_mail: AcceptsMuchMail => "too_much_mail_is_refused_and_nothing_written",
    nulls: ForgetsNulls => "every_kind_of_metadata_comes_back_intact",
    long_bytes: CutsLongBytes => "a_section_of_the_greatest_size_comes_back_intact",
    long_bytes_of_semaphores: CutsLongBytes => "a_semaphore_of_the_greatest_size_comes_back_intact",
    nul_characters: CutsTextAtNul => "any_text_is_a_key",
    case: FoldsCase => "any_text_is_a_key",
    spaces: TrimsKeys => "any_text_is_a_key",
    cache: ReadsFromACache => "a_write_is_seen_at_once_by_other_handles",
    first_of_many: ReadsTheFirstOfMany => "several_are_read_at_once",
    lagging: LagsForEver => "a_recent_state_was_written_and_becomes_the_latest",
    first_page: ListsTheFirstPageOnly => "pages_are_complete_and_do_not_overlap",
    last_key_twice: ListsTheLastKeyTwice => "pages_are_complete_and_do_not_overlap",
    backwards: ListsBackwards => "keys_come_in_byte_order",
    patterns: ListsWithPatterns => "a_prefix_is_taken_literally",
    vacant_hidden: ListsWithoutVacant => "listed_records_are_those_that_are_read",
    short_pages: ShortensPages => "pages_are_complete_and_do_not_overlap",
    reversed_outcomes: ReversesOutcomes => "outcomes_are_in_the_order_of_the_writes",
    stopped_batch: StopsBatchesAtLosses => "outcomes_are_in_the_order_of_the_writes",
    batch_judged_first: JudgesBatchesFirst => "one_key_twice_is_written_in_order",
    any_batch: TakesAnyBatch => "a_batch_over_the_limit_is_refused",
    small_batches: RefusesLargeBatches => "a_batch_of_the_greatest_size_is_written",
    removed_unconditionally: RemovesUnconditionally => "only_the_unchanged_is_removed",
    removed_nothing: RemovesNothing => "only_the_unchanged_is_removed",
    removed_if_vacant: RemovesOnlyTheVacant => "only_the_unchanged_is_removed",
    ages_too_high: TellsAgesTooHigh => "an_age_is_never_over_the_truth_and_grows",
    no_ages: TellsNoAges => "an_age_is_never_over_the_truth_and_grows",
    ages_of_keys: TellsAgesOfKeys => "a_write_makes_the_record_young_again",
    ages_in_reads_only: TellsAgesInReadsOnly => "an_age_is_told_with_every_answer",
    times_of_each_write: TellsTimesSinceEachWrite => "times_of_successive_writes_are_of_one_clock",
    ages_denied: TellsAgesThatItDenies => "an_age_is_told_with_every_answer",
    no_hints: HintsNothing => "a_vacated_key_is_hinted_to_other_handles",
    no_mail_hints: HintsNothing => "mail_is_hinted_to_other_handles",
    one_hint: HintsOnce => "a_vacated_key_is_hinted_to_other_handles",
    hints_of_one_runtime: HintsOnItsFirstRuntime => "a_runtime_that_ends_takes_no_hints_along",
    hint_of_nothing: HintsAtWhatWasNotWritten => "a_vacated_key_is_hinted_to_other_handles",
    watch_denied: WatchesButDeniesIt => "a_watch_capability_that_is_off_is_refused",
    watch_promised: PromisesToWatch => "a_watch_capability_that_is_off_is_refused",
    list_denied: ListsButDeniesIt => "a_list_capability_that_is_off_is_refused",
    id_per_handle: HasAnIdForEachHandle => "handles_agree_on_the_store_s_id",
    no_batches: TakesNoBatches => "they_make_sense",
    another_key_read: ReadsAnotherKeys => "nothing_is_read_where_nothing_was_written",
    versions_repeated: RepeatsVersions => "each_write_has_its_own_version",
    marks_forgotten: ForgetsMarks => "every_part_of_a_tenure_comes_back_intact",
    slashes: TakesSlashesForNothing => "keys_that_begin_alike_are_told_apart",
    named_key_listed: ListsTheLastKeyTwice => "a_listing_begins_after_the_key_that_is_named",
    empty_batch: RefusesEmptyBatches => "an_empty_batch_has_no_outcomes",
    batch_half_written: StopsBatchesAtLosses => "a_batch_with_an_oversized_record_writes_nothing",
    compare_then_write_nothing: ComparesThenWrites => "one_contender_wins_an_absent_key",
    batches_mixed_up: ReversesOutcomes => "batches_and_single_writes_do_not_mix_up",
    handles_differ: DeniesListsInLaterHandles => "they_are_the_same_in_every_handle",
    damaged_written_over: WritesOverTheDamaged => "a_damaged_record_is_foreign_and_left_alone",
    damaged_mended_unseen: MendsWhateverIsThere => "a_damaged_record_is_mended_only_as_it_was_seen",
    damaged_not_listed: ListsWithoutTheDamaged => "a_damaged_record_is_listed_with_the_reason",
}
