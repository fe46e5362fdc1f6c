//! The pages. Plain HTML, made here: readable on a phone, light and dark, without a script.
//!
//! Whatever others have written (titles, labels, names, what the person has typed) goes through [`escape`]. A secret that was
//! typed is never written into a page again.

use super::{Faults, FieldKind, Opened, Sent, spec::Field};

/// The hidden field that only a page of ours has.
pub(super) const CSRF: &str = "waybread-page";

/// How the pages look.
pub(super) const STYLE: &str = include_str!("form.css");

/// A page.
pub(super) enum Page<'a> {
    /// The first one: a button, so that looking at the link does nothing.
    Open { opened: &'a Opened, path: &'a str, csrf: &'a str },
    /// The form, perhaps with what was sent and what is wrong with it.
    Form { opened: &'a Opened, path: &'a str, csrf: &'a str, again: Option<(&'a Sent, &'a Faults)> },
    /// It was sent.
    Done { opened: &'a Opened },
    /// It was sent, expired, or was taken back.
    Over,
    /// It is open in another browser.
    Elsewhere,
    /// There is no such form.
    Gone,
    /// What came in was not sent from a page of ours.
    Foreign,
    /// It was too large.
    TooLarge,
    /// It came too slowly.
    TooSlow,
    /// Too many requests.
    Slow,
    /// Our own fault.
    Broken,
}

impl<'a> Page<'a> {
    pub(super) fn form(
        opened: &'a Opened,
        path: &'a str,
        csrf: &'a str,
        again: Option<(&'a Sent, &'a Faults)>,
    ) -> Self {
        Self::Form { opened, path, csrf, again }
    }

    /// The page as HTML; `folder` is where the style stands.
    pub(super) fn html(&self, folder: &str) -> String {
        let word = |title: &str, text: &str| (title.to_owned(), format!("<p>{}</p>", escape(text)));
        let (title, body) = match self {
            Self::Open { opened, path, csrf } => (opened.spec.title.clone(), first(opened, path, csrf)),
            Self::Form { opened, path, csrf, again } => (opened.spec.title.clone(), form(opened, path, csrf, *again)),
            Self::Done { opened } => (
                format!("{}: done", opened.spec.title),
                "<p>Done. You can close this page and go back to the chat.</p>".to_owned(),
            ),
            Self::Over => word(
                "This form is closed",
                "It was sent, its time is over, or it was taken back. Ask for it again in the chat.",
            ),
            Self::Elsewhere => word(
                "Open in another browser",
                "This form was opened in another browser, and is for that one alone. If that was not you, ask for a new one in \
                 the chat: this one can be stopped there with \"stop\".",
            ),
            Self::Gone => word("Nothing here", "There is no such form."),
            Self::Foreign => word(
                "Not taken",
                "What came in was not sent from this form's own page. Open the link in the chat again.",
            ),
            Self::TooLarge => {
                word("Too large", "What you sent is larger than this form takes. Go back and choose a smaller file.")
            }
            Self::TooSlow => word("Too slow", "What you sent did not arrive in time. Go back and send it again."),
            Self::Slow => word("Too many requests", "Please wait a minute and load the page again."),
            Self::Broken => word("Not now", "I can't read my notes right now. Please try again in a minute."),
        };
        let title = escape(&title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <link rel=\"stylesheet\" href=\"{}form.css\">\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n",
            escape(folder)
        )
    }
}

/// Who asks for what, and for whom.
fn about(opened: &Opened) -> String {
    let place = opened.room_name.as_ref().map(|name| format!(" in “{name}”")).unwrap_or_default();
    let Opened { agent, person, command, .. } = opened;
    format!("<p class=\"about\">{}</p>\n", escape(&format!("For {person}, from {agent}{place} (command {command}).")))
}

fn first(opened: &Opened, path: &str, csrf: &str) -> String {
    format!(
        "{}<p>This form is for you alone. It stays in the browser in which you open it, and can be sent once.</p>\n\
         <form method=\"post\" action=\"{}/open\" enctype=\"multipart/form-data\">\n{}\
         <button type=\"submit\">Open the form</button>\n</form>",
        about(opened),
        escape(path),
        hidden(csrf)
    )
}

fn form(opened: &Opened, path: &str, csrf: &str, again: Option<(&Sent, &Faults)>) -> String {
    let mut html = about(opened);
    if let Some(text) = &opened.spec.text {
        for paragraph in text.split('\n').filter(|one| !one.trim().is_empty()) {
            html.push_str(&format!("<p>{}</p>\n", escape(paragraph)));
        }
    }
    if again.is_some() {
        html.push_str("<p class=\"fault\" role=\"alert\">Something is missing or wrong; secrets and files must be given again.</p>\n");
    }
    html.push_str(&format!(
        "<form method=\"post\" action=\"{}\" enctype=\"multipart/form-data\" autocomplete=\"off\">\n{}",
        escape(path),
        hidden(csrf)
    ));
    for one in &opened.spec.fields {
        let value =
            again.and_then(|(sent, _)| sent.get(&one.name)).map(|value| String::from_utf8_lossy(value).into_owned());
        let fault = again.and_then(|(_, faults)| faults.get(&one.name));
        html.push_str(&field(one, value.as_deref(), fault.map(String::as_str)));
    }
    html.push_str(&format!("<button type=\"submit\">{}</button>\n</form>", escape(&opened.spec.submit)));
    html
}

fn hidden(csrf: &str) -> String {
    format!("<input type=\"hidden\" name=\"{CSRF}\" value=\"{}\">\n", escape(csrf))
}

/// A field with its label, its help and what is wrong with it. No attribute asks the browser to check: what is wrong is said
/// by the page, in the same words everywhere.
fn field(field: &Field, value: Option<&str>, fault: Option<&str>) -> String {
    let name = escape(&field.name);
    let id = format!("field-{name}");
    let optional = if field.required { "" } else { " <small>(may be left out)</small>" };
    let mut described = Vec::new();
    let mut notes = String::new();
    if let Some(help) = &field.help {
        notes.push_str(&format!("<p class=\"help\" id=\"{id}-help\">{}</p>\n", escape(help)));
        described.push(format!("{id}-help"));
    }
    if let Some(fault) = fault {
        notes.push_str(&format!("<p class=\"fault\" id=\"{id}-fault\">{}</p>\n", escape(fault)));
        described.push(format!("{id}-fault"));
    }
    let described =
        if described.is_empty() { String::new() } else { format!(" aria-describedby=\"{}\"", described.join(" ")) };
    let invalid = if fault.is_some() { " aria-invalid=\"true\"" } else { "" };
    let attributes = format!("name=\"{name}\"{described}{invalid}");
    let label = escape(&field.label);
    let value = value.unwrap_or_default();
    match &field.kind {
        FieldKind::Text { max } if *max > 200 => format!(
            "<div class=\"field\">\n<label for=\"{id}\">{label}{optional}</label>\n\
             <textarea id=\"{id}\" {attributes} rows=\"4\">\n{}</textarea>\n{notes}</div>\n",
            escape(value)
        ),
        FieldKind::Text { .. } => format!(
            "<div class=\"field\">\n<label for=\"{id}\">{label}{optional}</label>\n\
             <input id=\"{id}\" type=\"text\" {attributes} value=\"{}\">\n{notes}</div>\n",
            escape(value)
        ),
        FieldKind::Secret { .. } => format!(
            "<div class=\"field\">\n<label for=\"{id}\">{label}{optional}</label>\n\
             <input id=\"{id}\" type=\"password\" {attributes} autocomplete=\"off\" spellcheck=\"false\">\n{notes}</div>\n"
        ),
        FieldKind::File { max_bytes, .. } => format!(
            "<div class=\"field\">\n<label for=\"{id}\">{label}{optional} <small>({} at most)</small></label>\n\
             <input id=\"{id}\" type=\"file\" {attributes}>\n{notes}</div>\n",
            size(*max_bytes)
        ),
        FieldKind::Checkbox => {
            let checked = if value.is_empty() { "" } else { " checked" };
            format!(
                "<div class=\"field\">\n<label class=\"choice\" for=\"{id}\"><input id=\"{id}\" type=\"checkbox\" \
                 {attributes} value=\"on\"{checked}> <span>{label}{optional}</span></label>\n{notes}</div>\n"
            )
        }
        FieldKind::Choice { choices } => {
            let choices: String = choices
                .iter()
                .map(|(own, label)| {
                    let checked = if own == value { " checked" } else { "" };
                    format!(
                        "<label class=\"choice\"><input type=\"radio\" name=\"{name}\" value=\"{}\"{checked}> \
                         <span>{}</span></label>\n",
                        escape(own),
                        escape(label)
                    )
                })
                .collect();
            format!(
                "<fieldset class=\"field\"{described}>\n<legend>{label}{optional}</legend>\n{choices}{notes}</fieldset>\n"
            )
        }
    }
}

fn size(bytes: usize) -> String {
    if bytes >= 1024 { format!("{} KiB", bytes / 1024) } else { format!("{bytes} bytes") }
}

/// Text as it may stand anywhere in a page, in an attribute too.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use ruma::owned_room_id;

    use super::*;
    use crate::{http::forms::spec::tests::all_kinds, store::SecretOwner};

    fn opened() -> Opened {
        Opened {
            spec: all_kinds(),
            owner: SecretOwner::Room(owned_room_id!("!group:example.org")),
            command: "connect-git".into(),
            asked_in: owned_room_id!("!group:example.org"),
            agent: "Waybread".into(),
            person: "alice <b>".into(),
            room_name: Some("The group".into()),
            digest: "d".into(),
        }
    }

    #[test]
    fn the_first_page_and_the_form_are_plain_html() {
        let opened = opened();
        insta::assert_snapshot!("first", Page::Open { opened: &opened, path: "/form/ID/SECRET", csrf: "c" }.html("/"));
        insta::assert_snapshot!("form", Page::form(&opened, "/form/ID/SECRET", "c", None).html("/"));
    }

    #[test]
    fn what_was_sent_is_kept_but_for_secrets_and_faults_are_told_beside_their_fields() {
        let opened = opened();
        let sent: Sent =
            [("repository", "x\">"), ("token", "s3cr3t"), ("access", "write"), ("agree", "on"), ("key", "k3y")]
                .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
                .into();
        let faults: Faults = [("repository".to_owned(), "This is too long: 2 characters at most.".to_owned())].into();
        let html = Page::form(&opened, "/form/ID/SECRET", "c", Some((&sent, &faults))).html("/");
        assert!(!html.contains("s3cr3t") && !html.contains("k3y"));
        insta::assert_snapshot!("again", html);
    }

    proptest! {
        #[test]
        fn nobodys_words_become_markup(text in "[<>&\"'a-z ]{0,40}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
            prop_assert_eq!(back.replace("&amp;", "&"), text);
        }
    }
}
