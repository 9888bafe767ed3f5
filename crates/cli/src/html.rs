//! Pages of HTML that are whole in themselves: neither scripts nor the network.

/// A page with a title, what its style is beyond that of all pages, and what is on it.
pub(crate) fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{}{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        include_str!("html.css"),
    )
}

/// Text as HTML; what is between backquotes is code.
pub(crate) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut is_code = false;
    let parts = text.split('`').map(|part| {
        let shown = if is_code { format!("<code>{part}</code>") } else { part.to_owned() };
        is_code = !is_code;
        shown
    });
    parts.collect()
}
