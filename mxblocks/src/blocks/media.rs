//! `gallery` and `file`: uploads, named by `mxc` address or, in encrypted rooms, by an encrypted file as Matrix's own
//! `m.image` and `m.file` have it.

use serde_json::{Map, Value};

use super::code::MAX_FILE_NAME;
use crate::fault::Fault;
use crate::markdown;
use crate::number::MAX_SAFE_INT;
use crate::rules::Rule::{Integer, Line, List, Mxc, Object, OneOf, Text};
use crate::rules::{LINE, SHORT, Shape, aside, is_absent, optional, required};
use crate::view::{View, join};

/// The fewest images of a gallery.
pub const MIN_GALLERY: usize = 2;

/// The most images of a gallery.
pub const MAX_GALLERY: usize = 20;

/// The longest title of a gallery, caption or alternative text, in characters.
pub const MAX_CAPTION: usize = 200;

/// The most lines of a file's preview.
pub const MAX_PREVIEW_LINES: usize = 40;

/// The largest preview of a file, in bytes.
pub const MAX_PREVIEW_BYTES: usize = 4096;

pub(super) static GALLERY: Shape = Shape::new(&[
    optional("title", Text(MAX_CAPTION)),
    required("images", List(MIN_GALLERY, MAX_GALLERY, &Object(&IMAGE))),
]);

pub(super) static IMAGE: Shape = Shape::new(&[
    optional("url", Mxc),
    aside("file", Object(&ENCRYPTED_FILE)),
    optional("caption", Text(MAX_CAPTION)),
    optional("alt", Text(MAX_CAPTION)),
    aside("info", Object(&INFO)),
])
.and(is_one_upload);

pub(super) static FILE: Shape = Shape::new(&[
    required("name", Line(MAX_FILE_NAME)),
    optional("url", Mxc),
    aside("file", Object(&ENCRYPTED_FILE)),
    optional("caption", Text(MAX_CAPTION)),
    aside("info", Object(&INFO)),
    aside("preview", Text(MAX_PREVIEW_BYTES)),
])
.and(is_one_upload_with_short_preview);

pub(super) static ENCRYPTED_FILE: Shape = Shape::new(&[
    required("url", Mxc),
    required("key", Object(&KEY)),
    required("iv", Line(SHORT)),
    required("hashes", Object(&HASHES)),
    required("v", OneOf(&["v2"])),
]);

pub(super) static KEY: Shape = Shape::new(&[required("k", Line(LINE))]);

pub(super) static HASHES: Shape = Shape::new(&[required("sha256", Line(LINE))]);

pub(super) static INFO: Shape = Shape::new(&[
    optional("mimetype", Line(LINE)),
    optional("size", Integer(0, MAX_SAFE_INT)),
    optional("w", Integer(0, 1_000_000)),
    optional("h", Integer(0, 1_000_000)),
]);

fn is_one_upload(of: &Map<String, Value>) -> Result<(), Fault> {
    let has = |name| of.get(name).is_some_and(|value| !is_absent(value));
    match (has("url"), has("file")) {
        (true, false) | (false, true) => Ok(()),
        (true, true) => Err(Fault::new("expected url or file, not both")),
        (false, false) => Err(Fault::new("needs url, or file where it is encrypted")),
    }
}

fn is_one_upload_with_short_preview(file: &Map<String, Value>) -> Result<(), Fault> {
    is_one_upload(file)?;
    let preview = View(file).raw("preview").unwrap_or_default();
    if preview.lines().count() > MAX_PREVIEW_LINES || preview.len() > MAX_PREVIEW_BYTES {
        let expected = format!("expected at most {MAX_PREVIEW_LINES} lines and {MAX_PREVIEW_BYTES} bytes");
        return Err(Fault::new(expected).in_field("preview"));
    }
    Ok(())
}

/// The images by their captions and what is to be seen on them.
pub(super) fn gallery_text(block: View<'_>) -> String {
    let images = block.objects("images").zip(1..).map(|(image, number)| {
        Some(match (image.line("caption"), image.line("alt")) {
            (Some(caption), Some(alt)) => format!("- {caption} ({alt})"),
            (caption, alt) => format!("- {}", caption.or(alt).unwrap_or_else(|| format!("image {number}"))),
        })
    });
    join("\n", [block.bold("title")].into_iter().chain(images)).unwrap_or_default()
}

pub(super) fn file_text(block: View<'_>) -> String {
    let info = block.0.get("info").and_then(Value::as_object).map(View);
    let size = info.and_then(|info| info.0.get("size")).and_then(Value::as_u64).map(shown_size);
    let info = join(", ", [info.and_then(|info| info.line("mimetype")), size]).map(|info| format!("({info})"));
    let name = join(" ", [block.bold("name"), info]);
    let preview = block.raw("preview").map(|preview| markdown::fence("", preview));
    join("\n\n", [join("\n", [name, block.paragraphs("caption")]), preview]).unwrap_or_default()
}

/// A size in the largest unit of which there is at least one.
fn shown_size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{fault_of, is_fine};

    fn gallery(images: Vec<Value>) -> Value {
        json!({"type": "gallery", "images": images})
    }

    #[test]
    fn a_gallery_has_2_to_20_images() {
        let image = json!({"url": "mxc://example.org/a"});
        is_fine(&gallery(vec![image.clone(); 2]));
        is_fine(&gallery(vec![image.clone(); 20]));
        for count in [0, 1, 21] {
            let expected = format!("blocks[0].images gallery: expected a list of 2 to 20, found {count}");
            assert_eq!(fault_of(&gallery(vec![image.clone(); count])), expected);
        }
    }

    #[test]
    fn an_image_is_an_upload_plain_or_encrypted() {
        let plain = json!({"url": "mxc://example.org/a"});
        let file = json!({"url": "mxc://example.org/b", "key": {"k": "a2V5"}, "iv": "aXY", "hashes": {"sha256": "aGFzaA"}, "v": "v2"});
        let with = |image: Value| gallery(vec![plain.clone(), image]);
        is_fine(&with(
            json!({"file": file, "alt": "A tree", "info": {"mimetype": "image/png", "w": 3, "h": 2, "size": 9}}),
        ));
        let mut elsewhere = file.clone();
        elsewhere["url"] = json!("https://example.org/b");
        for (image, expected) in [
            (json!({"caption": "A tree"}), " gallery: needs url, or file where it is encrypted"),
            (json!({"url": "mxc://example.org/a", "file": file}), " gallery: expected url or file, not both"),
            (
                json!({"url": "https://example.org/a"}),
                ".url gallery: expected the mxc:// address of an upload, found \"https://example.org/a\"",
            ),
            (
                json!({"file": elsewhere}),
                ".file.url gallery: expected the mxc:// address of an upload, found \"https://example.org/b\"",
            ),
            (
                json!({"file": {"url": "mxc://example.org/b"}}),
                ".file gallery: needs key, iv, hashes and v (takes url, key, iv, hashes, v)",
            ),
            (
                json!({"url": "mxc://example.org/a", "alt": "x".repeat(201)}),
                ".alt gallery: expected text of at most 200 characters, found 201 characters",
            ),
        ] {
            assert_eq!(fault_of(&with(image)), format!("blocks[0].images[1]{expected}"));
        }
    }

    #[test]
    fn a_preview_has_at_most_40_lines_and_4096_bytes() {
        let file = |preview: String| json!({"type": "file", "name": "a.txt", "url": "mxc://example.org/a", "preview": preview});
        is_fine(&file("x\n".repeat(40)));
        is_fine(&file("x".repeat(4096)));
        for preview in ["x\n".repeat(41), "é".repeat(2049)] {
            assert_eq!(fault_of(&file(preview)), "blocks[0].preview file: expected at most 40 lines and 4096 bytes");
        }
    }

    #[test]
    fn a_file_has_a_name_and_an_upload() {
        assert_eq!(
            fault_of(&json!({"type": "file", "url": "mxc://example.org/a"})),
            "blocks[0] file: needs name (takes name, url?, file?, caption?, info?, preview?)"
        );
        assert_eq!(
            fault_of(&json!({"type": "file", "name": "a.txt"})),
            "blocks[0] file: needs url, or file where it is encrypted"
        );
    }
}
