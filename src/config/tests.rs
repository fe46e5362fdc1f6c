//! Tests of the configuration as a whole.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use proptest::prelude::*;
use secrecy::{ExposeSecret as _, SecretString};
use toml_edit::{DocumentMut, Item, Value};

use super::{reader::DEFAULT, *};

fn pairs(env: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect::<Vec<_>>().into_iter()
}

fn read(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::read(&mut Reader::new(Path::new("config.toml"), Some(file.to_owned()), pairs(env))?)
}

/// A configuration in a folder that does not exist: it finds no secrets.
fn nowhere(file: Option<&str>, env: &[(&str, &str)]) -> Config {
    let name = Path::new("/nowhere/config.toml");
    Config::read(&mut Reader::new(name, file.map(str::to_owned), pairs(env)).unwrap()).unwrap()
}

/// The default with its "# key = value" lines made to count: every key that there is.
fn documented() -> DocumentMut {
    let is_key = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let text: Vec<_> =
        DEFAULT.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line)).collect();
    text.join("\n").parse().unwrap()
}

fn leaves(path: &str, item: &Item, into: &mut BTreeMap<String, Value>) {
    match item {
        Item::Table(table) => {
            for (key, item) in table {
                leaves(&if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }, item, into);
            }
        }
        item => {
            into.insert(path.to_owned(), item.as_value().unwrap().clone());
        }
    }
}

fn documented_keys() -> BTreeMap<String, Value> {
    let mut keys = BTreeMap::new();
    leaves("", documented().as_item(), &mut keys);
    keys
}

#[test]
fn the_default_loads_as_it_stands() {
    insta::assert_debug_snapshot!(nowhere(None, &[]));
}

#[test]
fn the_default_as_a_file_is_the_default() {
    let default = format!("{:?}", nowhere(None, &[]));
    assert_eq!(format!("{:?}", nowhere(Some(DEFAULT), &[])), default);
    assert_eq!(format!("{:?}", nowhere(Some(""), &[])), default);
}

#[test]
fn every_key_that_is_read_is_documented_and_the_reverse() {
    let mut reader = Reader::new(Path::new("config.toml"), None, pairs(&[])).unwrap();
    Config::read(&mut reader).unwrap();
    let mut read = reader.keys.clone();
    read.sort();
    assert_eq!(read, documented_keys().into_keys().collect::<Vec<_>>());
}

#[test]
fn every_key_is_overridden_by_the_file_and_by_the_environment_alike() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret").display().to_string();
    fs::write(&secret, "hunter2").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();

    // Its other value needs tables that no variable can give.
    for (key, default) in documented_keys().into_iter().filter(|(key, _)| key != "mode") {
        let (toml, text) = match &default {
            Value::Integer(number) => {
                let other = (number.value() + 1).to_string();
                (other.clone(), other)
            }
            Value::Float(number) => {
                let other = (number.value() + 0.5).to_string();
                (other.clone(), other)
            }
            Value::Array(_) if key == "rich.rooms" => {
                let rooms = ["!a:example.org", "!b:example.org"];
                (format!("{rooms:?}"), rooms.join(", "))
            }
            Value::Array(_) if key == "room.private_addresses" => {
                let addresses = ["127.0.0.1", "10.0.0.0/8"];
                (format!("{addresses:?}"), addresses.join(", "))
            }
            Value::Array(_) if key == "secrets.redact" => {
                let patterns = ["secret-[0-9]+", "token-[a-z]+"];
                (format!("{patterns:?}"), patterns.join(", "))
            }
            Value::Array(_) => {
                let users = ["@alice:example.org", "*:example.com"];
                (format!("{users:?}"), users.join(", "))
            }
            _ => {
                let other = match &*key {
                    "matrix.user" => "@other:example.org",
                    "access.trust" => "verified",
                    "agent.time_zone" => "Etc/GMT+3",
                    "model.tool_calls" => "constrained",
                    "model.response_format" => "json_object",
                    "http.listen" | "forms.listen" | "appservice.listen" => "127.0.0.1:8091",
                    "appservice.prefix" => "other_",
                    "appservice.devices" => "logged_in",
                    "appservice.token_in_address" => "on",
                    "log.format" => "json",
                    "rich.complete_text" | "forms.behind_proxy" => "on",
                    "rich.tools"
                    | "rich.seed_reactions"
                    | "later.tool"
                    | "phone.tool"
                    | "room.tool"
                    | "room.state_lists" => "off",
                    "log.filter" => "debug,waybread=trace",
                    "matrix.state_dir" | "model.script" | "appservice.registration" => "/elsewhere",
                    key if key.ends_with("_file") => &secret,
                    key if key.ends_with("url") || key.ends_with("homeserver") => "https://elsewhere.example/v1",
                    _ => "another text",
                };
                (format!("{other:?}"), other.to_owned())
            }
        };
        let fallback = "model.fallback.name = \"small\"\nmodel.fallback.url = \"https://fallback.example/v1\"\n";
        let others: Vec<_> = fallback.lines().filter(|line| !line.starts_with(&key)).collect();
        let variable = format!("WAYBREAD_{}", key.replace('.', "_").to_uppercase());

        let before = format!("{:?}", nowhere(Some(fallback), &[]));
        let by_file = format!("{:?}", nowhere(Some(&format!("{}\n{key} = {toml}", others.join("\n"))), &[]));
        let by_env = format!("{:?}", nowhere(Some(fallback), &[(&variable, &text)]));
        assert_ne!(by_env, before, "{variable} changes nothing");
        assert_eq!(by_env, by_file, "{variable} and {key} differ");
    }
}

#[test]
fn the_environment_wins_over_the_file() {
    let config = nowhere(Some("[turn]\nmax_steps = 7\nloop_hints = 7"), &[("WAYBREAD_TURN_MAX_STEPS", "8")]);
    assert_eq!((config.turn.max_steps, config.turn.loop_hints), (8, 7));
}

#[test]
fn a_log_filter_is_whatever_the_subscriber_reads() {
    for filter in ["off", "WARN", "info,waybread=debug", "[turn{room}]=trace", "matrix_sdk[sync]=debug,info"] {
        assert_eq!(nowhere(None, &[("WAYBREAD_LOG_FILTER", filter)]).log.filter, filter);
    }
}

#[test]
fn a_file_from_any_editor_is_read() {
    let config = nowhere(Some("\u{feff}# note\r\n[turn]\r\nmax_steps = 7\r\n"), &[]);
    assert_eq!(config.turn.max_steps, 7);
}

#[test]
fn an_empty_list_in_the_environment_admits_nobody() {
    let config = nowhere(None, &[("WAYBREAD_ACCESS_ALLOW", "")]);
    assert_eq!(config.access.allow, matrix_link::AccessList::default());
}

#[test]
fn paths_count_from_the_folder_of_what_names_them() {
    let state = |file, env: &[_]| nowhere(file, env).matrix.state_dir;
    assert_eq!(state(Some(""), &[]), Path::new("/nowhere/state"));
    assert_eq!(state(Some("matrix.state_dir = 'kept'"), &[]), Path::new("/nowhere/kept"));
    assert_eq!(state(Some("matrix.state_dir = '/kept'"), &[]), Path::new("/kept"));
    assert_eq!(state(None, &[("WAYBREAD_MATRIX_STATE_DIR", "kept")]), Path::new("kept"));
}

#[test]
fn an_endpoints_address_can_be_joined_to() {
    for url in ["http://[::1]:1234/v1", "http://[::1]:1234/v1/"] {
        let config = nowhere(None, &[("WAYBREAD_MODEL_URL", url)]);
        let models = config.model.endpoint.url.join("models").unwrap();
        assert_eq!(models.as_str(), "http://[::1]:1234/v1/models");
    }
}

#[test]
fn a_fallback_is_there_with_url_and_name() {
    assert!(nowhere(None, &[]).model.fallback.is_none());
    let file = "[model.fallback]\nurl = 'https://api.example.org/v1'\nname = 'small'";
    let fallback = nowhere(Some(file), &[("WAYBREAD_MODEL_FALLBACK_KEY", "hunter2")]).model.fallback.unwrap();
    assert_eq!(fallback.url.as_str(), "https://api.example.org/v1/");
    assert_eq!(fallback.name, "small");
    assert_eq!(fallback.key.unwrap().expose_secret(), "hunter2");
}

#[test]
fn variables_of_other_programs_are_let_through() {
    let ours = nowhere(
        None,
        &[
            ("WAYBREAD_CACHE_DIR", "x"),
            ("WAYBREAD_TEST_HOMESERVER", "x"),
            ("WAYBREAD_DEMO_PORT", "x"),
            ("WAYBREAD_PHONE_USER", "x"),
            ("PATH", "x"),
            ("waybread_model_url", "x"),
        ],
    );
    assert_eq!(format!("{ours:?}"), format!("{:?}", nowhere(None, &[])));
}

#[test]
fn a_bad_file_is_refused_with_file_line_and_key() {
    for (file, message) in [
        // Broken TOML.
        ("[model\n", r#"config.toml:1:7: unclosed table, expected `]`"#),
        ("\n\nmodel.url = \n", "config.toml:3:13: string values must be quoted, expected literal string"),
        ("# ä\r\n'ä' = = 1", "config.toml:2:7: extra `=`, expected nothing"),
        ("a = 1\na = 2", "config.toml:2:1: duplicate key"),
        // Unknown keys.
        ("[model]\n\nnmae = 'x'", r#"config.toml:3: model.nmae: unknown key; did you mean "name"?"#),
        ("[modle]\nurl = 'x'", r#"config.toml:1: modle: unknown key; did you mean "model"?"#),
        ("[model.falback]", r#"config.toml:1: model.falback: unknown key; did you mean "fallback"?"#),
        (
            "[draft]\ncolour = 1",
            "config.toml:2: draft.colour: unknown key; known here: first_after_ms, edit_every_ms, max_edits",
        ),
        (
            "verbose = true",
            "config.toml:1: verbose: unknown key; known here: mode, appservice, matrix, access, agent, model, turn, draft, outbox, \
             inbox, rich, later, phone, room, forms, secrets, store, http, log",
        ),
        (
            "'model.url' = 'http://example.org'",
            "config.toml:1: model.url: unknown key; known here: mode, appservice, matrix, access, agent, model, turn, draft, outbox, \
             inbox, rich, later, phone, room, forms, secrets, store, http, log",
        ),
        // Secrets in the file.
        (
            "[matrix]\npassword = 'hunter2'",
            "config.toml:2: matrix.password: unknown key; a secret doesn't belong here: name its file in \
             \"password_file\", or set WAYBREAD_MATRIX_PASSWORD",
        ),
        (
            "model = { fallback = { key = 'hunter2' } }",
            "config.toml:1: model.fallback.key: unknown key; a secret doesn't belong here: name its file in \
             \"key_file\", or set WAYBREAD_MODEL_FALLBACK_KEY",
        ),
        // Wrong types.
        ("\nturn = 3", "config.toml:2: turn: expected a table, found 3"),
        ("[[turn]]\nmax_steps = 3", "config.toml:1: turn: expected a table, found [[turn]]"),
        ("[model.name]", "config.toml:1: model.name: expected a text of 1 to 200 characters, found [model.name]"),
        ("[model]\nname = 3", "config.toml:2: model.name: expected a text of 1 to 200 characters, found 3"),
        ("[model]\nname = ''", "config.toml:2: model.name: expected a text of 1 to 200 characters, found ''"),
        (
            "[model]\nfirst_token_seconds = \"ten\"",
            r#"config.toml:2: model.first_token_seconds: expected a whole number from 1 to 3600, found "ten""#,
        ),
        ("turn.max_steps = 1.5", "config.toml:1: turn.max_steps: expected a whole number from 1 to 1000, found 1.5"),
        ("matrix.state_dir = ''", "config.toml:1: matrix.state_dir: expected a path, found ''"),
        (
            "access.allow = '@alice:example.org'",
            "config.toml:1: access.allow: expected a list, found '@alice:example.org'",
        ),
        // Out of range.
        ("turn.max_steps = 0", "config.toml:1: turn.max_steps: expected a whole number from 1 to 1000, found 0"),
        ("draft.max_edits = -1", "config.toml:1: draft.max_edits: expected a whole number from 0 to 1000, found -1"),
        (
            "outbox.max_event_bytes = 65536",
            "config.toml:1: outbox.max_event_bytes: expected a whole number from 4096 to 65000, found 65536",
        ),
        ("model.temperature = 2.5", "config.toml:1: model.temperature: expected a number from 0 to 2, found 2.5"),
        ("model.temperature = nan", "config.toml:1: model.temperature: expected a number from 0 to 2, found nan"),
        // Wrong form.
        (
            "access.trust = 'all'",
            "config.toml:1: access.trust: expected \"any\" or \"cross_signed\" or \"verified\", found 'all'",
        ),
        (
            "model.url = 'localhost:11434'",
            "config.toml:1: model.url: expected an http:// or https:// address without user, query or fragment, \
             found 'localhost:11434'",
        ),
        (
            "model.url = 'https://me:hunter2@example.org'",
            "config.toml:1: model.url: expected an http:// or https:// address without user, query or fragment, \
             found one with \"@\", \"?\" or \"#\" in it",
        ),
        (
            "matrix.user = 'waybread'",
            "config.toml:1: matrix.user: expected a full user id such as \"@waybread:example.org\", found 'waybread'",
        ),
        (
            "[access]\nallow = [\n  '@alice:example.org',\n  'Bob',\n]",
            "config.toml:4: access.allow[1]: a name alone says nothing about whose it is; \
             expected \"@name:server\" or \"*:server\", found 'Bob'",
        ),
        (
            "access.bots = [true]",
            "config.toml:1: access.bots[0]: expected \"@name:server\" or \"*:server\", found true",
        ),
        (
            "rich.rooms = ['!a:x', 'lobby']",
            "config.toml:1: rich.rooms[1]: expected a full room id such as \"!room:example.org\", found 'lobby'",
        ),
        ("rich.tools = true", "config.toml:1: rich.tools: expected \"on\" or \"off\", found true"),
        (
            "agent.time_zone = 'Berlin'",
            "config.toml:1: agent.time_zone: expected an IANA time zone such as \"Europe/Berlin\", found 'Berlin'",
        ),
        (
            "log.filter = 'debgu'",
            "config.toml:1: log.filter: expected a log level or a filter such as \"info,waybread=debug\", \
             found 'debgu'",
        ),
        (
            "log.filter = ''",
            "config.toml:1: log.filter: expected a log level or a filter such as \"info,waybread=debug\", found ''",
        ),
        // Found values are shortened and stay on one line.
        (
            "access.trust = '''\nsome\nlong text that goes on and on and on and on and on and on'''",
            "config.toml:1: access.trust: expected \"any\" or \"cross_signed\" or \"verified\", \
             found '''\\nsome\\nlong text that goes on and on and on and on and …",
        ),
        // What doesn't go together.
        (
            "[model]\ncontext_tokens = 1024",
            "config.toml:2: model.context_tokens: model.reply_tokens (1024) must be less than \
             model.context_tokens (1024)",
        ),
        (
            "[model]\nretry_first_seconds = 31",
            "config.toml:2: model.retry_first_seconds: model.retry_first_seconds (31) must not be more than \
             model.retry_max_seconds (30)",
        ),
        (
            "[model.fallback]\nurl = 'https://example.org/v1'",
            "config.toml:2: model.fallback.url: needs model.fallback.name too",
        ),
        ("[model.fallback]\nname = 'small'", "config.toml:2: model.fallback.name: needs model.fallback.url too"),
        (
            "[model.fallback]\nkey_file = 'secrets/fallback-key'",
            "config.toml:2: model.fallback.key_file: needs model.fallback.url too",
        ),
    ] {
        assert_eq!(read(file, &[]).expect_err(file).to_string(), message);
    }
}

#[test]
fn a_bad_variable_is_refused_by_its_name() {
    for (name, value, message) in [
        (
            "WAYBREAD_MODEL_FIRST_TOKEN_SECONDS",
            "ten",
            r#"WAYBREAD_MODEL_FIRST_TOKEN_SECONDS: expected a whole number from 1 to 3600, found "ten""#,
        ),
        ("WAYBREAD_MODEL_NAME", "", r#"WAYBREAD_MODEL_NAME: expected a text of 1 to 200 characters, found """#),
        (
            "WAYBREAD_ACCESS_ALLOW",
            "@alice:example.org, @*:example.org",
            "WAYBREAD_ACCESS_ALLOW[1]: a pattern that isn't known; expected \"@name:server\" or \"*:server\", \
             found \"@*:example.org\"",
        ),
        (
            "WAYBREAD_ACCESS_BOTS",
            "@alice:example.org,",
            "WAYBREAD_ACCESS_BOTS[1]: an empty entry; expected \"@name:server\" or \"*:server\", found \"\"",
        ),
        (
            "WAYBREAD_MODEL_CONTEXT_TOKENS",
            "512",
            "WAYBREAD_MODEL_CONTEXT_TOKENS: model.reply_tokens (1024) must be less than model.context_tokens (512)",
        ),
        ("WAYBREAD_MODEL_FALLBACK_KEY", "hunter2", "WAYBREAD_MODEL_FALLBACK_KEY: needs model.fallback.url too"),
        (
            "WAYBREAD_MATRIX_PASSWORD",
            "hunter2\nhunter3",
            "WAYBREAD_MATRIX_PASSWORD: expected a secret on one line, without control characters",
        ),
        (
            "WAYBREAD_MATRIX_PASSWRD",
            "hunter2",
            "WAYBREAD_MATRIX_PASSWRD: unknown variable; did you mean WAYBREAD_MATRIX_PASSWORD?",
        ),
        (
            "WAYBREAD_MODEL_UR",
            "http://127.0.0.1",
            "WAYBREAD_MODEL_UR: unknown variable; did you mean WAYBREAD_MODEL_URL?",
        ),
        (
            "WAYBREAD_NO\nSUCH_THING_AT_ALL",
            "x",
            r"WAYBREAD_NO\nSUCH_THING_AT_ALL: unknown variable; the default config.toml lists the keys",
        ),
    ] {
        assert_eq!(read("", &[(name, value)]).expect_err(name).to_string(), message);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("binary.toml"), [0xff, 0xfe]).unwrap();
    fs::write(at("large.toml"), " ".repeat((1 << 20) + 1)).unwrap();
    fs::create_dir(at("folder.toml")).unwrap();
    for (name, reason) in [
        ("missing.toml", "No such file or directory (os error 2)"),
        ("folder.toml", "Is a directory (os error 21)"),
        ("binary.toml", "stream did not contain valid UTF-8"),
        ("large.toml", "file too large"),
    ] {
        let error = Config::load(Some(&at(name)), pairs(&[])).unwrap_err();
        let expected = format!("{}: expected a configuration file: {reason}", at(name).display());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_file_is_read_with_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let secret = folder.path().join("token");
    fs::write(&path, "[matrix]\naccess_token_file = 'token'\n").unwrap();
    let load = |env: &[_]| Config::load(Some(&path), pairs(env));
    let exposed = |secret: Option<SecretString>| secret.map(|secret| secret.expose_secret().to_owned());

    assert_eq!(exposed(load(&[]).unwrap().matrix.access_token), None);

    fs::write(&secret, "from-file\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let from = |env: &[_]| exposed(load(env).unwrap().matrix.access_token);
    assert_eq!(from(&[]).unwrap(), "from-file");
    assert_eq!(from(&[("WAYBREAD_MATRIX_ACCESS_TOKEN", "from-env\n")]).unwrap(), "from-env");
    assert_eq!(from(&[("WAYBREAD_MATRIX_ACCESS_TOKEN", "")]).unwrap(), "from-file");

    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let (path, secret) = (path.display(), secret.display());
    assert_eq!(
        load(&[]).unwrap_err().to_string(),
        format!("{path}:2: matrix.access_token_file: {secret}: open to group or others; run: chmod 600 {secret}")
    );
}

#[test]
fn debug_shows_no_secret() {
    let config = nowhere(
        Some("[model.fallback]\nurl = 'https://api.example.org/v1'\nname = 'small'"),
        &[
            ("WAYBREAD_MATRIX_PASSWORD", "hunter2"),
            ("WAYBREAD_MATRIX_ACCESS_TOKEN", "hunter2"),
            ("WAYBREAD_MODEL_KEY", "hunter2"),
            ("WAYBREAD_MODEL_FALLBACK_KEY", "hunter2"),
        ],
    );
    let debug = format!("{config:?}");
    assert_eq!((debug.matches("hunter2").count(), debug.matches("REDACTED").count()), (0, 4));
}

/// Texts near to a configuration: keys as documented, with values of every kind.
fn near_config() -> impl Strategy<Value = String> {
    let keys: Vec<String> = documented_keys().into_keys().collect();
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        ".{0,80}".prop_map(|text| format!("{text:?}")),
        ".{0,20}".prop_map(|text| format!("[{text:?}, 1]")),
        "[@*:a-z.,]{0,20}".prop_map(|text| format!("['{text}']")),
        "[a-z=,\\[\\]{}]{0,20}".prop_map(|text| format!("'{text}'")),
        Just("{ x = 1 }".to_owned()),
    ];
    let line = (proptest::sample::select(keys), value).prop_map(|(key, value)| format!("{key} = {value}\n"));
    proptest::collection::vec(line, 0..4).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_in_one_line(
        text in prop_oneof![".{0,200}", "[a-z.=\\[\\]\"'\n#{} 0-9]{0,80}", near_config()],
    ) {
        if let Err(error) = read(&text, &[]) {
            prop_assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn any_variable_is_read_or_refused_in_one_line(
        key in proptest::sample::select(documented_keys().into_keys().collect::<Vec<_>>()),
        suffix in prop_oneof![Just(String::new()), ".{0,3}"],
        value in prop_oneof![".{0,100}", "[-0-9.e]{0,6}", "[a-z=,\\[\\]{}\"]{0,20}"],
    ) {
        let name = format!("WAYBREAD_{}{suffix}", key.replace('.', "_").to_uppercase());
        if let Err(error) = read("", &[(&name, &value)]) {
            prop_assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }
}

const TWO_AGENTS: &str = r#"mode = "appservice"
[model]
name = "shared"
[[agent]]
localpart = "waybread-cook"
display_name = "Cook"
avatar = "cook.PNG"
system_prompt = "You cook."
[agent.model]
name = "cooks"
[agent.access]
allow = ["@alice:localhost"]
[[agent]]
localpart = "waybread-guide"
"#;

#[test]
fn an_agent_of_an_appservice_has_what_its_table_says_and_shares_the_rest() {
    let config = nowhere(Some(TWO_AGENTS), &[("WAYBREAD_MODEL_TEMPERATURE", "1.5")]);
    let [cook, guide] = &*config.agents else { panic!("{:?}", config.agents) };
    assert_eq!(
        (cook.user().as_str(), guide.user().as_str()),
        ("@waybread-cook:localhost", "@waybread-guide:localhost")
    );
    assert_eq!((cook.display_name.as_deref(), guide.display_name.as_deref()), (Some("Cook"), None));
    let picture = Avatar { file: "/nowhere/cook.PNG".into(), content_type: "image/png" };
    assert_eq!((cook.avatar.as_ref(), guide.avatar.as_ref()), (Some(&picture), None));
    assert_eq!(cook.config.matrix.state_dir, Path::new("/nowhere/state/agents/waybread-cook"));
    assert_eq!(cook.config.agent.system_prompt, "You cook.");
    assert_eq!(guide.config.agent.system_prompt, nowhere(None, &[]).agent.system_prompt);
    let models = [cook, guide].map(|one| (one.config.model.endpoint.name.as_str(), one.config.model.temperature));
    assert_eq!(models, [("cooks", 1.5), ("shared", 1.5)]);
    assert_ne!(cook.config.access.allow, guide.config.access.allow);
    let guide_as_known = Colleague {
        user: guide.user().to_owned(),
        name: "waybread-guide".to_owned(),
        short_name: "guide".to_owned(),
        allow: guide.config.access.allow.clone(),
    };
    assert_eq!((&*cook.config.colleagues, &*guide.config.colleagues), (&[guide_as_known][..], &[][..]));
    assert_eq!((&cook.config.access.host, guide.config.access.host.as_deref()), (&None, Some(cook.user())));
    assert!(cook.config.access.is_bot(guide.user()) && guide.config.access.is_bot(cook.user()));
    assert_eq!((cook.config.outbox.burst, cook.config.outbox.events_per_second), (1000, 1000.0));
}

#[test]
fn agents_that_log_in_have_the_limits_of_ordinary_accounts() {
    let config = nowhere(Some(&format!("{TWO_AGENTS}[appservice]\ndevices = \"logged_in\"\n")), &[]);
    assert_eq!(config.agents[0].config.outbox.burst, nowhere(None, &[]).outbox.burst);
}

#[test]
fn what_an_agent_says_itself_wins_over_the_environment() {
    let config = nowhere(Some(TWO_AGENTS), &[("WAYBREAD_MODEL_NAME", "of all")]);
    let names: Vec<_> = config.agents.iter().map(|one| &*one.config.model.endpoint.name).collect();
    assert_eq!(names, ["cooks", "of all"]);
}

#[test]
fn what_is_wrong_with_an_agent_names_it_and_its_line() {
    for (from, to, error) in [
        (
            "\"waybread-guide\"",
            "\"other\"",
            "config.toml:14: agent[1].localpart: must begin with appservice.prefix (\"waybread-\")",
        ),
        (
            "\"waybread-guide\"",
            "\"waybread-cook\"",
            "config.toml:14: agent[1].localpart: @waybread-cook:localhost is taken: by another [[agent]], or as matrix.user",
        ),
        (
            "\"waybread-guide\"",
            "\"A/B\"",
            "config.toml:14: agent[1].localpart: expected 1 to 100 characters of a-z, 0-9, \".\", \"_\", \"=\" and \"-\", the first no \".\", found \"A/B\"",
        ),
        ("allow =", "alow =", "config.toml:12: agent[0].access.alow: unknown key; did you mean \"allow\"?"),
        (
            "[agent.access]",
            "[agent.store]",
            "config.toml:11: agent[0].store: unknown key; known here: access, system_prompt, time_zone, model, turn, draft, rich, later, phone, display_name, avatar, localpart",
        ),
        (
            "cook.PNG",
            "cook.svg",
            "config.toml:7: agent[0].avatar: expected a picture whose name ends in .png, .jpg, .gif or .webp, found \"cook.svg\"",
        ),
        (
            "display_name =",
            "disply_name =",
            "config.toml:6: agent[0].disply_name: unknown key; did you mean \"display_name\"?",
        ),
        ("mode = \"appservice\"", "mode = \"bot\"", "config.toml:4: agent: [[agent]] needs mode = \"appservice\""),
    ] {
        assert_eq!(read(&TWO_AGENTS.replace(from, to), &[]).unwrap_err().to_string(), error);
    }
    assert_eq!(
        read("mode = \"appservice\"", &[]).unwrap_err().to_string(),
        "config.toml:1: mode: \"appservice\" needs an [[agent]] at least"
    );
}

const COMMAND: &str = "[[room.command]]\nrooms = ['*']\nname = 'hello'\ndescription = 'Says hello.'\n\
                       actions = [{ type = 'post', text = 'Hello.' }]\n";

#[test]
fn commands_of_rooms_are_read_from_the_file() {
    let other = COMMAND.replace("hello", "other").replace("'*'", "'!a:example.org'");
    let config = nowhere(Some(&format!("{COMMAND}\n{other}")), &[]);
    let names: Vec<_> = config.room.commands.iter().map(|listed| &*listed.entry.name).collect();
    assert_eq!(names, ["hello", "other"]);
}

#[test]
fn a_command_that_is_wrong_is_refused_with_its_place() {
    for (file, message) in [
        (
            COMMAND.replace("'post'", "'shell'"),
            "config.toml:1: room.command[0]: action 1: there is no action \"shell\"; there are: form, post, webhook, \
             widget, widget_close, invite, pin, topic",
        ),
        (
            COMMAND.replace("rooms = ['*']", "rooms = ['lobby']"),
            "config.toml:1: room.command[0]: rooms must be full room ids such as \"!room:example.org\", or \"*\"",
        ),
        (
            format!("{COMMAND}{COMMAND}"),
            "config.toml:6: room.command[1]: the name \"hello\" is taken in one of its rooms",
        ),
        (
            "[room]\ncommand = 3".to_owned(),
            "config.toml:2: room.command: expected a list of tables, each with [[room.command]] before it, found 3",
        ),
        (
            "secrets.redact = ['(']".to_owned(),
            "config.toml:1: secrets.redact[0]: expected a regular expression that matches more than nothing, found '('",
        ),
        (
            "room.private_addresses = ['localhost']".to_owned(),
            "config.toml:1: room.private_addresses[0]: expected an address or a network such as \"127.0.0.1\" or \
             \"10.1.0.0/16\", found 'localhost'",
        ),
    ] {
        assert_eq!(read(&file, &[]).unwrap_err().to_string(), message);
    }
    let error = read(COMMAND, &[("WAYBREAD_ROOM_COMMAND", "x")]).unwrap_err();
    assert!(error.to_string().starts_with("WAYBREAD_ROOM_COMMAND: unknown variable"), "{error}");
}
