//! The list of checks, in one place, and what is made of it: tests, and a table.

use crate::any_subject::AnySubject;
use crate::checks;
use std::future::Future;
use std::pin::Pin;

/// Runs a check to its end on a runtime of its own, in real time.
///
/// # Panics
/// When the check fails.
#[allow(clippy::expect_used, reason = "a test without a runtime can only fail")]
pub fn run(check: Pin<Box<dyn Future<Output = ()> + '_>>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all();
    runtime.build().expect("a runtime").block_on(check);
}

/// Runs the check of this name on a fresh subject.
#[doc(hidden)]
#[allow(clippy::expect_used, reason = "the names are those of the same list")]
pub fn examine(subject: Pin<Box<dyn Future<Output = AnySubject>>>, check: &str) {
    let check = checks::all().into_iter().find(|one| one.name == check).expect("a check of that name");
    run(Box::pin(async move {
        let subject = subject.await;
        (check.run)(&subject).await;
    }));
}

/// Turns every check into a `#[test]` of its name, within a module.
///
/// The first argument names the module, the second is a closure that returns the future of a fresh
/// [`Subject`](crate::Subject).
///
/// ```test_harness,edition2021
/// use std::sync::Arc;
/// use tenure_store::MemoryStore;
/// use tenure_testkit::{Clones, ManualClock, conformance};
///
/// conformance!(memory, || async {
///     let clock = Arc::new(ManualClock::new());
///     Clones::new(MemoryStore::new("memory", clock.clone()), clock)
/// });
/// ```
#[macro_export]
macro_rules! conformance {
    ($module:ident, $make:expr) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            // Once for all checks, which are compiled with the testkit: a test is then little to compile.
            #[cfg(test)]
            fn subject()
            -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = $crate::AnySubject>>>
            {
                Box::pin(async { $crate::AnySubject::new(($make)().await) })
            }

            $crate::for_each_check! { one_test_per_check (subject) }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! one_test_per_check {
    (($subject:ident) $($file:ident::$check:ident,)*) => {
        $(
            #[test]
            fn $check() {
                $crate::examine($subject(), stringify!($check));
            }
        )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! for_each_check {
    ($callback:ident $argument:tt) => {
        $crate::$callback! { $argument
            registers::nothing_is_read_where_nothing_was_written,
            registers::absent_wins_only_where_there_is_nothing,
            registers::vacant_wins_where_no_tenure_stands,
            registers::unchanged_wins_on_the_very_version_only,
            registers::a_stale_version_never_wins_again,
            registers::each_write_has_its_own_version,
            registers::a_write_is_seen_at_once_by_other_handles,
            registers::only_the_unchanged_is_removed,
            registers::handles_agree_on_the_store_s_id,
            fences::vacant_over_a_vacant_record_raises_the_fence,
            fences::only_vacant_raises_the_fence,
            fences::a_lower_fence_is_written_as_it_was_given_or_refused,
            fences::a_fence_outlives_many_tenures,
            fences::used_up_fences_are_refused_and_nothing_is_written,
            fences::a_fence_beyond_the_highest_is_refused,
            records::every_kind_of_metadata_comes_back_intact,
            records::every_part_of_a_tenure_comes_back_intact,
            records::any_text_is_a_key,
            records::keys_that_begin_alike_are_told_apart,
            records::oversized_metadata_is_refused_and_nothing_written,
            records::a_section_of_the_greatest_size_comes_back_intact,
            records::a_semaphore_of_the_greatest_size_comes_back_intact,
            records::too_much_mail_is_refused_and_nothing_written,
            records::a_damaged_record_is_foreign_and_left_alone,
            records::a_damaged_record_is_mended_only_as_it_was_seen,
            records::a_damaged_record_is_listed_with_the_reason,
            listing::keys_come_in_byte_order,
            listing::pages_are_complete_and_do_not_overlap,
            listing::several_are_read_at_once,
            listing::a_recent_state_was_written_and_becomes_the_latest,
            listing::a_prefix_is_taken_literally,
            listing::a_listing_begins_after_the_key_that_is_named,
            listing::listed_records_are_those_that_are_read,
            listing::a_list_capability_that_is_off_is_refused,
            batches::outcomes_are_in_the_order_of_the_writes,
            batches::one_key_twice_is_written_in_order,
            batches::an_empty_batch_has_no_outcomes,
            batches::a_batch_of_the_greatest_size_is_written,
            batches::a_batch_over_the_limit_is_refused,
            batches::a_batch_with_an_oversized_record_writes_nothing,
            contention::one_contender_wins_a_vacant_key,
            contention::one_contender_wins_an_absent_key,
            contention::no_increment_is_lost,
            contention::batches_and_single_writes_do_not_mix_up,
            time::an_age_is_never_over_the_truth_and_grows,
            time::an_age_is_told_with_every_answer,
            time::a_write_makes_the_record_young_again,
            time::times_of_successive_writes_are_of_one_clock,
            hints::a_vacated_key_is_hinted_to_other_handles,
            hints::mail_is_hinted_to_other_handles,
            hints::a_runtime_that_ends_takes_no_hints_along,
            hints::a_watch_capability_that_is_off_is_refused,
            capabilities::they_make_sense,
            capabilities::they_are_the_same_in_every_handle,
        }
    };
}

/// Turns every check of leases into a `#[test]` of its name, within a module.
///
/// The first argument names the module; the second is a function that runs a boxed future to its end, such as
/// [`run`](crate::run) in real time; the third is a closure that returns the future of a fresh [`LeaseSubject`](crate::LeaseSubject).
#[macro_export]
macro_rules! lease_conformance {
    ($module:ident, $run:expr, $make:expr) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $crate::for_each_lease_check! { one_test_per_lease_check ($run, $make) }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! one_test_per_lease_check {
    (($run:expr, $make:expr) $($file:ident::$check:ident,)*) => {
        $(
            #[test]
            fn $check() {
                ($run)(Box::pin(async {
                    let subject = ($make)().await;
                    $crate::checks::leases::$file::$check(&subject).await;
                }));
            }
        )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! for_each_lease_check {
    ($callback:ident $argument:tt) => {
        $crate::$callback! { $argument
            holding::one_of_many_gets_it,
            holding::a_held_key_is_refused_and_left_alone,
            holding::keys_are_apart,
            holding::a_renewed_lease_is_kept,
            holding::belief_ends_by_itself,
            holding::fences_grow_or_are_refused,
            ending::a_released_key_is_free_at_once,
            ending::a_silent_holder_s_key_is_free_in_time,
            ending::the_deposed_can_t_renew,
            ending::the_deposed_can_t_release,
            ending::what_was_given_back_is_gone,
            faults::a_lost_answer_to_an_acquisition_is_found_out,
            faults::a_lost_acquisition_blocks_nobody_for_long,
            faults::a_lost_answer_to_a_renewal_is_found_out,
            faults::a_lost_renewal_is_not_believed,
            faults::a_lost_release_is_found_out,
            faults::a_damaged_record_is_never_overwritten,
        }
    };
}
