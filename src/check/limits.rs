//! The account's rate limit. No homeserver tells it, so it is only known when it is met: by a few events more than an
//! ordinary account may send at once. It stops at the first refusal, which costs the account nothing but the wait for
//! its next event.

use super::{Report, because, round_trip::Trip};

/// Events in a row after which there is no ordinary limit: Synapse's default allows 10, and gives one back in 5 seconds.
const ENOUGH: u32 = 14;

pub(super) async fn check(report: &mut Report, trip: &mut Trip<'_>) {
    while !trip.limited && trip.taken < ENOUGH {
        if let Err(error) = trip.one_more().await {
            report.warn("limits", because("unknown", &error), "check again");
            return;
        }
    }
    if trip.limited {
        report.ok(
            "limits",
            "ordinary account limits: a long answer grows in few steps (docs/operate.md, \"Rate limits\")",
        );
    } else {
        report.ok("limits", format!("no limits seen: {} events in a row were taken", trip.taken));
    }
}
