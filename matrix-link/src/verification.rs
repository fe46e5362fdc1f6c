//! Verification by emoji (SAS): a person and we compare seven of them, and then each has verified the other.
//!
//! A request is answered if it comes from somebody in the access list, to our device or in a direct room; all others are
//! cancelled. Who compares on our side is said by [`Confirm`]. A request from our own account is left to a person alone:
//! whoever passes it gets the account's secrets.

use std::{pin::pin, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt, stream::FuturesUnordered};
use matrix_sdk::{
    Error,
    encryption::{
        identities::{IdentityUpdates, RequestVerificationError},
        verification::{SasState, SasVerification, Verification, VerificationRequest, VerificationRequestState},
    },
    room::Room,
};
use ruma::{
    OwnedDeviceId, OwnedUserId, UserId,
    events::{
        key::verification::{VerificationMethod, request::ToDeviceKeyVerificationRequestEvent},
        room::message::{MessageType, OriginalSyncRoomMessageEvent},
    },
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{Link, Rooms};

/// From the request to the end; the specification's own limit.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// A request that none of our own other devices has accepted by then is made again: a device that has not heard of ours
/// yet drops it without a word.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Until our own other devices, where they are online, have heard of a new one.
const NEW_DEVICE_HEARD_OF: Duration = Duration::from_secs(3);
/// After the end the signature is uploaded and shown to us by a sync: so often and so far apart we look for it.
const SIGNED_ATTEMPTS: u32 = 20;
const SIGNED_EVERY: Duration = Duration::from_millis(500);
/// Verifications at once, and requests that wait to be looked at; more are cancelled or dropped.
const AT_ONCE: usize = 4;
const WAITING: usize = 16;

/// One of the seven emoji.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emoji {
    /// The picture.
    pub symbol: String,
    /// Its name, as the specification has it.
    pub name: String,
}

/// What two people compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The other one.
    pub user: OwnedUserId,
    /// Their device.
    pub device: OwnedDeviceId,
    /// What both should see, in this order.
    pub emoji: Vec<Emoji>,
}

/// Compares for a person.
#[async_trait]
pub trait Verifier: Send + Sync {
    /// Whether the other side shows the same emoji.
    async fn same(&self, comparison: &Comparison) -> bool;

    /// A verification with `user` has ended.
    async fn ended(&self, user: &UserId, outcome: &Result<(), VerifyError>);
}

/// Who compares on our side.
pub enum Confirm<'a> {
    /// Nobody: the emoji are in the log, where the person may compare, and are confirmed at once. Then the account has
    /// verified the person without a proof, so this is wrong where words count by it; and the verification is taken back
    /// when the person's identity changes.
    Unseen,
    /// Nobody, and all requests are cancelled.
    Never,
    /// A person.
    By(&'a dyn Verifier),
}

/// Why a verification did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The other side has cancelled it.
    #[error("cancelled: {0}")]
    Cancelled(String),
    /// The emoji differ.
    #[error("the emoji are not the same: somebody may be listening in")]
    Different,
    /// It took too long.
    #[error("not finished in time")]
    TimedOut,
    /// The other side has nothing that can be verified.
    #[error("{0} has no cross-signing identity")]
    NoIdentity(OwnedUserId),
    /// The other side can't compare emoji.
    #[error("the other side can't compare emoji")]
    NoEmoji,
    /// The homeserver can't be reached, or the like.
    #[error("the verification failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for VerifyError {
    fn from(error: Error) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<RequestVerificationError> for VerifyError {
    fn from(error: RequestVerificationError) -> Self {
        Self::Failed(Box::new(error))
    }
}

struct Asked {
    by: OwnedUserId,
    flow: String,
    room: Option<Room>,
}

impl Link {
    /// Answers requests for ever. Sync must run beside it.
    pub async fn answer_verifications(&self, confirm: &Confirm<'_>) {
        match confirm {
            Confirm::Unseen => tokio::join!(self.answer_requests(confirm), self.forget_what_changed()).0,
            Confirm::Never | Confirm::By(_) => self.answer_requests(confirm).await,
        }
    }

    /// Takes our verification of each identity back that is replaced. The SDK sends nothing into a room with a verified
    /// person whose identity has changed, and what was confirmed unseen is no reason for that.
    async fn forget_what_changed(&self) {
        let mut updates = match self.client.encryption().user_identities_stream().await {
            Ok(updates) => pin!(updates),
            Err(error) => return tracing::warn!(%error, "changes of identities are not seen"),
        };
        while let Some(IdentityUpdates { changed, .. }) = updates.next().await {
            for (user, identity) in changed.iter().filter(|(_, identity)| identity.has_verification_violation()) {
                match identity.withdraw_verification().await {
                    Ok(()) => tracing::warn!(%user, "has another identity now: no longer verified"),
                    Err(error) => tracing::warn!(%user, %error, "has another identity now, and is still verified"),
                }
            }
        }
    }

    async fn answer_requests(&self, confirm: &Confirm<'_>) {
        let (asked, mut waiting) = mpsc::channel(WAITING);
        let in_room = asked.clone();
        let us = self.user.clone();
        let to_device = self.client.add_event_handler(move |event: ToDeviceKeyVerificationRequestEvent| {
            let flow = event.content.transaction_id.to_string();
            let _ = asked.try_send(Asked { by: event.sender, flow, room: None });
            async {}
        });
        let in_room = self.client.add_event_handler(move |event: OriginalSyncRoomMessageEvent, room: Room| {
            if matches!(&event.content.msgtype, MessageType::VerificationRequest(request) if request.to == us) {
                let flow = event.event_id.to_string();
                let _ = in_room.try_send(Asked { by: event.sender, flow, room: Some(room) });
            }
            async {}
        });
        let _handlers = [to_device, in_room].map(|handler| self.client.event_handler_drop_guard(handler));
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(asked) = waiting.recv() => {
                    let free = running.len() < AT_ONCE;
                    running.push(self.answer_verification(asked, confirm, free));
                }
                Some(()) = running.next() => {}
                else => return,
            }
        }
    }

    async fn answer_verification(&self, asked: Asked, confirm: &Confirm<'_>, free: bool) {
        let Asked { by, flow, room } = asked;
        let encryption = self.client.encryption();
        let Some(request) = encryption.get_verification_request(&by, &flow).await else {
            // The SDK takes no request of a device that it does not know; the next one it will.
            tracing::info!(user = %by, "verification request of an unknown device or too old: it must be made again");
            let _ = encryption.request_user_identity(&by).await;
            return;
        };
        let direct = match &room {
            Some(room) => self.is_direct(room.room_id()).await,
            None => true,
        };
        let refusal = match confirm {
            _ if by == self.user && !matches!(confirm, Confirm::By(_)) => Some("it is our own account's"),
            _ if by != self.user && !self.access.allows(&by) => Some("not in access.allow"),
            _ if !direct => Some("not in a direct room"),
            _ if !free => Some("too many at once"),
            Confirm::Never => Some("verifications are left to a person"),
            Confirm::Unseen | Confirm::By(_) => None,
        };
        if let Some(reason) = refusal {
            tracing::info!(user = %by, reason, "verification request cancelled");
            if let Err(error) = request.cancel().await {
                tracing::warn!(user = %by, %error, "verification request not cancelled");
            }
            return;
        }
        tracing::info!(user = %by, "verification begins");
        let outcome = self.conclude(&request, confirm).await;
        match &outcome {
            Ok(()) => tracing::info!(user = %by, "verified"),
            Err(error) => tracing::warn!(user = %by, error = error as &dyn std::error::Error, "not verified"),
        }
        if let Confirm::By(verifier) = confirm {
            verifier.ended(&by, &outcome).await;
        }
    }

    /// Verifies somebody: asks in the direct room with them, else asks the first of their devices that they have signed.
    /// Sync must run beside it.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub async fn verify(&self, user: &UserId, verifier: &dyn Verifier) -> Result<(), VerifyError> {
        let encryption = self.client.encryption();
        let identity = encryption.request_user_identity(user).await?;
        let identity = identity.ok_or_else(|| VerifyError::NoIdentity(user.to_owned()))?;
        let methods = vec![VerificationMethod::SasV1];
        let request = if self.direct_room_with(user).is_some() {
            identity.request_verification_with_methods(methods).await?
        } else {
            let devices = encryption.get_user_devices(user).await?;
            let device = devices.devices().find(|device| device.is_cross_signed_by_owner());
            let device = device.ok_or_else(|| VerifyError::NoIdentity(user.to_owned()))?;
            device.request_verification_with_methods(methods).await?
        };
        self.conclude(&request, &Confirm::By(verifier)).await
    }

    /// Verifies this device, which is new, with any other one of the same account. Sync must run beside it.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub async fn verify_own_device(&self, verifier: &dyn Verifier) -> Result<(), VerifyError> {
        let request = timeout(TIME_LIMIT, self.accepted_request()).await.unwrap_or(Err(VerifyError::TimedOut))?;
        self.conclude(&request, &Confirm::By(verifier)).await
    }

    /// Asks all our other devices until one accepts.
    async fn accepted_request(&self) -> Result<VerificationRequest, VerifyError> {
        sleep(NEW_DEVICE_HEARD_OF).await;
        let identity = self.client.encryption().request_user_identity(&self.user).await?;
        let identity = identity.ok_or_else(|| VerifyError::NoIdentity(self.user.clone()))?;
        loop {
            let request = identity.request_verification_with_methods(vec![VerificationMethod::SasV1]).await?;
            let heard = async {
                let mut changes = request.changes();
                while matches!(request.state(), VerificationRequestState::Created { .. }) {
                    if changes.next().await.is_none() {
                        break;
                    }
                }
            };
            if timeout(ASK_AGAIN, heard).await.is_ok() {
                return Ok(request);
            }
            request.cancel().await?;
        }
    }

    /// Brings a request to its end in time, on either side.
    async fn conclude(&self, request: &VerificationRequest, confirm: &Confirm<'_>) -> Result<(), VerifyError> {
        let outcome = timeout(TIME_LIMIT, async { compare(&begin(request).await?, confirm).await }).await;
        let outcome = outcome.unwrap_or(Err(VerifyError::TimedOut));
        match &outcome {
            Ok(()) => self.signed(request.other_user_id()).await,
            Err(VerifyError::TimedOut | VerifyError::NoEmoji | VerifyError::Failed(_)) => {
                let _ = request.cancel().await;
            }
            Err(VerifyError::Cancelled(_) | VerifyError::Different | VerifyError::NoIdentity(_)) => {}
        }
        outcome
    }

    /// Waits until the verification counts: our signature of the other identity has come back from the homeserver.
    async fn signed(&self, user: &UserId) {
        for _ in 0..SIGNED_ATTEMPTS {
            if matches!(self.client.encryption().request_user_identity(user).await, Ok(Some(one)) if one.is_verified())
            {
                return;
            }
            sleep(SIGNED_EVERY).await;
        }
        tracing::warn!(%user, "verified, and the homeserver does not show our signature yet");
    }

    /// Whether we have verified `user`, as far as is known here.
    pub async fn has_verified(&self, user: &UserId) -> bool {
        matches!(self.client.encryption().get_user_identity(user).await, Ok(Some(identity)) if identity.is_verified())
    }
}

/// From the request to the comparison: the one that has asked also starts it.
async fn begin(request: &VerificationRequest) -> Result<SasVerification, VerifyError> {
    let mut changes = request.changes();
    let mut state = request.state();
    loop {
        match state {
            VerificationRequestState::Requested { .. } => {
                request.accept_with_methods(vec![VerificationMethod::SasV1]).await?;
            }
            VerificationRequestState::Ready { .. } if request.we_started() => {
                request.start_sas().await?;
            }
            VerificationRequestState::Transitioned { verification: Verification::SasV1(sas) } => return Ok(sas),
            VerificationRequestState::Transitioned { .. } => return Err(VerifyError::NoEmoji),
            VerificationRequestState::Cancelled(info) => return Err(VerifyError::Cancelled(info.reason().to_owned())),
            VerificationRequestState::Created { .. }
            | VerificationRequestState::Ready { .. }
            | VerificationRequestState::Done => {}
        }
        state = changes.next().await.ok_or(VerifyError::TimedOut)?;
    }
}

async fn compare(sas: &SasVerification, confirm: &Confirm<'_>) -> Result<(), VerifyError> {
    let mut changes = sas.changes();
    let mut state = sas.state();
    let mut compared = false;
    loop {
        match state {
            SasState::Started { .. } if !sas.we_started() => sas.accept().await?,
            SasState::KeysExchanged { emojis: Some(emojis), .. } if !compared => {
                compared = true;
                let emoji = emojis.emojis.iter();
                let comparison = Comparison {
                    user: sas.other_user_id().to_owned(),
                    device: sas.other_device().device_id().to_owned(),
                    emoji: emoji.map(|one| Emoji { symbol: one.symbol.into(), name: one.description.into() }).collect(),
                };
                if same(&comparison, confirm).await {
                    sas.confirm().await?;
                } else {
                    sas.mismatch().await?;
                    return Err(VerifyError::Different);
                }
            }
            SasState::KeysExchanged { emojis: None, .. } => return Err(VerifyError::NoEmoji),
            SasState::Done { .. } => return Ok(()),
            SasState::Cancelled(info) => return Err(VerifyError::Cancelled(info.reason().to_owned())),
            SasState::Created { .. }
            | SasState::Started { .. }
            | SasState::Accepted { .. }
            | SasState::KeysExchanged { .. }
            | SasState::Confirmed => {}
        }
        state = changes.next().await.ok_or(VerifyError::TimedOut)?;
    }
}

async fn same(comparison: &Comparison, confirm: &Confirm<'_>) -> bool {
    let Comparison { user, device, emoji } = comparison;
    let shown: Vec<_> = emoji.iter().map(|one| format!("{} {}", one.symbol, one.name)).collect();
    tracing::info!(%user, %device, "emoji: {}", shown.join(", "));
    match confirm {
        Confirm::Unseen => true,
        Confirm::Never => false,
        Confirm::By(verifier) => verifier.same(comparison).await,
    }
}
