//! The model bites: with any one of the protections taken out, the checker finds how a customer is charged twice. The
//! protections are the model's; production has no switches.

use crate::checks::is_broken;
use crate::properties::{ENDS_WELL, NO_LIE, ONE_PAYMENT};
use crate::setting::{Protections, RETENTION, Said, Setting};

/// One caller and the reconciler are enough to do harm.
fn without(name: &'static str, answers: &'static [Said], protections: Protections) -> Setting {
    Setting {
        callers: 1,
        attempts: 2,
        protections,
        ..Setting::new(name, answers)
    }
}

#[test]
fn a_reservation_after_the_call_charges_twice() {
    let protections = Protections {
        reserve_first: false,
        ..Protections::ALL
    };
    let setting = without("reserved after the call", &[Said::Paid], protections);
    is_broken(&setting, ONE_PAYMENT);
    is_broken(&setting, ENDS_WELL);
}

#[test]
fn writes_without_the_lease_token_charge_twice() {
    let protections = Protections {
        lease_token: false,
        ..Protections::ALL
    };
    let answers = &[Said::Paid, Said::Refused];
    is_broken(
        &without("no lease token", answers, protections),
        ONE_PAYMENT,
    );
}

#[test]
fn a_new_key_after_an_unknown_outcome_charges_twice() {
    let protections = Protections {
        same_key: false,
        ..Protections::ALL
    };
    let setting = without("a new key on unknown", &[Said::Paid], protections);
    is_broken(&setting, ONE_PAYMENT);
}

/// A takeover that is late looks first, so it takes a look-up that fails as well.
#[test]
fn the_same_key_past_its_window_charges_twice() {
    let protections = Protections {
        window: false,
        ..Protections::ALL
    };
    let setting = Setting {
        look_ups_fail: true,
        ..without("the same key past the window", &[Said::Paid], protections)
    };
    is_broken(&setting, ONE_PAYMENT);
}

#[test]
fn a_failure_taken_from_a_late_answer_charges_twice() {
    let protections = Protections {
        own_answer_only: false,
        ..Protections::ALL
    };
    let answers = &[Said::Paid, Said::Refused];
    let setting = without("a late answer taken as a failure", answers, protections);
    is_broken(&setting, ONE_PAYMENT);
    is_broken(&setting, NO_LIE);
}

/// Not a protection of ours but what they rely on: the provider's network forgets a request before the provider forgets its key.
#[test]
fn a_request_that_outlives_the_memory_of_its_key_charges_twice() {
    let setting = Setting {
        look_ups_fail: true,
        request_life: RETENTION,
        ..without("a request of yesterday", &[Said::Paid], Protections::ALL)
    };
    is_broken(&setting, ONE_PAYMENT);
}
