//! `waybread registration`: writes the file by which a homeserver knows the appservice.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, bail};
use matrix_link::{Devices, private_dir, write_private};
use rand::RngExt as _;
use secrecy::{ExposeSecret, SecretString};

use crate::config::{Config, Mode, Token};

/// Hexadecimal digits of a token.
const TOKEN_DIGITS: usize = 64;

/// Writes the registration, with the secrets that are there or new ones, and says what to do with it.
///
/// # Errors
/// When one is there already and it is not to be replaced, or a file can't be written.
pub fn register(config: &Config, replace: bool) -> anyhow::Result<()> {
    if config.mode != Mode::Appservice {
        bail!("mode: a registration is for mode = \"appservice\"");
    }
    let file = &config.appservice.registration;
    if file.exists() && !replace {
        bail!("{} is there: --replace writes it anew", file.display());
    }
    let as_token = token(&config.appservice.as_token)?;
    let hs_token = token(&config.appservice.hs_token)?;
    write(file, &registration(config, &as_token, &hs_token))?;
    let shown = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    writeln!(io::stdout(), "{}", advice(&shown))?;
    Ok(())
}

fn advice(file: &Path) -> String {
    format!(
        "written: {file}\n\
         Let the homeserver read the file, and name it in its configuration; for Synapse, in homeserver.yaml:\n\
         \n  app_service_config_files:\n    - {file}\n\
         \nRestart the homeserver, then: waybread check",
        file = file.display()
    )
}

/// The kept secret, or a new one, which is kept.
fn token(token: &Token) -> anyhow::Result<SecretString> {
    if let Some(secret) = &token.secret {
        return Ok(secret.clone());
    }
    let mut random = rand::rng();
    let digits = (0..TOKEN_DIGITS).filter_map(|_| char::from_digit(random.random_range(0..16), 16));
    let secret = digits.collect::<String>();
    write(&token.file, &secret)?;
    Ok(secret.into())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder
        .map_or(Ok(()), private_dir)
        .and_then(|()| write_private(file, text.as_bytes()))
        .with_context(|| file.display().to_string())
}

/// The registration as YAML, its texts quoted as in JSON, which YAML reads the same.
fn registration(config: &Config, as_token: &SecretString, hs_token: &SecretString) -> String {
    let (appservice, sender) = (&config.appservice, &config.matrix.user);
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let names = |sigil: char| {
        quoted(&format!("{sigil}{}.*:{}$", pattern(&appservice.prefix), pattern(sender.server_name().as_str())))
    };
    format!(
        "id: {id}\n\
         url: {url}\n\
         as_token: {as_token}\n\
         hs_token: {hs_token}\n\
         sender_localpart: {sender}\n\
         namespaces:\n  \
           users:\n    - exclusive: true\n      regex: {users}\n  \
           aliases:\n    - exclusive: true\n      regex: {aliases}\n  \
           rooms: []\n\
         # Its agents have no limit of messages.\n\
         rate_limited: false\n\
         # What is typed and read comes with each agent's own sync.\n\
         receive_ephemeral: false\n\
         {devices}",
        id = quoted(&appservice.id),
        url = quoted(appservice.url.as_str().trim_end_matches('/')),
        as_token = quoted(as_token.expose_secret()),
        hs_token = quoted(hs_token.expose_secret()),
        sender = quoted(sender.localpart()),
        users = names('@'),
        aliases = names('#'),
        devices = match appservice.devices {
            Devices::Made => "# It makes its agents' devices, without logins.\nio.element.msc4190: true\n",
            // With that, the homeserver refuses logins.
            Devices::LoggedIn => "",
        },
    )
}

/// A text as a regular expression that it alone matches.
fn pattern(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=' | ':');
    text.chars().flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn config(folder: &Path) -> Config {
        let file = folder.join("config.toml");
        let text = "mode = \"appservice\"\n[matrix]\nuser = \"@waybread:chat.example.org\"\n[appservice]\nprefix = \"bot.\"\n\
                    [[agent]]\nlocalpart = \"bot.one\"\n";
        fs::write(&file, text).unwrap();
        Config::load(Some(&file), std::iter::empty()).unwrap()
    }

    #[test]
    fn a_registration_names_its_agents_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        insta::assert_snapshot!(registration(&config(folder.path()), &"our \"token\"".into(), &"theirs".into()));
        insta::assert_snapshot!(advice(Path::new("/etc/waybread/registration.yaml")));
    }

    #[test]
    fn a_registration_is_not_overwritten_and_its_secrets_stay_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        register(&config(folder.path()), false).unwrap();
        let file = folder.path().join("registration.yaml");
        let first = fs::read_to_string(&file).unwrap();
        let error = register(&config(folder.path()), false).unwrap_err();
        assert_eq!(error.to_string(), format!("{} is there: --replace writes it anew", file.display()));
        register(&config(folder.path()), true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), first);
        for file in ["registration.yaml", "secrets/as-token", "secrets/hs-token"] {
            let mode = fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let config = config(folder.path());
        let secret = config.appservice.as_token.secret.unwrap();
        assert!(secret.expose_secret().len() == TOKEN_DIGITS && first.contains(secret.expose_secret()));
    }
}
