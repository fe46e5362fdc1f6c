//! `!model`: which model answers in this room.

use super::{Key, Shared};
use crate::{conversation::NamedModel, store::StoreError};

const SETTING: &str = "model";

pub(super) async fn answer(name: Option<&str>, shared: &Shared, key: &Key) -> String {
    match choose(name, shared, key).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "!model failed");
            "I can't read my notes right now. Please tell my operator.".to_owned()
        }
    }
}

async fn choose(name: Option<&str>, shared: &Shared, key: &Key) -> Result<String, StoreError> {
    let Some(name) = name else {
        let here = chosen(shared, key).await?;
        let names: Vec<_> = shared
            .models
            .iter()
            .map(|one| {
                let mark = if here.is_some_and(|here| here.name == one.name) { " (answers here)" } else { "" };
                format!("- `{}`{mark}", one.name)
            })
            .collect();
        return Ok(format!("Models:\n\n{}", names.join("\n")));
    };
    match shared.models.iter().find(|one| one.name.eq_ignore_ascii_case(name)) {
        Some(model) => {
            shared.store.set_room_setting(&key.room, SETTING, &model.name).await?;
            Ok(format!("`{}` answers here from now on.", model.name))
        }
        None => {
            let names: Vec<_> = shared.models.iter().map(|one| format!("`{}`", one.name)).collect();
            Ok(format!("There is no model {name:?}. I have: {}.", names.join(", ")))
        }
    }
}

/// The model that answers in the conversation's room: the one chosen there, else the usual one.
///
/// # Errors
/// When the store fails.
pub(in crate::conversation) async fn chosen<'a>(
    shared: &'a Shared,
    key: &Key,
) -> Result<Option<&'a NamedModel>, StoreError> {
    let name = shared.store.room_setting(&key.room, SETTING).await?;
    let named = name.and_then(|name| shared.models.iter().find(|one| one.name == name));
    Ok(named.or(shared.models.first()))
}
