//! `!later`: the turns that the agent has set itself here.

use jiff::SignedDuration;

use super::{Key, Shared};
use crate::store::StoreError;

pub(super) async fn answer(words: Option<&str>, shared: &Shared, key: &Key) -> String {
    match carry_out(words, shared, key).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "!later failed");
            "I can't read my notes right now. Please tell my operator.".to_owned()
        }
    }
}

async fn carry_out(words: Option<&str>, shared: &Shared, key: &Key) -> Result<String, StoreError> {
    let laters = shared.store.laters(&key.room, key.thread.as_deref()).await?;
    let Some(words) = words else {
        if laters.is_empty() {
            return Ok("I have set myself nothing for later here.".to_owned());
        }
        let now = shared.clock.now();
        let lines: Vec<_> = laters
            .iter()
            .map(|one| {
                let wait = one.later.due_at.duration_since(now);
                format!("- {} {}: {}", one.id, when(wait), one.later.note)
            })
            .collect();
        return Ok(format!(
            "What I have set myself for later here:\n\n{}\n\n`!later delete NUMBER` takes one away.",
            lines.join("\n")
        ));
    };
    let number = words.strip_prefix("delete").map(str::trim).and_then(|number| number.parse::<i64>().ok());
    let Some(number) = number else {
        return Ok("`!later` lists what I have set myself for later; `!later delete NUMBER` takes one away.".to_owned());
    };
    if !laters.iter().any(|one| one.id == number) {
        return Ok(format!("There is no number {number} here. `!later` lists them."));
    }
    shared.store.remove_later(number).await?;
    Ok(format!("Number {number} is taken away."))
}

fn when(wait: SignedDuration) -> String {
    let seconds = wait.as_secs();
    match seconds {
        ..=0 => "now".to_owned(),
        1..=119 => format!("in {seconds} s"),
        120..=7199 => format!("in {} min", seconds / 60),
        _ => format!("in {} h", seconds / 3600),
    }
}
