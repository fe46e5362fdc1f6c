//! The field tables of docs/mxblocks.md are the rules: the same fields in the same order, with the same words.

use std::fmt::Write as _;
use std::ptr;

use crate::blocks::{CATALOGUE, SHARED, find};
use crate::rules::{Need, Rule, Shape};

const DOCUMENT: &str = include_str!("../../../docs/mxblocks.md");

#[test]
fn each_type_has_its_table() {
    for kind in &CATALOGUE {
        assert_eq!(table_under(&format!("### `{}`", kind.name)), table_of(kind.shape), "### `{}`", kind.name);
    }
    for (name, shape) in SHARED.iter().filter(|(name, _)| find(name).is_none()) {
        assert_eq!(table_under(&format!("### {name}")), table_of(shape), "### {name}");
    }
}

/// The table below a heading, without its last column, which says where a rule comes from.
fn table_under(heading: &str) -> String {
    let section =
        DOCUMENT.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let rows = section.filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.trim_end_matches('|').rsplit_once('|')).map(|(row, _)| format!("{row}|\n")).collect()
}

fn table_of(shape: &Shape) -> String {
    let mut rows = String::new();
    write_rows(&mut rows, "", shape);
    rows
}

fn write_rows(rows: &mut String, prefix: &str, shape: &Shape) {
    for field in shape.fields {
        let name = format!("{prefix}{}", field.name);
        let required = if field.need == Need::Required { " yes " } else { " " };
        let (value, inner) = written(&field.rule);
        let _ = writeln!(rows, "| `{name}` |{required}| {value} |");
        if let Some((brackets, shape)) = inner {
            write_rows(rows, &format!("{name}{brackets}."), shape);
        }
    }
}

/// A rule in short, and the object within it if that has no table of its own.
fn written(rule: &Rule) -> (String, Option<(&'static str, &'static Shape)>) {
    let shared = |shape: &Shape| SHARED.iter().find(|(_, other)| ptr::eq(*other, shape)).map(|(name, _)| *name);
    let short = match rule {
        Rule::Line(max) | Rule::Key(max) => format!("line ≤ {max}"),
        Rule::Text(max) => format!("text ≤ {max}"),
        Rule::Number => "number".to_owned(),
        Rule::Cell(max) => format!("number, or line ≤ {max}"),
        Rule::Integer(min, max) => format!("integer {min}..{max}"),
        Rule::Flag => "true or false".to_owned(),
        Rule::OneOf(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" "),
        Rule::Web => "web address".to_owned(),
        Rule::Https => "https address".to_owned(),
        Rule::WebOrGeo => "web or geo address".to_owned(),
        Rule::Mxc => "mxc address".to_owned(),
        Rule::Id => "id".to_owned(),
        Rule::Time => "time".to_owned(),
        Rule::When => "time or day".to_owned(),
        Rule::Own(expected, _) => (*expected).to_owned(),
        Rule::LineOr(max, shape) => return (format!("line ≤ {max}, or object"), Some(("", shape))),
        Rule::Object(shape) => match shared(shape) {
            Some(name) => name.to_owned(),
            None => return ("object".to_owned(), Some(("", shape))),
        },
        Rule::List(min, max, of) => {
            let (of, inner) = written(of);
            return (format!("list {min}..{max} of: {of}"), inner.map(|(_, shape)| ("[]", shape)));
        }
    };
    (short, None)
}
