//! From the model's Markdown to what a Matrix event may carry.
//!
//! A model writes Markdown, and writes it as a stream: at any moment a fence may be open or a table half
//! there. Four questions come up on the way into the room, one file each:
//!
//! - [`to_html`]: how does it look? Only what `org.matrix.custom.html` allows ever comes out.
//! - [`split`]: where to cut what is too long for one event? Each part reads as Markdown of its own.
//! - [`first_sentence_ends`]: is there enough of a draft to show?
//! - [`pieces`]: does it ask something with choices to press?
//!
//! All four are pure functions that take any text, however broken or hostile: none panics or recurses, and
//! the time each takes grows about linearly with the text.

mod ask;
mod html;
mod outline;
mod sentence;
mod split;

pub use ask::{Ask, Choice, Piece, Shown, pieces, without_asks};
pub use html::to_html;
pub use sentence::first_sentence_ends;
pub use split::split;
