//! An agent's picture: uploaded once, and again when its file has changed.

use anyhow::{Context, bail};
use matrix_link::Appservice;
use ruma::UserId;
use sha2::{Digest, Sha256};

use crate::{config::Avatar, store::Store};

/// The largest picture, in bytes.
const MAX_BYTES: usize = 2 << 20;

/// Gives an agent its picture, unless it has it.
pub(super) async fn give(
    appservice: &Appservice,
    store: &Store,
    user: &UserId,
    Avatar { file, content_type }: &Avatar,
) -> anyhow::Result<()> {
    let picture = tokio::fs::read(file).await.with_context(|| file.display().to_string())?;
    if picture.len() > MAX_BYTES {
        bail!("{} is larger than {} MB", file.display(), MAX_BYTES >> 20);
    }
    let digest: String = Sha256::digest(&picture).iter().map(|byte| format!("{byte:02x}")).collect();
    let mxc = match store.picture(&digest).await? {
        Some(mxc) => mxc,
        None => {
            let mxc = appservice.upload(user, content_type, picture).await?;
            store.set_picture(&digest, &mxc).await?;
            mxc
        }
    };
    Ok(appservice.picture(user, &mxc).await?)
}
