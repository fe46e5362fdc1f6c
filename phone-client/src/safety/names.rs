//! Names of apps: how they are compared, and those that no agent opens.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::Refused;

/// What is refused, as data.
const REFUSED: &str = include_str!("refused_names.txt");

/// Letters of other scripts, and digits, that are taken for a Latin letter, and which.
const LOOK_ALIKES: [(&str, char); 26] = [
    ("аαɑ⍺4@", 'a'),
    ("вβьƅ", 'b'),
    ("сϲς", 'c'),
    ("ԁժ", 'd'),
    ("еєεҽ3", 'e'),
    ("ғƒϝ", 'f'),
    ("ɡց", 'g'),
    ("нһհ", 'h'),
    ("іιıɩ!", 'i'),
    ("јϳ", 'j'),
    ("кκ", 'k'),
    ("ӏ1|ⅼ", 'l'),
    ("мμⅿ", 'm'),
    ("пηոռ", 'n'),
    ("оοօσ0ø", 'o'),
    ("рρϱ", 'p'),
    ("ԛզ", 'q'),
    ("гɾ", 'r'),
    ("ѕ5$ꜱ", 's'),
    ("тτ7", 't'),
    ("υцս", 'u'),
    ("νѵⅴ", 'v'),
    ("ԝωшա", 'w'),
    ("хχ×ⅹ", 'x'),
    ("уγүʏ", 'y'),
    ("ᴢʐ", 'z'),
];

/// A name as names are compared: in compatibility form and lower case, without accents, spaces and signs, so that
/// "Fire Fox" is "firefox" and "Élan" is "elan".
#[must_use]
pub(crate) fn folded(name: &str) -> String {
    let letters = name.nfkd().filter(|c| !is_combining_mark(*c));
    letters.flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()).collect()
}

/// The name as it looks: each letter that is taken for a Latin one is that.
fn looks(name: &str) -> String {
    let latin = |c: char| LOOK_ALIKES.iter().find(|(letters, _)| letters.contains(c)).map_or(c, |(_, letter)| *letter);
    let lower = name.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase);
    lower.map(latin).filter(|c| c.is_alphanumeric()).collect()
}

/// Whether an app of this name may be opened.
///
/// # Errors
/// It is a terminal, an installer, an update or a reset.
pub(super) fn check(name: &str) -> Result<(), Refused> {
    // A name may be a package's.
    check_package(name.trim())?;
    let names = [folded(name), looks(name)];
    let is_refused = |entry: &str| match entry.strip_prefix('=') {
        Some(whole) => names.iter().any(|name| name == whole),
        None => names.iter().any(|name| name.contains(entry)),
    };
    match entries().filter(|entry| !entry.starts_with("package:")).any(is_refused) {
        true => Err(Refused::App),
        false => Ok(()),
    }
}

/// Whether this package may be opened, whatever its owner calls it.
///
/// # Errors
/// It is a terminal, an installer, an update or a reset.
pub(crate) fn check_package(package: &str) -> Result<(), Refused> {
    let package = package.to_lowercase();
    let is_refused = |entry: &str| {
        entry
            .strip_prefix("package:")
            .and_then(|refused| package.strip_prefix(refused))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if entries().any(is_refused) { Err(Refused::App) } else { Ok(()) }
}

fn entries() -> impl Iterator<Item = &'static str> {
    REFUSED.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_compared_by_its_letters_and_digits() {
        for (name, expected) in [
            ("Fire Fox", "firefox"),
            ("Élan", "elan"),
            ("K-9 Mail", "k9mail"),
            ("ＦＩＲＥ\u{200b}fox", "firefox"),
            ("Straße", "straße"),
            ("微信", "微信"),
            ("Карты", "карты"),
            (" -- ", ""),
        ] {
            assert_eq!(folded(name), expected);
        }
    }

    #[test]
    fn terminals_installers_updates_and_resets_are_refused_however_they_are_written() {
        for name in [
            "Termux",
            "TERMUX:API",
            "T e r m u x",
            "termux\u{200b}",
            "Ｔｅｒｍｕｘ",
            "Тermux",
            "t3rmux",
            "ТЕRМiN4L",
            "Тегмих Terminal",
            "Terminal Emulator",
            "Shell",
            "adb",
            "SSH",
            "Package Installer",
            "APK installer",
            "System update",
            "Software-Update",
            "Factory data reset",
            "Reset",
            "Reset options",
            "Ｆactory rеset",
            "Magisk",
            "com.termux",
            "com.termux.api",
            "COM.ANDROID.SHELL",
            "com.android.packageinstaller",
        ] {
            assert_eq!(check(name), Err(Refused::App), "{name}");
        }
    }

    #[test]
    fn other_apps_are_not() {
        for name in [
            "Firefox",
            "Settings",
            "WhatsApp",
            "Seashell Collector",
            "Ssh! Sleep sounds",
            "Maps",
            "Presets",
            "Tasker",
            "Update",
            "Bashful",
            "微信",
            "Карты",
            "",
            "com.example.terms",
            "com.termuxer",
        ] {
            let expected = if name == "com.termuxer" { Err(Refused::App) } else { Ok(()) };
            assert_eq!(check(name), expected, "{name}");
        }
        assert_eq!(check_package("com.termuxer"), Ok(()));
    }

    #[test]
    fn every_entry_is_written_as_names_are_compared() {
        for entry in entries() {
            match entry.strip_prefix("package:") {
                Some(package) => assert!(package.contains('.') && package == package.to_lowercase(), "{entry}"),
                None => assert_eq!(folded(entry), entry.trim_start_matches('='), "{entry}"),
            }
        }
    }

    proptest! {
        #[test]
        fn a_refused_name_stays_refused_with_anything_around_it(before in "\\PC{0,8}", after in "\\PC{0,8}") {
            let name = format!("{before}Termux{after}");
            prop_assert_eq!(check(&name), Err(Refused::App));
        }
    }
}
