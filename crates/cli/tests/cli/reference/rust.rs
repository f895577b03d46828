//! Just enough of Rust's syntax to find documented items in files that rustfmt has formatted.

/// The documentation and the attributes of an item, and its first line.
#[derive(Default)]
pub(super) struct Item {
    /// Its documentation, in one line.
    pub(super) comment: String,
    pub(super) attributes: String,
    pub(super) line: String,
}

/// Lines that are neither comments nor attributes, each with what stands right before it.
/// Documentation begins with three slashes.
pub(super) fn items(text: &str) -> Vec<Item> {
    let (mut items, mut next, mut in_attribute) = (vec![], Item::default(), None);
    for line in text.lines() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if in_attribute.is_some() || bare.starts_with("#[") {
            next.attributes += bare;
            next.attributes.push('\n');
            // The end of an attribute of several lines stands below its beginning.
            let begins = *in_attribute.get_or_insert(indent);
            if indent == begins && bare.ends_with(']') {
                in_attribute = None;
            }
        } else if let Some(comment) = bare.strip_prefix("///") {
            next.comment += comment;
        } else if !bare.starts_with("//") {
            next.line = line.to_owned();
            items.push(std::mem::take(&mut next));
        }
    }
    items
}

/// The first string literal of a text.
pub(super) fn literal(text: &str) -> Option<String> {
    let (_, mut rest) = text.split_once('"')?;
    let mut value = String::new();
    loop {
        let at = rest.find(['"', '\\'])?;
        value += &rest[..at];
        let mut behind = rest[at..].chars();
        if behind.next() == Some('"') {
            return Some(value);
        }
        // A literal may go on in the next line, behind that line's indentation.
        let escaped = behind.next()?;
        rest = behind.as_str();
        if escaped == '\n' {
            rest = rest.trim_start();
        } else {
            value.push(escaped);
        }
    }
}
