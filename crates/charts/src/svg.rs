//! A writer of the part of SVG that the pictures need.
//!
//! Elements have presentation attributes and no style sheet: viewers other than browsers read attributes best, and
//! a style sheet would also apply to the page around the picture.

use crate::colours::{INK, MUTED, PAPER};
use crate::text::{escape, fit, width};

/// A place in a picture: x to the right and y down, in pixels. Pictures are about 1,000 pixels wide.
pub(crate) type Place = (f64, f64);

/// A picture in progress.
#[derive(Default)]
pub(crate) struct Canvas {
    body: String,
}

/// The look of text.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    pub(crate) size: f64,
    pub(crate) bold: bool,
    colour: &'static str,
    anchor: &'static str,
}

impl Type {
    pub(crate) const fn new(size: f64) -> Type {
        Type { size, bold: false, colour: INK, anchor: "start" }
    }

    pub(crate) const fn bold(self) -> Type {
        Type { bold: true, ..self }
    }

    pub(crate) const fn muted(self) -> Type {
        Type { colour: MUTED, ..self }
    }

    /// Light text for a dark surface.
    pub(crate) const fn on_dark(self) -> Type {
        Type { colour: PAPER, ..self }
    }

    /// Text with its middle at the place.
    pub(crate) const fn middle(self) -> Type {
        Type { anchor: "middle", ..self }
    }

    /// Text with its end at the place.
    pub(crate) const fn end(self) -> Type {
        Type { anchor: "end", ..self }
    }
}

impl Canvas {
    /// Draws a rectangle with its top left corner at (x, y). `look` holds attributes, here and below.
    pub(crate) fn rect(&mut self, (x, y): Place, (width, height): (f64, f64), look: &str) {
        let (width, height) = (coordinate(width.max(0.0)), coordinate(height.max(0.0)));
        let (x, y) = (coordinate(x), coordinate(y));
        self.add(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {look}/>"
        ));
    }

    pub(crate) fn circle(&mut self, (x, y): Place, radius: f64, look: &str) {
        let (x, y, radius) = (coordinate(x), coordinate(y), coordinate(radius.max(0.0)));
        self.add(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" {look}/>"));
    }

    /// Draws straight lines from place to place, or with a fill the polygon between them.
    pub(crate) fn path(&mut self, places: impl IntoIterator<Item = Place>, look: &str) {
        let mut route = String::new();
        for (x, y) in places {
            route.push(if route.is_empty() { 'M' } else { 'L' });
            route += &format!("{} {}", coordinate(x), coordinate(y));
        }
        if !route.is_empty() {
            self.add(&format!("<path d=\"{route}\" {look}/>"));
        }
    }

    /// Draws a line of text with its base line at y.
    pub(crate) fn text(&mut self, look: Type, (x, y): Place, text: &str) {
        let Type { size, bold, colour, anchor } = look;
        let weight = if bold { " font-weight=\"700\"" } else { "" };
        let anchor = match anchor {
            "start" => String::new(),
            anchor => format!(" text-anchor=\"{anchor}\""),
        };
        let (x, y, size) = (coordinate(x), coordinate(y), coordinate(size));
        let text = escape(text);
        let look = format!("font-size=\"{size}\" fill=\"{colour}\"{weight}{anchor}");
        self.add(&format!("<text x=\"{x}\" y=\"{y}\" {look}>{text}</text>"));
    }

    /// Draws a line of text no wider than `room`: shrinks it to three quarters of its size if need be, then cuts it.
    pub(crate) fn text_within(&mut self, look: Type, place: Place, room: f64, text: &str) {
        let wanted = width(text, look.size, look.bold);
        let shrink = if wanted > room { (room / wanted).max(0.75) } else { 1.0 };
        let size = look.size * shrink;
        self.text(Type { size, ..look }, place, &fit(text, size, look.bold, room + 0.01));
    }

    /// Adds any other element.
    pub(crate) fn add(&mut self, element: &str) {
        self.body += element;
        self.body.push('\n');
    }

    /// Returns the picture on a light background, with `title` as its name and `description` for screen readers.
    pub(crate) fn finish(
        self,
        (width, height): (f64, f64),
        title: &str,
        description: &str,
    ) -> String {
        let (width, height) = (width.ceil(), height.ceil());
        let (title, description) = (escape(title), escape(description));
        let body = self.body;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" style=\"max-width:100%;height:auto\" \
             role=\"img\" aria-label=\"{title}\" font-family=\"sans-serif\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>\n{body}</svg>\n"
        )
    }
}

/// Rounds a coordinate to a hundredth of a pixel. The edges of neighbours must be rounded alike, or a gap shows.
fn coordinate(value: f64) -> f64 {
    if value.is_finite() { (value * 100.0).round() / 100.0 } else { 0.0 }
}

/// Returns the attributes of a line of `colour` and `width`.
pub(crate) fn stroke(colour: &str, width: f64) -> String {
    format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"")
}

/// Returns the attribute of a surface of `colour`.
pub(crate) fn fill(colour: &str) -> String {
    format!("fill=\"{colour}\"")
}
