//! The little of SVG that the pictures need: shapes with their attributes written out.
//!
//! Everything is a presentation attribute, and nothing has a style sheet, because viewers other than
//! browsers read those best and a page around the picture is left alone.

use crate::colours::{INK, MUTED, PAPER};
use crate::text::{escape, fit, width};

/// A place in a picture: across and down, in units of which a picture is about 1,000 wide.
pub(crate) type Place = (f64, f64);

/// A picture while it is drawn.
#[derive(Default)]
pub(crate) struct Canvas {
    body: String,
}

/// How text looks.
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

    /// The place is the text's middle.
    pub(crate) const fn middle(self) -> Type {
        Type { anchor: "middle", ..self }
    }

    /// The place is the text's end.
    pub(crate) const fn end(self) -> Type {
        Type { anchor: "end", ..self }
    }
}

impl Canvas {
    /// A rectangle with its top left corner at x and y. `look` is attributes, as in all that follow.
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

    /// Straight lines from place to place.
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

    /// A line of text with its base line at y.
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

    /// A line of text no wider than `room`: smaller if it must be, and cut if that does not do.
    pub(crate) fn text_within(&mut self, look: Type, place: Place, room: f64, text: &str) {
        let wanted = width(text, look.size, look.bold);
        let shrink = if wanted > room { (room / wanted).max(0.75) } else { 1.0 };
        let size = look.size * shrink;
        self.text(Type { size, ..look }, place, &fit(text, size, look.bold, room + 0.01));
    }

    /// Anything else.
    pub(crate) fn add(&mut self, element: &str) {
        self.body += element;
        self.body.push('\n');
    }

    /// The picture, on a light ground. `title` is its name and `description` says what is on it.
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

/// A coordinate to a hundredth, which no eye can tell from the truth.
fn coordinate(value: f64) -> f64 {
    if value.is_finite() { (value * 100.0).round() / 100.0 } else { 0.0 }
}

/// A line of `colour` and `width`; give more attributes behind it.
pub(crate) fn stroke(colour: &str, width: f64) -> String {
    format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"")
}

/// A surface of `colour`.
pub(crate) fn fill(colour: &str) -> String {
    format!("fill=\"{colour}\"")
}
