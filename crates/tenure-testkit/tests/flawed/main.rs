//! The suite of leases is sharp: leases with any one of these flaws fail the check that is named for it, and no check fails on
//! leases without a flaw, with fences or without.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, also in what they share")]

mod model;

use model::{Flaw, Model};
use std::panic::AssertUnwindSafe;
use tenure_testkit::checks::leases;
use tenure_testkit::lease_conformance;

lease_conformance!(sound, tenure_testkit::run, || async { Model::new(Flaw::None) });
lease_conformance!(without_fences, tenure_testkit::run, || async { Model::new(Flaw::NoFences) });

/// The names of the checks that fail on leases with `flaw`.
fn failing(flaw: Flaw) -> Vec<&'static str> {
    let checks = leases::all::<Model>();
    let fails = |check: &leases::LeaseCheck<Model>| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let model = Model::new(flaw);
        std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on((check.run)(&model)))).is_err()
    };
    checks.iter().filter(|check| fails(check)).map(|check| check.name).collect()
}

macro_rules! flaws {
    ($($flaw:ident => $check:ident,)*) => {
        #[test]
        fn each_flaw_is_found_by_its_check() {
            $(
                let failed = failing(Flaw::$flaw);
                let check = stringify!($check);
                assert!(failed.contains(&check), "{:?} passes {check}; it fails {failed:?}", Flaw::$flaw);
            )*
        }
    };
}

flaws! {
    GivesToAll => one_of_many_gets_it,
    GivesToTheHolderAgain => a_held_key_is_refused_and_left_alone,
    TouchesWhatItRefuses => a_held_key_is_refused_and_left_alone,
    FoldsCase => keys_are_apart,
    RenewsNothing => a_renewed_lease_is_kept,
    BelievesForEver => belief_ends_by_itself,
    BelievesForEver => a_silent_holder_s_key_is_free_in_time,
    BelievesTooLittle => belief_ends_by_itself,
    RepeatsFences => fences_grow_or_are_refused,
    RaisesFencesAtRenewals => fences_grow_or_are_refused,
    InventsFences => fences_grow_or_are_refused,
    KeepsWhatIsReleased => a_released_key_is_free_at_once,
    BelievesAfterRelease => a_released_key_is_free_at_once,
    NeverExpires => a_silent_holder_s_key_is_free_in_time,
    ExpiresEarly => a_silent_holder_s_key_is_free_in_time,
    RenewsForOthers => the_deposed_can_t_renew,
    CallsTheDeposedHeld => the_deposed_can_t_renew,
    ReleasesForOthers => the_deposed_can_t_release,
    RefusesLateReleases => the_deposed_can_t_release,
    RenewsWhatIsFree => what_was_given_back_is_gone,
    CallsItsOwnHeld => a_lost_answer_to_an_acquisition_is_found_out,
    BelievesWithoutAnswer => a_lost_acquisition_blocks_nobody_for_long,
    LosesWhatIsUnanswered => a_lost_answer_to_a_renewal_is_found_out,
    BelievesWithoutAnswer => a_lost_renewal_is_not_believed,
    ForgetsLostReleases => a_lost_release_is_found_out,
    OverwritesTheDamaged => a_damaged_record_is_never_overwritten,
    CallsTheDamagedHeld => a_damaged_record_is_never_overwritten,
}
