//! What the phone refuses by itself, whatever was proposed and confirmed.
//!
//! Two things are looked at: how the phone is ([`check_health`]), and what the action is ([`check_action`]). The runner
//! asks before a card is shown, and [`perform`] asks again before and while something is done.
//!
//! - `health`: battery and heat;
//! - `numbers`: codes that can change or reset a phone;
//! - `addresses`: what a page's address may not be;
//! - `names`: apps that are never opened, and how names are compared.

mod addresses;
mod health;
mod names;
mod numbers;

use std::time::Duration;

use phone_actions::Action;
use serde_json::Value;
use tracing::info;

use crate::{
    backend::{Backend, Health, Performed},
    settings::HeatGuard,
};

pub(crate) use health::check_health;
pub(crate) use names::{check_package, folded};

/// How often battery and heat are looked at while something is done.
const WATCH: Duration = Duration::from_secs(5);

/// Why the phone refuses. Shown, it is what the model is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The battery is nearly empty.
    #[error("the phone's battery is at {percent} % and not charging: it does nothing until it charges")]
    Battery {
        /// What is left.
        percent: u8,
    },
    /// The battery is hot.
    #[error("the phone is too hot ({degrees} °C): it does nothing until it has cooled down")]
    Heat {
        /// The battery's temperature in whole °C.
        degrees: i32,
    },
    /// A service code.
    #[error("the phone takes no numbers with * or #: such codes can change or reset it")]
    Code,
    /// A terminal, an installer, an update or a reset.
    #[error("no agent may open a terminal, an installer, an update or a reset on this phone")]
    App,
    /// An address that is not plainly one of a page.
    #[error("the phone does not open this address: {0}")]
    Address(&'static str),
}

/// Whether the phone may do this now.
///
/// # Errors
/// Why not.
pub(crate) fn check(action: &Action, health: &Health, guard: HeatGuard) -> Result<(), Refused> {
    check_health(health, guard)?;
    check_action(action)
}

/// Whether this is something that the phone does at all.
///
/// # Errors
/// Why not.
pub(crate) fn check_action(action: &Action) -> Result<(), Refused> {
    let text = |field| action.get(field).and_then(Value::as_str).unwrap_or_default();
    match action.name() {
        "dial" => numbers::check(text("number")),
        "sms_draft" => {
            let people = action.get("to").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            people.iter().filter_map(Value::as_str).try_for_each(numbers::check)
        }
        "open_app" => names::check(text("app")),
        "automation_intent" => names::check(text("app")),
        "open_url" => addresses::check(text("url")),
        _ => Ok(()),
    }
}

/// Does what the person has confirmed, if the phone may: battery, heat and the action are checked just before, and battery
/// and heat while it is done, which is ended when they get too bad. Both are logged before and after.
pub(crate) async fn perform(backend: &dyn Backend, action: &Action, guard: HeatGuard) -> Performed {
    let before = backend.health().await;
    log(action, "before", &before);
    if let Err(refused) = check(action, &before, guard) {
        return Performed::Failed(refused.to_string());
    }
    let performed = tokio::select! {
        performed = backend.perform(action) => performed,
        refused = endangered(backend, guard) => Performed::Failed(refused.to_string()),
    };
    log(action, "after", &backend.health().await);
    performed
}

/// Waits until battery or heat are too bad to go on.
async fn endangered(backend: &dyn Backend, guard: HeatGuard) -> Refused {
    loop {
        tokio::time::sleep(WATCH).await;
        if let Err(refused) = check_health(&backend.health().await, guard) {
            return refused;
        }
    }
}

fn log(action: &Action, when: &str, health: &Health) {
    let Health { battery, charging, temperature } = health;
    info!(action = action.name(), when, battery, charging, temperature, "battery and heat");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use async_trait::async_trait;
    use phone_actions::check as checked;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::backend::{BackendError, Decision, Prompt};

    fn verdict(call: &Value) -> Result<(), Refused> {
        check_action(&checked(call).unwrap())
    }

    #[test]
    fn each_action_is_looked_at_in_the_field_that_can_do_harm() {
        for (call, refused) in [
            (json!({"action": "dial", "number": "*100#"}), Refused::Code),
            (json!({"action": "sms_draft", "to": ["112", "##4636##"], "body": "x"}), Refused::Code),
            (json!({"action": "open_app", "app": "Termux"}), Refused::App),
            (json!({"action": "automation_intent", "app": "Termux:Tasker", "name": "x"}), Refused::App),
            (json!({"action": "open_url", "url": "https://a@b/"}), Refused::Address("it has a user name in it")),
        ] {
            assert_eq!(verdict(&call), Err(refused), "{call}");
        }
        for call in [
            json!({"action": "dial", "number": "+33 1 23"}),
            json!({"action": "sms_draft", "to": ["Bob", "112"], "body": "Press *1# in Termux, https://a@b/"}),
            json!({"action": "open_app", "app": "Firefox"}),
            json!({"action": "automation_intent", "name": "Terminal lights", "values": {"code": "*#"}}),
            json!({"action": "open_url", "url": "https://example.org/"}),
            json!({"action": "alarm", "time": "07:30", "label": "*#06# Termux"}),
        ] {
            assert_eq!(verdict(&call), Ok(()), "{call}");
        }
    }

    /// A phone whose battery falls by one percent each time it is asked.
    struct Falling {
        battery: AtomicUsize,
        done: Mutex<bool>,
        takes: Duration,
    }

    impl Falling {
        fn from(percent: usize, takes: Duration) -> Self {
            Self { battery: AtomicUsize::new(percent), done: Mutex::new(false), takes }
        }
    }

    #[async_trait]
    impl Backend for Falling {
        fn can(&self, _: &str) -> bool {
            true
        }

        async fn confirm(&self, _: &Prompt<'_>) -> Result<Decision, BackendError> {
            Ok(Decision::Confirmed)
        }

        async fn perform(&self, _: &Action) -> Performed {
            tokio::time::sleep(self.takes).await;
            *self.done.lock().unwrap() = true;
            Performed::Done(None)
        }

        async fn health(&self) -> Health {
            let battery = self.battery.fetch_sub(1, Ordering::Relaxed);
            Health { battery: u8::try_from(battery).ok(), charging: Some(false), temperature: Some(20.0) }
        }

        async fn keep_awake(&self, _: bool) {}

        async fn notice(&self, _: &str) {}
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_is_ended_when_the_battery_gets_too_low() {
        let action = checked(&json!({"action": "torch", "on": true})).unwrap();
        for (percent, seconds, done) in [(3, 1, false), (4, 1, true), (5, 60, false), (50, 60, true)] {
            let phone = Falling::from(percent, Duration::from_secs(seconds));
            let performed = perform(&phone, &action, HeatGuard::Minimal).await;
            assert_eq!(performed == Performed::Done(None), done, "{percent}: {performed:?}");
            assert_eq!(*phone.done.lock().unwrap(), done);
        }
    }

    proptest! {
        #[test]
        fn any_action_has_a_verdict(call in crate::backend::any_call(), battery in any::<Option<u8>>(), heat in any::<f32>()) {
            let Ok(action) = checked(&call) else { return Ok(()) };
            let health = Health { battery, charging: None, temperature: Some(heat) };
            if let Err(refused) = check(&action, &health, HeatGuard::High) {
                prop_assert!(!refused.to_string().contains('\n'));
            }
        }
    }
}
