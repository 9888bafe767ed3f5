//! The little of SVG that a chart of bars needs. Colours and fonts come from the style of the page.

use super::text::escape;

/// An image that scales to the width of whatever holds it; a screen reader calls it `name`.
pub(crate) fn image(name: &str, (width, height): (f64, f64), body: &str) -> String {
    let name = escape(name);
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{name}\">\n\
         <title>{name}</title>\n{body}</svg>\n"
    )
}

/// A rectangle with its top left corner at x and y.
pub(crate) fn rect(class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> String {
    let class = escape(class);
    format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"/>\n"
    )
}

/// A line of text on the base line y, from or up to x as the style of `class` says.
pub(crate) fn text(class: &str, (x, y): (f64, f64), text: &str) -> String {
    let text = escape(text);
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n")
}
