//! `dm_mech_g1`: seek curve, head switch, rotation.

use super::parameters::Parameters;
use super::{Block, DiskspecsError, Load};
use crate::SeekFormula;
use crate::profile::{RPM_MAX, SEEK_MS_MAX};

pub(super) struct Mechanism {
    pub(super) rotation_rpm: f64,
    pub(super) head_switch_ms: f64,
    pub(super) write_settle_ms: f64,
    pub(super) seek_ms: Vec<(u32, f64)>,
    pub(super) seek: Option<SeekFormula>,
}

pub(super) fn convert(
    block: &Block,
    cylinders: u32,
    notes: &mut Vec<String>,
    load: &mut Load<'_>,
) -> Result<Mechanism, DiskspecsError> {
    let given = Parameters::of(block);
    if block.kind != "dm_mech_g1" {
        return Err(block.place.error(format!(
            "the mechanical model `{}` is not supported; \
             `dm_mech_g1` is",
            block.kind
        )));
    }
    let access = given.word("Access time type")?.unwrap_or("trackSwitchPlusRotation");
    if access != "trackSwitchPlusRotation" {
        let problem = format!("`{access}`: only a rotating disk can be simulated");
        return Err(given.error("Access time type", &problem));
    }
    if given.number("Percent error in rpms", 0.0, 100.0)?.unwrap_or(0.0) > 0.0 {
        notes.push(
            "`Percent error in rpms` is left out: the disk rotates at its nominal speed.".into(),
        );
    }
    let (seek_ms, seek) = seek(&given, cylinders, load)?;
    let mechanism = Mechanism {
        rotation_rpm: given.needed("Rotation speed (in rpms)", 60.0, RPM_MAX)?,
        head_switch_ms: given.ms("Head switch time")?,
        write_settle_ms: given.number("Add. write settling delay", -1000.0, 1000.0)?.unwrap_or(0.0),
        seek_ms,
        seek,
    };
    // Each seek type has its own parameters; files give those of the others, too.
    const OTHER_SEEKS: [&str; 8] = [
        "Average seek time",
        "Constant access time",
        "Constant seek time",
        "First ten seek times",
        "Full seek curve",
        "Full strobe seek time",
        "HPL seek equation values",
        "Single cylinder seek time",
    ];
    for name in given.left_over().filter(|name| !OTHER_SEEKS.contains(name)) {
        notes.push(format!("`{name}` of the mechanical model is not represented."));
    }
    Ok(mechanism)
}

type Seek = (Vec<(u32, f64)>, Option<SeekFormula>);

fn seek(
    given: &Parameters<'_>,
    cylinders: u32,
    load: &mut Load<'_>,
) -> Result<Seek, DiskspecsError> {
    let needed = |name: &str| given.needed(name, 0.0, SEEK_MS_MAX);
    let kind = given.word("Seek type")?.unwrap_or("extracted");
    let formula = match kind {
        "extracted" => return Ok((seek_points(given, load)?, None)),
        "constant" => SeekFormula::Constant { ms: needed("Constant seek time")? },
        "linear" => SeekFormula::ThreePointLine {
            single_ms: needed("Single cylinder seek time")?,
            average_ms: needed("Average seek time")?,
            full_ms: needed("Full strobe seek time")?,
        },
        "curve" => SeekFormula::LeeCurve {
            single_ms: needed("Single cylinder seek time")?,
            average_ms: needed("Average seek time")?,
            full_ms: needed("Full strobe seek time")?,
        },
        "hpl" | "hplplus10" => {
            // The first is a distance, the others are times.
            let values = given.numbers("HPL seek equation values", -1.0, f64::from(u32::MAX))?;
            if let Some(ms) = values.iter().skip(1).find(|ms| **ms > SEEK_MS_MAX) {
                let problem = format!("{ms} ms is more than {SEEK_MS_MAX}");
                return Err(given.error("HPL seek equation values", &problem));
            }
            let [division, short_ms, short_root_ms, long_ms, long_cylinder_ms, single] =
                values.as_slice()
            else {
                return Err(given.error("HPL seek equation values", "expected six numbers"));
            };
            let first_ms = if kind == "hplplus10" {
                let first = given.numbers("First ten seek times", 0.0, SEEK_MS_MAX)?;
                if first.len() != 10 {
                    return Err(given.error("First ten seek times", "expected ten numbers"));
                }
                first
            } else if *single >= 0.0 {
                vec![*single]
            } else {
                Vec::new()
            };
            SeekFormula::RootThenLine {
                first_ms,
                division: division.clamp(0.0, f64::from(cylinders)) as u32,
                short_ms: *short_ms,
                short_root_ms: *short_root_ms,
                long_ms: *long_ms,
                long_cylinder_ms: *long_cylinder_ms,
            }
        }
        other => return Err(given.error("Seek type", &format!("`{other}` is not known"))),
    };
    Ok((Vec::new(), Some(formula)))
}

/// The points of the seek curve's file: a line that says how many, then `distance, ms`, and in some
/// files the deviation of the measured times behind that, which DiskSim does not use.
fn seek_points(
    given: &Parameters<'_>,
    load: &mut Load<'_>,
) -> Result<Vec<(u32, f64)>, DiskspecsError> {
    let name = "Full seek curve";
    let path = given.word(name)?.ok_or_else(|| given.error(name, "missing"))?;
    let text = load(path).map_err(|error| given.error(name, &format!("`{path}`: {error}")))?;
    let bad = |line: usize, problem: &str| DiskspecsError {
        file: path.into(),
        line: line + 1,
        problem: problem.into(),
    };
    let mut points: Vec<(u32, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || (number == 0 && line.starts_with("Seek distances measured")) {
            continue;
        }
        let (distance, ms) = line
            .split_once(',')
            .or_else(|| line.split_once(char::is_whitespace))
            .ok_or_else(|| bad(number, "expected `distance, milliseconds`"))?;
        let ms = ms.split_once(',').map_or(ms, |(ms, _deviation)| ms);
        let distance: u32 = distance.trim().parse().map_err(|_| {
            bad(number, &format!("distance `{}` is not a whole number", distance.trim()))
        })?;
        let ms = match ms.trim().parse::<f64>() {
            Ok(ms) if (0.0..=SEEK_MS_MAX).contains(&ms) => ms,
            _ => return Err(bad(number, &format!("`{}` is not a seek time in ms", ms.trim()))),
        };
        if distance == 0 {
            continue;
        }
        if points.last().is_some_and(|(last, _)| *last >= distance) {
            return Err(bad(
                number,
                &format!("distance {distance} is not above the previous distance"),
            ));
        }
        points.push((distance, ms));
    }
    let Some((first, ms)) = points.first().copied() else {
        return Err(bad(0, "the file has no seek times"));
    };
    if first > 1 {
        let single = given.number("Single cylinder seek time", 0.0, SEEK_MS_MAX)?;
        points.insert(0, (1, single.unwrap_or(ms)));
    }
    Ok(points)
}
