//! One found value, and the kinds of value that a key can ask for. Each kind is one method: it gives the typed
//! value, or the error that says what is expected.

use std::{
    fmt::Display,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use jiff::tz::TimeZone;
use matrix_link::{AccessEntry, AccessList};
use regex::{Regex, RegexBuilder};
use reqwest::Url;
use ruma::{OwnedRoomId, OwnedUserId, RoomId, ServerName, UserId};
use toml_edit::{Item, Value};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::{
    appservice::Avatar,
    error::{ConfigError, Place, shown},
    reader::Source,
};

const LOCALPART: &str = "1 to 100 characters of a-z, 0-9, \".\", \"_\", \"=\" and \"-\", the first no \".\"";
/// The largest regular expression, in bytes as it is compiled.
const MAX_PATTERN: usize = 1 << 20;

/// A value as it was written, and where.
#[derive(Clone)]
pub(super) struct Found<'a> {
    pub(super) place: Place,
    pub(super) raw: Raw<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Raw<'a> {
    Item(&'a Item, &'a Source),
    Element(&'a Value, &'a Source),
    Environment(&'a str),
}

impl<'a> Found<'a> {
    /// Text of so many characters.
    pub(super) fn text(self, length: RangeInclusive<usize>) -> Result<String, ConfigError> {
        match self.as_str() {
            Some(text) if length.contains(&text.chars().count()) => Ok(text.to_owned()),
            _ => Err(self.expected(format!("a text of {} to {} characters", length.start(), length.end()))),
        }
    }

    /// A whole number in the range.
    pub(super) fn whole<T>(self, range: RangeInclusive<T>) -> Result<T, ConfigError>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let number = match self.raw {
            Raw::Environment(text) => text.trim().parse().ok(),
            _ => self.value().and_then(Value::as_integer),
        };
        number
            .and_then(|number: i64| T::try_from(number).ok())
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.expected(format!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// A number in the range, with or without a fraction.
    pub(super) fn number(self, range: RangeInclusive<f64>) -> Result<f64, ConfigError> {
        let number = match self.raw {
            Raw::Environment(text) => text.trim().parse().ok(),
            _ => self.value().and_then(|value| value.as_float().or(value.as_integer().map(|whole| whole as f64))),
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.expected(format!("a number from {} to {}", range.start(), range.end())))
    }

    /// A time in whole seconds.
    pub(super) fn seconds(self, range: RangeInclusive<u64>) -> Result<Duration, ConfigError> {
        self.whole(range).map(Duration::from_secs)
    }

    /// A time in whole days.
    pub(super) fn days(self, range: RangeInclusive<u64>) -> Result<Duration, ConfigError> {
        self.whole(range).map(|days: u64| Duration::from_secs(days * 86_400))
    }

    /// A time in whole milliseconds.
    pub(super) fn millis(self, range: RangeInclusive<u64>) -> Result<Duration, ConfigError> {
        self.whole(range).map(Duration::from_millis)
    }

    /// One of the words, as what it stands for.
    pub(super) fn choice<T: Copy>(self, words: &[(&str, T)]) -> Result<T, ConfigError> {
        let chosen = self.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        chosen.map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.expected(words.join(" or "))
        })
    }

    /// The address of a service, its path with "/" at the end, so that [`Url::join`] adds to it.
    ///
    /// No part of it may be a secret: it is shown in logs and errors.
    pub(super) fn url(self) -> Result<Url, ConfigError> {
        const EXPECTED: &str = "an http:// or https:// address without user, query or fragment";
        let Some(text) = self.as_str() else { return Err(self.expected(EXPECTED)) };
        if text.contains(['@', '?', '#']) {
            let found = "one with \"@\", \"?\" or \"#\" in it".to_owned();
            return Err(ConfigError::Value { place: self.place, expected: EXPECTED.to_owned(), found });
        }
        let url = Url::parse(text).ok().filter(|_| text.starts_with("http://") || text.starts_with("https://"));
        let Some(mut url) = url else { return Err(self.expected(EXPECTED)) };
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(url)
    }

    /// A full Matrix user id.
    pub(super) fn user_id(self) -> Result<OwnedUserId, ConfigError> {
        self.as_str()
            .and_then(|text| UserId::parse(text).ok())
            .filter(|user| user.validate_historical().is_ok())
            .ok_or_else(|| self.expected("a full user id such as \"@waybread:example.org\""))
    }

    /// What the localpart of a user id may begin with.
    pub(super) fn localpart(self) -> Result<String, ConfigError> {
        self.as_str()
            .filter(|text| {
                (1..=100).contains(&text.len()) && text.bytes().all(is_of_localpart) && !text.starts_with('.')
            })
            .map(str::to_owned)
            .ok_or_else(|| self.expected(LOCALPART))
    }

    /// The localpart of a user id on this server, with the whole of it.
    pub(super) fn user_id_on(self, server: &ServerName) -> Result<(String, OwnedUserId), ConfigError> {
        let localpart = self.clone().localpart()?;
        let user = UserId::parse(format!("@{localpart}:{server}")).map_err(|_| self.expected(LOCALPART))?;
        Ok((localpart, user))
    }

    /// A list of people.
    pub(super) fn access_list(self) -> Result<AccessList, ConfigError> {
        self.elements()?.into_iter().map(Found::access_entry).collect()
    }

    fn access_entry(self) -> Result<AccessEntry, ConfigError> {
        let Some(text) = self.as_str() else {
            return Err(self.expected("\"@name:server\" or \"*:server\""));
        };
        text.parse().map_err(|reason| ConfigError::Access { place: self.place.clone(), reason, found: self.found() })
    }

    /// A list of short texts.
    pub(super) fn words(self) -> Result<Vec<String>, ConfigError> {
        self.elements()?.into_iter().map(|word| word.text(1..=64)).collect()
    }

    /// A list of rooms.
    pub(super) fn room_ids(self) -> Result<Vec<OwnedRoomId>, ConfigError> {
        self.elements()?.into_iter().map(Found::room_id).collect()
    }

    fn room_id(self) -> Result<OwnedRoomId, ConfigError> {
        self.as_str()
            .and_then(|text| RoomId::parse(text).ok())
            .ok_or_else(|| self.expected("a full room id such as \"!room:example.org\""))
    }

    /// A list of networks; an address alone is a network of one.
    pub(super) fn networks(self) -> Result<Vec<IpNet>, ConfigError> {
        self.elements()?.into_iter().map(Found::network).collect()
    }

    fn network(self) -> Result<IpNet, ConfigError> {
        self.as_str()
            .and_then(|text| text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)))
            .ok_or_else(|| self.expected("an address or a network such as \"127.0.0.1\" or \"10.1.0.0/16\""))
    }

    /// A list of regular expressions.
    pub(super) fn patterns(self) -> Result<Vec<Regex>, ConfigError> {
        self.elements()?.into_iter().map(Found::pattern).collect()
    }

    fn pattern(self) -> Result<Regex, ConfigError> {
        self.as_str()
            .and_then(|text| RegexBuilder::new(text).size_limit(MAX_PATTERN).build().ok())
            // What matches nothing at all stands everywhere.
            .filter(|pattern| !pattern.is_match(""))
            .ok_or_else(|| self.expected("a regular expression that matches more than nothing"))
    }

    /// A path; a relative one counts from the folder of the file that it stands in.
    pub(super) fn path(self) -> Result<PathBuf, ConfigError> {
        let path = self.as_str().filter(|text| !text.is_empty()).map(|text| match self.raw {
            Raw::Item(_, source) | Raw::Element(_, source) => source.folder.join(text),
            Raw::Environment(_) => PathBuf::from(text),
        });
        path.ok_or_else(|| self.expected("a path"))
    }

    /// The file of a picture, of a kind that every client shows.
    pub(super) fn picture(self) -> Result<Avatar, ConfigError> {
        let file = self.clone().path()?;
        let kind = file.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        let content_type = match kind.as_deref() {
            Some("png") => "image/png",
            Some("jpg" | "jpeg") => "image/jpeg",
            Some("gif") => "image/gif",
            Some("webp") => "image/webp",
            _ => return Err(self.expected("a picture whose name ends in .png, .jpg, .gif or .webp")),
        };
        Ok(Avatar { file, content_type })
    }

    /// Where to listen.
    pub(super) fn address(self) -> Result<SocketAddr, ConfigError> {
        self.as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| self.expected("an address and port such as \"127.0.0.1:8090\""))
    }

    /// A time zone by its IANA name.
    pub(super) fn time_zone(self) -> Result<TimeZone, ConfigError> {
        self.as_str()
            .and_then(|name| TimeZone::get(name).ok())
            .ok_or_else(|| self.expected("an IANA time zone such as \"Europe/Berlin\""))
    }

    /// A filter of log lines, in the form that [`EnvFilter`] reads.
    pub(super) fn log_filter(self) -> Result<String, ConfigError> {
        self.as_str()
            .filter(|text| is_log_filter(text))
            .map(str::to_owned)
            .ok_or_else(|| self.expected("a log level or a filter such as \"info,waybread=debug\""))
    }

    /// The elements of a list; in the environment they stand between commas.
    fn elements(self) -> Result<Vec<Self>, ConfigError> {
        match self.raw {
            Raw::Environment(text) if text.trim().is_empty() => Ok(Vec::new()),
            Raw::Environment(text) => {
                let parts = text.split(',').map(str::trim).enumerate();
                Ok(parts
                    .map(|(index, part)| Found { place: self.place.element(index), raw: Raw::Environment(part) })
                    .collect())
            }
            Raw::Item(_, source) | Raw::Element(_, source) => {
                let Some(list) = self.value().and_then(Value::as_array) else {
                    return Err(self.expected("a list"));
                };
                let element = |(index, value): (usize, &'a Value)| {
                    let mut place = self.place.element(index);
                    if let Place::File { line, .. } = &mut place {
                        *line = source.line(value.span());
                    }
                    Found { place, raw: Raw::Element(value, source) }
                };
                Ok(list.iter().enumerate().map(element).collect())
            }
        }
    }

    fn value(&self) -> Option<&'a Value> {
        match self.raw {
            Raw::Item(item, _) => item.as_value(),
            Raw::Element(value, _) => Some(value),
            Raw::Environment(_) => None,
        }
    }

    fn as_str(&self) -> Option<&'a str> {
        match self.raw {
            Raw::Environment(text) => Some(text),
            _ => self.value().and_then(Value::as_str),
        }
    }

    /// The value for an error: as it was written.
    fn found(&self) -> String {
        match self.raw {
            Raw::Item(item, source) => shown(source.written(item.span())),
            Raw::Element(value, source) => shown(source.written(value.span())),
            Raw::Environment(text) => shown(&format!("\"{text}\"")),
        }
    }

    fn expected(&self, expected: impl Into<String>) -> ConfigError {
        ConfigError::Value { place: self.place.clone(), expected: expected.into(), found: self.found() }
    }
}

/// What new user ids are made of. Not "/" and "+": it names a folder, and stands in addresses and in a pattern.
fn is_of_localpart(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'=' | b'-')
}

/// [`EnvFilter`] takes any single word for a target: a misspelt level would silence the log without a word.
fn is_log_filter(text: &str) -> bool {
    let misspelt = |directive: &str| !directive.contains(['=', '[']) && directive.parse::<LevelFilter>().is_err();
    !text.is_empty() && EnvFilter::builder().parse(text).is_ok() && !text.split(',').any(misspelt)
}
