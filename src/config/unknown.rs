//! Refuses what nobody reads: a misspelt key or variable must not be silent. The refusal names what may have been
//! meant, and never shows the value.
//!
//! What stands in an `[[agent]]` is looked at like a file of its own, with the keys that one may have.

use toml_edit::TableLike;

use super::{
    error::{ConfigError, Place, shown},
    reader::{PREFIX, Reader, Source, variable},
};

/// Variables with the [`PREFIX`] that belong to other programs: the cache folder of `xtask`, and all of the tests,
/// the demo and the phone client.
const FOREIGN: [&str; 1] = ["WAYBREAD_CACHE_DIR"];
const FOREIGN_PREFIXES: [&str; 3] = ["WAYBREAD_TEST_", "WAYBREAD_DEMO_", "WAYBREAD_PHONE_"];

impl Reader {
    /// Refuses every key and variable that nobody has asked for. To be called when all tables have been read.
    pub(super) fn refuse_unknown(&self) -> Result<(), ConfigError> {
        if let Some(file) = &self.file {
            self.refuse_unknown_keys(file, &self.keys, file.document.as_table(), ("", ""))?;
            for (index, agent) in file.agents().into_iter().flatten().enumerate() {
                self.refuse_unknown_keys(file, &self.agent_keys, agent, (&format!("agent[{index}]."), ""))?;
            }
        }
        self.refuse_unknown_variables()
    }

    /// The table's keys must be among the known ones; its path is shown behind the prefix.
    fn refuse_unknown_keys(
        &self,
        file: &Source,
        known: &[String],
        table: &dyn TableLike,
        (prefix, path): (&str, &str),
    ) -> Result<(), ConfigError> {
        for (key, item) in table.iter() {
            let below = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            // A quoted key can hold dots itself; no key of ours does.
            let plain = !key.contains('.');
            if plain && (known.contains(&below) || self.lists.contains(&below))
                || below == "agent" && item.is_array_of_tables()
            {
                continue;
            }
            let place = |path: &str, span| {
                let key = shown(&format!("{prefix}{path}"));
                Place::File { file: file.name.clone(), line: file.line(span), key }
            };
            let key_span = table.key(key).and_then(|key| key.span());
            if !plain || !known.iter().any(|known| is_below(known, &below)) {
                let hint = self.key_hint(known, path, key);
                return Err(ConfigError::Unknown { place: place(&below, key_span), hint });
            }
            match item.as_table_like() {
                Some(table) => self.refuse_unknown_keys(file, known, table, (prefix, &below))?,
                None => {
                    return Err(ConfigError::Value {
                        place: place(&below, item.span().or(key_span)),
                        expected: "a table".to_owned(),
                        found: shown(file.written(item.span())),
                    });
                }
            }
        }
        Ok(())
    }

    fn key_hint(&self, known: &[String], table: &str, key: &str) -> String {
        let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        if self.secrets.contains(&path) {
            return format!(
                "a secret doesn't belong here: name its file in \"{key}_file\", or set {}",
                variable(&path)
            );
        }
        let mut known: Vec<&str> = known
            .iter()
            .filter_map(|known| if table.is_empty() { Some(&**known) } else { below(known, table) })
            .filter_map(|rest| rest.split('.').next())
            .collect();
        known.dedup();
        match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known here: {}", known.join(", ")),
        }
    }

    fn refuse_unknown_variables(&self) -> Result<(), ConfigError> {
        let known: Vec<_> = self.keys.iter().chain(&self.secrets).map(|path| variable(path)).collect();
        for name in self.environment.keys() {
            let foreign = FOREIGN.contains(&&**name) || FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if foreign || known.contains(name) {
                continue;
            }
            // The prefix they share would make all names near.
            let rests = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
            let hint = match nearest(name.strip_prefix(PREFIX).unwrap_or(name), rests) {
                Some(near) => format!("did you mean {PREFIX}{near}?"),
                None => "the default config.toml lists the keys".to_owned(),
            };
            return Err(ConfigError::Unknown { place: Place::Environment { variable: shown(name) }, hint });
        }
        Ok(())
    }
}

fn below<'k>(key: &'k str, table: &str) -> Option<&'k str> {
    key.strip_prefix(table)?.strip_prefix('.')
}

fn is_below(key: &str, table: &str) -> bool {
    below(key, table).is_some()
}

/// The known name that differs in the fewest letters, if it is at most a third of them; of several, the one of the same
/// length.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Distances cost the product of both lengths.
    let name = shown(name);
    known
        .map(|known| (strsim::damerau_levenshtein(&name, known), known.len().abs_diff(name.len()), known))
        .min()
        .filter(|(distance, _, known)| *distance <= (known.len() / 3).max(1))
        .map(|(_, _, known)| known)
}
