//! Tests of the catalogue as a whole: how each type reads, that the documentation is right, and what holds for any JSON.

mod documented;
mod properties;
mod reads;
mod whole;
