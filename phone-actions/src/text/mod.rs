//! The card in words, for people in any Matrix client.
//!
//! A [`Text`] is a list of lines that know what they are, and is written as plain text, Markdown or HTML. Whatever comes
//! from the model stays text in each of them: it makes no markup, no link that was not meant as one, and no line that
//! could be taken for one of ours. All that the phone gets is shown.

mod links;
mod shown;
mod words;
mod write;

use std::time::Duration;

use serde_json::Value;

use crate::{
    Outcome,
    action::Action,
    answer::cut,
    rule::{Rule, coordinates},
    tables::{ActionRow, Form, Row, Tables},
    template::{Piece, Template},
};

use shown::{MAX_LISTED, block, line};

/// A text in words, to be written in one of three ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<Line>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    /// The first line.
    Title(String),
    /// A detail.
    Item { label: String, spans: Vec<Span> },
    /// Somebody's words of one or more lines, set apart.
    Quote { label: String, lines: Vec<String> },
    /// A paragraph.
    Note(Vec<Span>),
}

/// A part of a line. Never has a line break.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Span {
    Text(String),
    /// Its address is made by [`links`]: of printable characters, without blanks, quotes and brackets.
    Link {
        text: String,
        href: String,
    },
}

/// What a text is for.
pub(crate) enum Frame<'a> {
    /// To say what would happen, and nothing of how to answer.
    Proposal,
    /// To be confirmed on a paired phone.
    OnPhone { wait: Duration },
    /// To be done by hand and answered in the room.
    ByHand { wait: Duration },
    /// To tell what came of it, and what was said with the answer.
    Closed { outcome: Outcome, message: Option<&'a str> },
}

/// The text of a card for `action`.
pub(crate) fn text_of(tables: &Tables, action: &Action, frame: Frame<'_>) -> Text {
    let Some(row) = tables.action(action.name()) else { return Text(Vec::new()) };
    let writer = Writer { tables, action, row };
    let mut lines = vec![Line::Title(writer.title(&frame))];
    lines.extend(row.shown.rows.iter().filter_map(|row| writer.row(row)));
    if action.summary() != row.name {
        let summary = vec![line(action.summary())];
        lines.push(Line::Quote { label: tables.card.summary.clone(), lines: summary });
    }
    writer.end(&frame, &mut lines);
    Text(lines)
}

struct Writer<'a> {
    tables: &'a Tables,
    action: &'a Action,
    row: &'a ActionRow,
}

impl Writer<'_> {
    fn title(&self, frame: &Frame<'_>) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Gap(field) => self.action.get(field).map(|value| self.words(field, value)).unwrap_or_default(),
        };
        let title: String = self.row.shown.title.pieces().iter().map(piece).collect();
        match frame {
            Frame::Proposal | Frame::OnPhone { .. } | Frame::ByHand { .. } => {
                format!("{} {title}", self.row.shown.icon)
            }
            Frame::Closed { outcome, .. } => self.closed(*outcome).fill(|_| title.clone()),
        }
    }

    fn closed(&self, outcome: Outcome) -> &Template {
        let states = &self.tables.card.states;
        match outcome {
            Outcome::Done => &states.done,
            Outcome::Declined => &states.declined,
            Outcome::Failed => &states.failed,
            Outcome::Expired => &states.expired,
            Outcome::Withdrawn => &states.withdrawn,
        }
    }

    fn row(&self, row: &Row) -> Option<Line> {
        let value = self.action.get(&row.field).or_else(|| self.row.defaults.get(&row.field))?;
        let label = row.label.clone();
        Some(match (row.form, value) {
            (Form::Quote, Value::String(text)) => Line::Quote { label, lines: block(text) },
            (Form::Mail, Value::Array(people)) => Line::Item { label, spans: listed(people, ", ", mail) },
            _ => Line::Item { label, spans: self.spans(&row.field, value) },
        })
    }

    /// What stands at the end of the card.
    fn end(&self, frame: &Frame<'_>, lines: &mut Vec<Line>) {
        let card = &self.tables.card;
        let note = |text: String| Line::Note(vec![Span::Text(text)]);
        let left_to_person = || self.row.shown.on_phone.clone().map(note);
        match frame {
            Frame::Proposal => lines.extend(left_to_person()),
            Frame::OnPhone { wait } => {
                lines.extend(left_to_person());
                lines.push(note(card.on_phone.fill(|_| words::duration(wait.as_secs().max(1)))));
            }
            Frame::ByHand { wait } => {
                let link = self
                    .row
                    .shown
                    .mailto
                    .as_ref()
                    .and_then(|words| Some(Span::Link { text: words.clone(), href: links::mailto(self.action)? }));
                lines.extend(link.map(|link| Line::Note(vec![link])));
                lines.push(note(card.by_hand.fill(|_| words::duration(wait.as_secs().max(1)))));
            }
            Frame::Closed { message, .. } => {
                let message = message.and_then(cut).map(|message| block(&message));
                lines.extend(message.map(|lines| Line::Quote { label: card.message.clone(), lines }));
            }
        }
    }

    /// A value on one line, with links where they help.
    fn spans(&self, field: &str, value: &Value) -> Vec<Span> {
        match (self.tables.rule(field), value) {
            (Some(Rule::Place), place) => place_spans(place),
            (Some(Rule::Places), Value::Array(places)) => {
                let mut number = 0;
                listed(places, "; ", |place| {
                    number += 1;
                    let mut spans = vec![Span::Text(format!("{number}. "))];
                    spans.extend(place_spans(place));
                    spans
                })
            }
            (Some(Rule::Url), Value::String(url)) => {
                let href = links::url(url);
                vec![Span::Link { text: line(&href), href }]
            }
            _ => vec![Span::Text(self.words(field, value))],
        }
    }

    /// A value on one line, in words.
    fn words(&self, field: &str, value: &Value) -> String {
        let known = self.tables.card.words.get(field).and_then(|words| words.get(&shown::json(value)));
        if let Some(word) = known {
            return word.clone();
        }
        match (self.tables.rule(field), value) {
            (Some(Rule::Clock), Value::String(time)) => words::clock(time),
            (Some(Rule::Moment), Value::String(moment)) => words::moment(moment),
            (Some(Rule::Days), Value::Array(days)) => words::days(days),
            (Some(Rule::Seconds { .. }), value) => {
                value.as_u64().map_or_else(|| line(&shown::json(value)), words::duration)
            }
            (Some(Rule::Place), place) => place_name(place),
            (Some(Rule::People), Value::Array(people)) => plain(listed(people, ", ", |one| vec![said(one)])),
            (Some(Rule::Texts), Value::Object(texts)) => {
                let pairs: Vec<_> = texts.iter().collect();
                plain(listed(&pairs, "; ", |(key, value)| {
                    vec![Span::Text(format!("{} = {}", line(key), line(&shown::json(value))))]
                }))
            }
            _ => line(&shown::json(value)),
        }
    }
}

/// The first items of a list, and how many more there are.
fn listed<'a, T>(items: &'a [T], between: &str, mut spans: impl FnMut(&'a T) -> Vec<Span>) -> Vec<Span> {
    let mut all = Vec::new();
    for item in items.iter().take(MAX_LISTED) {
        if !all.is_empty() {
            all.push(Span::Text(between.to_owned()));
        }
        all.extend(spans(item));
    }
    if let Some(more) = items.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        all.push(Span::Text(format!("{between}and {more} more")));
    }
    all
}

fn plain(spans: Vec<Span>) -> String {
    spans
        .into_iter()
        .map(|span| match span {
            Span::Text(text) | Span::Link { text, .. } => text,
        })
        .collect()
}

fn said(value: &Value) -> Span {
    Span::Text(line(&shown::json(value)))
}

fn mail(value: &Value) -> Vec<Span> {
    let address = value.as_str().and_then(links::address);
    vec![address.map_or_else(
        || said(value),
        |address| Span::Link { text: address.to_owned(), href: format!("mailto:{address}") },
    )]
}

fn place_spans(place: &Value) -> Vec<Span> {
    let text = place_name(place);
    let Some(href) = links::map(place) else { return vec![Span::Text(text)] };
    let mut spans = vec![Span::Link { text, href }];
    spans.extend(links::geo(place).map(|geo| Span::Text(format!(" · {geo}"))));
    spans
}

/// All that a place says of itself, so that the person sees what the phone goes by.
fn place_name(place: &Value) -> String {
    let Some(place) = place.as_object() else { return line(&shown::json(place)) };
    let mut names: Vec<String> = Vec::new();
    for text in ["name", "query"].into_iter().filter_map(|key| crate::rule::place_text(place, key)) {
        if names.iter().all(|name| *name != line(text)) {
            names.push(line(text));
        }
    }
    if let (true, Some([lat, lon])) = (names.is_empty(), coordinates(place)) {
        names.push(format!("{lat}, {lon}"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_is_named_by_all_that_it_says() {
        for (place, name) in [
            (json!({"name": "Home", "query": "12 Main Street", "lat": 1, "lon": 2}), "Home, 12 Main Street"),
            (json!({"name": "Lyon", "query": " Lyon "}), "Lyon"),
            (json!({"name": " ", "lat": 48.5, "lon": -2}), "48.5, -2"),
        ] {
            assert_eq!(place_name(&place), name);
        }
    }

    #[test]
    fn the_last_items_of_a_long_list_are_counted() {
        let items: Vec<_> = (1..=MAX_LISTED + 2).collect();
        let shown = |count| plain(listed(&items[..count], ", ", |item| vec![Span::Text(item.to_string())]));
        assert_eq!(shown(3), "1, 2, 3");
        assert!(shown(MAX_LISTED).ends_with(", 12"));
        assert!(shown(MAX_LISTED + 2).ends_with(", 12, and 2 more"));
    }
}
