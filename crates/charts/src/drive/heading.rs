//! The head of a drive's picture: its name and its key figures.

use moirai_models::Profile;

use super::{MARGIN, WIDTH, revolution_ms};
use crate::colours::{INK, LINE};
use crate::svg::{Canvas, Type, stroke};
use crate::text::{bytes, counted, significant, wrap};
use moirai_units::{grouped, grouped_decimals};

const NAME: Type = Type::new(36.0).bold();
const DESCRIPTION: Type = Type::new(20.0).muted();
const LABEL: Type = Type::new(16.0).muted();
const VALUE: Type = Type::new(26.0).bold();

/// A key figure: its label, its value, and a related figure.
struct Fact {
    label: &'static str,
    value: String,
    detail: String,
}

/// Draws the head; returns the bottom.
pub(super) fn draw(canvas: &mut Canvas, profile: &Profile) -> f64 {
    let room = WIDTH - 2.0 * MARGIN;
    canvas.text_within(NAME, (MARGIN, 72.0), room, &profile.file.name);
    let mut base_line = 106.0;
    for line in wrap(&profile.file.description, DESCRIPTION.size, room, 2) {
        canvas.text(DESCRIPTION, (MARGIN, base_line), &line);
        base_line += 27.0;
    }
    facts(canvas, base_line, &facts_of(profile))
}

fn facts(canvas: &mut Canvas, top: f64, facts: &[Fact; 5]) -> f64 {
    let room = WIDTH - 2.0 * MARGIN;
    let (pitch, height) = (room / facts.len() as f64, 96.0);
    let rule = |y| [(MARGIN, y), (MARGIN + room, y)];
    canvas.path(rule(top), &stroke(INK, 1.25));
    for (index, fact) in facts.iter().enumerate() {
        let left = MARGIN + pitch * index as f64;
        let text_room = pitch - 24.0;
        canvas.text_within(LABEL, (left, top + 28.0), text_room, fact.label);
        canvas.text_within(VALUE, (left, top + 58.0), text_room, &fact.value);
        canvas.text_within(LABEL, (left, top + 83.0), text_room, &fact.detail);
    }
    canvas.path(rule(top + height), &stroke(LINE, 1.0));
    top + height
}

fn facts_of(profile: &Profile) -> [Fact; 5] {
    let geometry = &profile.geometry;
    let cylinders: u64 = geometry.zones().map(|zone| u64::from(zone.cylinders)).sum();
    let heads = geometry.heads();
    let capacity = geometry.capacity();
    [
        Fact {
            label: "Capacity",
            value: bytes(capacity.bytes()),
            detail: counted(capacity.0, "block"),
        },
        Fact {
            label: "Rotation",
            value: format!("{} rpm", rpm(profile.file.rotation_rpm)),
            detail: format!("{} ms per revolution", grouped_decimals(revolution_ms(profile), 3)),
        },
        Fact {
            label: "Heads",
            value: grouped(heads),
            detail: counted(cylinders * u64::from(heads), "track"),
        },
        Fact {
            label: "Cylinders",
            value: grouped(geometry.cylinders()),
            detail: counted(geometry.zones().len() as u64, "zone"),
        },
        average_seek(profile),
    ]
}

/// Returns the seek time over a third of the cylinders, the mean distance between two random cylinders.
fn average_seek(profile: &Profile) -> Fact {
    let label = "Average seek";
    match average_distance(profile) {
        Some(distance) => Fact {
            label,
            value: format!("{} ms", significant(profile.mechanics.seek.time(distance).as_ms())),
            detail: format!("over {}", counted(distance, "cylinder")),
        },
        None => Fact { label, value: "none".into(), detail: "one cylinder".into() },
    }
}

/// Returns a third of the cylinders; `None` if the drive has only one.
pub(super) fn average_distance(profile: &Profile) -> Option<u32> {
    let cylinders = profile.geometry.cylinders();
    (cylinders > 1).then(|| (cylinders / 3).max(1))
}

/// Formats revolutions per minute with as many decimals as they need, at most two.
fn rpm(revolutions: f64) -> String {
    let is_near = |decimals: i32| {
        let scaled = revolutions * 10f64.powi(decimals);
        (scaled - scaled.round()).abs() < 0.05
    };
    grouped_decimals(
        revolutions,
        (0..2).find(|decimals| is_near(*decimals)).map_or(2, |decimals| decimals as usize),
    )
}
