//! Battery and heat.

use crate::{backend::Health, settings::HeatGuard};

use super::Refused;

/// At this charge, in percent, and under it a phone does nothing unless it charges.
const EMPTY: u8 = 3;

/// From how many °C of the battery on each guard refuses. Android names these states severe, critical and emergency, but
/// tells a program in Termux nothing but the battery's temperature. Batteries are not charged any more at about 45 °C, and
/// phones switch themselves off at about 60 °C: the three lie between, evenly.
const fn limit(guard: HeatGuard) -> f32 {
    match guard {
        HeatGuard::High => SEVERE,
        HeatGuard::Medium => CRITICAL,
        HeatGuard::Minimal => EMERGENCY,
    }
}

const SEVERE: f32 = 45.0;
const CRITICAL: f32 = 50.0;
const EMERGENCY: f32 = 55.0;

/// Whether the phone is well enough to do anything. What is not known is no reason to refuse; but that a nearly empty
/// battery charges must be known.
///
/// # Errors
/// Why not.
pub(crate) fn check_health(health: &Health, guard: HeatGuard) -> Result<(), Refused> {
    if let Some(percent) = health.battery.filter(|percent| *percent <= EMPTY && health.charging != Some(true)) {
        return Err(Refused::Battery { percent });
    }
    match health.temperature {
        Some(degrees) if degrees >= limit(guard) => Err(Refused::Heat { degrees: degrees as i32 }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(battery: u8, charging: Option<bool>) -> Result<(), Refused> {
        let health = Health { battery: Some(battery), charging, temperature: None };
        check_health(&health, HeatGuard::High)
    }

    #[test]
    fn an_empty_battery_refuses_unless_it_charges() {
        assert_eq!(verdict(4, Some(false)), Ok(()));
        assert_eq!(verdict(3, Some(false)), Err(Refused::Battery { percent: 3 }));
        assert_eq!(verdict(0, None), Err(Refused::Battery { percent: 0 }));
        assert_eq!(verdict(3, Some(true)), Ok(()));
        let text = verdict(3, None).map_err(|refused| refused.to_string());
        assert_eq!(
            text,
            Err("the phone's battery is at 3 % and not charging: it does nothing until it charges".to_owned())
        );
    }

    #[test]
    fn each_guard_has_its_own_heat() {
        for (guard, last) in [(HeatGuard::Minimal, 54.9), (HeatGuard::Medium, 49.9), (HeatGuard::High, 44.9)] {
            let at = |temperature| check_health(&Health { temperature: Some(temperature), ..Health::default() }, guard);
            assert_eq!(at(last), Ok(()), "{guard:?}");
            assert!(matches!(at(last + 0.1), Err(Refused::Heat { .. })), "{guard:?}");
            assert!(at(f32::INFINITY).is_err() && at(f32::NAN).is_ok() && at(-20.0).is_ok());
        }
    }

    #[test]
    fn a_phone_that_tells_nothing_is_well() {
        assert_eq!(check_health(&Health::default(), HeatGuard::High), Ok(()));
    }
}
