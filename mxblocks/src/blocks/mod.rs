//! The catalogue: what each type of block may hold.

pub(crate) const BUTTONS: &str = "buttons";
pub(crate) const CHIPS: &str = "chips";

/// The types that are carried as plain objects, that is all but `buttons` and `chips`.
pub const DISPLAY_TYPES: [&str; 20] = [
    "table",
    "chart",
    "sources",
    "card",
    "cards",
    "progress",
    "details",
    "code",
    "diff",
    "countdown",
    "event",
    "place",
    "ticker",
    "weather",
    "tracker",
    "math",
    "gallery",
    "form",
    "file",
    "stream",
];
