//! Escaping of text in a page, and tables.

use std::fmt::{self, Write as _};

/// An untrusted text, escaped for use between tags and in quoted attributes.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            // Characters that HTML forbids, and those that change the direction of text.
            '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                f.write_char(char::REPLACEMENT_CHARACTER)
            }
            other => f.write_char(other),
        })
    }
}

/// Appends a table with a heading for each column. The first cell of a row is the row's heading;
/// cells contain markup.
pub fn table<const N: usize>(
    page: &mut String,
    class: &str,
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let _ = write!(page, "<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\"><thead><tr>");
    for heading in headings {
        let _ = write!(page, "<th scope=\"col\">{}</th>", Text(heading));
    }
    page.push_str("</tr></thead><tbody>");
    for row in rows {
        page.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let _ = match place {
                0 => write!(page, "<th scope=\"row\">{cell}</th>"),
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>\n");
}

/// Returns a bar whose length is `share` of the full width. The number itself must be in the text
/// beside it.
pub fn bar(share: f64, class: &str) -> String {
    let percent = (share * 100.0).clamp(0.0, 100.0);
    format!(
        "<span class=\"track\" aria-hidden=\"true\"><span class=\"bar {class}\" style=\"width:{percent:.2}%\"></span></span>"
    )
}

/// Cuts `text` to at most `longest` characters.
pub fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        let text = "</script><img src=x onerror=\"a('b')\">&amp;\u{202e}\0";
        assert_eq!(
            Text(text).to_string(),
            "&lt;/script&gt;&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;&amp;amp;\u{fffd}\u{fffd}"
        );
        assert_eq!(Text("a\n\tb").to_string(), "a\n\tb");
    }

    #[test]
    fn bars_stay_on_their_track() {
        assert!(bar(2.0, "x").contains("width:100.00%") && bar(-1.0, "x").contains("width:0.00%"));
    }

    #[test]
    fn texts_end_where_there_is_no_more_room() {
        assert_eq!((shortened("abc", 3), shortened("abcd", 3)), ("abc".to_owned(), "abc…".to_owned()));
    }
}
