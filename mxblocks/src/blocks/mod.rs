//! The catalogue: for each type of block its fields, and how it reads as text.
//!
//! One file per type, or per family of types that share parts. Each has a `SHAPE`, which is the field table of
//! docs/mxblocks.md as data, and a `text`, which is what a person reads whose client draws nothing. Where the format
//! leaves a name or a limit open, docs/mxblocks.md says what was chosen.

pub(crate) mod card;
mod chart;
mod code;
mod details;
mod event;
pub(crate) mod form;
mod math;
mod media;
mod place;
mod progress;
pub(crate) mod prompts;
mod sources;
mod stream;
mod table;
mod ticker;
mod tracker;
mod weather;

pub use code::MAX_FILE_NAME;
pub use math::{MAX_MATH_LINE, Math};
pub use media::{MAX_CAPTION, MAX_GALLERY, MAX_PREVIEW_BYTES, MAX_PREVIEW_LINES, MIN_GALLERY};
pub use prompts::{MAX_LABEL, MAX_PROMPTS};
pub use stream::{MAX_STREAM_ID, StreamState};
pub use tracker::TRACKER_KINDS;

pub(crate) use math::read as read_math;

use crate::rules::Shape;
use crate::view::View;

/// One type of block.
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) shape: &'static Shape,
    /// The block as Markdown; empty if there is nothing to read.
    pub(crate) text: fn(View<'_>) -> String,
}

/// All types.
pub(crate) static CATALOGUE: [Type; 22] = [
    Type { name: "buttons", shape: &prompts::BUTTONS, text: prompts::text },
    Type { name: "chips", shape: &prompts::CHIPS, text: prompts::text },
    Type { name: "table", shape: &table::SHAPE, text: table::text },
    Type { name: "chart", shape: &chart::SHAPE, text: chart::text },
    Type { name: "sources", shape: &sources::SHAPE, text: sources::text },
    Type { name: "card", shape: &card::CARD, text: card::text },
    Type { name: "cards", shape: &card::CARDS, text: card::texts },
    Type { name: "progress", shape: &progress::SHAPE, text: progress::text },
    Type { name: "details", shape: &details::SHAPE, text: details::text },
    Type { name: "code", shape: &code::CODE, text: code::text },
    Type { name: "diff", shape: &code::DIFF, text: code::diff_text },
    Type { name: "countdown", shape: &event::COUNTDOWN, text: event::countdown_text },
    Type { name: "event", shape: &event::EVENT, text: event::text },
    Type { name: "place", shape: &place::SHAPE, text: place::text },
    Type { name: "ticker", shape: &ticker::SHAPE, text: ticker::text },
    Type { name: "weather", shape: &weather::SHAPE, text: weather::text },
    Type { name: "tracker", shape: &tracker::SHAPE, text: tracker::text },
    Type { name: "math", shape: &math::SHAPE, text: math::text },
    Type { name: "gallery", shape: &media::GALLERY, text: media::gallery_text },
    Type { name: "form", shape: &form::SHAPE, text: form::text },
    Type { name: "file", shape: &media::FILE, text: media::file_text },
    Type { name: "stream", shape: &stream::SHAPE, text: stream::text },
];

/// The types that are carried as plain objects: all but `buttons` and `chips`.
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

/// Objects that several types have, by the names that they have in docs/mxblocks.md.
#[cfg(test)]
pub(crate) static SHARED: [(&str, &Shape); 6] = [
    ("button", &prompts::BUTTON),
    ("card", &card::CARD),
    ("step", &progress::STEP),
    ("image", &media::IMAGE),
    ("encrypted file", &media::ENCRYPTED_FILE),
    ("info", &media::INFO),
];

/// The type of that name, if there is one.
pub(crate) fn find(name: &str) -> Option<&'static Type> {
    CATALOGUE.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_display_types_are_the_catalogue_without_buttons_and_chips() {
        let names: Vec<_> = CATALOGUE.iter().map(|kind| kind.name).collect();
        assert_eq!(names[..2], ["buttons", "chips"]);
        assert_eq!(names[2..], DISPLAY_TYPES);
    }
}
