//! A new device with an empty store: what was said before, and what the agent had answered.

use serde_json::json;

use crate::testing::{ALICE, BOB, BOT, DIRECT, GROUP, House, Incoming};

#[tokio::test(start_paused = true)]
async fn what_was_answered_before_the_device_was_there_is_read_and_not_answered_again() {
    let house = House::with(json!({"steps": [], "otherwise": {"say": "Now."}}), |setup| {
        setup.past = vec![
            Incoming::message(ALICE, DIRECT, "Answered long ago?"),
            Incoming::message(BOT, DIRECT, "Yes."),
            Incoming::message(ALICE, DIRECT, "And this?"),
            Incoming::message(BOB, GROUP, "Me too?").mention(),
            Incoming::message(BOT, GROUP, "You too."),
            Incoming::message(ALICE, GROUP, "Thanks."),
        ];
    })
    .await;
    house.quiet().await;
    assert_eq!(house.requests(), 1, "{:?}", house.room(GROUP));
    assert_eq!((house.room(DIRECT), house.room(GROUP)), (vec!["Now.".to_owned()], vec![]));
    let shown = house.shown(0);
    assert!(shown.contains("Answered long ago?") && shown.contains("And this?"), "{shown}");
}
