//! The wire format of rich blocks in Matrix messages: types, limits, validation, plain text.
