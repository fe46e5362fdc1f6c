//! Matrix sessions for Waybread: login, trust, sync, sending.
//!
//! This is the only crate that names matrix-sdk. What comes in is an [`Event`], what goes out is an [`Outgoing`]; the
//! agent, the person's phone client and the tests all stand on these.
//!
//! - [`Appservice`] (`appservice`): makes virtual users and acts as them;
//! - [`log_in`] (`login`): makes a session, with the password or a token;
//! - [`Link::open`] (`session`): logs in once, keeps the session, restores it at every later start;
//! - `trust`: cross-signing, recovery key, and which devices' words count;
//! - [`Link::answer_verifications`], [`Link::verify`] (`verification`): people and we compare emoji;
//! - [`Link::run_sync`] (`sync`): our own loop; what it received is in the caller's store before it asks for more;
//! - [`Link::run_late_keys`] (`late`): what could not be decrypted is tried again when its key comes;
//! - `watchdog`: a round of it that makes no progress is begun anew, and [`Link::sync_state`] shows it;
//! - `renewal`: fresh tokens are written down, a soft logout is followed by a login of the same device;
//! - `invites`: accepted from allowed people only;
//! - [`Sender`] (`sender`): the one way out, with the caller's transaction id;
//! - [`Rooms`] (`rooms`): what is known of a room and its people;
//! - `state`: a room's state, and who may do what there;
//! - `names`: people's names, so that they are not looked up for every message;
//! - `media`: encrypted files, up and down;
//! - `fetch`: one event as the homeserver shows it now;
//! - `devices`: the account's own devices;
//! - `roots`: which certificates are trusted where there is no system to ask;
//! - `diagnose`: what an operator's check asks.
//!
//! [`Sender`] and [`Rooms`] are traits, so that everything above runs in tests without a homeserver.

// Futures that hold the SDK's sync are nested too deep for the default limit.
#![recursion_limit = "256"]

mod access;
mod appservice;
mod devices;
mod diagnose;
mod event;
mod fetch;
mod files;
mod invites;
mod late;
mod login;
mod media;
mod names;
mod renewal;
mod rooms;
mod roots;
mod sender;
mod session;
mod state;
mod sync;
mod trust;
mod verification;
mod watchdog;

pub use access::{AccessEntry, AccessEntryError, AccessList, Trust, UnknownTrust};
pub use appservice::{Appservice, AppserviceError, Devices};
pub use devices::OwnDevice;
pub use diagnose::{
    DiagnoseError, KeyBackup, RecoveryKey, Session, has_lost_its_store, homeserver_versions, keeps_session,
};
pub use event::{Event, EventKind, Membership, Message, MessageKind, ParseError, Protection, Standing, parse};
pub use fetch::Fetched;
pub use files::{private_dir, read_or_create_key, write_private};
pub use login::{Login, log_in};
pub use media::MediaError;
pub use rooms::{FetchError, NewRoom, Rooms};
pub use sender::{Outgoing, Payload, SendError, Sender};
pub use session::{Account, Credentials, Link, OpenError, StoreLoss, SyncLimits, set_device_aside};
pub use state::{Act, ActError, Power, StateEvent};
pub use sync::{Batch, Sink, SinkError, SyncError, Typing, Undecrypted};
pub use trust::{KeyFault, ResetError, TrustReport, in_groups};
pub use verification::{Comparison, Confirm, Emoji, Verifier, VerifyError};
pub use watchdog::SyncState;
