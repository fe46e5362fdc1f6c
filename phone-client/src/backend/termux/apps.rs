//! Apps, pages, settings and automations.

use phone_actions::Action;
use serde_json::Value;

use crate::safety;

use super::{
    Apps,
    intent::{Argv, Intent, argv},
    plan::{Plan, Step, Try, text, words},
};

/// The one automation app that is known how to be asked.
const TASKER: &str = "net.dinglisch.android.taskerm";

/// An app that the owner has named in the settings: Android tells Termux no app's name.
pub(super) fn open_app(action: &Action, apps: &Apps) -> Plan {
    let name = words(action, "app").unwrap_or_default();
    let target = apps.get(&safety::folded(&name)).ok_or("the phone's owner has named no such app in the settings")?;
    let package = target.split_once('/').map_or(target.as_str(), |(package, _)| package);
    safety::check_package(package).map_err(|refused| refused.to_string())?;
    let step = match target.contains('/') {
        true => Step::Run(launch(target)),
        false => Step::Launch { package: target.clone() },
    };
    Ok(vec![Try { step, note: None }])
}

/// Asks for what an app begins with.
pub(super) fn look_up(package: &str) -> Argv {
    argv(["/system/bin/cmd", "package", "resolve-activity", "--brief", "-a", MAIN, "-c", LAUNCHER, package])
}

/// What an app begins with, from what the look-up prints: a line such as `org.example/.Main`.
pub(super) fn component(printed: &str, package: &str) -> Option<String> {
    let begins =
        |line: &&str| line.split_once('/').is_some_and(|(name, activity)| name == package && is_name(activity));
    printed.lines().map(str::trim).find(begins).map(str::to_owned)
}

fn is_name(activity: &str) -> bool {
    !activity.is_empty() && activity.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c))
}

pub(super) fn launch(component: &str) -> Argv {
    Intent::start(MAIN).category(LAUNCHER).component(component).argv()
}

const MAIN: &str = "android.intent.action.MAIN";
const LAUNCHER: &str = "android.intent.category.LAUNCHER";

pub(super) fn open_url(action: &Action) -> Plan {
    let intent = Intent::start("android.intent.action.VIEW").category("android.intent.category.BROWSABLE");
    Ok(vec![intent.data(text(action, "url")).argv().into()])
}

/// A panel that slides in where Android has one, else the page in the settings.
pub(super) fn settings_panel(action: &Action) -> Plan {
    let pages: &[&str] = match text(action, "panel") {
        "internet" => &["settings.panel.action.INTERNET_CONNECTIVITY", "settings.WIRELESS_SETTINGS"],
        "wifi" => &["settings.panel.action.WIFI", "settings.WIFI_SETTINGS"],
        "mobile_data" => &["settings.NETWORK_OPERATOR_SETTINGS", "settings.DATA_ROAMING_SETTINGS"],
        "bluetooth" => &["settings.BLUETOOTH_SETTINGS"],
        "nfc" => &["settings.panel.action.NFC", "settings.NFC_SETTINGS"],
        "airplane_mode" => &["settings.AIRPLANE_MODE_SETTINGS"],
        "location" => &["settings.LOCATION_SOURCE_SETTINGS"],
        "volume" => &["settings.panel.action.VOLUME", "settings.SOUND_SETTINGS"],
        "sound" => &["settings.SOUND_SETTINGS"],
        "display" => &["settings.DISPLAY_SETTINGS"],
        "battery" => &["intent.action.POWER_USAGE_SUMMARY", "settings.BATTERY_SAVER_SETTINGS"],
        "do_not_disturb" => &["settings.ZEN_MODE_SETTINGS", "settings.ZEN_MODE_PRIORITY_SETTINGS"],
        _ => return Err("this phone does not know that setting".to_owned()),
    };
    Ok(pages.iter().map(|page| Intent::start(&format!("android.{page}")).argv().into()).collect())
}

/// A task of Tasker, by its name. The values are its local variables, such as `%level`.
pub(super) fn automation_intent(action: &Action) -> Plan {
    let app = action.get_or_default("app").and_then(Value::as_str).unwrap_or_default();
    if safety::folded(app) != "tasker" {
        return Err("this phone knows how to ask Tasker only".to_owned());
    }
    let name = words(action, "name").unwrap_or_default();
    let mut intent = Intent::broadcast("net.dinglisch.android.tasker.ACTION_TASK")
        .package(TASKER)
        .text("version_number", "1.1")
        .text("task_name", &name);
    let values = action.get("values").and_then(Value::as_object);
    let pairs: Vec<_> = values.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?))).collect();
    if !pairs.is_empty() {
        let names = pairs.iter().map(|(key, _)| variable(key)).collect::<Option<Vec<_>>>();
        let names = names.ok_or("a value's name is three or more of a-z, 0-9 and _, and begins with a letter")?;
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let values: Vec<_> = pairs.iter().map(|(_, value)| *value).collect();
        let carried = intent.texts("varNames", &names).and_then(|intent| intent.texts("varValues", &values));
        intent = carried.ok_or("Android can't carry a value that is empty or ends in a backslash")?;
    }
    Ok(vec![Try::from(intent.argv()).with_note("Tasker was asked; whether it did it, it does not tell")])
}

/// A local variable of Tasker. One with a capital letter would be global, and the person's own.
fn variable(name: &str) -> Option<String> {
    let name = name.strip_prefix('%').unwrap_or(name);
    let fits = name.len() >= 3
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    fits.then(|| format!("%{name}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::plan::tests::shown, *};

    #[test]
    fn apps_and_pages() {
        insta::assert_snapshot!(shown(&[
            json!({"action": "open_app", "app": "Fire Fox"}),
            json!({"action": "open_app", "app": "Notes"}),
            json!({"action": "open_app", "app": "org.mozilla.firefox"}),
            json!({"action": "open_app", "app": "Console"}),
            json!({"action": "open_app", "app": 7}),
            json!({"action": "open_url", "url": "https://example.org/a?b=c&d='\"$(id)#e"}),
        ]));
    }

    #[test]
    fn settings() {
        let panels = [
            "internet",
            "wifi",
            "mobile_data",
            "bluetooth",
            "nfc",
            "airplane_mode",
            "location",
            "volume",
            "sound",
            "display",
            "battery",
            "do_not_disturb",
        ];
        let calls = panels.map(|panel| json!({"action": "settings_panel", "panel": panel}));
        insta::assert_snapshot!(shown(&calls));
    }

    #[test]
    fn automations() {
        let with = |values: Value| json!({"action": "automation_intent", "name": "Evening", "values": values});
        insta::assert_snapshot!(shown(&[
            json!({"action": "automation_intent", "name": "--es task_name 'x'\n"}),
            with(json!({"level": "5", "%room_2": "a,b\\,c -n \"$(id)\"\n"})),
            with(json!({"Level": "5"})),
            with(json!({"level": ""})),
            with(json!({"level": "a\\"})),
            json!({"action": "automation_intent", "app": "tasker", "name": "A"}),
            json!({"action": "automation_intent", "app": "MacroDroid", "name": "A"}),
        ]));
    }

    #[test]
    fn an_app_is_started_by_what_it_begins_with() {
        insta::assert_debug_snapshot!([look_up("org.mozilla.firefox"), launch("org.mozilla.firefox/.App")]);
    }

    #[test]
    fn an_app_s_begin_is_read_from_its_own_line_only() {
        let printed = "priority=0 preferredOrder=0 match=0x108000\norg.mozilla.firefox/.App$Main\n";
        assert_eq!(component(printed, "org.mozilla.firefox").as_deref(), Some("org.mozilla.firefox/.App$Main"));
        for printed in
            ["", "No activity found", "org.other/.App", "org.mozilla.firefox/", "org.mozilla.firefox/.A -d x"]
        {
            assert_eq!(component(printed, "org.mozilla.firefox"), None, "{printed}");
        }
    }
}
