//! The account's own devices.

use std::time::Duration;

use ruma::{MilliSecondsSinceUnixEpoch, OwnedDeviceId};

use crate::{FetchError, Link};

/// A device of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnDevice {
    /// Its id.
    pub id: OwnedDeviceId,
    /// The name that it has given itself.
    pub name: Option<String>,
    /// How long it has not been seen, by our clock.
    pub unseen: Option<Duration>,
}

impl Link {
    /// All devices of the account, as the homeserver knows them.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub async fn own_devices(&self) -> Result<Vec<OwnDevice>, FetchError> {
        let answer = self.client.devices().await.map_err(|error| FetchError::Server(Box::new(error.into())))?;
        let now = u64::from(MilliSecondsSinceUnixEpoch::now().get());
        let unseen = |at: MilliSecondsSinceUnixEpoch| Duration::from_millis(now.saturating_sub(at.get().into()));
        let device = |device: ruma::api::client::device::Device| OwnDevice {
            id: device.device_id,
            name: device.display_name,
            unseen: device.last_seen_ts.map(unseen),
        };
        Ok(answer.devices.into_iter().map(device).collect())
    }
}
