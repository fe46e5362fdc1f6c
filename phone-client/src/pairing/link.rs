//! `waybread-phone link`: which of the person's other devices are on this phone.

use std::{collections::BTreeSet, time::Duration};

use anyhow::bail;
use matrix_link::OwnDevice;
use phone_actions::MAX_CHAT_DEVICES;
use ruma::{DeviceId, OwnedDeviceId};

/// The linked devices after some are added and some are taken away.
///
/// # Errors
/// One of them is no device of the account, is the phone client itself, or there are too many.
pub(crate) fn changed(
    linked: &BTreeSet<OwnedDeviceId>,
    devices: &[OwnDevice],
    own: &DeviceId,
    named: &[OwnedDeviceId],
    remove: bool,
) -> anyhow::Result<BTreeSet<OwnedDeviceId>> {
    let mut changed = linked.clone();
    for id in named {
        if remove {
            if !changed.remove(id) {
                bail!("{id} is not linked");
            }
            continue;
        }
        if id == own {
            bail!("{id} is this client itself, which is on the phone anyway");
        }
        if !devices.iter().any(|device| device.id == *id) {
            bail!("you have no device {id}; `waybread-phone link` lists them");
        }
        changed.insert(id.clone());
    }
    if changed.len() > MAX_CHAT_DEVICES {
        bail!("at most {MAX_CHAT_DEVICES} devices can be linked");
    }
    Ok(changed)
}

/// The devices as a table, the linked ones marked.
pub(crate) fn listed(devices: &[OwnDevice], own: &DeviceId, linked: &BTreeSet<OwnedDeviceId>) -> String {
    let line = |device: &OwnDevice| {
        let mark = match &*device.id {
            id if id == own => "this client",
            id if linked.contains(id) => "on this phone",
            _ => "",
        };
        let name: String = device.name.as_deref().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        let seen = device.unseen.map(ago).unwrap_or_default();
        format!("  {:<16} {mark:<14} {seen:<16} {name}", device.id.as_str()).trim_end().to_owned()
    };
    devices.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn ago(time: Duration) -> String {
    match time.as_secs() {
        0..3600 => format!("{} min ago", time.as_secs() / 60),
        3600..172_800 => format!("{} h ago", time.as_secs() / 3600),
        _ => format!("{} days ago", time.as_secs() / 86_400),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{device_id, owned_device_id};

    use super::*;

    fn devices() -> Vec<OwnDevice> {
        let device = |id: &str, name: Option<&str>, minutes: Option<u64>| OwnDevice {
            id: id.into(),
            name: name.map(str::to_owned),
            unseen: minutes.map(|minutes| Duration::from_secs(minutes * 60)),
        };
        vec![
            device("PHONE", Some("waybread-phone"), Some(0)),
            device("ELEMENT", Some("Element X\u{1b}[2J"), Some(75)),
            device("OLD", None, Some(60 * 24 * 40)),
            device("NEVER", None, None),
        ]
    }

    #[test]
    fn only_other_devices_of_the_account_can_be_linked() {
        let own = device_id!("PHONE");
        let change = |linked: &[&str], named: &str, remove| {
            let linked = linked.iter().map(|id| OwnedDeviceId::from(*id)).collect();
            changed(&linked, &devices(), own, &[named.into()], remove)
        };
        let both = BTreeSet::from([owned_device_id!("ELEMENT"), owned_device_id!("OLD")]);
        assert_eq!(change(&["OLD"], "ELEMENT", false).unwrap(), both);
        assert_eq!(change(&["OLD", "GONE"], "GONE", true).unwrap(), [owned_device_id!("OLD")].into());
        for (named, remove, problem) in [
            ("PHONE", false, "PHONE is this client itself, which is on the phone anyway"),
            ("MINE", false, "you have no device MINE; `waybread-phone link` lists them"),
            ("ELEMENT", true, "ELEMENT is not linked"),
        ] {
            assert_eq!(change(&["OLD"], named, remove).unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn devices_are_listed_with_what_they_are_here() {
        insta::assert_snapshot!(listed(&devices(), device_id!("PHONE"), &[owned_device_id!("ELEMENT")].into()));
    }
}
